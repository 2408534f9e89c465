"""Attention figures: any characters, no warnings, no partial files."""

import xml.etree.ElementTree as xml

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from saccade.errors import RunError
from saccade.inspection.attention_map import AttentionMap
from saccade.plots.attention import attention_figure, panel_columns, save_attention_maps, wrap_title
from saccade.plots.curves import save_training_curves
from saccade.plots.fonts import fonts_for
from saccade.plots.style import LabelFont

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
def test_attention_figure_draws_any_characters_with_one_font(source, tmp_path):
    save_attention_maps([map_of("20", source)], tmp_path / "map.png", DEJAVU)
    assert imread(tmp_path / "map.png").std() > 0.01


def test_attention_figure_draws_any_characters_with_installed_fonts(tmp_path):
    warnings = save_attention_maps([map_of("2", "月मี😀ث")], tmp_path / "map.png")
    missing = fonts_for("月मี😀ث").missing
    assert bool(warnings) == bool(missing)  # depends on the installed fonts


def test_attention_figure_warns_of_characters_without_font(tmp_path):
    warnings = save_attention_maps([map_of("5", "5月\u200f")], tmp_path / "map.png", DEJAVU)
    assert warnings == [
        "No installed font has 月; their code points are shown instead. "
        "Install one, for example fonts-noto-cjk.",
        "∅ column 3: U+200F right-to-left mark",
    ]
    panel = attention_figure([map_of("5", "5月")], LabelFont(["DejaVu Sans"], ["月"])).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["5", "U+6708"]
    assert [label.get_rotation() for label in panel.get_xticklabels()] == [0, 90]


def test_attention_figure_has_weights_tokens_and_labels():
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


def test_attention_figure_scale_fits_the_largest_weight():
    faint = AttentionMap(np.full((2, 30), 1 / 30), ["a"] * 2, ["b"] * 30, "t")
    assert attention_figure([faint], PLAIN).axes[0].images[0].get_clim() == (0, 0.05)
    both = attention_figure([faint, map_of("a", "bc")], PLAIN)
    assert [axes.images[0].get_clim() for axes in both.axes[:2]] == [(0, 1), (0, 1)]


def test_attention_figure_draws_heads_on_a_grid():
    maps = [map_of("2024-03-05", "mardi 5 mars 2024", f"head {n}") for n in range(1, 9)]
    figure = attention_figure(maps, PLAIN)
    assert [axes.get_title() for axes in figure.axes[:8]] == [f"head {n}" for n in range(1, 9)]
    across = panel_columns(8, 5.0, 3.5)
    assert across == 4
    labelled = [bool(axes.get_ylabel()) for axes in figure.axes[:8]]
    assert labelled.count(True) < 8


@pytest.mark.parametrize("tokens", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_attention_figure_titles_do_not_overlap(tokens, count):
    titles = [f"cross attention, layer 1, head {n}" for n in range(1, count + 1)]
    figure = attention_figure([map_of("x" * tokens, "y" * tokens, t) for t in titles], PLAIN)
    figure.canvas.draw()
    boxes = [axes.title.get_window_extent() for axes in figure.axes[:count]]
    boxes.append(figure.axes[-1].get_window_extent())  # colour bar
    assert not [
        (a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :] if a.overlaps(b) and a is not b
    ]


def test_wrap_title_breaks_after_commas():
    narrow, wide = map_of("ab", "xyz"), map_of("ab", "x" * 40)
    assert wrap_title(narrow, 0.22) == "cross attention,\nlayer 1, head 1"
    assert wrap_title(wide, 0.22) == "cross attention, layer 1, head 1"


def test_attention_figure_size_grows_with_the_map():
    small, large, huge = (
        attention_figure([map_of("x" * n, "y" * n)], PLAIN).get_size_inches() for n in (10, 60, 150)
    )
    assert (small < large).all() and (large < huge).all()
    assert huge.max() < 20


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_attention_figure_format_follows_the_suffix(ending, start, tmp_path):
    path = tmp_path / "new" / "folder" / f"map.{ending}"
    save_attention_maps([map_of("a", "b")], path, DEJAVU)
    assert path.read_bytes().startswith(start)


def test_attention_figure_svg_is_valid_xml(tmp_path):
    save_attention_maps([map_of("a", "<&年")], tmp_path / "map.SVG", DEJAVU)
    assert xml.parse(tmp_path / "map.SVG").getroot().tag.endswith("svg")


def test_attention_figure_refuses_invalid_input(tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.bmp'; .* try .*map.png"):
        save_attention_maps([map_of("a", "b")], tmp_path / "map.bmp")
    with pytest.raises(ValueError, match="got no maps"):
        save_attention_maps([], tmp_path / "map.png")
    with pytest.raises(ValueError, match="give weights of shape"):
        save_attention_maps(
            [AttentionMap(np.ones((1, 1)), ["a"], ["b", "c"], "t")], tmp_path / "map.png"
        )
    assert not list(tmp_path.iterdir())


def test_attention_figure_keeps_the_old_file_on_a_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="No space left"):
        save_attention_maps([map_of("a", "b")], path, DEJAVU)
    assert [file.name for file in tmp_path.iterdir()] == ["map.png"]
    assert path.read_bytes() == b"old"


def test_figures_leave_rcparams_unchanged(tmp_path):
    before = dict(matplotlib.rcParams)
    save_attention_maps([map_of("a", "b")], tmp_path / "map.png", DEJAVU)
    save_training_curves([{"step": 1, "loss": 1.0}], tmp_path / "curves.png")
    assert dict(matplotlib.rcParams) == before
