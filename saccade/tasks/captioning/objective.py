"""Training objective of captioners: cross-entropy of the words, and penalties of the attention."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.data.images.augment import augment_images, normalise_images, scale_pixels
from saccade.data.images.config import AugmentConfig
from saccade.data.samplers import bucketed_batches, shuffled_batches
from saccade.errors import ConfigError
from saccade.models.attention_paths import AttentionPathDecoder
from saccade.models.base import EncoderDecoder
from saccade.models.captioning import RecurrentCaptioner, coverage_loss
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.captioning.data import CaptionSplit, CaptionTransform
from saccade.tasks.captioning.predict import CaptionPredictor
from saccade.tasks.image_classification.objective import MAX_NAMED_ROWS, even_batch_size
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.tasks.translation.objective import batch_to, score_function_loss, target_hidden
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray
from saccade.types.shapes import Batch, Images


class CaptionObjective(StatelessObjective[Batch]):
    """Summed cross-entropy of the words of each caption."""

    model: EncoderDecoder

    def __init__(
        self,
        recipe: CaptionRecipe,
        model: EncoderDecoder,
        transform: CaptionTransform,
        splits: Mapping[str, CaptionSplit],
    ):
        super().__init__(recipe, model)
        self.splits, self.augment = splits, recipe.data.augment
        self.predictor = CaptionPredictor(recipe, model, transform)
        captions = len(splits["train"].encoded)
        self.batch_captions = even_batch_size(captions, self.settings.batch_tokens)
        self.is_frozen = recipe.model.has_frozen_encoder
        self._grids: dict[str, Any] = {}
        if self.is_frozen and self.augment != AugmentConfig():
            raise ConfigError(
                "got data.augment with frozen features, which are computed once for each image; "
                "try without augmentation, or --set model.frozen=false."
            )

    def batches(self, split: str, start: int = 0) -> Iterator[Batch]:
        """Yield shuffled batches without end; the n-th is a function of the seed and n.

        Captions of similar length are in one batch only if the encoder is frozen: the length
        depends on the image, so that batch norm would have other statistics in training.
        """
        examples = self.splits[split]
        lengths = examples.encoded.lengths
        order = self.batch_captions, self.settings.seed, start
        batches = (
            bucketed_batches(lengths, *order)
            if self.is_frozen
            else shuffled_batches(len(lengths), *order)
        )
        for step, rows in enumerate(batches, start):
            yield examples.batch(rows, partial(self._source, split, step))

    def _source(self, split: str, step: int, rows: IntArray) -> Images:
        """Return augmented images, or the grids of a frozen encoder."""
        if self.is_frozen:
            if split not in self._grids:
                self._grids[split] = self.predictor.grids(self.splits[split])
            return torch.from_numpy(np.array(self._grids[split][rows]))
        pixels = scale_pixels(torch.from_numpy(self.splits[split].pixels_at(rows)))
        mean, deviation = self.predictor.mean, self.predictor.deviation
        pixels = augment_images(pixels, self.augment, mean, self.settings.seed, step)
        return normalise_images(pixels, mean, deviation)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every caption once."""
        return -(-len(self.splits["train"].encoded) // self.batch_captions)

    def loss(self, batch: Batch) -> Loss:
        """Return the label-smoothed cross-entropy, summed, with the penalty of the attention."""
        batch = batch_to(batch, device_of(self.model))
        model, smoothing = self.model, self.settings.label_smoothing
        if isinstance(model, AttentionPathDecoder) and model.path_samples and model.training:
            return score_function_loss(model, batch, smoothing)
        penalty: Tensor | float = 0.0
        if isinstance(model, RecurrentCaptioner) and model.doubly_stochastic:
            hidden, penalty = _hidden_and_penalty(model, batch)
        else:
            hidden = target_hidden(model, batch)
        found = linear_cross_entropy(hidden, model.output_layer, batch.target_out, smoothing)
        return Loss(found.total + penalty, found.correct)

    def describe_batch(self, batch: Batch) -> str:
        """Return the names of the first images."""
        names = [self.splits["train"].names[row] for row in batch.lines[:MAX_NAMED_ROWS]]
        return f"{self.recipe.data_name}, images {', '.join(names)}, …"


def _hidden_and_penalty(model: RecurrentCaptioner, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the inputs of the output layer at the real words, and λ Σ_i (1 - Σ_t α_ti)²."""
    hidden, weights = model.attended_hidden(batch.source, batch.target_in)
    is_real = torch.ones_like(batch.target_in, dtype=torch.bool)
    hidden = hidden.flatten(0, 1)
    if batch.target_positions is not None:
        is_real = torch.zeros_like(is_real).flatten().index_fill(0, batch.target_positions, True)
        is_real = is_real.view_as(batch.target_in)
        hidden = hidden.index_select(0, batch.target_positions)
    penalty = model.doubly_stochastic * coverage_loss(weights, is_real)
    return model.pre_logits(hidden), penalty
