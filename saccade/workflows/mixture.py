r"""Linear interpolation of language models (Jelinek and Mercer 1980).

\(p(w \mid h) = \sum_m \lambda_m\, p_m(w \mid h)\) with \(\sum_m \lambda_m = 1\). Bengio et al.
(2003) mix their network with a trigram model: the two err on different words. The weights
maximise the likelihood of the dev split, by expectation maximisation:
\(\lambda_m \leftarrow \operatorname{mean}_t\, \lambda_m p_m(w_t) / p(w_t)\).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.text.token_store import TokenCorpus
from saccade.errors import ConfigError
from saccade.runs.run import Run, load_run
from saccade.tasks.language_modeling.evaluate import LanguageEvaluator
from saccade.tasks.language_modeling.score import scorer_of
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation

EM_ITERATIONS = 1000
EM_TOLERANCE = 1e-9  # gain of the mean log-likelihood below which the weights have converged


def evaluate_mixture(
    runs: Sequence[str | Path | Run],
    data: str | Path | object | None = None,
    *,
    split: str = "test",
    on_progress: Progress = ignore_progress,
) -> Evaluation:
    """Evaluate the mixture of two or more language models with the same tokens.

    The weights are fitted on the dev split of the first run; the text that is scored is a split of
    it, or `data`. `floors` of the result has the metrics of each model alone.
    """
    opened = [run if isinstance(run, Run) else load_run(run) for run in runs]
    _check_mixable(opened)
    first = opened[0]
    text = first.split(split) if data is None else first.load_split(data, None, None)
    weights = fit_mixture_weights(_log_probabilities(opened, first.split("dev"), on_progress))
    table = _log_probabilities(opened, text, on_progress)
    evaluator = first.evaluator
    assert isinstance(evaluator, LanguageEvaluator)
    mixed = evaluator.evaluation(text, float(mix_log_probabilities(table, weights).sum()))
    alone = {
        str(run.folder): evaluator.evaluation(text, float(row.sum())).metrics
        for run, row in zip(opened, table, strict=True)
    }
    shares = ", ".join(
        f"{weight:.3f} {run.folder}" for weight, run in zip(weights, opened, strict=True)
    )
    return replace(
        mixed, floors=alone, notes=(f"Mixture, weights fitted on the dev split: {shares}.",)
    )


def fit_mixture_weights(table: FloatArray) -> FloatArray:
    """Return the weights of M models that maximise the likelihood of N tokens: (M, N) → (M,)."""
    weights = np.full(len(table), 1 / len(table))
    before = -np.inf
    for _ in range(EM_ITERATIONS):
        total = mix_log_probabilities(table, weights)
        mean = float(total.mean())
        if mean - before < EM_TOLERANCE:
            break
        before = mean
        weights = weights * np.exp(table - total).mean(axis=1)
        weights /= weights.sum()
    return weights


def mix_log_probabilities(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the log-probabilities of the mixture: (M, N), (M,) → (N,)."""
    with np.errstate(divide="ignore"):  # a weight may become 0
        return np.asarray(np.logaddexp.reduce(table + np.log(weights)[:, None], axis=0))


def _log_probabilities(runs: Sequence[Run], text: TokenCorpus, on_progress: Progress) -> FloatArray:
    """Return the log-probability of every token but the first by each model: (M, N)."""
    return np.stack(
        [
            scorer_of(run.model, _segment_length(run)).log_probabilities(text.ids, on_progress)
            for run in runs
        ]
    )


def _segment_length(run: Run) -> int:
    data: Any = run.recipe.data
    return int(data.segment_length)


def _check_mixable(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise ConfigError("got one run; expected two or more language models to mix.")
    first = runs[0]
    for run in runs:
        if run.recipe.task != "language" or not isinstance(run.evaluator, LanguageEvaluator):
            raise ConfigError(
                f"{run.folder}: got {run.recipe.model_name} of the task {run.recipe.task}; "
                "expected language models, whose probabilities of the next token can be mixed."
            )
        if run.preprocessor.to_json() != first.preprocessor.to_json():
            raise ConfigError(
                f"got other tokens in {run.folder} than in {first.folder}; expected models of the "
                "same text with the same data.tokenizer and vocabulary; try to train both on the "
                "same file."
            )
