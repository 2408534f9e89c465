"""Captioning images: paths of files, bytes, arrays or Pillow images."""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.config import Config
from saccade.data.images.augment import normalise_images, scale_pixels
from saccade.data.images.store import MAX_MEMORY_BYTES
from saccade.data.special_tokens import BOS, EOS, PAD
from saccade.decoding import (
    MAX_SEARCH_ROWS,
    DecodingConfig,
    Hypothesis,
    parse_decoding,
    run_decoding,
)
from saccade.errors import ConfigError
from saccade.inspection.attention import capture_attention
from saccade.models.base import EncoderDecoder
from saccade.models.captioning import GridEncoder
from saccade.tasks.base import PredictContext
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.captioning.data import CaptionSplit, CaptionTransform
from saccade.tasks.image_classification.predict import (
    ImageInput,
    ImageInputPredictor,
    unreadable,
)
from saccade.tasks.neural import device_of
from saccade.tasks.translation.predict import TRANSLATION_SPECIAL_TOKENS, attention_kind
from saccade.types.arrays import ByteArray
from saccade.types.results import Prediction
from saccade.types.shapes import Images

CAPTIONED_TOGETHER = 64  # images whose captions are generated together
GRID_BATCH = 32  # images whose frozen features are computed together


class CaptionPredictor(ImageInputPredictor):
    """Generates captions of images with greedy, beam or sampled decoding."""

    options = DecodingConfig

    def __init__(self, recipe: CaptionRecipe, model: EncoderDecoder, transform: CaptionTransform):
        super().__init__(transform.form, recipe.data.max_pixels)
        self.recipe, self.model, self.tokenizer = recipe, model, transform.tokenizer
        self.mean = torch.tensor(transform.mean)
        self.deviation = torch.tensor(transform.deviation)

    def parse_options(self, options: Mapping[str, Any]) -> DecodingConfig:
        """Validate decoding options."""
        return parse_decoding(dict(options), DecodingConfig)

    def engine_name(self, requested: str) -> str:
        """Return the engine that decodes: always the model's own code."""
        return self.model.engine_name

    def predict(
        self, inputs: Sequence[ImageInput], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return a caption of each image, with the `n_best` as alternatives."""
        assert isinstance(options, DecodingConfig)
        size = max(1, min(CAPTIONED_TOGETHER, MAX_SEARCH_ROWS // options.beam))
        predictions: list[Prediction] = []
        for start in range(0, len(inputs), size):
            some = inputs[start : start + size]
            predictions += self._predict(some, options, context.first + start)
            context.on_progress("predicting", len(predictions), len(inputs))
        return predictions

    def _predict(
        self, inputs: Sequence[ImageInput], options: DecodingConfig, first: int
    ) -> list[Prediction]:
        decoded = self.decode(inputs)
        readable = {
            row: image.pixels for row, image in enumerate(decoded) if image.pixels is not None
        }
        found: dict[int, Prediction] = {}
        if readable:
            images = self.images(np.stack([*readable.values()]))
            searched = self.search(images, options, [first + row for row in readable])
            found = dict(zip(readable, map(self._prediction, searched), strict=True))
        return [
            found[row] if row in found else unreadable(given, image)
            for row, (given, image) in enumerate(zip(inputs, decoded, strict=True))
        ]

    def images(self, pixels: ByteArray) -> Images:
        """Return stored pixels (N, Y, X, C) as the network takes them, on its device."""
        images = scale_pixels(torch.from_numpy(np.array(pixels)))
        return normalise_images(images, self.mean, self.deviation).to(device_of(self.model))

    @torch.no_grad()
    def grids(self, examples: CaptionSplit) -> NDArray[np.float32]:
        """Return the features of each image by a frozen encoder, for the network in place of it.

        In memory, or from 256 MB on in a temporary file.
        """
        encoder: Any = self.model.encoder
        assert isinstance(encoder, GridEncoder)
        shape = (len(examples), *encoder.grid_shape)
        grids: NDArray[np.float32]
        if 4 * int(np.prod(shape)) <= MAX_MEMORY_BYTES:
            grids = np.empty(shape, np.float32)
        else:
            with tempfile.TemporaryFile() as file:
                grids = np.memmap(file, np.float32, "w+", shape=shape)
        for start in range(0, len(examples), GRID_BATCH):
            rows = np.arange(start, min(start + GRID_BATCH, len(examples)))
            grids[rows] = encoder.features(self.images(examples.pixels_at(rows))).cpu().numpy()
        return grids

    @torch.inference_mode()
    def search(
        self, images: Images, options: DecodingConfig, numbers: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each image, best first."""
        model = self.model.eval()
        limit = self.recipe.data.max_new_tokens
        return run_decoding(
            model,
            lambda: model.encode(images, None),
            options,
            special_tokens=TRANSLATION_SPECIAL_TOKENS,
            max_lengths=torch.full((len(images),), limit, device=images.device),
            numbers=numbers,
            attention_weights=lambda row, hypothesis: self._coverage_weights(
                images[row], hypothesis
            ),
        )

    def _coverage_weights(self, image: Tensor, hypothesis: Hypothesis) -> Tensor:
        target = [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
        weights = self.word_weights(image[None], [target])
        if weights is None:
            raise ConfigError(
                f"got coverage with {self.recipe.model_name}, which has no attention; try without "
                "coverage."
            )
        return weights[0]

    @torch.no_grad()
    def word_weights(
        self, images: Images, words: Sequence[Sequence[int]]
    ) -> Float[Tensor, "B T S"] | None:
        """Return the attention to the cells when each word is generated, None without attention.

        A mean over layers and heads. Rows of shorter captions continue with weights that have no
        meaning.
        """
        longest = max(map(len, words))
        target = torch.full((len(words), longest), PAD, device=images.device)
        for row, ids in enumerate(words):
            target[row, : len(ids)] = torch.tensor([BOS, *ids[:-1]])
        with capture_attention(self.model.eval()) as captured:
            state = self.model.init_state(self.model.encode(images, None))
            self.model.decode_hidden(target, state)
        maps = [
            captured.weights(name).mean(1)
            for name in captured.names()
            if attention_kind(name)[0] == "cross"
        ]
        return torch.stack(maps).mean(0) if maps else None

    def _prediction(self, hypotheses: Sequence[Hypothesis]) -> Prediction:
        best, *others = [
            Prediction(
                self.tokenizer.decode(found.ids), found.score, found.log_probability, found.finished
            )
            for found in hypotheses
        ]
        return best._replace(alternatives=tuple(others))
