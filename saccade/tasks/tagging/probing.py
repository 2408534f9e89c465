r"""Linear probes: how well the tags follow from each layer of a frozen encoder.

For each layer with vectors x of the tokens, y one-hot tags and X, Y those of training sentences,

    W = (Xᵀ X + λ I)^{-1} Xᵀ Y,   tag = argmax_k (W ᵀ x)_k

Ridge regression has no steps and no seed, so that layers are compared on equal terms (probing as in
Peters et al. 2018b and Tenney et al. 2019, with a linear classifier).
"""

from typing import NamedTuple

import numpy as np
import torch

from saccade.errors import ConfigError
from saccade.inspection.figures import LinePanel, LinePanels, PlotLine
from saccade.tasks.tagging.evaluate import tag_metrics
from saccade.tasks.tagging.scorer import SCORE_SENTENCES, TagScorer
from saccade.tasks.tagging.sentences import TaggedSplit
from saccade.types.arrays import FloatArray

PROBE_TRAIN, PROBE_TEST = 1000, 500  # sentences
RIDGE = 1.0  # λ, for vectors of variance 1


class ProbedLayers(NamedTuple):
    """Metrics of a linear probe on each layer, from the lowest to the highest."""

    metrics: list[dict[str, float]]
    name: str  # of the metric that is drawn


@torch.no_grad()
def layer_vectors(scorer: TagScorer, split: TaggedSplit) -> list[FloatArray]:
    """Return the vectors of all tokens of a split in each layer (tokens, width)."""
    model = scorer.model.eval()
    layers = getattr(model, "layers_of", None)
    if layers is None:
        raise ConfigError("got a tagger without an encoder of layers; expected bert or elmo.")
    parts: list[list[FloatArray]] = []
    for first in range(0, len(split), SCORE_SENTENCES):
        rows = np.arange(first, min(first + SCORE_SENTENCES, len(split)))
        inputs = scorer.inputs(split.table, rows)
        found = layers(inputs)
        is_token = torch.arange(found[0].shape[1], device=found[0].device) < inputs.lengths[:, None]
        parts.append([layer[is_token].double().cpu().numpy() for layer in found])
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


class Probe(NamedTuple):
    """The mean and deviation by which vectors are standardised, and the weights."""

    mean: FloatArray
    deviation: FloatArray
    weights: FloatArray  # (width + 1, tags), the last row a bias

    def scores(self, x: FloatArray) -> FloatArray:
        """Return the score of each tag of each vector (tokens, tags)."""
        found: FloatArray = _with_bias((x - self.mean) / self.deviation) @ self.weights
        return found


def fit_probe(x: FloatArray, tags: FloatArray) -> Probe:
    """Return the ridge regression of one-hot tags on vectors."""
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    x = _with_bias((x - mean) / deviation)
    gram = x.T @ x + RIDGE * np.eye(x.shape[1])
    weights: FloatArray = np.linalg.solve(gram, x.T @ tags).astype(np.float64)
    return Probe(mean, deviation, weights)


def _with_bias(x: FloatArray) -> FloatArray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def probe_layers(scorer: TagScorer, train: TaggedSplit, test: TaggedSplit) -> ProbedLayers:
    """Return the metrics of a probe on each layer."""
    train, test = train.take(PROBE_TRAIN), test.take(PROBE_TEST)
    names = scorer.vocabulary.tags
    targets = np.eye(len(names))[train.tags.rows]
    true = [sentence.tags for sentence in test.sentences]
    cuts = np.cumsum(test.lengths)[:-1]
    metrics = []
    for x, held_out in zip(layer_vectors(scorer, train), layer_vectors(scorer, test), strict=True):
        best = fit_probe(x, targets).scores(held_out).argmax(1)
        predicted = [[names[tag] for tag in row] for row in np.split(best, cuts)]
        metrics.append(tag_metrics(true, predicted, scorer.vocabulary.is_bio))
    return ProbedLayers(metrics, "f1" if scorer.vocabulary.is_bio else "accuracy")


def probe_figure(found: ProbedLayers, model: str) -> LinePanels:
    """Return the metric of the probe by layer as a picture."""
    values = np.array([100 * metrics[found.name] for metrics in found.metrics])
    line = PlotLine("linear probe", np.arange(len(values), dtype=np.float64), values)
    label = f"{found.name} on held-out sentences, %"
    panel = LinePanel(f"tags from each layer of {model}", [line], "layer", label)
    return LinePanels([panel])
