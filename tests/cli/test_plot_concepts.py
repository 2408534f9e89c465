"""`saccade look` at what needs no run."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
SMALL: tuple[Any, ...] = ("--layers", 6, "--width", 16)


def complaint(said: Any) -> str:
    assert said.code == 2, said
    assert said.out == "" and "Traceback" not in said.err
    return said.err


def test_activations_are_told_and_drawn(saccade: Command, tmp_path: Path) -> None:
    said = saccade("look", "activations", "--save", "a.png")
    assert said.code == 0
    assert "8 activations are drawn in a.png." in said.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "relu        max(0, x)" in said.out and "a subgradient" in said.out
    assert "by tanh (gelu) 4.73e-04" in said.out
    assert "by σ(1.702 x) (gelu_sigmoid) 2.03e-02" in said.out
    value = json.loads(saccade("look", "activations", "--json").out)
    relu = next(one for one in value["activations"] if one["name"] == "relu")
    assert relu["slope_at_0"] == 0 and relu["y"] == [max(0.0, x) for x in relu["x"]]
    assert value["gelu"]["gelu"]["largest_error"] == pytest.approx(4.73e-4, rel=0.01)


def test_depth_is_told_and_drawn(saccade: Command, tmp_path: Path) -> None:
    said = saccade(
        "look", "depth", *SMALL, "--activation", "linear", "--init", "normal", "--save", "d.png"
    )
    assert said.code == 0 and (tmp_path / "d.png").exists()
    assert "6 layers of width 16, linear, normal, seed 0" in said.out
    assert "The size of signals explodes: " in said.out
    assert re.findall(r"^(\d+)  ", said.out, re.MULTILINE) == ["0", "1", "2", "5", "6"]
    value = json.loads(
        saccade("look", "depth", *SMALL, "--norm", "rms", "--residual", "--seed", 4, "--json").out
    )
    assert (value["norm"], value["residual"], value["seed"]) == ("rms", True, 4)
    assert (value["activation"], value["init"]) == ("tanh", "xavier")
    assert len(value["signals"]) == len(value["gradients"]) == 7
    assert [one["depth"] for one in value["products"]] == [1, 2, 5, 6]
    assert value["norm_growths"]["signals"]["word"] in value["description"][0]


def test_numbers_beyond_any_are_no_json_numbers(saccade: Command) -> None:
    asked: tuple[Any, ...] = ("look", "depth", "--layers", 400, "--width", 8, "--init", "normal")
    asked += ("--activation", "linear")
    said = saccade(*asked, "--json")
    assert "Infinity" not in said.out and "NaN" not in said.out
    assert json.loads(said.out)["signals"][-1] is None
    # the product's values are told all the same
    assert re.search(r"^400  +inf .* [\d.]+e\+1\d\d ", saccade(*asked).out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("depth", "--init", "xaveir"), "There is no init 'xaveir'. Did you mean 'xavier'?"),
        (("depth", "--activation", "than"), "no activation 'than'. Did you mean 'tanh'?"),
        (("depth", "--norm", "bach"), "There is no norm 'bach'. Did you mean 'batch'?"),
        (("depth", "--init", "kaiming", "--activation", "softmax"), "softmax has no gain"),
        (("depth", "--layer", "3"), "look depth takes no --layer; it takes --activation, --init,"),
        (("depth", "a text"), "look depth answers nothing, so it takes no text."),
        (("depth", "--save", "d.gif"), "a picture can be .png, .svg, .pdf"),
        (("depth", "--layers", "9999", "--width", "1024"), "would take 83.9 GB"),
        (("activations", "--width", "3"), "look activations takes no --width; it takes --save"),
        (("activation",), "There is no run and no file activation. Did you mean 'activations'?"),
        (("gone", "--init", "zero"), "--init is for saccade look depth."),
        (("gone/depth",), "is not a run"),
    ],
)
def test_what_is_asked_wrongly_is_said(
    arguments: tuple[str, ...], reason: str, saccade: Command, tmp_path: Path
) -> None:
    assert reason in complaint(saccade("look", *arguments))
    assert not list(tmp_path.iterdir())


def test_a_file_of_that_name_is_a_text(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "depth").write_text("the cat and the mat\n", encoding="utf-8")
    assert "runs of words" in saccade("look", "depth").out
    assert "6 layers of width 16" in saccade("look", "depth", *SMALL).out
