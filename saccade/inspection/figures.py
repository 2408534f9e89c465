"""The data behind each picture, one frozen dataclass per kind. No torch, no matplotlib.

Tasks, runs and a server build these; `saccade.plots.render` draws them, and
`saccade.plots.figure_json` writes them as JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.attribution import Attribution
from saccade.inspection.image_figures import EmbeddingMap, ImageGrid, ImageMaps
from saccade.types.arrays import FloatArray

DecisionFunction = Callable[[FloatArray], FloatArray]

DECISION_GRID_POINTS = 200  # along each axis
Record = Mapping[str, Any]  # one line of metrics.jsonl


class PlotLine(NamedTuple):
    """A labelled line: y over x."""

    label: str
    x: FloatArray
    y: FloatArray


class HeatMap(NamedTuple):
    """Values on a grid, drawn as colours: units against tokens, a matrix, scores of pairs."""

    values: FloatArray  # (rows, columns)
    rows: Sequence[str]  # labels of the rows; empty: rows without names
    columns: Sequence[str]
    title: str
    across: str = ""  # label of the column axis
    down: str = ""  # label of the row axis
    limits: tuple[float, float] | None = None  # of the colour scale; None: from the values
    cells: Sequence[Sequence[str]] = ()  # a text for each value, in place of its number

    @property
    def scale(self) -> tuple[float, float]:
        """Ends of the colour scale: symmetric about 0 if a value is negative."""
        if self.limits is not None:
            return self.limits
        values = self.values[np.isfinite(self.values)]
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        return (-largest if (values < 0).any() else 0.0), largest


def check_heat_map(map: HeatMap) -> HeatMap:
    """Return the map; raise `ValueError` if labels and values disagree or there is no value."""
    shape = np.shape(map.values)
    expected = len(map.rows) or (shape[0] if shape else 0), len(map.columns)
    if shape != expected or 0 in expected:
        raise ValueError(
            f"{map.title}: got values of shape {shape} for {len(map.rows)} rows and "
            f"{len(map.columns)} columns; expected one value for each, and at least one."
        )
    if map.cells and (len(map.cells), len(map.cells[0])) != expected:
        raise ValueError(f"{map.title}: got texts of cells in another shape than {expected}.")
    return map


class LinePanel(NamedTuple):
    """Lines over one axis, in a panel of its own."""

    title: str
    lines: Sequence[PlotLine]
    x_label: str = ""
    y_label: str = ""
    points: Sequence[tuple[str, float, float]] = ()  # marked: label, x, y
    equal: bool = False  # the same scale on both axes, as in a plane


class TreeNode(NamedTuple):
    """A node of a tree; its parent has a smaller index, that of the root is -1."""

    parent: int
    label: str
    note: str = ""  # under the label: a score, a code
    kept: bool = True  # False: pruned, drawn in grey


# --- attention, training, classification ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AttentionGrid:
    """Attention maps on a grid with one colour scale."""

    maps: Sequence[AttentionMap]
    title: str = ""  # heading: model, input and prediction


@dataclass(frozen=True, eq=False)
class HeatMapGrid:
    """Heat maps next to each other, each with its own colour scale."""

    maps: Sequence[HeatMap]
    title: str = ""


@dataclass(frozen=True, eq=False)
class LinePanels:
    """Panels with lines, next to each other."""

    panels: Sequence[LinePanel]
    title: str = ""


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree, such as the hypotheses of a beam or a prefix code."""

    nodes: Sequence[TreeNode]
    title: str = ""

    def children(self) -> list[list[int]]:
        """Return the indices of each node's children, in order."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            if node.parent >= 0:
                found[node.parent].append(index)
        return found


@dataclass(frozen=True, eq=False)
class TrainingCurves:
    """Loss, scores and learning rate of a run over its training steps."""

    records: Sequence[Record]  # lines of metrics.jsonl

    @property
    def best_step(self) -> int | None:
        """Step whose weights were kept: that of the last evaluation marked `best`."""
        steps = [r["step"] for r in self.records if r.get("best") is True and "step" in r]
        return int(steps[-1]) if steps else None

    @property
    def switches(self) -> dict[int, str]:
        """Steps from which on another optimizer made the updates, and its name."""
        return {int(r["step"]): str(r["optimizer"]) for r in self.records if "optimizer" in r}


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """Counts of examples by true class (rows) and predicted class (columns)."""

    counts: NDArray[Any]  # (classes, classes)
    classes: Sequence[str]


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram:
    """Share of correct predictions by their confidence, of predictions grouped into bins."""

    confidence: FloatArray  # mean of each bin
    accuracy: FloatArray
    counts: NDArray[np.int64]
    temperature: float = 1.0  # by which the logits were divided

    @property
    def error(self) -> float:
        """Expected calibration error: mean gap of accuracy and confidence."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(gaps @ self.counts / max(int(self.counts.sum()), 1))


@dataclass(frozen=True, eq=False)
class GradientNorms:
    """Gradient norms by distance in time, and the global norm over the training steps."""

    norms: NDArray[np.floating]  # (examples, distances), distances from 1 on
    records: Sequence[Record]  # lines of metrics.jsonl; those with `norm` are drawn
    clip_norm: float


# --- regression, forecasting, tables -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KernelFit:
    """Points, kernel-regression fits of them, and the attention weights of the last fit."""

    points: PlotLine
    fits: Sequence[PlotLine]  # the last one is the result
    mean: float  # of the targets: the fit of infinite bandwidth
    truth: PlotLine | None = None  # noiseless function, where it is known
    attention: AttentionMap | None = None


class HorizonErrors(NamedTuple):
    """RMSE of forecasts 1, 2, … steps ahead, and that of repeating the last value."""

    errors: FloatArray
    naive: FloatArray


@dataclass(frozen=True, eq=False)
class ForecastCurves:
    """A series, forecasts over its held-out part, and their error by horizon."""

    series: PlotLine
    forecasts: Mapping[int, PlotLine]  # by horizon
    rollout: PlotLine  # one forecast that reads only its own predictions
    growth: HorizonErrors


@dataclass(frozen=True, eq=False)
class SVMMargin:
    """Points of two classes and the decision function of a support vector machine on a grid."""

    points: FloatArray  # (N, 2)
    labels: NDArray[Any]  # (N,)
    support: NDArray[np.bool_]  # (N,)
    x: FloatArray  # (X,) grid
    y: FloatArray  # (Y,) grid
    decision: FloatArray  # (Y, X), positive for the second class


def evaluate_margin(
    points: FloatArray,
    labels: NDArray[Any],
    support: NDArray[np.bool_],
    decision_function: DecisionFunction,
) -> SVMMargin:
    """Evaluate a decision function on a grid around (N, 2) points of two classes."""
    classes = np.unique(labels)
    if points.ndim != 2 or points.shape[1] != 2 or len(classes) != 2:
        raise ValueError(
            f"got points of shape {points.shape} in {len(classes)} classes; expected two columns "
            "and two classes."
        )
    low, high = points.min(axis=0), points.max(axis=0)
    padding = 0.08 * (high - low) + 1e-9
    x, y = (
        np.linspace(low[d] - padding[d], high[d] + padding[d], DECISION_GRID_POINTS) for d in (0, 1)
    )
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    decision = decision_function(grid).reshape(len(y), len(x))
    return SVMMargin(points, labels, support, x, y, decision)


@dataclass(frozen=True, eq=False)
class OnlineLearningCurve:
    """Score of each prediction of models that learn online, in the order of the rows."""

    scores: Mapping[str, FloatArray]  # by model: 1 or 0 for correct or not, or a squared error
    metric: str  # "accuracy" or "rmse"
    window: int  # rows of the moving average


def running_mean(values: FloatArray, window: int | None = None, root: bool = False) -> FloatArray:
    r"""Return s_n = (1/w) Σ of the last w values up to n; w = n, or at most `window`.

    With `root` the square root of it: of squared errors, the root mean squared error.
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.zeros_like(ends) if window is None else np.maximum(ends - window, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return np.sqrt(np.maximum(means, 0.0)) if root else means  # a difference of sums may be < 0


@dataclass(frozen=True, eq=False)
class FeatureImportance:
    """Loss of a score when the values of one column are shuffled, by column and repetition."""

    names: Sequence[str]  # of the columns
    drops: FloatArray  # (columns, repeats), larger for columns that matter more
    metric: str
    score: float  # of the metric, with all columns as they are
    rows: int  # scored

    def order(self) -> NDArray[np.int64]:
        """Return the indices of the columns, the most important first."""
        return np.argsort(-self.drops.mean(1), kind="stable").astype(np.int64)


class GraphUnit(NamedTuple):
    """A node: its values by symbol (∂… and δ are gradients) and its bias."""

    name: str
    figures: dict[str, float]
    bias: float | None


@dataclass(frozen=True, eq=False)
class ComputationGraph:
    """Forward and backward pass of one example through a small fully connected network."""

    layers: list[list[GraphUnit]]  # from the inputs to the outputs
    weights: list[FloatArray]  # (to, from) between neighbouring layers
    title: str
    loss: float


class ColumnPair(NamedTuple):
    """One column in two tables: numbers, or strings."""

    name: str
    source: NDArray[Any]
    target: NDArray[Any]
    note: str = ""  # appended to the panel's title


@dataclass(frozen=True, eq=False)
class DistributionShift:
    """Columns of a reference table and of a current one."""

    columns: Sequence[ColumnPair]
    tables: tuple[str, str]  # names


class LengthDistribution(NamedTuple):
    """Numbers of texts by length in characters."""

    name: str  # of the column
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]
    median: int


@dataclass(frozen=True, eq=False)
class DataOverview:
    """A data set before training: lengths of its texts, class balance, missing values."""

    name: str
    rows: int
    lengths: Sequence[LengthDistribution]
    label: str  # name of the column of classes, or ""
    classes: Mapping[str, int]  # rows of each class, the most frequent first
    missing: Mapping[str, float]  # share of missing values, of columns that have some


# --- words ----------------------------------------------------------------------------------------


class WordNeighbor(NamedTuple):
    """A nearest neighbour of a word of a map, by the cosine of their vectors."""

    word: str
    of: str
    cosine: float


@dataclass(frozen=True, eq=False)
class WordMap:
    """Words and their vectors, drawn by their first two principal components.

    `neighbors` are joined to their words by lines, since a projection to two dimensions separates
    many words that are near; those that are not among `words` have their vectors after them.
    """

    words: Sequence[str]
    vectors: NDArray[np.floating]  # (words and then other neighbours, D)
    neighbors: Sequence[WordNeighbor] = ()

    @property
    def all_words(self) -> list[str]:
        """The words, and then the neighbours that are not among them: one for each vector."""
        return list(dict.fromkeys([*self.words, *(near.word for near in self.neighbors)]))


@dataclass(frozen=True, eq=False)
class ZipfCurves:
    """Frequencies of n-grams by rank."""

    frequencies: Mapping[int, NDArray[np.int64]]  # by n, the most frequent first
    unit: str = "word"  # or character: what the text was split into


# --- concepts -------------------------------------------------------------------------------------


# in the order of the panels; softmax is missing because it is a function of a vector
ACTIVATION_EQUATIONS = {
    "sigmoid": "1 / (1 + exp(-x))",
    "tanh": "2σ(2x) - 1",
    "relu": "max(0, x)",
    "leaky_relu": "max(0.01 x, x)",
    "elu": "x, or exp(x) - 1 below 0",
    "selu": "1.051 x, or 1.758 (exp(x) - 1) below 0",
    "silu": "x σ(x)",
    "gelu_exact": "x Φ(x)",
}
KINKED_ACTIVATIONS = ("relu", "leaky_relu", "selu")  # derivative jumps at 0


class ActivationCurve(NamedTuple):
    """An activation and its derivative at some points."""

    name: str
    x: FloatArray
    y: FloatArray
    derivative: FloatArray
    derivative_at_zero: float  # the value autograd uses there, even at a kink
    alpha: float | None = None  # of elu and leaky_relu; None: the default

    @property
    def label(self) -> str:
        """Name, with α if it is given."""
        return self.name if self.alpha is None else f"{self.name}, α = {self.alpha:g}"

    @property
    def equation(self) -> str:
        """f(x), with the number in place of α."""
        if self.alpha is None:
            return ACTIVATION_EQUATIONS[self.name]
        factor = "x" if self.name == "leaky_relu" else "(exp(x) - 1)"
        return f"x, or {self.alpha:g} {factor} below 0"

    @property
    def is_kinked(self) -> bool:
        """True if the derivative jumps at 0."""
        return self.name in KINKED_ACTIVATIONS if self.alpha is None else self.alpha != 1


class GELUApproximation(NamedTuple):
    """Error of an approximation of GELU, x Φ(x)."""

    name: str
    x: FloatArray
    error: FloatArray

    @property
    def max_error(self) -> float:
        """Largest absolute error."""
        return float(np.abs(self.error).max())

    @property
    def max_error_x(self) -> float:
        """Return the x at which the error is largest."""
        return float(self.x[np.abs(self.error).argmax()])


@dataclass(frozen=True, eq=False)
class ActivationCurves:
    """Activations with their derivatives, and the errors of GELU's approximations."""

    curves: Sequence[ActivationCurve]
    errors: Sequence[GELUApproximation]


class StackConfig(NamedTuple):
    """A stack of identical, untrained layers."""

    activation: str = "tanh"
    init: str = "xavier"
    layers: int = 50
    width: int = 256
    norm: str = "none"
    residual: bool = False
    seed: int = 0
    alpha: float | None = None  # of elu and leaky_relu


class ProductSpectrum(NamedTuple):
    """Spectrum of W_depth … W_1, largest first, as log10 since values may overflow a float."""

    depth: int
    moduli: FloatArray  # of the eigenvalues
    singular: FloatArray


@dataclass(frozen=True, eq=False)
class SignalPropagation:
    """Mean squares of signals and gradients, layer by layer from the input (0)."""

    stack: StackConfig
    signals: FloatArray  # mean of h²
    differences: FloatArray  # variance of h over the inputs
    gradients: FloatArray  # mean of (∂L/∂h)²
    spectra: list[ProductSpectrum]


@dataclass(frozen=True, eq=False)
class LearningRateSchedules:
    """Learning rate at each step, by schedule."""

    steps: NDArray[np.integer[Any]]
    rates: Mapping[str, FloatArray]


# --- comparisons ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ComparisonCurves:
    """Held-out score of models over training, one (evaluations, 2) array per seed: x, score."""

    curves: Mapping[str, Sequence[FloatArray]]
    metric: str
    x_label: str = "seconds of training"


@dataclass(frozen=True, eq=False)
class LayerPanel:
    """One measured quantity of layers: for each layer, sequence lengths and values."""

    name: str
    lines: Mapping[str, tuple[Sequence[int], Sequence[float]]]


@dataclass(frozen=True, eq=False)
class LayerBenchmark:
    """Cost of layers against sequence length, one panel per quantity."""

    panels: Sequence[LayerPanel]


Figure = (
    AttentionGrid
    | Attribution
    | HeatMapGrid
    | LinePanels
    | Tree
    | TrainingCurves
    | ConfusionMatrix
    | ReliabilityDiagram
    | GradientNorms
    | KernelFit
    | ForecastCurves
    | SVMMargin
    | OnlineLearningCurve
    | FeatureImportance
    | ComputationGraph
    | DistributionShift
    | DataOverview
    | WordMap
    | ZipfCurves
    | ActivationCurves
    | SignalPropagation
    | LearningRateSchedules
    | ComparisonCurves
    | LayerBenchmark
    | ImageMaps
    | EmbeddingMap
    | ImageGrid
)
