"""Decoding settings of `predict`: each is used, and those that do not fit are refused."""

from pathlib import Path
from typing import Any

import pytest

from saccade.errors import ConfigError
from saccade.runs.run import Run, load_run


@pytest.fixture(scope="module")
def runs(trained_runs: dict[str, Path]) -> dict[str, Run]:
    return {model: load_run(folder) for model, folder in trained_runs.items()}


SOURCES = ["abc", "fed", "cafe", "bead", "a"]


def texts(answers: list[Any]) -> list[str]:
    return [answer.text for answer in answers]


@pytest.mark.parametrize("model", ["bahdanau", "seq2seq", "transformer"])
def test_decoding_sample_depends_on_its_example_only(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    together = run.predict(SOURCES, sample=True, seed=5)
    assert together == run.predict(SOURCES, sample=True, seed=5)
    one_by_one = [
        run.predict([source], sample=True, seed=5, first=number)[0]
        for number, source in enumerate(SOURCES, start=1)
    ]
    assert texts(together) == texts(one_by_one)
    assert texts(together) != texts(run.predict(SOURCES, sample=True, seed=6))
    assert texts(run.predict(SOURCES, sample=True, top_k=1)) == texts(run.predict(SOURCES))


def test_decoding_samples_are_sorted_by_score(runs: dict[str, Run]) -> None:
    answer = runs["transformer"].predict("cafe", sample=True, n_best=4)
    scores = [answer.score, *(other.score for other in answer.alternatives)]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)


def test_decoding_no_repeat_ngram_size_is_obeyed(runs: dict[str, Run]) -> None:
    for answer in runs["bahdanau"].predict(SOURCES, no_repeat_ngram_size=1):
        assert len(set(answer.text)) == len(answer.text)


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_decoding_coverage_reranks_beam_hypotheses(model: str, runs: dict[str, Run]) -> None:
    plain = runs[model].predict("cafe", beam=4, n_best=4)
    found = {plain.text: plain.score} | {other.text: other.score for other in plain.alternatives}
    rescored = runs[model].predict("cafe", beam=4, n_best=4, coverage=0.5)
    reranked = [rescored, *rescored.alternatives]
    assert {answer.text for answer in reranked} == set(found)
    # a position with less than one unit of attention in total has a penalty, the others none
    assert all(answer.score <= found[answer.text] for answer in reranked)
    assert [a.score for a in reranked] == sorted((a.score for a in reranked), reverse=True)


def test_decoding_without_length_penalty_scores_log_probability(runs: dict[str, Run]) -> None:
    answer = runs["seq2seq"].predict("cafe", beam=3, length_penalty=0)
    assert answer.score == pytest.approx(answer.log_probability)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.5}, "got temperature without sampling; add sample=True"),
        ({"sample": True, "beam": 3}, "not both"),
        ({"n_best": 3}, "use a beam of 3 or more"),
        ({"sample": True, "temperature": 0}, "temperature"),
        ({"sample": True, "top_p": 1.5}, "top_p"),
        ({"widht": 3}, "the search: there is no setting 'widht'"),
    ],
)
def test_decoding_refuses_invalid_settings(
    options: dict[str, Any], message: str, runs: dict[str, Run]
) -> None:
    with pytest.raises(ConfigError, match=message):
        runs["bahdanau"].predict("abc", **options)


def test_decoding_coverage_needs_attention(runs: dict[str, Run]) -> None:
    with pytest.raises(ConfigError, match="got coverage with seq2seq, which has no attention"):
        runs["seq2seq"].predict("abc", beam=2, coverage=0.5)
