"""Networks that classify texts: padded batches, training objective, logits, attributions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.samplers import bucketed_batches
from saccade.inspection.attention import capture_attention, has_attention
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.checks import PADDING_INVARIANCE, CheckResult
from saccade.inspection.integrated_gradients import integrated_gradients
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.registry import TEXT_CLASSIFICATION_MODELS
from saccade.models.text_classifiers import TextNetwork
from saccade.nn.losses import binary_cross_entropy_with_logits, cross_entropy
from saccade.tasks.neural import StatelessObjective, build_network, device_of
from saccade.tasks.text_classification.components import make_components
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.scorer import (
    Calibration,
    LabelPair,
    LabelScorer,
    WordScores,
)
from saccade.tasks.text_classification.texts import (
    LabelVocabulary,
    TextSplit,
    label_weights,
    make_text_encoder,
)
from saccade.training.objective import Loss
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.bags import Bags
from saccade.types.shapes import Lengths, TokenIds

PREDICT_TEXTS = 256  # texts of a batch in prediction


def build_text_network(recipe: ClassifyRecipe, vocabulary: LabelVocabulary) -> nn.Module:
    """Build the network of a recipe."""
    model_class: type[nn.Module] = TEXT_CLASSIFICATION_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


def max_words(recipe: ClassifyRecipe) -> int:
    """Return the number of words after which a text is truncated."""
    return int(recipe.model.model_dump()["max_length"])


class TextBatch(NamedTuple):
    """Padded word ids with their labels, one or several (multi-hot) for each text."""

    ids: TokenIds  # word id + 1; 0 is padding
    lengths: Lengths
    target: Int[Tensor, " B"] | Float[Tensor, "B V"]

    @property
    def tokens(self) -> int:
        """Number of loss terms: the texts."""
        return len(self.ids)


def pad_texts(words: Bags, rows: IntArray, max_length: int) -> tuple[TokenIds, Lengths]:
    """Return the ids of some texts, truncated and padded, and their lengths."""
    starts = words.starts[rows]
    lengths = np.minimum(words.starts[rows + 1] - starts, max_length)
    width = max(1, int(lengths.max(initial=0)))
    columns = np.arange(width)
    is_word = columns < lengths[:, None]
    ids = np.zeros((len(rows), width), np.int64)
    ids[is_word] = words.rows[(starts[:, None] + columns)[is_word]] + 1
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def text_logits(model: TextNetwork, words: Bags, max_length: int) -> Float[Tensor, "N V"]:
    """Return the logits of texts, in batches of similar length, without gradients."""
    count = len(words.starts) - 1
    order = np.argsort(np.diff(words.starts), kind="stable")
    logits = torch.zeros(count, model.num_labels)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for first in range(0, count, PREDICT_TEXTS):
            rows = order[first : first + PREDICT_TEXTS]
            ids, lengths = pad_texts(words, rows, max_length)
            device = device_of(model)
            logits[torch.from_numpy(rows)] = model(ids.to(device), lengths.to(device)).cpu()
    model.train(was_training)
    return logits


class TextObjective(StatelessObjective[TextBatch]):
    """Cross-entropy of the label, or for several labels the sum of binary cross-entropies."""

    model: TextNetwork

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: TextNetwork,
        vocabulary: LabelVocabulary,
        splits: Mapping[str, TextSplit],
    ):
        super().__init__(recipe, model)
        self.splits, self.multi_label = splits, recipe.data.multi_label
        self.max_length = max_words(recipe)
        train = splits["train"]
        lengths = np.minimum(np.diff(train.words.starts), self.max_length)
        self.lengths = lengths
        self.batch_rows = max(1, int(self.settings.batch_tokens // max(1.0, float(lengths.mean()))))
        self.weights: Tensor | None = None
        if recipe.is_balanced:
            self.weights = torch.from_numpy(label_weights(vocabulary)).float()

    def batches(self, split: str, start: int = 0) -> Iterator[TextBatch]:
        """Yield batches of texts of similar length without end."""
        for rows in bucketed_batches(self.lengths, self.batch_rows, self.settings.seed, start):
            yield self.batch(self.splits[split], rows)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every text once."""
        return -(-len(self.lengths) // self.batch_rows)

    def batch(self, split: TextSplit, rows: IntArray) -> TextBatch:
        """Return some texts of a split as tensors."""
        ids, lengths = pad_texts(split.words, rows, self.max_length)
        labels = split.labels
        if not self.multi_label:
            target = labels.rows[labels.starts[rows]].astype(np.int64)
            return TextBatch(ids, lengths, torch.from_numpy(target))
        found = np.zeros((len(rows), self.model.num_labels), np.float32)
        for row, text in enumerate(rows):
            own = labels.rows[labels.starts[text] : labels.starts[text + 1]]
            found[row, own[own >= 0]] = 1
        return TextBatch(ids, lengths, torch.from_numpy(found))

    def loss(self, batch: TextBatch) -> Loss:
        """Return the summed loss of a batch."""
        device = device_of(self.model)
        logits = self.model(batch.ids.to(device), batch.lengths.to(device))
        target = batch.target.to(device)
        weights = None if self.weights is None else self.weights.to(device)
        if self.multi_label:
            flat = logits.reshape(-1), target.reshape(-1)
            sample_weight = None
            if weights is not None:  # of a true label; a text without it counts once
                sample_weight = torch.where(target > 0, weights, 1.0).reshape(-1)
            total = binary_cross_entropy_with_logits(
                *flat, reduction="sum", sample_weight=sample_weight
            )
            return Loss(total)
        total = cross_entropy(
            logits,
            target,
            label_smoothing=self.settings.label_smoothing,
            weight=weights,
            reduction="sum",
        )
        return Loss(total, (logits.argmax(1) == target).sum())


class NetworkLabelScorer(LabelScorer):
    """Logits of a network, and attributions by its gradients and attention."""

    model: TextNetwork
    baseline = "the mean word vector in place of each word"  # of attributions by gradients

    def __init__(self, recipe: ClassifyRecipe, model: TextNetwork, vocabulary: LabelVocabulary):
        super().__init__(recipe, model, vocabulary)
        self.encoder: Any = make_text_encoder(recipe, vocabulary)
        self.max_length = max_words(recipe)
        self.methods = ("integrated_gradients", "gradient", "occlusion")
        if has_attention(model):
            self.methods = (*self.methods, "attention")

    @property
    def calibration(self) -> Calibration:
        """The calibration of the model."""
        return Calibration(*(float(value) for value in self.model.calibration))

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, labels)."""
        words = self.encoder.encode(texts)
        return text_logits(self.model, words, self.max_length).double().numpy()

    def known_words(self, text: str) -> list[int]:
        """Return the positions of the words that the network reads."""
        words = self.encoder.splitter(text.lower())
        known = [number for number, word in enumerate(words) if word in self.encoder.ids]
        return known[: self.max_length]

    def word_scores(self, text: str, num_words: int, method: str, pair: LabelPair) -> WordScores:
        """Return gradients or attention weights of the words; 0 for words it does not know."""
        model = self.model.eval()
        device = device_of(model)
        ids, lengths = self._ids(text)
        if method == "attention":
            scores = self._sum_over_words(text, self._attention(text), num_words)
            return WordScores(scores, unit="attention weight")
        temperature = self.calibration.temperature
        lengths = lengths.to(device)
        with torch.no_grad():
            x, baseline = self._embed_with_baseline(ids.to(device))

        def value(rows: Tensor) -> Tensor:
            found: Tensor = pair.value(model.classify(rows, lengths.expand(len(rows))))
            return found / temperature

        with torch.no_grad():
            base = float(value(baseline[None])[0])
        if method == "integrated_gradients":
            found = integrated_gradients(value, x, baseline)
        else:
            rows = x[None].clone().requires_grad_()
            with torch.enable_grad():
                [gradient] = torch.autograd.grad(value(rows).sum(), rows)
            found = gradient[0] * (x - baseline)
        of_positions = found.sum(-1).double().cpu().numpy()
        scores = self._sum_over_words(text, of_positions, num_words)
        return WordScores(scores, base, baseline=self.baseline)

    def _embed_with_baseline(self, ids: TokenIds) -> tuple[Tensor, Tensor]:
        """Return the vectors of one text, (positions, width), and those it is compared with."""
        x = self.model.embed(ids)[0]
        vectors = self.model.word_vectors
        # not zeros: a normalised layer jumps there, and the path would have no gradient
        return x, x - vectors[ids[0]] + vectors[1:].mean(0)

    def words_of_positions(self, text: str) -> IntArray:
        """Return the number of the word that is read at each position; -1: of none."""
        return np.array(self.known_words(text), np.int64)

    def _sum_over_words(self, text: str, values: FloatArray, num_words: int) -> FloatArray:
        """Return the sum of the values at the positions of each word."""
        words, scores = self.words_of_positions(text), np.zeros(num_words)
        of_words = words >= 0
        np.add.at(scores, words[of_words], values[: len(words)][of_words])
        return scores

    def read_tokens(self, text: str, words: Sequence[str]) -> list[str]:
        """Return the word or token of each position, for plots."""
        return [words[position] for position in self.known_words(text)]

    def _ids(self, text: str) -> tuple[TokenIds, Lengths]:
        """Return the ids of one text, and its length."""
        return pad_texts(self.encoder.encode([text]), np.zeros(1, np.int64), self.max_length)

    @torch.no_grad()
    def _captured(self, text: str) -> dict[str, FloatArray]:
        """Return the attention weights of each layer by its name, (heads, queries, words)."""
        model = self.model.eval()
        ids, lengths = self._ids(text)
        with capture_attention(model) as captured:
            model(ids.to(device_of(model)), lengths.to(device_of(model)))
        return {name: captured.weights(name)[0].double().cpu().numpy() for name in captured.names()}

    def _attention(self, text: str) -> FloatArray:
        """Return the weight that each word receives in the last layer, a mean over its heads."""
        *_, last = self._captured(text).values()
        weights: FloatArray = last.mean((0, 1))
        return weights

    def attention_maps(
        self, text: str, words: Sequence[str]
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """Return the maps of each layer and head between the words that the network reads."""
        read = self.read_tokens(text, words)
        if "attention" not in self.methods or not read:
            return {}
        maps, layers = {}, Counter[str]()
        for name, heads in self._captured(text).items():
            is_pooling = name in self.model.pooling_attentions
            kind, rows = ("pooling", ["text"]) if is_pooling else ("self", read)
            layers[kind] += 1
            layer = layers[kind]
            for head, weights in enumerate(heads, start=1):
                title = f"{kind} attention, layer {layer}, head {head}"
                axes = ("words (keys)", "words (queries)")
                maps[kind, layer, head] = AttentionMap(weights, rows, read, title, *axes)
        return maps

    def checks(self, texts: Sequence[str]) -> Iterator[CheckResult]:
        """Check that padding does not change logits."""
        model, words = self.model.eval(), self.encoder.encode(texts)
        ids, lengths = pad_texts(words, np.arange(len(texts)), self.max_length)
        device = device_of(model)
        padded = torch.cat([ids, ids[:, :1].expand(-1, 3)], dim=1)  # real ids, so that errors show
        with torch.no_grad():
            before, after = (model(each.to(device), lengths.to(device)) for each in (ids, padded))
        difference = float((before - after).abs().max())
        yield CheckResult(PADDING_INVARIANCE, len(texts), difference, LOGIT_TOLERANCE[before.dtype])


def set_calibration(model: TextNetwork, calibration: Calibration) -> None:
    """Store a calibration with the weights of a model."""
    with torch.no_grad():
        model.calibration.copy_(torch.tensor(calibration))


TEXT_NETWORK = make_components(
    NetworkLabelScorer,
    set_calibration,
    build_model=build_text_network,
    objective=TextObjective,
)
