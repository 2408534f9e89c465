"""Drawing of any figure of `saccade.inspection.figures` into a file, by its type."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from saccade.inspection import figures, image_figures
from saccade.inspection.attribution import Attribution
from saccade.inspection.episode import EpisodeRecord
from saccade.inspection.figures import Figure
from saccade.plots.figure_json import figure_to_json as figure_to_json
from saccade.registry import import_when_called

# each draws a figure into a file and returns warnings for the user; matplotlib is imported then
DRAW: dict[type, Callable[[Any, Path], list[str]]] = {
    figures.AttentionGrid: import_when_called("saccade.plots.attention:save_attention_maps"),
    Attribution: import_when_called("saccade.plots.attribution:save_attribution"),
    figures.HeatMapGrid: import_when_called("saccade.plots.heat_map:save_heat_maps"),
    figures.LinePanels: import_when_called("saccade.plots.lines:save_line_panels"),
    EpisodeRecord: import_when_called("saccade.plots.episode:save_episode"),
    figures.Tree: import_when_called("saccade.plots.tree:save_tree"),
    figures.TrainingCurves: import_when_called("saccade.plots.curves:save_training_curves"),
    figures.ConfusionMatrix: import_when_called("saccade.plots.confusion:save_confusion_matrix"),
    figures.ReliabilityDiagram: import_when_called("saccade.plots.reliability:save_reliability"),
    figures.GradientNorms: import_when_called("saccade.plots.gradients:save_gradient_figure"),
    figures.KernelFit: import_when_called("saccade.plots.fits:save_kernel_fit"),
    figures.ForecastCurves: import_when_called("saccade.plots.fits:save_forecast_curves"),
    figures.SVMMargin: import_when_called("saccade.plots.margin:save_svm_margin"),
    figures.OnlineLearningCurve: import_when_called("saccade.plots.online:save_online_curve"),
    figures.FeatureImportance: import_when_called("saccade.plots.importance:save_importance"),
    figures.ComputationGraph: import_when_called(
        "saccade.plots.computation_graph:save_computation_graph"
    ),
    figures.DistributionShift: import_when_called("saccade.plots.shift:save_distribution_shift"),
    figures.DataOverview: import_when_called("saccade.plots.data_overview:save_data_overview"),
    figures.WordMap: import_when_called("saccade.plots.word_map:save_word_figure"),
    figures.ZipfCurves: import_when_called("saccade.plots.zipf:save_zipf_curves"),
    figures.ActivationCurves: import_when_called(
        "saccade.plots.activations:save_activation_curves"
    ),
    figures.SignalPropagation: import_when_called(
        "saccade.plots.signal_propagation:save_signal_propagation"
    ),
    figures.LearningRateSchedules: import_when_called(
        "saccade.plots.schedules:save_schedule_figure"
    ),
    figures.ComparisonCurves: import_when_called("saccade.plots.comparison:save_comparison_curves"),
    image_figures.ImageMaps: import_when_called("saccade.plots.images:save_image_maps"),
    image_figures.ImageGrid: import_when_called("saccade.plots.images:save_image_grid"),
    image_figures.EmbeddingMap: import_when_called("saccade.plots.embedding:save_embedding_map"),
    figures.LayerBenchmark: import_when_called("saccade.plots.comparison:save_layer_benchmark"),
}


def save_figure(figure: Figure | EpisodeRecord, path: str | Path) -> list[str]:
    """Draw a figure as PNG, SVG or PDF by the suffix of `path`.

    Returns warnings for the user, such as characters that no installed font has. Raises
    `ValueError` if the suffix is not supported or the figure has no data.
    """
    if type(figure) not in DRAW:
        expected = ", ".join(kind.__name__ for kind in DRAW)
        raise TypeError(f"got {type(figure).__name__}; expected one of {expected}.")
    return DRAW[type(figure)](figure, Path(path))
