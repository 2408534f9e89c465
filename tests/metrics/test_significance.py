"""The paired bootstrap: by enumeration, against sacreBLEU, and where there is no difference."""

import itertools
import logging
import math
import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from saccade.metrics.significance import paired_bootstrap
from saccade.metrics.translation import bleu, bleu_from_statistics, bleu_statistics

WORDS = "the a cat dog sat ran on mat big red house and then slept well".split()


def corpus(seed, sentences, wrong):
    """References, and answers in which each word is another with the chance `wrong`."""
    draw = random.Random(seed)
    references, answers = [], []
    for _ in range(sentences):
        words = draw.choices(WORDS, k=draw.randint(5, 12))
        references.append(" ".join(words))
        answers.append(" ".join(draw.choice(WORDS) if draw.random() < wrong else w for w in words))
    return answers, references


def spoiled(answers, seed, wrong):
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < wrong else w for w in answer.split())
        for answer in answers
    ]


def test_bleu_is_the_figure_of_the_summed_statistics():
    for seed in range(3):
        answers, references = corpus(seed, 20, 0.3)
        answers[0] = ""
        sums = bleu_statistics(answers, references).sum(axis=0)
        assert bleu_from_statistics(sums) == pytest.approx(bleu(answers, references).value)
    # smoothing enters where no four words in a row are right
    rows = bleu_statistics(["a b c d e"], ["a b x d e"])
    assert rows.tolist() == [[4, 2, 0, 0, 5, 4, 3, 2, 5, 5]]
    assert bleu_from_statistics(rows[0]) == bleu(["a b c d e"], ["a b x d e"]).value > 0


def test_letters_are_counted_where_there_are_no_spaces(caplog):
    with caplog.at_level(logging.DEBUG):
        rows = bleu_statistics(["日本語です"], ["日本人です"])
    assert rows[0, 8:].tolist() == [5, 5]
    assert not caplog.records


def test_paired_bootstrap_converges_to_all_resamples():
    a, b = np.array([1.0, 0.21, 0.93, 0.4, 0.37]), np.array([0.58, 0.42, 0.3, 0.47, 0.12])
    every = [float((a - b)[list(rows)].mean()) for rows in itertools.product(range(5), repeat=5)]
    seen = float((a - b).mean())
    p = sum(abs(d - sum(every) / len(every)) >= abs(seen) - 1e-12 for d in every) / len(every)
    win_rate = sum((d > 1e-12) + 0.5 * (abs(d) <= 1e-12) for d in every) / len(every)
    found = paired_bootstrap(a, b, n_resamples=20_000)
    assert found.difference == pytest.approx(seen) == pytest.approx(found.a - found.b)
    assert 0.05 < p < 0.95 and 0.05 < win_rate < 0.98
    assert found.p == pytest.approx(p, abs=0.015)
    assert found.win_rate == pytest.approx(win_rate, abs=0.015)
    assert found.low == pytest.approx(np.quantile(every, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(every, 0.975), abs=0.02)


def test_paired_bootstrap_agrees_with_normal_approximation():
    random = np.random.default_rng(3)
    a, b = random.normal(0.1, 1, 400), random.normal(0, 1, 400)
    found = paired_bootstrap(a, b, n_resamples=5000)
    error = (a - b).std() / 20
    z = (a - b).mean() / error
    assert found.p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.03)
    assert found.low == pytest.approx((a - b).mean() - 1.96 * error, abs=0.02)
    assert found.high == pytest.approx((a - b).mean() + 1.96 * error, abs=0.02)
    narrow = paired_bootstrap(a, b, n_resamples=5000, confidence_level=0.5)
    assert narrow.high - narrow.low == pytest.approx(2 * 0.6745 * error, rel=0.1)


def test_paired_bootstrap_of_system_with_itself_has_p_one():
    scores = np.random.default_rng(0).random(50)
    found = paired_bootstrap(scores, scores)
    assert found[2:7] == (0.0, 0.0, 0.0, 1.0, 0.5)
    answers, references = corpus(0, 20, 0.3)
    rows = bleu_statistics(answers, references)
    assert paired_bootstrap(rows, rows, statistic=bleu_from_statistics, n_resamples=50).p == 1


def test_paired_bootstrap_has_nominal_false_positive_rate():
    random = np.random.default_rng(1)
    found, tries = 0, 300
    for seed in range(tries):
        a, b = random.normal(size=(2, 60))
        one = paired_bootstrap(a, b, seed=seed, n_resamples=200)
        found += one.p < 0.05
    assert 0.02 < found / tries < 0.10


def test_paired_bootstrap_finds_difference():
    random = np.random.default_rng(2)
    shared = random.normal(size=100) * 10  # hard and easy sentences, the same for both
    a, b = shared + random.normal(0.5, 1, 100), shared + random.normal(0, 1, 100)
    found = paired_bootstrap(a, b)
    assert found.p < 0.01 and found.low > 0 and found.win_rate > 0.99
    # it is the pairing that shows it
    assert paired_bootstrap(a, b[::-1]).p > 0.2


def test_paired_bootstrap_is_antisymmetric():
    a, b = np.random.default_rng(5).random((2, 40))
    one, other = paired_bootstrap(a, b, seed=3), paired_bootstrap(b, a, seed=3)
    assert (other.a, other.b, other.p) == (one.b, one.a, one.p)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert other.win_rate == pytest.approx(1 - one.win_rate)


def test_significance_depends_on_seed():
    a, b = np.random.default_rng(5).random((2, 40))
    assert paired_bootstrap(a, b, seed=3) == paired_bootstrap(a, b, seed=3)
    assert paired_bootstrap(a, b, seed=3) != paired_bootstrap(a, b, seed=4)


@pytest.mark.parametrize(("wrong", "side"), [(0.04, 1), (0.2, 1), (0.0, 0)])
def test_corpus_bleu_as_sacrebleu_has_it(wrong, side, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    base, references = corpus(11, 60, 0.25)
    # at 0 both are the base with as many faults of their own: equally good
    better = spoiled(base, 1, 0.1) if side == 0 else base
    worse = spoiled(base, 2, 0.1) if side == 0 else spoiled(base, 1, wrong)
    test = PairedTest(
        [("worse", worse), ("better", better)],
        {"BLEU": BLEU()},
        [references],
        test_type="bs",
        n_samples=500,
    )
    theirs = test()[1]["BLEU"]
    ours = paired_bootstrap(
        bleu_statistics(better, references),
        bleu_statistics(worse, references),
        statistic=bleu_from_statistics,
        n_resamples=500,
    )
    assert ours.b == pytest.approx(theirs[0].score) and ours.a == pytest.approx(theirs[1].score)
    if side:
        assert ours.difference > 0 and ours.win_rate > 0.9
        # theirs counts one side, where all samples agree on which is better
        assert ours.p / 2 == pytest.approx(theirs[1].p_value, abs=0.03)
    else:
        assert ours.p > 0.1 and ours.low < 0 < ours.high


@pytest.mark.parametrize(
    ("a", "b", "how", "message"),
    [
        ([1.0, 2.0], [1.0], {}, r"shapes \(2,\) and \(1,\); .* the same sentences"),
        ([[1.0, 2.0]], [[1.0, 2.0]], {}, r"the shape \(1, 2\); expected one score per sentence"),
        ([1.0], [1.0], {"statistic": sum}, r"the shape \(1,\); .* one row of statistics"),
        ([], [], {}, "the scores of 0 sentences"),
        ([1.0], [1.0], {"n_resamples": 0}, "0 resamples .* expected 1 resample or more"),
        ([1.0], [1.0], {"confidence_level": 1.0}, "a confidence level of 1.0; .* between 0 and 1"),
    ],
)
def test_paired_bootstrap_refuses_invalid_input(a, b, how, message):
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(a, b, **how)
