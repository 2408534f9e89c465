"""Spearman's correlation with ratings, retrieval of positives, alignment and uniformity."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from saccade.data.samplers import evenly_spaced_rows
from saccade.errors import ConfigError
from saccade.estimators.nearest_neighbours import Vectors, nearest_rows, unit_vectors
from saccade.estimators.tf_idf import CharacterTfIdf
from saccade.metrics.correlation import pearson, spearman
from saccade.nn.contrastive import uniformity
from saccade.seeding import generator, preserve_rng, seed_torch
from saccade.tasks.base import Evaluator
from saccade.tasks.embedding.data import MIN_COMPARED, SentenceSplit
from saccade.tasks.embedding.objective import compared_batch_size, contrast_batch, make_batch
from saccade.tasks.embedding.scorer import SentenceScorer
from saccade.types.arrays import Float32Array, FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation

ALIGNED_SHARE = 0.8  # of the largest rating, from which a pair counts as positive (SimCSE: 4 of 5)
MAX_UNIFORMITY_SENTENCES = 2000  # all pairs of which are compared
MAX_FLOOR_PAIRS = 2000  # for retrieval by TF-IDF
MAX_LOSS_SENTENCES = 512
EQUAL_COSINE = 1e-6  # by which an equal sentence may differ
RATED_DATASETS = ("mrpc", "stsbenchmark")


class SentenceEvaluator(Evaluator[SentenceSplit]):
    """Agreement of the cosines with ratings, or retrieval of positives; loss; the sphere."""

    headline = ("spearman", "pair_accuracy", "loss", "alignment", "uniformity")
    floors_need_training = False

    def __init__(self, scorer: SentenceScorer):
        self.scorer = scorer
        data = scorer.recipe.data
        if data.score is not None or data.dataset in RATED_DATASETS:
            self.metric = ComparisonMetric("spearman", higher_is_better=True, factor=100.0)
        elif data.positive is not None or data.dataset or data.synthetic:
            self.metric = ComparisonMetric("pair_accuracy", higher_is_better=True, factor=100.0)

    def evaluate(
        self,
        split: SentenceSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of a split, as far as it has positives or ratings."""
        self.refuse_options(options, "the vector of a sentence is computed, not searched for")
        some = split.take(limit)
        if len(some) < MIN_COMPARED:
            raise ConfigError(
                f"got {len(some)} sentence; expected {MIN_COMPARED} or more, which are compared."
            )
        one = self.scorer.vectors_of(some.ids["text"], on_progress)
        other = None
        if "positive" in some.ids:
            other = self.scorer.vectors_of(some.ids["positive"], on_progress)
        metrics, conventions = compare_pairs(some, one, other)
        metrics["loss"] = self._loss(some)
        count = min(len(some), MAX_LOSS_SENTENCES)
        size = compared_batch_size(count, self.scorer.recipe.train.batch_tokens)
        views = "their positives" if some.is_supervised else "themselves with another dropout mask"
        conventions["loss"] = (
            f"mean InfoNCE of {count:,} sentences and {views}, in batches of {size}, temperature "
            f"{self.scorer.recipe.train.temperature:g}"
        )
        metrics["uniformity"] = _uniformity(one)
        conventions["uniformity"] = (
            "log mean exp(-2 d²) of sentences on the sphere; lower is more even"
        )
        metrics["examples"] = float(len(some))
        return Evaluation(metrics, conventions, notes=some.notes)

    @torch.no_grad()
    def _loss(self, split: SentenceSplit) -> float:
        """Return the mean loss over batches of nearly equal size; dropout is that of one seed.

        Of many sentences, some are taken, evenly spread.
        """
        split = split.take(MAX_LOSS_SENTENCES)
        scorer, settings = self.scorer, self.scorer.recipe.train
        model = scorer.model
        was_training = model.training
        model.train(not split.is_supervised)
        order = generator(settings.seed, "order of the evaluation").permutation(len(split))
        size = compared_batch_size(len(split), settings.batch_tokens)
        total = 0.0
        with preserve_rng():
            for step, start in enumerate(range(0, len(order), size)):
                seed_torch(settings.seed, "dropout of the evaluation", step)
                batch = make_batch(split, order[start : start + size], scorer.max_length)
                total += contrast_batch(model, batch, settings).each.double().sum().item()
        model.train(was_training)
        return total / len(split)

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the correlation with ratings, or else the negative loss."""
        rho = metrics.get("spearman", float("nan"))
        return rho if np.isfinite(rho) else -metrics["loss"]

    def floors(self, train: SentenceSplit, split: SentenceSplit) -> dict[str, dict[str, float]]:
        """Return TF-IDF of characters, and the mean of the vectors of tokens without context."""
        if "positive" not in split.ids:
            return {}
        found = {"TF-IDF of characters": _tf_idf_floor(split)}
        if self.scorer.recipe.model_name != "words":
            one, other = (
                self.scorer.mean_word_vectors(split.ids[role]) for role in ("text", "positive")
            )
            metrics, _ = compare_pairs(split, unit_vectors(one), unit_vectors(other))
            found["mean of token vectors"] = metrics
        return found

    def inputs(self, split: SentenceSplit) -> list[Any]:
        """Return the sentences."""
        return split.texts()


def compare_pairs(
    split: SentenceSplit, one: Vectors, other: Vectors | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Return what the unit vectors of pairs show, and how it is computed."""
    if other is None:
        return {}, {}
    cosines = (one.astype(np.float64) * other).sum(1)
    is_positive = np.ones(len(one), np.bool_)
    metrics, conventions = {}, {}
    if split.scores is not None:
        metrics["spearman"] = spearman(cosines, split.scores)
        metrics["pearson"] = pearson(cosines, split.scores)
        conventions["spearman"] = "rank correlation of cosine and rating, over all pairs"
        conventions["pearson"] = "linear correlation of cosine and rating, over all pairs"
        is_positive = split.scores >= ALIGNED_SHARE * split.scores.max()
    else:
        _, nearest = nearest_rows(one, other, 1)
        metrics["pair_accuracy"] = float((cosines >= nearest[:, 0] - EQUAL_COSINE).mean())
        conventions["pair_accuracy"] = (
            f"sentences whose positive is nearest among those of all {len(one):,}"
        )
    distances = 2 - 2 * cosines[is_positive]
    metrics["alignment"] = float(distances.mean())
    rated = "" if split.scores is None else f" rated {ALIGNED_SHARE:.0%} of the best or more"
    conventions["alignment"] = f"mean squared distance of pairs{rated} on the sphere; 0 is best"
    return metrics, conventions


def _uniformity(vectors: Float32Array) -> float:
    rows = evenly_spaced_rows(len(vectors), MAX_UNIFORMITY_SENTENCES)
    return uniformity(torch.from_numpy(vectors[rows].astype(np.float64))).item()


def _tf_idf_floor(split: SentenceSplit) -> dict[str, float]:
    """Return the metrics of the cosines of TF-IDF, fitted to the sentences of the split."""
    some = split if split.scores is not None else split.take(MAX_FLOOR_PAIRS)
    one, other = some.texts(), some.texts("positive")
    tf_idf = CharacterTfIdf([*one, *other])
    cosines: FloatArray = tf_idf.similarities(one, other)
    if some.scores is not None:
        return {
            "spearman": spearman(cosines, some.scores),
            "pearson": pearson(cosines, some.scores),
        }
    _, nearest = tf_idf.nearest(one, other)
    return {"pair_accuracy": float((cosines >= nearest - EQUAL_COSINE).mean())}
