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
    flatten,
    override_setting,
    override_settings,
    read_toml,
    to_toml,
)
from saccade.errors import ConfigError


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


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Network().width = 64  # type: ignore[misc]


def test_settings_made_from_plain_values_are_those_made_by_hand() -> None:
    values = {"model": {"name": "network", "width": 64}, "train": {"seed": 3}}
    assert build_config(Whole, values) == Whole(model=Network(width=64), train=Training(seed=3))


def test_an_unknown_setting_is_refused_with_the_near_one_and_all_there_are() -> None:
    wanted = (
        r"^train has no setting 'sed'\. Did you mean 'seed'\? "
        r"It has: betas, compile, label, seed, steps\.$"
    )
    with pytest.raises(ConfigError, match=wanted):
        build_config(Whole, {"train": {"sed": 1}})
    with pytest.raises(ConfigError, match=r"^Training has no setting 'zzz'\. It has: betas"):
        build_config(Training, {"zzz": 1})


def test_an_unknown_setting_in_one_of_several_models_is_found_too() -> None:
    with pytest.raises(ConfigError, match=r"model\.network has no setting 'widht'.*'width'"):
        build_config(Whole, {"model": {"name": "network", "widht": 1}})


def test_a_missing_setting_is_named() -> None:
    class Needs(Config):
        vocab_size: int

    with pytest.raises(ConfigError, match=r"^vocab_size must be given\.$"):
        build_config(Needs, {})


def test_all_complaints_come_at_once_with_the_file() -> None:
    values = {"train": {"sed": 1, "seed": "many"}, "model": {"name": "network", "width": 0}}
    with pytest.raises(ConfigError) as caught:
        build_config(Whole, values, origin="mine.toml")
    heading, *lines = str(caught.value).splitlines()
    assert heading == "mine.toml: these settings do not fit:"
    assert len(lines) == 3
    assert any("'sed'" in line for line in lines)
    assert any("train.seed is 'many'" in line for line in lines)
    assert any("model.network.width is 0" in line for line in lines)


def test_a_rule_of_the_settings_own_is_told_in_its_words() -> None:
    with pytest.raises(ConfigError, match=r"width 10 does not divide into 4 heads\.$"):
        build_config(Network, {"width": 10})


def test_a_changed_copy_is_checked_like_a_new_one() -> None:
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
        ("model.norm", "none", "none"),  # a name of its own here, not an open setting
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
def test_typed_text_is_read_as_what_the_field_holds(path: str, typed: str, value: Any) -> None:
    start = Whole(train=Training(steps=7), note="before")
    got = flatten(override_setting(start, path, typed))[path]
    assert got == value
    assert type(got) is type(value)


def test_values_that_are_no_text_are_taken_as_they_are() -> None:
    assert override_setting(Whole(), "train.steps", 5).train.steps == 5
    assert override_setting(Whole(note="x"), "note", None).note is None


def test_setting_one_thing_changes_nothing_else() -> None:
    start = Whole(model=Counter(order=5), train=Training(steps=9), note="kept")
    changed = override_setting(start, "model.order", "4")
    assert diff_settings(start, changed) == ["model.order: 5 → 4"]
    assert start.model == Counter(order=5)


def test_settings_that_depend_on_each_other_are_set_together() -> None:
    assert override_settings(Whole(), {"model.width": "30", "model.heads": "5"}).model == Network(
        width=30, heads=5
    )


@pytest.mark.parametrize("path", ["model.widht", "modle.width", "model.width.x", "model.", "", "."])
def test_a_path_that_does_not_exist_cannot_be_set(path: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting") as caught:
        override_setting(Whole(), path, "1")
    assert f"{path!r}" in str(caught.value)
    assert "There are: model.dropout, model.heads, model.name, model.norm" in str(caught.value)


def test_a_near_path_is_offered() -> None:
    with pytest.raises(ConfigError, match=r"'modle\.width'\. Did you mean 'model\.width'\?"):
        override_setting(Whole(), "modle.width", "1")


def test_wrong_paths_and_wrong_values_are_told_together() -> None:
    with pytest.raises(ConfigError) as caught:
        override_settings(Whole(), {"model.widht": "1", "train.sed": "1", "train.seed": "many"})
    heading, *lines = str(caught.value).splitlines()
    assert heading == "these settings do not fit:"
    assert [("'model.widht'" in a, "'train.sed'" in a, "'many'" in a) for a in lines] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_a_value_that_does_not_fit_is_told_as_it_was_read() -> None:
    with pytest.raises(ConfigError, match=r"train\.seed is 0\.5: .*integer"):
        override_setting(Whole(), "train.seed", "0.5")
    with pytest.raises(ConfigError, match=r"model\.network\.norm is 'sideways': .*'pre'"):
        override_setting(Whole(), "model.norm", "sideways")


def test_flatten_names_every_setting_open_ones_too() -> None:
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


def test_what_nobody_set_is_open() -> None:
    sized = Whole(model=Counter(), train=Training(steps=9))
    assert flatten(sized, exclude_unset=True) == {"model.name": "counter", "train.steps": 9}
    assert flatten(override_setting(sized, "train.seed", "1"), exclude_unset=True) == {
        "model.name": "counter",
        "train.steps": 9,
        "train.seed": 1,  # the default, but now somebody's choice
    }


def test_what_is_open_stays_open_when_something_else_is_set() -> None:
    changed = Training(seed=3).with_values(steps=5)
    assert changed.model_fields_set == {"seed", "steps"}


def test_a_group_left_at_its_default_keeps_what_the_default_says() -> None:
    class Recipe(Config):
        model: Network | Counter = Field(default=Network(width=64), discriminator="name")

    assert override_setting(Recipe(), "model.heads", "8").model == Network(width=64, heads=8)


def test_differences_are_what_the_new_one_asks_for() -> None:
    old = Whole(model=Counter(order=5), train=Training(seed=2, steps=9))
    assert diff_settings(old, Whole(model=Counter())) == []  # it asks for nothing else
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
    betas=st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
)
wholes = st.builds(
    Whole,
    model=st.builds(Counter, order=st.integers(0, 9)) | st.just(Network(norm="none")),
    train=trainings,
    note=st.none() | st.text(),
)


@given(wholes)
def test_toml_gives_the_same_settings_back(whole: Whole) -> None:
    assert build_config(Whole, tomllib.loads(to_toml(whole))) == whole


@given(wholes)
def test_toml_of_what_was_set_leaves_the_same_settings_open(whole: Whole) -> None:
    again = build_config(Whole, tomllib.loads(to_toml(whole, exclude_unset=True)))
    assert again == whole
    wanted = {k: v for k, v in flatten(whole, exclude_unset=True).items() if v is not None}
    assert flatten(again, exclude_unset=True) == wanted


def test_a_file_holds_every_value_or_only_those_that_were_set() -> None:
    whole = Whole(train=Training(label="x"))
    text = to_toml(whole)
    assert "steps" not in text and "note" not in text and "seed = 1" in text
    assert tomllib.loads(to_toml(whole, exclude_unset=True)) == {"train": {"label": "x"}}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
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
def test_a_file_that_cannot_be_read_is_told_with_the_place(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_toml(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder; a \.toml file was wanted"):
        read_toml(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="could not be read: Not a directory"):
        read_toml(tmp_path / "file" / "mine.toml")
