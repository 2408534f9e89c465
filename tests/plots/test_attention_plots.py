"""Pictures: every letter drawn or spelt, no warning, nothing left behind."""

import xml.etree.ElementTree as xml

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from saccade.errors import RunError
from saccade.plots import attention
from saccade.plots.attention import (
    LabelFont,
    attention_figure,
    draw_lines,
    metric_series,
    panel_columns,
    save_attention_maps,
    save_training_curves,
    score_names,
)
from saccade.plots.fonts import fonts_for
from saccade.plots.terminal import AttentionMap

DEJAVU = [entry for entry in font_manager.fontManager.ttflist if entry.name == "DejaVu Sans"]
PLAIN = LabelFont(["DejaVu Sans"], [])


def map_of(rows, columns, title="cross attention, layer 1, head 1"):
    weights = np.random.default_rng(0).dirichlet(np.full(len(columns), 0.3), size=len(rows))
    return AttentionMap(weights, list(rows), list(columns), title)


@pytest.mark.parametrize(
    "source",
    [
        "2024年3月5日",
        "الثلاثاء، ٥ مارس",
        "मंगलवार, 5 मार्च",
        "วันอังคารที่",
        "😀🚀🏽\u200d",
        "a\x00\u200f\ud800\ue000$x$ \n",
        ["$a_1$", "_hidden", "<pad>", "internationalisation", ""],
    ],
)
def test_any_letters_can_be_drawn_with_one_font(source, tmp_path):
    save_attention_maps([map_of("20", source)], tmp_path / "map.png", DEJAVU)
    assert imread(tmp_path / "map.png").std() > 0.01


def test_any_letters_can_be_drawn_with_the_fonts_at_hand(tmp_path):
    notes = save_attention_maps([map_of("2", "月मี😀ث")], tmp_path / "map.png")
    missing = fonts_for("月मี😀ث").missing
    assert bool(notes) == bool(missing)  # what is installed decides


def test_letters_no_font_has_are_spelt_and_said(tmp_path):
    notes = save_attention_maps([map_of("5", "5月\u200f")], tmp_path / "map.png", DEJAVU)
    assert notes == [
        "No installed font has 月; their code points are shown instead. "
        "Install one, for example fonts-noto-cjk.",
        "∅ column 3: U+200F right-to-left mark",
    ]
    panel = attention_figure([map_of("5", "5月")], LabelFont(["DejaVu Sans"], ["月"])).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["5", "U+6708"]
    assert [label.get_rotation() for label in panel.get_xticklabels()] == [0, 90]


def test_the_picture_holds_the_weights_and_the_names():
    map = map_of("ab", ["x", " ", "words"])._replace(across="source", down="target")
    panel, bar = attention_figure([map], PLAIN).axes
    np.testing.assert_array_equal(panel.images[0].get_array(), map.weights)
    assert panel.images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["x", "␣", "words"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b"]
    assert panel.yaxis_inverted()  # the first row on top
    assert (panel.get_title(), panel.get_xlabel(), panel.get_ylabel()) == (
        map.title,
        "source",
        "target",
    )
    assert bar.get_title() == "weight"


def test_faint_maps_share_a_scale_that_shows_them():
    faint = AttentionMap(np.full((2, 30), 1 / 30), ["a"] * 2, ["b"] * 30, "t")
    assert attention_figure([faint], PLAIN).axes[0].images[0].get_clim() == (0, 0.05)
    both = attention_figure([faint, map_of("a", "bc")], PLAIN)
    assert [axes.images[0].get_clim() for axes in both.axes[:2]] == [(0, 1), (0, 1)]


def test_many_heads_are_small_multiples():
    maps = [map_of("2024-03-05", "mardi 5 mars 2024", f"head {n}") for n in range(1, 9)]
    figure = attention_figure(maps, PLAIN)
    assert [axes.get_title() for axes in figure.axes[:8]] == [f"head {n}" for n in range(1, 9)]
    across = panel_columns(8, 5.0, 3.5)
    assert across == 4
    named = [bool(axes.get_ylabel()) for axes in figure.axes[:8]]
    assert named.count(True) < 8


def test_larger_maps_make_larger_pictures_within_reason():
    small, large, huge = (
        attention_figure([map_of("x" * n, "y" * n)], PLAIN).get_size_inches() for n in (10, 60, 150)
    )
    assert (small < large).all() and (large < huge).all()
    assert huge.max() < 20


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_ending_chooses_the_format(ending, start, tmp_path):
    path = tmp_path / "new" / "folder" / f"map.{ending}"
    save_attention_maps([map_of("a", "b")], path, DEJAVU)
    assert path.read_bytes().startswith(start)


def test_svg_is_whole_xml(tmp_path):
    save_attention_maps([map_of("a", "<&年")], tmp_path / "map.SVG", DEJAVU)
    assert xml.parse(tmp_path / "map.SVG").getroot().tag.endswith("svg")


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.bmp'; .* try .*map.png"):
        save_attention_maps([map_of("a", "b")], tmp_path / "map.bmp")
    with pytest.raises(ValueError, match="got no maps"):
        save_attention_maps([], tmp_path / "map.png")
    with pytest.raises(ValueError, match="give weights of shape"):
        save_attention_maps(
            [AttentionMap(np.ones((1, 1)), ["a"], ["b", "c"], "t")], tmp_path / "map.png"
        )
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="No space left"):
        save_attention_maps([map_of("a", "b")], path, DEJAVU)
    assert [file.name for file in tmp_path.iterdir()] == ["map.png"]
    assert path.read_bytes() == b"old"


def test_nothing_in_matplotlib_changes(tmp_path):
    before = dict(matplotlib.rcParams)
    save_attention_maps([map_of("a", "b")], tmp_path / "map.png", DEJAVU)
    save_training_curves([{"step": 1, "loss": 1.0}], tmp_path / "curves.png")
    assert dict(matplotlib.rcParams) == before


# --- curves -------------------------------------------------------------------------------------

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


def test_scores_are_told_from_other_figures():
    assert score_names(RECORDS) == ["exact", "bleu", "taught_bleu"]


def test_the_later_report_of_a_step_counts():
    records = [*RECORDS, {"step": 20, "loss": 0.3}, {"step": 30, "loss": float("nan")}]
    np.testing.assert_array_equal(metric_series(records, "loss"), [[10, 3.0], [20, 0.3]])
    assert metric_series(records, "absent").shape == (0, 2)


def test_scores_are_drawn_out_of_a_hundred():
    axes = attention.Figure().subplots()
    draw_lines(axes, {n: metric_series(RECORDS, n) for n in score_names(RECORDS)}, "score, of 100")
    assert [line.get_ydata()[-1] for line in axes.lines] == [50, 0.4, 75]
    assert [line.get_label() for line in axes.lines] == ["exact 50", "bleu 0.4", "taught bleu 75"]


def test_a_loss_over_decades_is_drawn_on_a_log_scale():
    steep, flat = attention.Figure().subplots(1, 2)
    draw_lines(steep, {"training": metric_series(RECORDS, "loss")}, "loss")
    draw_lines(flat, {"held out": metric_series(RECORDS, "dev_loss")}, "loss")
    assert (steep.get_yscale(), flat.get_yscale()) == ("log", "linear")


@pytest.mark.parametrize("count", [1, 3])
def test_curves_can_be_drawn_from_few_records(count, tmp_path):
    assert save_training_curves(RECORDS[:count], tmp_path / "curves.png") == []
    assert imread(tmp_path / "curves.png").std() > 0.01


def test_figures_that_are_not_finite_are_left_out_and_said(tmp_path):
    records = [*RECORDS, {"step": 30, "loss": float("inf")}]
    notes = save_training_curves(records, tmp_path / "curves.png")
    assert notes == ["Figures that are not finite were left out: 1."]


def test_no_records_are_refused(tmp_path):
    with pytest.raises(ValueError, match="got 1 records and none .* train a little first"):
        save_training_curves([{"loss": 1.0}], tmp_path / "curves.png")
