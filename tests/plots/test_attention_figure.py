"""Attention figures: any characters, no warnings, no partial files."""

import xml.etree.ElementTree as xml

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from saccade.errors import RunError
from saccade.inspection.attention_map import (
    AttentionMap,
    attention_title,
    crop_map,
    map_limit,
)
from saccade.plots.attention import (
    PAGE_INCHES,
    attention_figure,
    grid_layout,
    panel_columns,
    readable_maps,
    save_attention_maps,
    split_titles,
    token_label,
)
from saccade.plots.curves import save_training_curves
from saccade.plots.fonts import fonts_for
from saccade.plots.style import LabelFont
from tests.plots.overlaps import overlapping_texts

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
    figure = attention_figure([map], PLAIN, "bahdanau: x words → ab")
    panel, bar = figure.axes
    np.testing.assert_array_equal(panel.images[0].get_array(), map.weights)
    assert panel.images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["x", "␣", "words"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b"]
    assert panel.yaxis_inverted()  # the first row on top
    assert bar.get_title() == "weight"
    heading, across, down = (text.get_text().replace("\n", " ") for text in figure.texts)
    assert heading == f"bahdanau: x words → ab, {map.title}"
    assert (across, down) == ("source", "target")


def test_attention_figure_scale_fits_the_largest_weight():
    faint = AttentionMap(np.full((2, 30), 1 / 30), ["a"] * 2, ["b"] * 30, "t")
    assert attention_figure([faint], PLAIN).axes[0].images[0].get_clim() == (0, 0.05)
    both = attention_figure([faint, map_of("a", "bc")], PLAIN)
    images = [axes.images[0] for axes in both.axes if axes.images]
    assert [image.get_clim() for image in images] == [(0, 1), (0, 1)]


def panel_titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes if axes.images]


def test_attention_figure_draws_heads_on_a_grid():
    titles = [f"cross attention, layer {1 + n // 4}, head {1 + n % 4}" for n in range(8)]
    figure = attention_figure([map_of("2024-03-05", "mardi 5 mars", t) for t in titles], PLAIN)
    assert panel_titles(figure) == [title.removeprefix("cross attention, ") for title in titles]
    assert figure.texts[0].get_text() == "cross attention"  # what they have in common
    assert panel_columns(8, 3.0, 2.1) == 4 and panel_columns(8, 5.0, 3.5) == 3
    assert [text.get_text() for text in figure.texts[1:]] == ["source (keys)", "target (queries)"]


@pytest.mark.parametrize(
    ("count", "tokens"), [(1, 1), (1, 40), (2, 2), (4, 1), (6, 12), (16, 30), (20, 3)]
)
def test_attention_figure_texts_do_not_overlap(count, tokens):
    titles = [f"cross attention, layer {1 + n // 8}, head {1 + n % 8}" for n in range(count)]
    words = ["I", "am", "internationalisation", "."] * 10
    maps = [map_of(words[:tokens], ["Je", *words][:tokens], title) for title in titles]
    figure = attention_figure(readable_maps(maps), PLAIN, "transformer: a long sentence → " * 9)
    assert overlapping_texts(figure) == []
    assert max(figure.get_size_inches()) <= PAGE_INCHES + 1


def test_attention_figure_keeps_short_tokens_upright():
    panel = attention_figure([map_of(["I"], ["I", "am", "here"])], PLAIN).axes[0]
    labels = {label.get_text(): label.get_rotation() for label in panel.get_xticklabels()}
    assert labels == {"I": 0, "am": 0, "here": 90}


def test_attention_title_has_model_input_and_answer():
    assert attention_title("gru", "a\n b", "c") == "gru: a b → c"
    assert attention_title("gru", "x" * 200, "c") == f"gru: {'x' * 89}… → c"
    arabic = attention_title("gru", "مارس 5", "2024-03-05")  # isolated: the date keeps its order
    assert arabic == "gru: \u2068مارس 5\u2069 → 2024-03-05"


def test_colour_scale_ignores_rows_of_few_keys():
    weights = np.tril(np.ones((8, 8)))
    weights /= weights.sum(1, keepdims=True)
    causal = AttentionMap(weights, list("abcdefgh"), list("abcdefgh"), "t")
    assert map_limit(causal) == 0.3  # of the rows with four keys or more
    bar = attention_figure([causal], PLAIN).axes[1]
    assert bar._colorbar.extend == "max"
    assert map_limit(map_of("ab", "xy")) == 1.0
    even = AttentionMap(np.full((2, 5), 0.2), ["a"] * 2, ["b"] * 5, "t")
    assert attention_figure([even], PLAIN).axes[1]._colorbar.extend == "neither"


def test_split_titles_moves_the_shared_parts_to_the_heading():
    heads = ["cross attention, layer 1, head 1", "cross attention, layer 1, head 2"]
    assert split_titles(heads) == ("cross attention, layer 1", ["head 1", "head 2"])
    assert split_titles(heads[:1]) == (heads[0], [""])
    assert split_titles(["head 1", "head 10"]) == ("", ["head 1", "head 10"])


def test_long_maps_are_cropped_and_the_rest_is_stated():
    tokens = [f"t{n}" for n in range(119)]
    maps = [map_of(tokens, tokens, f"head {n}")._replace(anchor="last") for n in range(8)]
    [shown, *_] = readable_maps(maps)
    assert shown.rows[-1] == shown.columns[-1] == "t118" and len(shown.rows) == 36
    assert shown.down == "target (queries), last 36 of 119"
    assert shown.across == "source (keys), last 35 of 119 (grey: the others)"
    assert shown.columns[0] == "…+84"
    np.testing.assert_allclose(shown.weights.sum(1), 1)
    np.testing.assert_array_equal(shown.own_weights, maps[0].weights[-36:, 84:])
    np.testing.assert_allclose(shown.weights[:, 0], maps[0].weights[-36:, :84].sum(1))
    first = crop_map(map_of(tokens, tokens), 10, 5)
    assert first.columns == ["t0", "t1", "t2", "t3", "…+115"] and first.rows == tokens[:10]
    small = map_of("ab", "cd")
    assert crop_map(small, 2, 2)[1:] == small[1:]


def test_many_maps_are_an_overview_of_bounded_size(tmp_path, monkeypatch):
    titles = [f"self-attention, layer {1 + n // 12}, head {1 + n % 12}" for n in range(156)]
    maps = [map_of("xyz", "abc", title) for title in titles]
    layout = grid_layout(maps[:144], split_titles(titles[:144])[1], PLAIN, None, token_label)
    assert (layout.across, layout.down, layout.label_size) == (12, 12, 0)  # a layer in each row
    assert max(layout.grid) <= PAGE_INCHES + 1
    monkeypatch.setattr("saccade.plots.attention.MAX_OVERVIEW_MAPS", 24)
    warnings = save_attention_maps(maps, tmp_path / "all.png", DEJAVU)
    assert warnings == [
        "The picture shows the first 24 of 156 maps; select a layer or a head for others."
    ]
    figure = attention_figure(readable_maps(maps), PLAIN)
    assert panel_titles(figure) == [title.removeprefix("self-attention, ") for title in titles[:24]]


def test_attention_figure_size_is_bounded():
    small, large = (
        attention_figure(readable_maps([map_of("x" * n, "y" * n)]), PLAIN).get_size_inches()
        for n in (10, 60)
    )
    assert (small < large).all()
    for count in (1, 4):
        maps = readable_maps([map_of("x" * 150, "y" * 150)] * count)
        assert attention_figure(maps, PLAIN).get_size_inches().max() <= PAGE_INCHES + 1


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_attention_figure_format_follows_the_suffix(ending, start, tmp_path):
    path = tmp_path / "new" / f"map.{ending}"
    save_attention_maps([map_of("a", "b")], path, DEJAVU)
    assert path.read_bytes().startswith(start)


def test_attention_figure_svg_is_valid_xml(tmp_path):
    save_attention_maps([map_of("a", "<&年")], tmp_path / "map.SVG", DEJAVU)
    assert xml.parse(tmp_path / "map.SVG").getroot().tag.endswith("svg")


def test_attention_figure_refuses_invalid_input(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*far; create it first"):
        save_attention_maps([map_of("a", "b")], tmp_path / "far" / "away" / "map.png", DEJAVU)
    assert not (tmp_path / "far").exists()
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
