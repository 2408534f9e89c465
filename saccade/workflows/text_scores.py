"""BERTScore of texts with the encoder of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saccade.errors import ConfigError
from saccade.metrics.bert_score import (
    TokenVectors,
    TokenWeights,
    bert_score,
    describe_bert_score,
)
from saccade.models.sentence_config import SentenceBertConfig
from saccade.models.sentence_encoder import SentenceBert
from saccade.runs.run import Run
from saccade.seeding import generator
from saccade.tasks.embedding.config import EmbeddingRecipe
from saccade.tasks.embedding.objective import copy_encoder_weights
from saccade.tasks.embedding.scorer import SentenceScorer
from saccade.types.results import Evaluation

MAX_BASELINE_PAIRS = 1000  # of texts that do not belong together


def score_texts_with_run(
    run: Run,
    candidates: Sequence[str],
    references: Sequence[str],
    *,
    idf: bool = False,
    rescaled: bool = False,
) -> Evaluation:
    """Return BERTScore of candidates and references with the encoder of a run.

    Args:
        run: a run of the tasks embed or bert.
        candidates: texts to score.
        references: the reference of each.
        idf: weight tokens by their inverse document frequency among the references.
        rescaled: subtract the scores of candidates with references of other candidates, so that
            unrelated texts have scores near 0.
    """
    if len(candidates) != len(references) or not len(candidates):
        raise ConfigError(
            f"got {len(candidates)} candidates and {len(references)} references; expected a "
            "reference of each."
        )
    scorer = _scorer_of(run)
    one, other = scorer.token_vectors(candidates), scorer.token_vectors(references)
    weights = TokenWeights.of([tokens.ids for tokens in other]) if idf else None
    baseline = None
    if rescaled:
        first, second = _unrelated(one, other)
        baseline = bert_score(first, second, weights=weights)
    found = bert_score(one, other, weights=weights, baseline=baseline)
    convention = describe_bert_score(str(run.folder), "last", idf, rescaled)
    names = ("bert_precision", "bert_recall", "bert_f1")
    metrics = {name: float(values.mean()) for name, values in zip(names, found, strict=True)}
    metrics["examples"] = float(len(candidates))
    return Evaluation(metrics, dict.fromkeys(names, f"BERTScore, {convention}"))


def _scorer_of(run: Run) -> SentenceScorer:
    """Return the encoder of a run with its tokenizer."""
    if run.recipe.task == "embed":
        assert isinstance(run.recipe, EmbeddingRecipe)
        return SentenceScorer(run.recipe, run.model, run.preprocessor)
    if run.recipe.task != "bert":
        raise ConfigError(
            f"got {run.folder}, a run of the task {run.recipe.task}; expected one of embed or bert."
        )
    values: dict[str, Any] = run.recipe.model.model_dump()
    model = SentenceBert(SentenceBertConfig(**values))
    copy_encoder_weights(model, run.model)
    return SentenceScorer(EmbeddingRecipe(model=values), model, run.preprocessor)


def _unrelated(
    candidates: Sequence[TokenVectors], references: Sequence[TokenVectors]
) -> tuple[list[TokenVectors], list[TokenVectors]]:
    """Return candidates with the references of others."""
    count = len(candidates)
    if count < 2:
        raise ConfigError("got one text to rescale; expected two or more, for unrelated pairs.")
    draw = generator(0, "unrelated texts")
    rows = draw.permutation(count)[:MAX_BASELINE_PAIRS]
    others = (rows + draw.integers(1, count, len(rows))) % count
    return [candidates[row] for row in rows.tolist()], [
        references[row] for row in np.asarray(others).tolist()
    ]
