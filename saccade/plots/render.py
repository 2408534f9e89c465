"""Drawing of any figure of `saccade.inspection.figures` into a file, by its type."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from saccade.inspection import figures
from saccade.inspection.attribution import Attribution
from saccade.inspection.figures import Figure
from saccade.plots.activations import save_activation_curves
from saccade.plots.attention import save_attention_maps
from saccade.plots.attribution import save_attribution
from saccade.plots.comparison import save_comparison_curves, save_layer_benchmark
from saccade.plots.computation_graph import save_computation_graph
from saccade.plots.confusion import save_confusion_matrix
from saccade.plots.curves import save_training_curves
from saccade.plots.data_overview import save_data_overview
from saccade.plots.figure_json import figure_to_json as figure_to_json
from saccade.plots.fits import save_forecast_curves, save_kernel_fit
from saccade.plots.gradients import save_gradient_figure
from saccade.plots.margin import save_svm_margin
from saccade.plots.online import save_online_curve
from saccade.plots.schedules import save_schedule_figure
from saccade.plots.shift import save_distribution_shift
from saccade.plots.signal_propagation import save_signal_propagation
from saccade.plots.word_map import save_word_figure
from saccade.plots.zipf import save_zipf_curves

# each draws a figure into a file and returns warnings for the user
DRAW: dict[type, Callable[[Any, Path], list[str]]] = {
    figures.AttentionGrid: save_attention_maps,
    Attribution: save_attribution,
    figures.TrainingCurves: save_training_curves,
    figures.ConfusionMatrix: save_confusion_matrix,
    figures.GradientNorms: save_gradient_figure,
    figures.KernelFit: save_kernel_fit,
    figures.ForecastCurves: save_forecast_curves,
    figures.SVMMargin: save_svm_margin,
    figures.OnlineLearningCurve: save_online_curve,
    figures.ComputationGraph: save_computation_graph,
    figures.DistributionShift: save_distribution_shift,
    figures.DataOverview: save_data_overview,
    figures.WordMap: save_word_figure,
    figures.ZipfCurves: save_zipf_curves,
    figures.ActivationCurves: save_activation_curves,
    figures.SignalPropagation: save_signal_propagation,
    figures.LearningRateSchedules: save_schedule_figure,
    figures.ComparisonCurves: save_comparison_curves,
    figures.LayerBenchmark: save_layer_benchmark,
}


def save_figure(figure: Figure, path: str | Path) -> list[str]:
    """Draw a figure as PNG, SVG or PDF by the suffix of `path`.

    Returns warnings for the user, such as characters that no installed font has. Raises
    `ValueError` if the suffix is not supported or the figure has no data.
    """
    if type(figure) not in DRAW:
        expected = ", ".join(kind.__name__ for kind in DRAW)
        raise TypeError(f"got {type(figure).__name__}; expected one of {expected}.")
    return DRAW[type(figure)](figure, Path(path))
