"""Scores of captions: loss, exact match, BLEU, ROUGE-L, CIDEr-D, pointing, and the floor."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.images.captions import caption_words
from saccade.data.images.scenes import DIGIT_WORDS, Region
from saccade.data.samplers import evenly_spaced_rows
from saccade.metrics.captions import BLEU_ORDERS, caption_bleu, caption_rouge, cider_each
from saccade.models.base import EncoderDecoder
from saccade.models.captioning import GridEncoder
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy
from saccade.tasks.base import Evaluator
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.captioning.data import CaptionSplit, CaptionTransform
from saccade.tasks.captioning.predict import CAPTIONED_TOGETHER, CaptionPredictor
from saccade.tasks.neural import device_of
from saccade.tasks.translation.evaluate import PER_TOKEN
from saccade.tasks.translation.objective import batch_to, target_hidden
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction
from saccade.types.shapes import Images

LOSS_CAPTIONS = 256  # of a batch
FLOOR_SAMPLE_IMAGES = 200  # training images by which the constant caption is chosen
MAX_FLOOR_CAPTIONS = 200  # candidates
MAX_EXPONENT = 700.0
MAX_LISTED_CAPTIONS = 10
CONVENTIONS = {
    "exact": "share of captions equal to the reference (words in lower case)",
    "pointing": "share of the words that name a digit whose largest attention is on that digit",
    **{
        f"bleu{n}": f"corpus BLEU of {n}-grams and shorter, words in lower case without "
        "punctuation, closest reference length, no smoothing (COCO)"
        for n in BLEU_ORDERS
    },
    "rougeL": "F (β = 1.2) of the best precision and recall over the references, mean (COCO)",
    "cider": "CIDEr-D, 0 to 10, document frequencies of these references",
}


class CaptionEvaluator(Evaluator[CaptionSplit]):
    """Loss of the references, and scores of the generated captions against them."""

    def __init__(self, recipe: CaptionRecipe, model: EncoderDecoder, transform: CaptionTransform):
        self.recipe, self.model = recipe, model
        self.predictor = CaptionPredictor(recipe, model, transform)
        self._last_grids: tuple[CaptionSplit, NDArray[np.float32]] | None = None
        self.is_exact = recipe.data.synthetic is not None
        self.metric = (
            ComparisonMetric("exact", True, 100.0)
            if self.is_exact
            else ComparisonMetric("cider", True)
        )
        self.headline = ("exact", "pointing") if self.is_exact else ("bleu4", "cider")

    def evaluate(
        self,
        split: CaptionSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Score the captions of at most `limit` images, evenly spread."""
        some = split.take(limit)
        settings = self.predictor.parse_options(options or {})
        texts: list[str] = []
        hits: list[bool] = []
        for start in range(0, len(some), CAPTIONED_TOGETHER):
            rows = np.arange(start, min(start + CAPTIONED_TOGETHER, len(some)))
            images = self._images(some, rows)
            found = self.predictor.search(images, settings, (rows + 1).tolist())
            ids = [hypotheses[0].ids for hypotheses in found]
            texts += [self.predictor.tokenizer.decode(words) for words in ids]
            if some.regions is not None:
                hits += self._pointing(images, ids, [some.regions[row] for row in rows.tolist()])
            on_progress("captioning", len(texts), len(some))
        metrics = self.mean_loss(some) | score_captions(texts, some.captions)
        if hits:
            metrics["pointing"] = float(np.mean(hits))
        metrics["examples"] = float(len(some))
        conventions = {name: text for name, text in CONVENTIONS.items() if name in metrics}
        if not some.is_held_out:
            conventions = {
                n: f"{text}; on images that were trained on" for n, text in conventions.items()
            }
        conventions |= {"loss": PER_TOKEN, "perplexity": PER_TOKEN}
        tables = {"captions": _listed(some, texts)}
        return Evaluation(metrics, conventions, tables, notes=split.notes)

    def _pointing(
        self,
        images: torch.Tensor,
        ids: Sequence[Sequence[int]],
        regions: Sequence[tuple[Region, ...]],
    ) -> list[bool]:
        """Return for each word that names a digit whether the largest attention is on it.

        The k-th such word names the k-th digit of the scene.
        """
        named = [words or [0] for words in ids]
        weights = self.predictor.word_weights(images, named)
        if weights is None:
            return []
        encoder: Any = self.model.encoder
        assert isinstance(encoder, GridEncoder)
        _, _, columns = encoder.grid_shape
        cell = self.predictor.form.size / columns
        hits = []
        cells = weights.argmax(-1).cpu().numpy()
        for row, words in enumerate(ids):
            tokens = self.predictor.tokenizer.display_tokens(words)
            steps = [step for step, word in enumerate(tokens) if word in DIGIT_WORDS]
            for number, step in enumerate(steps):
                y, x = (int(part) for part in divmod(int(cells[row, step]), columns))
                centre = (y + 0.5) * cell, (x + 0.5) * cell
                of_scene = regions[row]
                hits.append(number < len(of_scene) and _contains(of_scene[number], *centre))
        return hits

    def _images(self, split: CaptionSplit, rows: IntArray) -> Images:
        """Return images as the network takes them; of a frozen encoder their grids.

        The grids of a split are computed once, not in each evaluation.
        """
        if not self.recipe.model.has_frozen_encoder:
            return self.predictor.images(split.pixels_at(rows))
        if self._last_grids is None or not _have_same_images(self._last_grids[0], split):
            self._last_grids = split, self.predictor.grids(split)
        grids = self._last_grids[1]
        return torch.from_numpy(np.array(grids[rows])).to(device_of(self.model))

    @torch.no_grad()
    def mean_loss(self, split: CaptionSplit) -> dict[str, float]:
        """Return the cross-entropy per word of the references, and the perplexity."""
        self.model.eval()
        device = device_of(self.model)
        total, tokens = 0.0, 0
        order = np.argsort(split.encoded.lengths, kind="stable")
        for start in range(0, len(order), LOSS_CAPTIONS):
            rows = order[start : start + LOSS_CAPTIONS]
            batch = split.batch(rows, partial(self._images, split))
            batch = batch_to(batch, device)
            hidden = target_hidden(self.model, batch)
            found = linear_cross_entropy(hidden, self.model.output_layer, batch.target_out)
            total += float(found.total)
            tokens += batch.tokens
        loss = total / tokens
        return {"loss": loss, "perplexity": math.exp(min(loss, MAX_EXPONENT))}

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the comparison metric; among nearly equal ones the lower loss is better."""
        return metrics.get(self.metric.name, 0.0) - 0.01 * metrics["loss"]

    def floors(self, train: CaptionSplit, split: CaptionSplit) -> dict[str, dict[str, float]]:
        """Return the scores of the best constant caption, chosen on training images."""
        caption = constant_caption(train)
        scores = score_captions([caption] * len(split), split.captions)
        return {"constant caption": scores}

    def inputs(self, split: CaptionSplit) -> list[Any]:
        """Return the decoded images."""
        return list(split.pixels_at(np.arange(len(split))))

    def score_each(
        self, split: CaptionSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64]:
        """Return the comparison metric of each caption."""
        texts = [prediction.text for prediction in predictions]
        if self.is_exact:
            return 100.0 * _exact(texts, split.captions)
        return cider_each(_words(texts), [_words(given) for given in split.captions])


def score_captions(
    captions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return all metrics of generated captions; exact match if every image has one reference."""
    words, given = _words(captions), [_words(texts) for texts in references]
    metrics = {}
    if max(map(len, references)) == 1:
        metrics["exact"] = float(_exact(captions, references).mean())
    metrics |= {
        f"bleu{n}": score for n, score in zip(BLEU_ORDERS, caption_bleu(words, given), strict=True)
    }
    pairs = zip(words, given, strict=True)
    metrics["rougeL"] = float(np.mean([caption_rouge(own, texts) for own, texts in pairs]))
    metrics["cider"] = float(cider_each(words, given).mean())
    return metrics


def constant_caption(train: CaptionSplit) -> str:
    """Return the training caption with the largest BLEU-4 on training images."""
    some = train.take(FLOOR_SAMPLE_IMAGES)
    references = [_words(texts) for texts in some.captions]
    texts = list(dict.fromkeys(text for given in train.captions for text in given))
    candidates = [texts[row] for row in evenly_spaced_rows(len(texts), MAX_FLOOR_CAPTIONS)]
    return max(
        candidates,
        key=lambda text: caption_bleu([caption_words(text)] * len(some), references)[-1],
    )


def _words(texts: Sequence[str]) -> list[list[str]]:
    return [caption_words(text) for text in texts]


def _exact(captions: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    pairs = zip(captions, references, strict=True)
    return np.array([float(caption in texts) for caption, texts in pairs], np.float64)


def _have_same_images(one: CaptionSplit, other: CaptionSplit) -> bool:
    return one.pixels is other.pixels and np.array_equal(one.rows, other.rows)


def _contains(region: Region, y: float, x: float) -> bool:
    inside = region.y <= y < region.y + region.side, region.x <= x < region.x + region.side
    return all(inside)


def _listed(split: CaptionSplit, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return some captions with their references, as rows of a table."""
    rows = evenly_spaced_rows(len(split), MAX_LISTED_CAPTIONS).tolist()
    return [
        {"image": split.names[row], "caption": texts[row], "reference": split.captions[row][0]}
        for row in rows
    ]
