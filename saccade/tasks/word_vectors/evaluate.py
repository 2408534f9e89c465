"""Scores of word vectors: held-out loss, word similarity, analogies."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saccade.data.text.word_corpus import WordVocabulary
from saccade.estimators.word_vectors.neighbors import nearest_neighbors
from saccade.metrics.correlation import spearman
from saccade.metrics.word_similarity import WordVectorBenchmark
from saccade.tasks.base import Evaluator
from saccade.tasks.word_vectors.config import VectorsRecipe
from saccade.tasks.word_vectors.data import WordSplit, standard_benchmarks
from saccade.tasks.word_vectors.lookup import WordVectorModel
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation

MIN_BENCHMARK_COVERAGE = 0.1  # share of a benchmark's words that must be in the vocabulary
UNCOVERED = (
    f"fewer than {MIN_BENCHMARK_COVERAGE:.0%} of its words are in the vocabulary (another language "
    "or subject)"
)


class WordVectorEvaluator(Evaluator[WordSplit]):
    """Loss on held-out lines or pairs, and scores on benchmarks of similarity and analogies."""

    headline = ("loss", "simlex999", "wordsim353", "questions-words")

    def __init__(self, recipe: VectorsRecipe, model: WordVectorModel, vocabulary: WordVocabulary):
        self.model = model

    def evaluate(
        self,
        split: WordSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the loss, and the scores of the split's benchmarks."""
        if split.benchmark is not None:
            return self.score_benchmark(split.benchmark)
        metrics: dict[str, float] = {}
        conventions: dict[str, str] = {}
        omitted: dict[str, str] = {}
        if split.corpus is not None:
            metrics = self.model.vectors.evaluate(split.corpus)
        if metrics:
            conventions["loss"] = self.model.vectors.loss_convention
        benchmarks = standard_benchmarks() if split.with_benchmarks else []
        for number, benchmark in enumerate(benchmarks, 1):
            scores = self.score_benchmark(benchmark)
            metrics |= scores.metrics
            conventions |= scores.conventions
            omitted |= scores.omitted
            on_progress("evaluating", number, len(benchmarks))
        return Evaluation(metrics, conventions, omitted=omitted)

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the negative loss; 0 for models without one."""
        return -metrics.get("loss", 0.0)

    def score_benchmark(self, benchmark: WordVectorBenchmark) -> Evaluation:
        """Score one benchmark of similarity or analogies."""
        if benchmark.analogies:
            return self._score_analogies(benchmark)
        return self._score_similarity(benchmark)

    def _score_similarity(self, benchmark: WordVectorBenchmark) -> Evaluation:
        name = benchmark.name
        words = [word for pair in benchmark.similarity_pairs for word in (pair.one, pair.other)]
        if self._is_uncovered(words):
            return Evaluation({}, omitted={name: UNCOVERED})
        pairs = [
            (self.model.unit_vector(j.one), self.model.unit_vector(j.other), j.score)
            for j in benchmark.similarity_pairs
        ]
        known = [(a, b, score) for a, b, score in pairs if a is not None and b is not None]
        cosines = np.array([float(a @ b) for a, b, _ in known])
        rho = spearman(np.array([score for _, _, score in known]), cosines)
        if not np.isfinite(rho):
            return Evaluation({}, omitted={name: "all cosines or all ratings are equal"})
        convention = "Spearman's ρ of cosines and human judgments; unknown words are left out"
        metrics = {name: rho, f"{name}_covered": len(known) / len(pairs)}
        return Evaluation(metrics, {name: convention})

    def _score_analogies(self, benchmark: WordVectorBenchmark) -> Evaluation:
        """Answer each analogy among all words but the three of the question."""
        name, model = benchmark.name, self.model
        if self._is_uncovered(
            [word for question in benchmark.analogies for word in question.words]
        ):
            return Evaluation({}, omitted={name: UNCOVERED})
        rows = [(q.category, [model.row(word) for word in q.words]) for q in benchmark.analogies]
        known = [(category, row) for category, row in rows if None not in row]
        if not known:
            return Evaluation({}, omitted={name: "no question has all its words in the vocabulary"})
        metrics: dict[str, float] = {f"{name}_covered": len(known) / len(rows)}
        ids = np.array([row for _, row in known], np.int64)
        a, b, c = (model.unit_vectors[ids[:, column]] for column in range(3))
        found, _ = nearest_neighbors(b - a + c, model.unit_vectors, 1, ids[:, :3].tolist())
        right = found[:, 0] == ids[:, 3]
        categories = np.array([category for category, _ in known])
        metrics[name] = float(right.mean())
        for category in dict.fromkeys(categories.tolist()):
            metrics[f"{name} {category}"] = float(right[categories == category].mean())
        convention = (
            "share of questions whose nearest word, the three given ones excluded, is the answer; "
            "questions with an unknown word do not count"
        )
        return Evaluation(metrics, {name: convention})

    def _is_uncovered(self, words: Sequence[str]) -> bool:
        """True if hardly any of a benchmark's words is in the vocabulary.

        Vectors that fastText builds for unknown words do not count: it builds one for any string.
        """
        different = set(words)
        known = sum(self.model.row(word) is not None for word in different)
        return known < MIN_BENCHMARK_COVERAGE * len(different)
