"""BERTScore against its equations by loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.metrics.bert_score import (
    BertScore,
    TokenVectors,
    TokenWeights,
    bert_score,
    describe_bert_score,
)


def text(length: int, seed: int) -> TokenVectors:
    rng = np.random.default_rng(seed)
    return TokenVectors(rng.standard_normal((length, 5)), rng.integers(0, 6, length))


def by_loops(
    candidate: TokenVectors, reference: TokenVectors, idf: dict[int, float]
) -> list[float]:
    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    sums = []
    for one, other in ((candidate, reference), (reference, candidate)):
        top = bottom = 0.0
        for vector, token in zip(one.vectors, one.ids.tolist(), strict=True):
            top += idf[token] * max(cosine(vector, match) for match in other.vectors)
            bottom += idf[token]
        sums.append(top / bottom)
    precision, recall = sums
    return [precision, recall, 2 * precision * recall / (precision + recall)]


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4))
def test_scores_are_their_equations_by_loops(lengths: list[tuple[int, int]]) -> None:
    candidates = [text(one, 10 * at) for at, (one, _) in enumerate(lengths)]
    references = [text(other, 10 * at + 1) for at, (_, other) in enumerate(lengths)]
    found = np.stack(bert_score(candidates, references))
    ones = dict.fromkeys(range(6), 1.0)
    pairs = list(zip(candidates, references, strict=True))
    expected = np.array([by_loops(*pair, ones) for pair in pairs]).T
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    # one more text, so that no token is in all of them
    known = [*(reference.ids for reference in references), np.array([7])]
    counts = {token: sum(token in ids for ids in known) for token in range(6)}
    idf = {token: math.log((len(known) + 1) / (count + 1)) for token, count in counts.items()}
    found = np.stack(bert_score(candidates, references, weights=TokenWeights.of(known)))
    expected = np.array([by_loops(*pair, idf) for pair in pairs]).T
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_equal_texts_score_1_whatever_the_weights_and_baseline() -> None:
    one = [text(4, 0), text(2, 1)]
    baseline = BertScore(*np.full((3, 2), 0.4))
    weights = TokenWeights.of([np.array([9])])
    for score in (bert_score(one, one), bert_score(one, one, weights=weights, baseline=baseline)):
        np.testing.assert_allclose(np.stack(score), 1)


def test_rescaling_moves_the_baseline_to_0() -> None:
    candidates, references = [text(4, 0), text(3, 2)], [text(3, 1), text(5, 3)]
    plain = bert_score(candidates, references)
    scaled = bert_score(candidates, references, baseline=plain)
    np.testing.assert_allclose([values.mean() for values in scaled], 0, atol=1e-12)
    np.testing.assert_allclose(
        scaled.f1, (plain.f1 - plain.f1.mean()) / (1 - plain.f1.mean()), rtol=1e-12
    )


def test_empty_texts_tokens_of_no_weight_and_refusal() -> None:
    empty = text(0, 0)
    assert np.stack(bert_score([empty, text(2, 1)], [text(2, 1), empty])).tolist() == [[0, 0]] * 3
    everywhere = TokenWeights.of([np.array([1, 2])])
    one = TokenVectors(np.eye(2), np.array([1, 2]))
    assert bert_score([one], [one], weights=everywhere).f1.tolist() == [1]
    with pytest.raises(ValueError, match="1 candidates and 2 references"):
        bert_score([one], [one, one])
    convention = describe_bert_score("runs/bert", "6", idf=True, rescaled=False)
    assert convention == "encoder runs/bert, layer 6, idf weights, not rescaled"
