r"""BERTScore (Zhang et al. 2020): greedy matching of the token vectors of two texts.

    R = Σ_i w(x_i) max_j x_iᵀ x̂_j / Σ_i w(x_i)      x: tokens of the reference, of length 1
    P = Σ_j w(x̂_j) max_i x_iᵀ x̂_j / Σ_j w(x̂_j)      x̂: tokens of the candidate
    F = 2 P R / (P + R)

w is 1, or the inverse document frequency among the references. The vectors come from any encoder;
a score is comparable with others of the same encoder, layer and weights alone, which its
convention names.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saccade.types.arrays import Float32Array, FloatArray, IntArray


class BertScore(NamedTuple):
    """Precision, recall and F1 of each pair of texts."""

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray


class TokenVectors(NamedTuple):
    """The vectors of the tokens of a text (T, D), and the ids of the tokens."""

    vectors: FloatArray | Float32Array
    ids: IntArray


@dataclass(frozen=True)
class TokenWeights:
    r"""Inverse document frequencies, idf(w) = log (M + 1) / (m_w + 1), m_w of M texts with w."""

    texts: int
    containing: Mapping[int, int]

    @classmethod
    def of(cls, texts: Sequence[IntArray]) -> "TokenWeights":
        """Count the texts that contain each token."""
        return cls(len(texts), Counter(token for ids in texts for token in {*ids.tolist()}))

    def __call__(self, ids: IntArray) -> FloatArray:
        """Return the weights of tokens."""
        counts = np.array([self.containing.get(token, 0) for token in ids.tolist()], np.float64)
        return math.log(self.texts + 1) - np.log(counts + 1)


def bert_score(
    candidates: Sequence[TokenVectors],
    references: Sequence[TokenVectors],
    *,
    weights: TokenWeights | None = None,
    baseline: BertScore | None = None,
) -> BertScore:
    """Return the scores of candidates, each with its reference; 0 for an empty text.

    Args:
        candidates: vectors of the tokens of the candidates; need not have length 1.
        references: of the references.
        weights: idf weights; None: all tokens weigh the same.
        baseline: mean scores of unrelated texts b, for `rescale`; None: not rescaled.
    """
    if len(candidates) != len(references):
        raise ValueError(
            f"got {len(candidates)} candidates and {len(references)} references; expected as many."
        )
    pairs = zip(candidates, references, strict=True)
    found = np.array([_score_pair(*pair, weights) for pair in pairs], np.float64).reshape(-1, 2)
    precision, recall = found.T
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros(len(total)), where=total != 0)
    score = BertScore(precision, recall, f1)
    return score if baseline is None else rescale(score, baseline)


def _score_pair(
    candidate: TokenVectors, reference: TokenVectors, weights: TokenWeights | None
) -> tuple[float, float]:
    """Return precision and recall of one pair."""
    if not len(candidate.ids) or not len(reference.ids):
        return 0.0, 0.0
    similar = _unit(candidate.vectors) @ _unit(reference.vectors).T
    if weights is None:
        return float(similar.max(1).mean()), float(similar.max(0).mean())
    return (
        _weighted_mean(similar.max(1), weights(candidate.ids)),
        _weighted_mean(similar.max(0), weights(reference.ids)),
    )


def _weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Return the weighted mean; that of equal weights if all weights are 0."""
    total = weights.sum()
    return float(values @ weights / total) if total > 0 else float(values.mean())


def rescale(score: BertScore, baseline: BertScore) -> BertScore:
    """Return (s - b) / (1 - b), b the means of `baseline`: about 0 for unrelated texts, 1 if equal.

    The baseline of the authors is the score of random pairs of sentences.
    """
    return BertScore(
        *((s - b.mean()) / (1 - b.mean()) for s, b in zip(score, baseline, strict=True))
    )


def describe_bert_score(encoder: str, layer: str, idf: bool, rescaled: bool) -> str:
    """Return the convention of a score: encoder, layer, weights, baseline."""
    parts = [f"encoder {encoder}", f"layer {layer}", "idf weights" if idf else "no idf weights"]
    return ", ".join([*parts, "rescaled with baseline" if rescaled else "not rescaled"])


def _unit(vectors: FloatArray | Float32Array) -> FloatArray:
    wide = vectors.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
