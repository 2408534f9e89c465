"""Attention of each word to the cells of an image, figures, and invariance checks."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from saccade.data.images.captions import caption_words, normalise_caption
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.special_tokens import EOS, UNK
from saccade.data.tables.csv import pluralise
from saccade.errors import ConfigError, DataError
from saccade.inspection.attention import has_attention
from saccade.inspection.checks import RELOAD_CONSISTENCY, CheckResult
from saccade.inspection.figures import Figure
from saccade.inspection.image_figures import ImageGrid, ImageMap, ImageMaps
from saccade.inspection.invariants import (
    CheckExample,
    batch_invariance,
    beam1_is_greedy,
    beam_score_consistency,
    cache_consistency,
    causality,
    compile_parity,
    kernel_parity,
    nbest_prefix,
    same_outputs,
    thread_invariance,
)
from saccade.models.base import EncoderDecoder
from saccade.models.captioning import GridEncoder
from saccade.registry import lookup
from saccade.tasks.base import Inspector
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.captioning.data import CaptionSplit, CaptionTransform
from saccade.tasks.captioning.predict import CaptionPredictor
from saccade.tasks.image_classification.inspect import first_filters, layer_channels
from saccade.tasks.translation.predict import TRANSLATION_SPECIAL_TOKENS
from saccade.types.shapes import DecoderState, Images, Lengths, Logits, TokenIds

REPORTED_IMAGES = 12  # of the report
CHECK_MARGIN = 5  # words that a checked caption may have more than its reference


class CaptionInspector(Inspector[CaptionSplit]):
    """Shows which cells of an image each word attends to, and checks invariances."""

    has_attention = False  # to tokens

    def __init__(self, recipe: CaptionRecipe, model: EncoderDecoder, transform: CaptionTransform):
        self.recipe, self.model = recipe, model
        self.predictor = CaptionPredictor(recipe, model, transform)
        self.image_methods: tuple[str, ...] = ("attention",)

    def example_input(self, split: CaptionSplit) -> str:
        """Return the name of a held-out image."""
        return split.names[0] if len(split) else ""

    def views(self) -> dict[str, str]:
        """Return attention, of models that have any, filters and feature maps."""
        maps = {"IMAGE": "attention of each word"} if has_attention(self.model) else {}
        return maps | {
            "--filters": "the kernels of the first convolution",
            "IMAGE --features LAYER": "the feature maps of a layer",
        }

    def image_maps(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> ImageMaps:
        """Return the attention of each word of the caption, or of the caption `output`."""
        if method is not None:
            lookup(dict.fromkeys(self.image_methods), method, "method for captions")
        pixels = self.predictor.pixels(raw)
        return self._maps(pixels, self.predictor.parse(raw, 1).name, output)

    def _maps(self, pixels: Any, name: str, output: str | None) -> ImageMaps:
        if not has_attention(self.model):
            raise ConfigError(
                f"got {self.recipe.model_name} without attention, which has no map of words; try "
                "--filters, or a model with attention."
            )
        images = self.predictor.images(pixels[None])
        words, value = self._words(images, output)
        weights = self.predictor.word_weights(images, [[*words, EOS]])
        assert weights is not None
        encoder: Any = self.model.encoder
        assert isinstance(encoder, GridEncoder)
        shape = encoder.grid_shape[1:]
        texts = self.predictor.tokenizer.display_tokens(words)
        maps = [
            ImageMap(text, grid.reshape(shape), f"word {number} of {len(texts)}")
            for number, (text, grid) in enumerate(
                zip(texts, weights[0].double().cpu().numpy(), strict=False), 1
            )
        ]
        return ImageMaps(pixels, self.predictor.tokenizer.decode(words), value, maps, name)

    def _words(self, images: Images, output: str | None) -> tuple[list[int], float]:
        """Return the words of the caption, generated or given, and its probability."""
        if output is None:
            [[best]] = self.predictor.search(images, self.predictor.parse_options({}), [1])
            return list(best.ids), float(np.exp(best.log_probability))
        words = self.predictor.tokenizer.encode(normalise_caption(output))
        if not words:
            raise DataError(f"got {output!r:.60} as a caption; expected words.")
        if UNK in words:
            texts = caption_words(output)
            unknown = [repr(text) for text, id in zip(texts, words, strict=True) if id == UNK]
            raise DataError(
                f"got {', '.join(unknown)} in a caption; expected words that occur at least "
                f"{pluralise(self.recipe.data.min_count, 'time')} in the training captions."
            )
        return words, self._probability(images, words)

    @torch.no_grad()
    def _probability(self, images: Images, words: list[int]) -> float:
        target = torch.tensor([[*words, EOS]], device=images.device)
        read = torch.cat([target.new_full((1, 1), TRANSLATION_SPECIAL_TOKENS.bos), target], 1)
        logits = self.model.eval()(images, read[:, :-1])
        found = logits.log_softmax(-1).gather(-1, target[..., None])
        return float(found.double().sum().exp())

    def filters(self) -> ImageGrid:
        """Return the kernels of the first convolution."""
        return first_filters(self.model, self.recipe.model_name)

    def feature_maps(self, raw: Any, layer: str) -> ImageGrid:
        """Return the channels that a layer of the encoder computes of an image."""
        images = self.predictor.images(self.predictor.pixels(raw)[None])
        return layer_channels(self.model, layer, lambda: self.model.eval().encode(images, None))

    # --- report -----------------------------------------------------------------------------------

    def figures(self, splits: Mapping[str, CaptionSplit]) -> dict[str, Figure]:
        """Return captions of held-out images, and the attention of the words of one."""
        split = splits["test"]
        rows = evenly_spaced_rows(len(split), REPORTED_IMAGES)
        pixels = split.pixels_at(rows)
        images = self.predictor.images(pixels)
        found = self.predictor.search(images, self.predictor.parse_options({}), (rows + 1).tolist())
        captions = [
            _wrapped(self.predictor.tokenizer.decode(hypotheses[0].ids)) for hypotheses in found
        ]
        figures: dict[str, Figure] = {
            "captions.png": ImageGrid(list(pixels), captions, "Captions of held-out images")
        }
        if has_attention(self.model) and found[0][0].ids:
            figures["attention.png"] = self._maps(pixels[0], split.names[0], None)
        return figures

    # --- checks -----------------------------------------------------------------------------------

    def checks(self, split: CaptionSplit, count: int) -> Iterator[CheckResult]:
        """Run the invariance checks of generators; images need no padding."""
        self.model.eval()
        model, example = self._example(self.model, split, count)
        special, words = TRANSLATION_SPECIAL_TOKENS, self.predictor.tokenizer.vocab_size
        limit = min(self.recipe.data.max_new_tokens, example.target.shape[1] + CHECK_MARGIN)
        yield batch_invariance(model, example)
        yield cache_consistency(model, example)
        yield causality(model, example, words)
        yield kernel_parity(model, example)
        yield beam1_is_greedy(model, example, special, limit)
        yield nbest_prefix(model, example, special, limit)
        yield beam_score_consistency(model, example, special, limit)
        yield thread_invariance(model, example)
        yield compile_parity(model, example)

    def compare_reloaded(
        self, other: EncoderDecoder, split: CaptionSplit, count: int
    ) -> CheckResult:
        """Check that the reloaded model gives the same logits."""
        one, example = self._example(self.model, split, count)
        two, _ = self._example(other.eval(), split, count)
        return same_outputs(RELOAD_CONSISTENCY, one, two, example)

    def _example(
        self, model: EncoderDecoder, split: CaptionSplit, count: int
    ) -> tuple["NumberedImages", CheckExample]:
        rows = evenly_spaced_rows(len(split), count)
        images = self.predictor.images(split.pixels_at(rows))
        first = np.searchsorted(split.image_of, rows)
        batch = split.batch(first, lambda indices: images)
        numbers = torch.arange(len(rows), device=images.device)[:, None]
        example = CheckExample(
            numbers, torch.ones_like(numbers[:, 0]), batch.target_in.to(images.device)
        )
        return NumberedImages(model, images), example


class NumberedImages(nn.Module):
    """A captioner whose source (B, 1) is the number of an image, as the checks take sources."""

    def __init__(self, model: EncoderDecoder, images: Images):
        super().__init__()
        self.model, self.images = model, images

    def encode(self, source: TokenIds, lengths: Lengths | None) -> Any:
        """Encode the images of these numbers."""
        return self.model.encode(self.images[source[:, 0]], None)

    def init_state(self, memory: Any) -> DecoderState:
        """Return the decoder's state before the first word."""
        return self.model.init_state(memory)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Return the logits of the word after each of T more words, and the new state."""
        return self.model.step(ids, state)


def _wrapped(caption: str, width: int = 20) -> str:
    """Return a caption in lines of about `width` characters."""
    lines = [""]
    for word in caption.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
