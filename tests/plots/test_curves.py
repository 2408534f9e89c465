"""Training curves: which metrics are drawn, and how."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from saccade.inspection.figures import TrainingCurves
from saccade.plots.curves import (
    SCORE_LABEL,
    curves_figure,
    draw_lines,
    metric_series,
    save_training_curves,
    score_names,
)

RECORDS = [
    {"step": 10, "loss": 3.0, "rate": 900.0, "learning_rate": 1e-3},
    {"step": 20, "loss": 0.1, "rate": 910.0, "learning_rate": 2e-3},
    {
        "step": 20,
        "dev_loss": 0.2,
        "exact": 0.5,
        "bleu": 0.4,
        "taught_bleu": 0.75,
        "perplexity": 1.0,
        "note": "best",
        "stopped": True,
    },
]


def test_score_names_excludes_other_metrics():
    assert score_names(RECORDS) == ["exact", "bleu", "taught_bleu"]


def test_metric_series_prefers_the_later_record_of_a_step():
    records = [*RECORDS, {"step": 20, "loss": 0.3}, {"step": 30, "loss": float("nan")}]
    np.testing.assert_array_equal(metric_series(records, "loss"), [[10, 3.0], [20, 0.3]])
    assert metric_series(records, "absent").shape == (0, 2)


def test_draw_lines_scales_scores_to_100():
    axes = Figure().subplots()
    draw_lines(axes, {n: metric_series(RECORDS, n) for n in score_names(RECORDS)}, SCORE_LABEL)
    assert [line.get_ydata()[-1] for line in axes.lines] == [50, 0.4, 75]
    assert [line.get_label() for line in axes.lines] == ["exact 50", "bleu 0.4", "d2l bleu 75"]


def test_draw_lines_uses_a_log_scale_for_a_steep_loss():
    steep, flat = Figure().subplots(1, 2)
    draw_lines(steep, {"training": metric_series(RECORDS, "loss")}, "loss")
    draw_lines(flat, {"held out": metric_series(RECORDS, "dev_loss")}, "loss")
    assert (steep.get_yscale(), flat.get_yscale()) == ("log", "linear")


@pytest.mark.parametrize("count", [1, 3])
def test_training_curves_draw_one_or_three_records(count, tmp_path):
    assert save_training_curves(RECORDS[:count], tmp_path / "curves.png") == []
    assert imread(tmp_path / "curves.png").std() > 0.01


def test_training_curves_warn_of_values_that_are_not_finite(tmp_path):
    records = [*RECORDS, {"step": 30, "loss": float("inf")}]
    warnings = save_training_curves(records, tmp_path / "curves.png")
    assert warnings == ["Values that are not finite were left out: 1."]


def test_training_curves_refuse_records_without_steps(tmp_path):
    with pytest.raises(ValueError, match="got 1 records, none with .* train for some steps first"):
        save_training_curves([{"loss": 1.0}], tmp_path / "curves.png")


def test_training_curves_show_the_step_whose_weights_were_kept():
    evaluations = [
        {"step": step, "dev_loss": loss, "best": best}
        for step, loss, best in [(10, 2.0, True), (20, 1.0, True), (30, 1.5, False)]
    ]
    curves = TrainingCurves(evaluations)
    assert curves.best_step == 20
    [panel] = curves_figure(curves).axes
    kept = panel.lines[0]
    assert kept.get_label() == "kept weights: step 20" and set(kept.get_xdata()) == {20}
    assert TrainingCurves(RECORDS).best_step is None


def test_training_curves_show_the_switch_of_the_optimizer():
    switch = {"step": 16, "optimizer": "sgd", "learning_rate": 0.5}
    figure = curves_figure(TrainingCurves([*RECORDS, switch]))
    for panel in figure.axes:
        [line] = [line for line in panel.lines if set(line.get_xdata()) == {16}]
        assert line.get_linestyle() == ":"
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "sgd from step 16" in labels


def test_curves_that_coincide_stay_visible():
    records = [
        {"step": step, "dev_exact": 1.0, "dev_bleu": 100.0, "dev_chrf": 100.0, "dev_d2l_bleu": 1.0}
        for step in (1, 2)
    ]
    [panel] = curves_figure(TrainingCurves(records)).axes
    widths = [line.get_linewidth() for line in panel.lines]
    assert all(line.get_ydata().tolist() == [100, 100] for line in panel.lines)
    assert len(widths) == 4 and widths == sorted(set(widths), reverse=True)  # thinner on top
    assert len({line.get_color() for line in panel.lines}) == 4
