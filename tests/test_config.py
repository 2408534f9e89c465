import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from saccade.config import (
    Config,
    build_config,
    diff_settings,
    field_descriptions,
    flatten,
    override_setting,
    override_settings,
    read_toml,
    to_toml,
)
from saccade.errors import ConfigError
from saccade.training.config import TrainConfig
from saccade.training.estimator import FitConfig


class Network(Config):
    name: Literal["network"] = "network"
    width: int = Field(default=128, gt=0)
    heads: int = 4
    dropout: float = 0.1
    norm: Literal["pre", "post", "none"] = "pre"

    @model_validator(mode="after")
    def _heads_divide(self) -> "Network":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads.")
        return self


class Counter(Config):
    name: Literal["counter"] = "counter"
    order: int = 3


class Training(Config):
    steps: int | None = None
    seed: int = 1
    compile: bool = False
    label: str = "run"
    betas: tuple[float, float] = (0.9, 0.98)


class Whole(Config):
    model: Network | Counter = Field(default=Network(), discriminator="name")
    train: Training = Training()
    note: str | None = None


# --- building -------------------------------------------------------------------------------------


def test_config_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Network().width = 64  # type: ignore[misc]


def test_build_config_equals_the_constructor() -> None:
    values = {"model": {"name": "network", "width": 64}, "train": {"seed": 3}}
    assert build_config(Whole, values) == Whole(model=Network(width=64), train=Training(seed=3))


def test_build_config_refuses_an_unknown_setting_with_suggestions() -> None:
    expected = (
        r"^train has no setting 'sed'\. Did you mean 'seed'\? "
        r"It has: betas, compile, label, seed, steps\.$"
    )
    with pytest.raises(ConfigError, match=expected):
        build_config(Whole, {"train": {"sed": 1}})
    with pytest.raises(ConfigError, match=r"^there is no setting 'zzz'\. There are: betas"):
        build_config(Training, {"zzz": 1})


def test_build_config_refuses_an_unknown_setting_of_a_union_member() -> None:
    with pytest.raises(ConfigError, match=r"^model has no setting 'widht'.*'width'"):
        build_config(Whole, {"model": {"name": "network", "widht": 1}})


def test_build_config_names_a_missing_setting() -> None:
    class Needs(Config):
        vocab_size: int

    with pytest.raises(ConfigError, match=r"^vocab_size must be given\.$"):
        build_config(Needs, {})


def test_build_config_reports_all_complaints_with_the_file() -> None:
    values = {"train": {"sed": 1, "seed": "many"}, "model": {"name": "network", "width": 0}}
    with pytest.raises(ConfigError) as caught:
        build_config(Whole, values, origin="mine.toml")
    heading, *lines = str(caught.value).splitlines()
    assert heading == "mine.toml: these settings are invalid:"
    assert len(lines) == 3
    assert any("'sed'" in line for line in lines)
    assert any("train.seed is 'many'" in line for line in lines)
    assert any("model.width is 0" in line for line in lines)


def test_build_config_reports_the_message_of_a_validator() -> None:
    with pytest.raises(ConfigError, match=r"width 10 does not divide into 4 heads\.$"):
        build_config(Network, {"width": 10})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model": {"name": "netwrok"}},
            "model.name is 'netwrok': expected one of counter, network",
        ),
        ({"model": {"name": "netwrok"}}, "Did you mean 'network'"),
        ({"model": {"width": 8}}, "model.name is missing: expected one of counter, network"),
        ({"model": 3}, "model is 3: expected a table of settings"),
        (
            {"model": {"name": "network", "width": -3}},
            "model.width is -3: expected a value greater",
        ),
        ({"model": {"name": "network", "width": 10}}, "model: width 10 does not divide"),
        ({"model": {"name": "network", "norm": "prae"}}, "Did you mean 'pre'"),
        ({"train": {"betas": [0.9, "x"]}}, r"train.betas.1 is 'x': expected a number"),
        ({"train": {"compile": "perhaps"}}, "train.compile is 'perhaps': expected true or false"),
    ],
)
def test_build_config_reports_the_path_as_the_user_writes_it(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_config(Whole, values)


def test_build_config_joins_the_alternatives_of_a_field() -> None:
    class Either(Config):
        size: int | Literal["small", "large"] = 3

    with pytest.raises(ConfigError, match=r"^size is 'lage': expected an integer or 'small' or 'l"):
        build_config(Either, {"size": "lage"})


def test_config_descriptions_are_the_strings_under_the_fields() -> None:
    found = field_descriptions(TrainConfig)
    assert found.keys() == TrainConfig.model_fields.keys()
    assert [name for name, description in found.items() if not description] == []
    assert found["steps"].startswith("Number of optimizer steps; if not set,")
    assert found["seed"] != field_descriptions(FitConfig)["seed"], "the subclass has its own"


def test_with_values_validates() -> None:
    assert Network().with_values(width=64) == Network(width=64)
    with pytest.raises(ConfigError, match="does not divide"):
        Network().with_values(heads=5)
    with pytest.raises(ConfigError, match="Did you mean 'width'"):
        Network().with_values(widht=5)


# --- dotted paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "typed", "value"),
    [
        ("model.dropout", "0.1", 0.1),
        ("model.dropout", "1e-4", 1e-4),
        ("model.dropout", "0", 0.0),
        ("model.width", "64", 64),
        ("model.width", "1_024", 1024),
        ("model.norm", "post", "post"),
        ("model.norm", "none", "none"),  # a name here, not None
        ("train.steps", "none", None),
        ("train.steps", "auto", None),
        ("train.steps", "300", 300),
        ("train.compile", "true", True),
        ("train.compile", "True", True),
        ("train.compile", "false", False),
        ("train.betas", "[0.8, 0.9]", (0.8, 0.9)),
        ("train.label", "mine", "mine"),
        ("train.label", '"mine"', "mine"),
        ("train.label", "2024", "2024"),
        ("train.label", "2024-03-05", "2024-03-05"),
        ("train.label", "true", "true"),
        ("train.label", "1\ny = 2", "1\ny = 2"),
        ("train.label", "a = b # c", "a = b # c"),
        ("train.label", "", ""),
        ("note", "none", None),
        ("note", "5 мая", "5 мая"),
    ],
)
def test_override_setting_parses_text_to_the_type_of_the_field(
    path: str, typed: str, value: Any
) -> None:
    start = Whole(train=Training(steps=7), note="before")
    got = flatten(override_setting(start, path, typed))[path]
    assert got == value
    assert type(got) is type(value)


def test_override_setting_takes_values_that_are_not_text() -> None:
    assert override_setting(Whole(), "train.steps", 5).train.steps == 5
    assert override_setting(Whole(note="x"), "note", None).note is None


def test_override_setting_changes_one_setting_only() -> None:
    start = Whole(model=Counter(order=5), train=Training(steps=9), note="kept")
    changed = override_setting(start, "model.order", "4")
    assert diff_settings(start, changed) == ["model.order: 5 → 4"]
    assert start.model == Counter(order=5)


def test_override_settings_validates_after_all_changes() -> None:
    assert override_settings(Whole(), {"model.width": "30", "model.heads": "5"}).model == Network(
        width=30, heads=5
    )


@pytest.mark.parametrize("path", ["model.widht", "modle.width", "model.width.x", "model.", "", "."])
def test_override_setting_refuses_an_unknown_path(path: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting") as caught:
        override_setting(Whole(), path, "1")
    assert f"{path!r}" in str(caught.value)
    assert "There are: model.dropout, model.heads, model.name, model.norm" in str(caught.value)


class Options(Config):
    data: Training = Training()
    arguments: dict[str, bool | int | float | str] = {"depth": 2}
    counts: dict[str, int] = {}


def test_override_settings_sets_entries_of_a_table_by_name() -> None:
    """Their names are free; other entries stay, and so does the default of the class."""
    changes = {"arguments.wide": "false", "arguments.rate": "0.5", "arguments.map": "8x8"}
    found = override_settings(Options(), changes)
    assert found.arguments == {"depth": 2, "wide": False, "rate": 0.5, "map": "8x8"}
    assert override_setting(found, "arguments.depth", "3").arguments["depth"] == 3
    assert Options().arguments == {"depth": 2}
    for path in ("arguments.", "arguments.map.x", "argument.map"):
        with pytest.raises(ConfigError, match="there is no setting"):
            override_setting(Options(), path, "1")
    with pytest.raises(ConfigError, match=r"counts\.tall is 'x': expected an integer"):
        override_setting(Options(), "counts.tall", "x")


def test_override_setting_suggests_the_nearest_path() -> None:
    with pytest.raises(ConfigError, match=r"'modle\.width'\. Did you mean 'model\.width'\?"):
        override_setting(Whole(), "modle.width", "1")


def test_override_settings_reports_wrong_paths_and_values_together() -> None:
    with pytest.raises(ConfigError) as caught:
        override_settings(Whole(), {"model.widht": "1", "train.sed": "1", "train.seed": "many"})
    heading, *lines = str(caught.value).splitlines()
    assert heading == "these settings are invalid:"
    assert [("'model.widht'" in a, "'train.sed'" in a, "'many'" in a) for a in lines] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_override_setting_reports_an_invalid_value() -> None:
    with pytest.raises(ConfigError, match=r"train\.seed is 0\.5: .*integer"):
        override_setting(Whole(), "train.seed", "0.5")
    with pytest.raises(ConfigError, match=r"model\.norm is 'sideways': .*'pre'"):
        override_setting(Whole(), "model.norm", "sideways")


def test_flatten_lists_every_setting() -> None:
    assert flatten(Whole(model=Counter())) == {
        "model.name": "counter",
        "model.order": 3,
        "train.steps": None,
        "train.seed": 1,
        "train.compile": False,
        "train.label": "run",
        "train.betas": (0.9, 0.98),
        "note": None,
    }


def test_flatten_can_exclude_unset_settings() -> None:
    sized = Whole(model=Counter(), train=Training(steps=9))
    assert flatten(sized, exclude_unset=True) == {"model.name": "counter", "train.steps": 9}
    assert flatten(override_setting(sized, "train.seed", "1"), exclude_unset=True) == {
        "model.name": "counter",
        "train.steps": 9,
        "train.seed": 1,  # the default, but now set explicitly
    }


def test_with_values_keeps_other_settings_unset() -> None:
    changed = Training(seed=3).with_values(steps=5)
    assert changed.model_fields_set == {"seed", "steps"}


def test_override_setting_keeps_the_default_of_a_group() -> None:
    class Recipe(Config):
        model: Network | Counter = Field(default=Network(width=64), discriminator="name")

    assert override_setting(Recipe(), "model.heads", "8").model == Network(width=64, heads=8)


def test_diff_settings_lists_explicit_differences() -> None:
    old = Whole(model=Counter(order=5), train=Training(seed=2, steps=9))
    assert diff_settings(old, Whole(model=Counter())) == []  # nothing else is set
    assert diff_settings(old, Whole(model=Network(width=64), train=Training(seed=1), note="x")) == [
        "model.name: 'counter' → 'network'",
        "model.width: None → 64",
        "note: None → 'x'",
        "train.seed: 2 → 1",
    ]


# --- TOML -----------------------------------------------------------------------------------------

trainings = st.builds(
    Training,
    steps=st.none() | st.integers(-(2**63), 2**63 - 1),
    seed=st.integers(-(2**63), 2**63 - 1),
    compile=st.booleans(),
    label=st.text(),
    betas=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
)
wholes = st.builds(
    Whole,
    model=st.builds(Counter, order=st.integers(0, 9)) | st.just(Network(norm="none")),
    train=trainings,
    note=st.none() | st.text(),
)


@given(wholes)
def test_toml_round_trip(whole: Whole) -> None:
    assert build_config(Whole, tomllib.loads(to_toml(whole))) == whole


@given(wholes)
def test_toml_of_set_values_round_trip(whole: Whole) -> None:
    again = build_config(Whole, tomllib.loads(to_toml(whole, exclude_unset=True)))
    assert again == whole
    expected = {k: v for k, v in flatten(whole, exclude_unset=True).items() if v is not None}
    assert flatten(again, exclude_unset=True) == expected


def test_to_toml_writes_all_or_only_set_values() -> None:
    whole = Whole(train=Training(label="x"))
    text = to_toml(whole)
    assert "steps" not in text and "note" not in text and "seed = 1" in text
    assert tomllib.loads(to_toml(whole, exclude_unset=True)) == {"train": {"label": "x"}}


def test_read_toml_skips_a_utf8_bom(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'\xef\xbb\xbfnote = "x"\r\n')
    assert read_toml(path) == {"note": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"note = x\n", r"mine\.toml is not TOML: .*line 1"),
        (b"a = 1\na = 2\n", r"mine\.toml is not TOML: .*line 2"),
        (b'note = "caf\xe9"\n', r"mine\.toml is not UTF-8 text .*save it as UTF-8"),
        (None, r"There is no file .*mine\.toml"),
    ],
)
def test_read_toml_reports_the_line_that_cannot_be_parsed(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_toml(path)


def test_read_toml_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder; expected a \.toml file"):
        read_toml(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="could not be read: Not a directory"):
        read_toml(tmp_path / "file" / "mine.toml")


def test_text_that_is_not_utf8_is_refused() -> None:
    """A path with other bytes, as the command line passes it: no file of settings can have it."""
    with pytest.raises(ConfigError, match=r"name: got 'a\\udcff', which is not UTF-8"):
        build_config(Names, {"name": "a\udcff"})


class Names(Config):
    """One setting of text."""

    name: str = ""
