"""GloVe: counts and AdaGrad steps against slow references, and the learned vectors."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.text.word_corpus import LINE_END, WordCorpus
from saccade.estimators.word_vectors.config import GloVeConfig
from saccade.estimators.word_vectors.glove import (
    Cooccurrences,
    GloVeParams,
    GloVeTrainer,
    count_cooccurrences,
    glove_adagrad_steps,
    glove_loss,
    held_out_positions,
    init_glove_params,
)
from saccade.estimators.word_vectors.sampling import random_below, rng_state


def text(ids: list[int]) -> WordCorpus:
    """Ids with END among them, as a text."""
    size = max([id for id in ids if id != LINE_END], default=-1) + 1
    counts = np.array([ids.count(word) for word in range(size)], np.int64)
    return WordCorpus(
        [f"w{word}" for word in range(size)], counts, np.array(ids, np.int32), len(ids)
    )


def by_loops(ids: list[int], window: int) -> dict[tuple[int, int], float]:
    """Every pair of places within the window and the line, both ways."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for one in range(len(ids)):
        for other in range(one + 1, min(one + window, len(ids) - 1) + 1):
            if LINE_END in ids[one : other + 1]:
                break
            found[ids[one], ids[other]] += 1 / (other - one)
            found[ids[other], ids[one]] += 1 / (other - one)
    return found


@given(
    st.lists(st.integers(LINE_END, 5), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 2),
)
def test_cooccurrences_equal_slow_loops(ids: list[int], window: int, threads: int) -> None:
    if max(ids) == LINE_END:
        return
    pairs = count_cooccurrences(text(ids), window, threads=threads)
    found = {}
    for one, other, weight in zip(*pairs, strict=True):
        assert other <= one
        found[int(one), int(other)] = found[int(other), int(one)] = float(weight)
    expected_value = by_loops(ids, window)
    assert found.keys() == expected_value.keys()
    for pair, weight in expected_value.items():
        assert found[pair] == pytest.approx(weight, rel=1e-6)


def test_cooccurrences_in_files_equal_those_in_memory(tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(-1, 30, 500).tolist()
    for one, other in zip(
        count_cooccurrences(text(ids), 5),
        count_cooccurrences(text(ids), 5, scratch_dir=tmp_path),
        strict=True,
    ):
        assert np.array_equal(one, other)


def adagrad_by_hand(
    term_ids: list[int],
    pairs: Cooccurrences,
    params: GloVeParams,
    learning_rate: float,
    x_max: float,
    power: float,
) -> float:
    """The equation, a term at a time."""
    total = 0.0
    for turn in term_ids:
        pair, back = divmod(turn, 2)
        i, j = int(pairs.first[pair]), int(pairs.second[pair])
        if back and i == j:
            continue
        i, j = (j, i) if back else (i, j)
        x = float(pairs.weight[pair])
        w, c = params.vectors[0, i].copy(), params.vectors[1, j].copy()
        off = float(w @ c) + params.biases[0, i] + params.biases[1, j] - np.log(x)
        weight = min(1.0, (x / x_max) ** power)
        total += 0.5 * weight * off**2
        for side, row, gradient in ((0, i, weight * off * c), (1, j, weight * off * w)):
            params.vectors[side, row] -= (
                learning_rate * gradient / np.sqrt(params.squares[side, row])
            )
            params.squares[side, row] += gradient**2
            step = learning_rate * weight * off / np.sqrt(params.bias_squares[side, row])
            params.biases[side, row] -= step
            params.bias_squares[side, row] += (weight * off) ** 2
    return total


def test_glove_adagrad_equals_slow_reference() -> None:
    pairs = count_cooccurrences(text(np.random.default_rng(2).integers(-1, 12, 300).tolist()), 4)
    ours, twin = init_glove_params(12, 5, 1), init_glove_params(12, 5, 1)
    doubled = GloVeParams(*(part.astype(np.float64) for part in twin))
    for number in range(3):
        term_ids = list(range(2 * len(pairs.first)))
        state = rng_state(1, number)
        for last in range(len(term_ids) - 1, 0, -1):
            other = random_below(state, last + 1)
            term_ids[last], term_ids[other] = term_ids[other], term_ids[last]
        lost = glove_adagrad_steps(
            np.arange(2 * len(pairs.first)), rng_state(1, number), pairs, ours, 0.05, 10.0, 0.75
        )
        assert lost == pytest.approx(
            adagrad_by_hand(term_ids, pairs, doubled, 0.05, 10.0, 0.75), rel=1e-4
        )
        for one, other in zip(ours, doubled, strict=True):
            assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_glove_loss_decreases_and_seed_repeats() -> None:
    pairs = count_cooccurrences(
        text(np.random.default_rng(3).zipf(1.3, 4000).clip(1, 60).tolist()), 5
    )
    losses, vectors = [], []
    for _ in range(2):
        squares = GloVeTrainer(pairs, 61, GloVeConfig(width=8), seed=5)
        losses.append([squares.epoch(number, threads=1) for number in range(6)])
        vectors.append(squares.vectors)
    assert losses[0] == losses[1] and np.array_equal(*vectors)
    assert losses[0][-1] < losses[0][0] / 2
    assert losses[0] == sorted(losses[0], reverse=True)


def loss_by_hand(pairs: Cooccurrences, params: GloVeParams, x_max: float, power: float) -> float:
    """The mean of the terms of J, one at a time."""
    terms = []
    for first, second, x in zip(*(column.tolist() for column in pairs), strict=True):
        for i, j in {(first, second), (second, first)}:
            guess = sum(
                float(a) * float(b)
                for a, b in zip(params.vectors[0, i], params.vectors[1, j], strict=True)
            )
            off = guess + float(params.biases[0, i]) + float(params.biases[1, j]) - np.log(x)
            terms.append(0.5 * min(1.0, (x / x_max) ** power) * off**2)
    return float(np.mean(terms))


def test_held_out_loss_equals_loops_and_steps_leave_its_pairs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saccade.estimators.word_vectors.glove.GLOVE_TERMS_PER_BLOCK", 16)
    pairs = count_cooccurrences(text(np.random.default_rng(4).integers(-1, 15, 400).tolist()), 4)
    config = GloVeConfig(width=6, dev_share=0.3)
    trainer = GloVeTrainer(pairs, 15, config, seed=3)
    positions = held_out_positions(len(pairs.first), 0.3, 3)
    assert len(positions) == len({*positions.tolist()}) == int(0.3 * len(pairs.first))
    assert (pairs.first == pairs.second)[positions].any()  # the diagonal, which has one term
    assert not np.array_equal(positions, held_out_positions(len(pairs.first), 0.3, 4))
    for number in range(2):
        trainer.epoch(number, threads=1)
    held_out = pairs.take(positions)
    expected = loss_by_hand(held_out, trainer.params, config.x_max, config.power)
    assert trainer.held_out_loss() == pytest.approx(expected, rel=1e-5)
    assert trainer.fitted().loss(config.x_max, config.power) == pytest.approx(expected, rel=1e-5)
    # the same steps as without these pairs: their counts have no influence
    changed = pairs.weight.copy()
    changed[positions] *= 7
    other = GloVeTrainer(pairs._replace(weight=changed), 15, config, seed=3)
    for number in range(2):
        other.epoch(number, threads=1)
    assert np.array_equal(trainer.vectors, other.vectors)
    assert trainer.held_out_loss() != other.held_out_loss()


def test_without_held_out_pairs_every_term_is_trained_on() -> None:
    pairs = count_cooccurrences(text(np.random.default_rng(5).integers(-1, 12, 200).tolist()), 4)
    found = []
    for config in (GloVeConfig(width=4), GloVeConfig(width=4, dev_share=0)):
        trainer = GloVeTrainer(pairs, 12, config, seed=1)
        loss = trainer.epoch(0, threads=1)
        found.append((loss, trainer.vectors))
        assert trainer.held_out_loss() is None
    params = init_glove_params(12, 4, 1)
    terms = np.arange(2 * len(pairs.first))
    lost = glove_adagrad_steps(terms, rng_state(1, 0, 0), pairs, params, 0.1, 10.0, 0.75)
    for loss, vectors in found:
        assert loss == lost / (2 * len(pairs.first))
        assert np.array_equal(vectors, params.vectors.sum(0)[:, :4])
    assert glove_loss(pairs.take(np.arange(0)), params, 10.0, 0.75) == 0
