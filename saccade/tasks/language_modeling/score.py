"""Log-likelihood of a text under a language model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.text.lm_batching import SegmentBatch, sequential_segments
from saccade.estimators.ngram.model import NGram
from saccade.models.base import CausalLM
from saccade.tasks.language_modeling.data import LMBatch, drop_padding
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.tasks.language_modeling.objective import EVAL_STREAMS, segment_loss
from saccade.tasks.neural import device_of
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.shapes import select_rows

_ScoreT = TypeVar("_ScoreT")


class TextScorer(ABC):
    """Scores token ids by a language model."""

    @abstractmethod
    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""

    @abstractmethod
    def log_probabilities(
        self, ids: NDArray[Any], on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return the log-probability of each token but the first, in the order of the text."""

    @property
    @abstractmethod
    def context_description(self) -> str:
        """Description of the context that a token has when it is scored."""


class NeuralScorer(TextScorer):
    """Scores a text in parallel streams, each continuing from its state."""

    def __init__(self, model: CausalLM, segment_length: int):
        self.model, self.segment_length = model, segment_length

    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""

        def score(segments: SegmentBatch, state: Any) -> tuple[float, Any]:
            loss, after = segment_loss(self.model, segments, self.model.forward_hidden, state, 0.0)
            return -float(loss.total), after

        return sum(self._scores(ids, score, on_progress))

    def log_probabilities(
        self, ids: NDArray[Any], on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return the log-probability of each token but the first, in the order of the text."""
        model, device = self.model, device_of(self.model)

        def score(segments: SegmentBatch, state: Any) -> tuple[Tensor, Any]:
            hidden, after = model.forward_hidden(segments.inputs.to(device), state)
            hidden = drop_padding(hidden.flatten(0, 1), segments)
            targets = drop_padding(segments.targets.flatten(), segments).to(device)
            table = model.compute_logits(hidden[None])[0].double().log_softmax(-1)
            return table.gather(1, targets[:, None])[:, 0], after

        found = np.empty(len(ids) - 1)
        # the segments of the positions show where in the text the targets are
        positions = self._segments(np.arange(len(ids)))
        for scores, at in zip(self._scores(ids, score, on_progress), positions, strict=True):
            found[drop_padding(at.targets.flatten(), at).numpy() - 1] = scores.cpu().numpy()
        return found

    def _segments(self, ids: NDArray[Any]) -> Iterator[SegmentBatch]:
        length = self.model.eval_stride or self.segment_length
        return sequential_segments(ids, EVAL_STREAMS, length, seed=0, epoch=0)

    def _scores(
        self,
        ids: NDArray[Any],
        score: Callable[[SegmentBatch, Any], tuple[_ScoreT, Any]],
        on_progress: Progress,
    ) -> Iterator[_ScoreT]:
        """Yield the score of each batch of segments; `score` returns it with the state after."""
        model: CausalLM = self.model.eval()
        counter = ProgressCounter(on_progress, "evaluating", len(ids) - 1)
        state: Any = None
        rows_before = 0
        for segments in self._segments(ids):
            rows = len(segments.inputs)
            if segments.reset_state:
                state = model.init_cache(rows)
            elif rows < rows_before:
                state = select_rows(state, torch.arange(rows, device=device_of(model)))
            rows_before = rows
            with torch.no_grad():
                found, state = score(segments, state)
            yield found
            counter.advance(LMBatch(segments).tokens)

    @property
    def context_description(self) -> str:
        """Description of the context that a token has when it is scored."""
        return (
            f"in one of {EVAL_STREAMS} parts of the text, a token's context is "
            f"{self.model.context_description}"
        )


class NGramScorer(TextScorer):
    """Scores a text by counts."""

    def __init__(self, ngram: NGram):
        self.ngram = ngram

    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""
        return float(self.log_probabilities(ids, on_progress).sum())

    def log_probabilities(
        self, ids: NDArray[Any], on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return the log-probability of each token but the first, in the order of the text."""
        return np.asarray(self.ngram.log_probabilities(ids)[1:], np.float64)

    @property
    def context_description(self) -> str:
        """Description of the context that a token has."""
        return f"a token's context is the {self.ngram.order - 1} before it"


def scorer_of(model: CausalLM | NGramModel, segment_length: int) -> TextScorer:
    """Return the scorer of a model."""
    if isinstance(model, NGramModel):
        return NGramScorer(model.ngram)
    return NeuralScorer(model, segment_length)
