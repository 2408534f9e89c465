"""Saliency, probabilities of tags and moves between them, and invariance checks of a tagger."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.errors import ConfigError
from saccade.inspection.checks import (
    BATCH_INVARIANCE,
    PADDING_INVARIANCE,
    RELOAD_CONSISTENCY,
    CheckResult,
)
from saccade.inspection.figures import ConfusionMatrix, Figure, HeatMap, HeatMapGrid
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.metrics.classification import confusion_matrix
from saccade.models.bert_tagger import BertTagger
from saccade.models.elmo_tagger import ElmoTagger
from saccade.tasks.base import HeatMapKey, Inspector
from saccade.tasks.neural import device_of
from saccade.tasks.tagging.predict import TagPredictor, TokenizedText
from saccade.tasks.tagging.probing import probe_figure, probe_layers
from saccade.tasks.tagging.scorer import TagScorer
from saccade.tasks.tagging.sentences import TaggedSplit
from saccade.types.arrays import FloatArray, IntArray

MAX_EXAMPLE_CHARS = 80  # of the text in the suggested command
MAX_MATRIX_TAGS = 60
FIRST_ROW = np.zeros(1, np.int64)


class TagInspector(Inspector[TaggedSplit]):
    """Shows the probabilities of tags, which words led to them, and the moves of the CRF."""

    has_attention = False

    def __init__(self, scorer: TagScorer, predictor: TagPredictor):
        self.scorer, self.predictor = scorer, predictor
        self.model, self.tags = scorer.model, scorer.vocabulary.tags
        crf = ("transitions",) if self.model.crf is not None else ()
        mix = ("layers",) if isinstance(self.model, ElmoTagger) else ()
        self.heat_map_kinds = ("tags", "saliency", *crf, *mix)

    def example_input(self, split: TaggedSplit) -> str:
        """Return the first words of a held-out sentence with many kinds of tags."""
        best = max(split.sentences, key=lambda s: len({*s.tags}), default=None)
        text = "" if best is None else " ".join(best.tokens)
        return (
            text if len(text) <= MAX_EXAMPLE_CHARS else text[:MAX_EXAMPLE_CHARS].rpartition(" ")[0]
        )

    def views(self) -> dict[str, str]:
        """Return the heat maps of one text."""
        views = {"INPUT": "the probability of each tag"}
        views["INPUT --kind saliency"] = "the words that led to the tag of each word"
        if self.model.crf is not None:
            views["INPUT --kind transitions"] = "the scores of the moves between tags"
        if isinstance(self.model, ElmoTagger):
            views["INPUT --kind layers"] = "the share of each layer of the ELMo"
        return views

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return the maps of one text."""
        given = self.predictor.parse(text, 1)
        if not given.spans:
            raise ConfigError(f"got the text {text!r} without words; expected one with words.")
        maps = {("tags", 1): self._tag_map(given), ("saliency", 1): self._saliency_map(given)}
        if self.model.crf is not None:
            maps["transitions", 1] = self.transition_map()
        if isinstance(self.model, ElmoTagger):
            maps["layers", 1] = mix_map(self.model)
        return maps

    def _inputs(self, given: TokenizedText) -> Any:
        self.model.eval()
        return self.scorer.inputs(self.scorer.encode([given.tokens]), FIRST_ROW)

    def _tag_map(self, given: TokenizedText) -> HeatMap:
        inputs = self._inputs(given)
        with torch.no_grad():
            emissions = self.model(inputs).float()
        found = self.model.probabilities(emissions, inputs.lengths)[0].T
        values = found.double().cpu().numpy().clip(0, 1)
        return HeatMap(values, self.tags, given.tokens, "p(tag)", "words", "tags", (0.0, 1.0))

    def _saliency_map(self, given: TokenizedText) -> HeatMap:
        """Return gradient × input of each word (columns) for the tag of each word (rows)."""
        inputs = self._inputs(given)
        with torch.no_grad():
            embedded = self.model.embed(inputs)
        x = embedded.detach().requires_grad_()
        with torch.enable_grad():
            emissions = self.model.emissions(x, inputs).float()
            best = self.model.decode(emissions.detach(), inputs.lengths)
            scores = emissions.gather(2, best[..., None])[0, :, 0] - emissions[0].mean(-1)
            of_positions = np.stack([self._contributions(score, x) for score in scores])
        values = np.zeros((len(given.spans), len(given.spans)))
        owners = np.array(inputs.words_of_positions())
        np.add.at(values.T, owners[owners >= 0], of_positions.T[owners >= 0])
        words = [
            f"{token} {self.tags[tag]}"
            for token, tag in zip(given.tokens, best[0].tolist(), strict=True)
        ]
        title = "gradient × input for the score of each tag"
        return HeatMap(values, words, given.tokens, title, "words read", "words tagged")

    def _contributions(self, score: Tensor, x: Tensor) -> FloatArray:
        [gradient] = torch.autograd.grad(score, x, retain_graph=True)
        found: FloatArray = (gradient * x).sum(-1)[0].detach().double().cpu().numpy()
        return found

    def transition_map(self) -> HeatMap:
        """Return the scores of the CRF: rows from, columns to; forbidden moves are empty."""
        crf = self.model.crf
        assert crf is not None
        with torch.no_grad():
            moves = torch.cat([crf.start[None], crf.transitions]).double().cpu().numpy()
            penalty = torch.cat([crf.start_penalty[None], crf.move_penalty]).cpu().numpy()
        values = np.where(penalty < 0, np.nan, moves)
        cells = [["" if np.isnan(v) else f"{v:.1f}" for v in row] for row in values]
        title = "scores of moves between tags"
        rows = ["start", *self.tags]
        return HeatMap(values, rows, self.tags, title, "to", "from", cells=cells)

    def figures(self, splits: Mapping[str, TaggedSplit]) -> dict[str, Figure]:
        """Return the confusion of tags on the test split, and the moves of the CRF."""
        figures: dict[str, Figure] = {}
        if len(self.tags) <= MAX_MATRIX_TAGS:
            figures["confusion.png"] = ConfusionMatrix(self._confusion(splits["test"]), self.tags)
            if self.model.crf is not None:
                figures["transitions.png"] = HeatMapGrid([self.transition_map()])
        if isinstance(self.model, BertTagger | ElmoTagger):
            probed = probe_layers(self.scorer, splits["train"], splits["test"])
            figures["probe.png"] = probe_figure(probed, self.scorer.recipe.model_name)
        if isinstance(self.model, ElmoTagger):
            figures["layers.png"] = HeatMapGrid([mix_map(self.model)])
        return figures

    def _confusion(self, split: TaggedSplit) -> IntArray:
        ids = self.scorer.vocabulary.tag_ids
        predicted = [ids[tag] for found in self.scorer.predict(split.table) for tag in found.tags]
        true = split.tags.rows.astype(np.int64)
        known = true >= 0
        return confusion_matrix(true[known], np.array(predicted, np.int64)[known], len(self.tags))

    # --- checks -----------------------------------------------------------------------------------

    def checks(self, split: TaggedSplit, count: int) -> Iterator[CheckResult]:
        """Check that emissions depend neither on the neighbours in a batch nor on padding."""
        table = split.take(count).table
        rows = np.arange(table.rows.size)
        together = [_emissions(self.scorer, self.scorer.inputs(table, rows))]
        alone = [_emissions(self.scorer, self.scorer.inputs(table, rows[r : r + 1])) for r in rows]
        flat_alone = np.concatenate(alone)
        yield _compare(BATCH_INVARIANCE, together[0], flat_alone, len(rows))
        inputs = self.scorer.inputs(table, rows)
        padded = _emissions(self.scorer, inputs.padded(3))
        yield _compare(PADDING_INVARIANCE, together[0], padded, len(rows))

    def compare_reloaded(self, other: Any, split: TaggedSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same emissions and moves."""
        table = split.take(count).table
        inputs = self.scorer.inputs(table, np.arange(table.rows.size))
        one, two = self.scorer, self.scorer.with_model(other)
        result = _compare(
            RELOAD_CONSISTENCY, _emissions(one, inputs), _emissions(two, inputs), table.rows.size
        )
        if self.model.crf is None:
            return result
        pairs = zip(self.model.crf.chain, other.crf.chain, strict=True)
        is_same = all(torch.equal(a, b.to(a.device)) for a, b in pairs)
        return result if is_same else result._replace(difference=float("inf"))


def mix_map(model: ElmoTagger) -> HeatMap:
    """Return the share of each layer in the mixture that the tagger reads."""
    shares = model.mix.shares.detach().double().cpu().numpy()
    names = ["characters", *(f"LSTM {layer}" for layer in range(1, len(shares)))]
    title = f"share of each layer, scale γ = {float(model.mix.scale.detach()):.2f}"
    return HeatMap(shares[None], ["share"], names, title, "layers", limits=(0.0, 1.0))


@torch.no_grad()
def _emissions(scorer: TagScorer, inputs: Any) -> FloatArray:
    """Return the emissions of all tokens, without those of padding."""
    model = scorer.model.eval()
    inputs = inputs.to(device_of(model))
    scores = model(inputs)
    is_token = torch.arange(scores.shape[1], device=scores.device) < inputs.lengths[:, None]
    found: FloatArray = scores[is_token].double().cpu().numpy()
    return found


def _compare(invariant: str, one: FloatArray, two: FloatArray, count: int) -> CheckResult:
    difference = float(np.abs(one - two).max(initial=0.0))
    return CheckResult(invariant, count, difference, LOGIT_TOLERANCE[torch.float32])
