"""Metrics of captions against slow implementations written from the papers."""

import math
from collections import Counter

import numpy as np
import pytest

from saccade.metrics.captions import caption_bleu, caption_rouge, cider_each

WORDS = "a man dog in on the red blue runs sits grass ball".split()


def draw_captions(seed: int, images: int = 7) -> tuple[list[list[str]], list[list[list[str]]]]:
    random = np.random.default_rng(seed)

    def caption() -> list[str]:
        return [WORDS[i] for i in random.integers(len(WORDS), size=random.integers(1, 10))]

    references = [[caption() for _ in range(random.integers(1, 4))] for _ in range(images)]
    hypotheses = [
        list(texts[0]) if random.random() < 0.3 else [*texts[0][:3], *caption()]
        for texts in references
    ]
    return hypotheses, references


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def slow_cider(hypothesis: list[str], texts: list[list[str]], all_texts: list) -> float:
    """CIDEr-D by equations 1 to 3 of Vedantam et al. 2015, with dense vectors over all n-grams."""
    total = 0.0
    for n in (1, 2, 3, 4):
        every = sorted({g for given in all_texts for t in given for g in grams(t, n)})
        every += sorted({*grams(hypothesis, n)} - {*every})

        def idf(gram: tuple[str, ...], n: int = n) -> float:
            found = sum(any(gram in grams(t, n) for t in given) for given in all_texts)
            return math.log(len(all_texts) / max(1, found))

        def vector(words: list[str], every: list = every, n: int = n) -> np.ndarray:
            return np.array([grams(words, n).count(g) * idf(g) for g in every])

        own = vector(hypothesis)
        for text in texts:
            other = vector(text)
            norm = np.linalg.norm(own) * np.linalg.norm(other)
            if norm > 0:
                penalty = math.exp(-((len(hypothesis) - len(text)) ** 2) / (2 * 6.0**2))
                total += penalty * float(np.minimum(own, other) @ other) / norm / len(texts)
    return 10 * total / 4


def slow_bleu(hypotheses: list, references: list, order: int) -> float:
    """Corpus BLEU by Papineni et al. 2002 with the closest reference length."""
    matched, counted = [0] * order, [0] * order
    length = closest = 0
    for words, texts in zip(hypotheses, references, strict=True):
        length += len(words)
        closest += min((abs(len(t) - len(words)), len(t)) for t in texts)[1]
        for n in range(1, order + 1):
            own = Counter(grams(words, n))
            best = {g: max(Counter(grams(t, n))[g] for t in texts) for g in own}
            matched[n - 1] += sum(min(count, best[g]) for g, count in own.items())
            counted[n - 1] += sum(own.values())
    if not all(matched):
        return 0.0
    mean = sum(math.log(m / c) for m, c in zip(matched, counted, strict=True)) / order
    return 100 * math.exp(mean) * min(1.0, math.exp(1 - closest / length))


@pytest.mark.parametrize("seed", range(5))
def test_metrics_agree_with_loops(seed: int) -> None:
    hypotheses, references = draw_captions(seed)
    expected = [slow_bleu(hypotheses, references, n) for n in (1, 2, 3, 4)]
    assert caption_bleu(hypotheses, references) == pytest.approx(expected, abs=1e-9)
    slow = [slow_cider(h, r, references) for h, r in zip(hypotheses, references, strict=True)]
    assert cider_each(hypotheses, references).tolist() == pytest.approx(slow, abs=1e-12)


def test_cider_of_the_only_reference_is_ten() -> None:
    references = [[text.split()] for text in ("a red dog runs fast", "two men sit on grass")]
    found = cider_each([texts[0] for texts in references], references)
    assert found.tolist() == pytest.approx([10.0, 10.0])
    assert cider_each([["x"], []], references).tolist() == [0.0, 0.0]


def test_rouge_takes_the_best_precision_and_recall() -> None:
    hypothesis = "a dog on grass".split()
    references = ["a dog".split(), "the dog runs on the grass".split()]
    # LCS 2 and 3: the precision is 3/4 by the second, the recall 2/2 by the first
    beta = 1.44
    expected = (1 + beta) * 0.75 * 1.0 / (1.0 + beta * 0.75)
    assert caption_rouge(hypothesis, references) == pytest.approx(expected)
    assert caption_rouge([], references) == 0.0
    assert caption_rouge(["x"], references) == 0.0


def test_missing_references_are_refused() -> None:
    with pytest.raises(ValueError, match="without references"):
        cider_each([["a"]], [[]])
    with pytest.raises(ValueError, match="got 1 hypotheses and 2 references"):
        caption_bleu([["a"]], [[["a"]], [["b"]]])
