"""Every figure can be drawn and written as JSON; figure data needs neither torch nor matplotlib."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from matplotlib.image import imread

from saccade.inspection import figures
from saccade.inspection.activations import activation_curve, gelu_approximations
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.attribution import Attribution
from saccade.inspection.episode import EpisodeRecord
from saccade.inspection.image_figures import EmbeddingMap, ImageGrid, ImageMap, ImageMaps
from saccade.inspection.signal_propagation import propagate
from saccade.plots.comparison import (
    comparison_figure,
    final_score_figure,
    layer_benchmark_figure,
)
from saccade.plots.confusion import confusion_figure, save_confusion_matrix
from saccade.plots.render import DRAW, figure_to_json, save_figure
from saccade.plots.style import LabelFont, write_figure
from tests.plots.overlaps import overlapping_texts

PLAIN = LabelFont(["DejaVu Sans"], [])
X = np.linspace(0.0, 1.0, 20)
LINE = figures.PlotLine("line", X, X**2)
MAP = AttentionMap(np.full((2, 3), 1 / 3), ["a", "b"], ["x", "y", "z"], "head 1")
HEAT = figures.HeatMap(np.array([[0.1, -0.5], [2.0, 0.0]]), ["a", "b"], ["x", "y"], "update gate")
RECORDS = [{"step": step, "loss": 1.0 / step, "norm": 0.5, "best": True} for step in (1, 2)]
UNITS = [[figures.GraphUnit("in", {"x": 1.0}, None)], [figures.GraphUnit("out", {"z": 1.0}, 0.1)]]
FIGURES: list[figures.Figure | EpisodeRecord] = [
    figures.AttentionGrid([MAP, MAP]),
    Attribution(["age", "job"], np.array([1.5, -0.2]), "yes", "occlusion", 1.0, cells=["31", "?"]),
    figures.HeatMapGrid([HEAT, HEAT._replace(rows=[], limits=(-1.0, 1.0))], "gates"),
    figures.LinePanels(
        [figures.LinePanel("f", [LINE], "x", "y", [("minimum", 0.0, 0.0)])], "lines"
    ),
    figures.Tree([figures.TreeNode(-1, "root"), figures.TreeNode(0, "a", "0.5", kept=False)], "t"),
    figures.TrainingCurves(RECORDS),
    figures.ConfusionMatrix(np.array([[5, 1], [0, 7]]), ["no rain", "rain\n"]),
    figures.ReliabilityDiagram(np.array([0.3, 0.9]), np.array([0.2, 1.0]), np.array([5, 9]), 1.5),
    figures.GradientNorms(np.geomspace(1, 1e-3, 10)[None], RECORDS, 1.0),
    figures.KernelFit(LINE, [LINE], 0.3, LINE, MAP),
    figures.ForecastCurves(
        LINE, {1: LINE}, LINE, figures.HorizonErrors(np.array([0.1]), np.array([np.nan]))
    ),
    figures.evaluate_margin(
        np.stack([X, X[::-1]], 1), np.arange(20) > 9, np.arange(20) == 9, lambda p: p[:, 0] - 0.5
    ),
    figures.OnlineLearningCurve({"model": np.ones(20)}, "accuracy", 5),
    figures.FeatureImportance(
        ["age", "a name"], np.array([[0.1, 0.2], [0.0, 0.0]]), "accuracy", 0.9, 50
    ),
    figures.ComputationGraph(UNITS, [np.ones((1, 1))], "title", 0.1),
    figures.DistributionShift([figures.ColumnPair("age", X, X + 1)], ("old", "new")),
    figures.DataOverview(
        "my reviews.csv",
        60,
        [figures.LengthDistribution("text", np.array([1, 80]), np.array([20, 40]), 80)],
        "label",
        {"good": 40, "bad $x$": 20},
        {"city": 0.25},
    ),
    figures.WordMap(["a", "b", "c"], np.eye(3)),
    figures.ZipfCurves({1: np.array([9, 4, 3, 1])}),
    figures.ActivationCurves([activation_curve("relu", X - 0.5)], gelu_approximations()),
    propagate(figures.StackConfig(layers=3, width=4)),
    figures.LearningRateSchedules(np.arange(1, 21), {"linear": X}),
    figures.ComparisonCurves({"gru": [np.stack([X, X], 1)]}, "loss"),
    figures.LayerBenchmark([figures.LayerPanel("ms", {"rnn": ([64, 128], [1.0, 2.0])})]),
    ImageMaps(
        np.full((4, 4, 3), 90, np.uint8),
        "cat",
        0.9,
        [ImageMap("Occlusion", np.eye(4) - 0.5, "drop", is_signed=True)],
        "photos/cat.jpg",
    ),
    ImageGrid([np.eye(3), np.zeros((2, 2, 1), np.uint8)], ["1", "cat 90%\nis dog"], "Mistakes"),
    EmbeddingMap(
        np.eye(2),
        (0.6, 0.4),
        np.array([0, -1]),
        ["cat"],
        ["1.png", "2.png"],
        np.array([1]),
        [np.zeros((2, 2, 1), np.uint8)],
    ),
    EpisodeRecord(
        "CliffWalking-v1",
        "q_learning",
        "value",
        ["up", "right"],
        np.array([[-3.0, -2.0], [-2.0, -1.0]]),
        np.array([1, 1]),
        np.array([-1.0, -1.0]),
        discount=1.0,
        is_cut_off=False,
        predicted=np.array([-2.0, -1.5]),
    ),
]


def test_render_table_covers_every_figure() -> None:
    drawn = {*get_args(figures.Figure), EpisodeRecord}
    assert set(DRAW) == drawn == {type(figure) for figure in FIGURES}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_save_figure_draws(figure: figures.Figure | EpisodeRecord, tmp_path: Path) -> None:
    assert save_figure(figure, tmp_path / "figure.png") in ([], ["∅ row 2: U+000A"])
    assert imread(tmp_path / "figure.png").std() > 0.01
    with pytest.raises(ValueError, match="a picture can be .png"):
        save_figure(figure, tmp_path / "figure.bmp")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_figure_to_json_is_strict_json(figure: figures.Figure | EpisodeRecord) -> None:
    value = json.loads(json.dumps(figure_to_json(figure), allow_nan=False))
    assert value["kind"] == type(figure).__name__


def test_figure_to_json_adds_derived_values() -> None:
    by_kind = {type(figure).__name__: figure_to_json(figure) for figure in FIGURES}
    assert by_kind["TrainingCurves"]["best_step"] == 2
    switched = figures.TrainingCurves([*RECORDS, {"step": 2, "optimizer": "sgd"}])
    assert figure_to_json(switched)["switches"] == {"2": "sgd"}
    assert len(by_kind["WordMap"]["coordinates"]) == 3 and "vectors" not in by_kind["WordMap"]
    assert "exponent" in by_kind["ZipfCurves"]["fits"]["1"]
    assert by_kind["ForecastCurves"]["growth"]["naive"] == [None]
    assert by_kind["AttentionGrid"]["maps"][0]["columns"] == ["x", "y", "z"]


def test_save_figure_refuses_other_types(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="got int; expected one of AttentionGrid"):
        save_figure(3, tmp_path / "figure.png")  # type: ignore[arg-type]


def test_confusion_matrix_shows_counts_shares_and_axes() -> None:
    two = figures.ConfusionMatrix(np.array([[5, 1], [0, 1200]]), ["no rain", "rain"])
    figure = confusion_figure(two, PLAIN)
    axes, bar = figure.axes
    cells = [text.get_text() for text in axes.texts]
    assert cells == ["5\n83%", "1\n17%", "0", "1,200\n100%"]
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in labels] == ["no rain", "rain"]
    title, across, down = (" ".join(text.get_text().split()) for text in figure.texts)
    assert title == "Confusion matrix: 1,205 of 1,206 correct (99.9%)"
    assert (across, down, bar.get_title()) == ("predicted", "true", "share")


@pytest.mark.parametrize("count", [2, 20, 40])
def test_confusion_matrix_texts_do_not_overlap(count: int) -> None:
    counts = np.random.default_rng(0).integers(0, 30_000, (count, count))
    matrix = figures.ConfusionMatrix(counts, [f"a class of a long name, {n}" for n in range(count)])
    figure = confusion_figure(matrix, PLAIN)
    assert overlapping_texts(figure) == []
    assert len(figure.axes[0].texts) == (count**2 if count <= 20 else 0)
    assert max(figure.get_size_inches()) < 17


def test_confusion_matrix_keeps_the_frequent_of_many_classes(tmp_path: Path) -> None:
    counts = np.diag(np.arange(50))
    counts[49, 0] = 49  # half of the last class is taken for one that is not drawn
    many = figures.ConfusionMatrix(counts, [f"class {n}" for n in range(50)])
    warnings = save_confusion_matrix(many, tmp_path / "many.png")
    assert warnings == ["The confusion matrix shows the 40 classes with most examples, of 50."]
    axes = confusion_figure(many, PLAIN).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == many.classes[10:]
    assert axes.images[0].get_array()[-1, -1] == 0.5  # a share of all examples of the class


def test_comparison_with_one_evaluation_per_model_shows_each_score(tmp_path: Path) -> None:
    curves = {"gru": [np.array([[1.0, 3.0]]), np.array([[1.0, 5.0]])], "lstm": [np.empty((0, 2))]}
    figure = final_score_figure(figures.ComparisonCurves(curves, "perplexity"))
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["gru", "lstm"]
    assert axes.lines[0].get_xdata().tolist() == [3.0, 5.0]
    assert [text.get_text() for text in axes.texts] == ["4"]
    write_figure(figure, tmp_path / "one.png", "png")


def test_comparison_has_one_legend_below_the_lines() -> None:
    curves = {name: [np.array([[1.0, 3.0], [2.0, 2.0]])] * 2 for name in ("gru", "lstm")}
    figure = comparison_figure(figures.ComparisonCurves(curves, "perplexity"))
    [legend], [axes] = figure.legends, figure.axes
    assert [text.get_text() for text in legend.get_texts()] == ["gru 2 (2–2)", "lstm 2 (2–2)"]
    assert axes.get_legend() is None and overlapping_texts(figure) == []


def test_layer_benchmark_has_a_readable_grid_and_one_legend() -> None:
    lines = {"recurrence": ([64, 128], [1.0, 2.0]), "attention": ([64, 128], [1.0, 2.0])}
    names = ("milliseconds", "megabytes", "sequential products", "longest path")
    figure = layer_benchmark_figure([figures.LayerPanel(name, lines) for name in names])
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(names)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(lines)
    assert all(axes.get_legend() is None for axes in figure.axes)
    for axes in figure.axes:  # the lines coincide: the upper one is thinner
        assert axes.lines[0].get_linewidth() > axes.lines[1].get_linewidth()
        assert axes.bbox.width > 300
    assert max(figure.get_size_inches()) <= 10 and overlapping_texts(figure) == []


@pytest.mark.parametrize(
    "module",
    [
        "saccade.inspection.figures",
        "saccade.inspection.attention_map",
        "saccade.inspection.attribution",
        "saccade.inspection.checks",
        "saccade.inspection.projection",
        "saccade.plots.attribution_text",
        "saccade.plots.figure_json",
    ],
)
def test_figure_data_imports_neither_torch_nor_matplotlib(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
