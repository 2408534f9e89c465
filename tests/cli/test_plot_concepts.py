"""`saccade plot`: activations, signal propagation and Zipf curves."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
SMALL: tuple[Any, ...] = ("--layers", 6, "--width", 16)


def complaint(result: Any) -> str:
    assert result.code == 2, result
    assert result.out == "" and "Traceback" not in result.err
    return result.err


def test_plot_activations(saccade: Command, tmp_path: Path) -> None:
    result = saccade("plot", "activations", "--save", "a.png")
    assert result.code == 0
    assert "Wrote 8 activation functions to a.png." in result.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "relu        max(0, x)" in result.out and "the subgradient" in result.out
    assert "tanh (gelu) 4.73e-04" in result.out
    assert "σ(1.702 x) (gelu_sigmoid) 2.03e-02" in result.out
    value = json.loads(saccade("plot", "activations", "--json").out)
    relu = next(one for one in value["activations"] if one["name"] == "relu")
    assert relu["slope_at_0"] == 0 and relu["y"] == [max(0.0, x) for x in relu["x"]]
    assert value["gelu"]["gelu"]["largest_error"] == pytest.approx(4.73e-4, rel=0.01)


def test_plot_activations_with_several_alphas(saccade: Command, tmp_path: Path) -> None:
    result = saccade("plot", "activations", "--alpha", "0.3, 1,2", "--save", "a.png")
    assert result.code == 0 and "Wrote 6 activation functions to a.png." in result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "elu, α = 2 x, or 2 (exp(x) - 1) below 0 0.0366 2 2" in lines
    assert "leaky_relu, α = 0.3 x, or 0.3 x below 0 0.3 1 0.3" in lines
    kinked = "elu, α = 0.3; elu, α = 2; leaky_relu, α = 0.3; leaky_relu, α = 2."
    assert f"Not differentiable at 0: {kinked}" in " ".join(lines) and "gelu" not in result.out
    curves = json.loads(saccade("plot", "activations", "--alpha", "0.3", "--json").out)
    by_name = {curve["name"]: curve for curve in curves["activations"]}
    assert {curve["alpha"] for curve in by_name.values()} == {0.3}
    columns = (by_name["elu"]["x"], by_name["elu"]["y"], by_name["leaky_relu"]["y"])
    for x, elu, leaky in zip(*columns, strict=True):
        assert elu == pytest.approx(x if x > 0 else 0.3 * math.expm1(x))
        assert leaky == pytest.approx(x if x > 0 else 0.3 * x)


def test_plot_signal_with_alpha(saccade: Command) -> None:
    asked: tuple[Any, ...] = ("plot", "signal", *SMALL, "--activation", "leaky_relu")
    asked += ("--init", "kaiming")
    result = saccade(*asked, "--alpha", 1)
    assert "6 layers of width 16, leaky_relu (α = 1), kaiming, seed 0" in result.out
    linear = saccade(
        "plot", "signal", *SMALL, "--activation", "linear", "--init", "lecun", "--json"
    )
    found = json.loads(saccade(*asked, "--alpha", 1, "--json").out)
    assert found["alpha"] == 1  # of gain 1 and no kink: a linear network
    assert found["signals"] == pytest.approx(json.loads(linear.out)["signals"])


def test_plot_signal(saccade: Command, tmp_path: Path) -> None:
    result = saccade(
        "plot", "signal", *SMALL, "--activation", "linear", "--init", "normal", "--save", "d.png"
    )
    assert result.code == 0 and (tmp_path / "d.png").exists()
    assert "6 layers of width 16, linear, normal, seed 0" in result.out
    assert "The norm of signals explodes: " in result.out
    assert re.findall(r"^(\d+)  ", result.out, re.MULTILINE) == ["0", "1", "2", "5", "6"]
    value = json.loads(
        saccade("plot", "signal", *SMALL, "--norm", "rms", "--residual", "--seed", 4, "--json").out
    )
    assert (value["norm"], value["residual"], value["seed"]) == ("rms", True, 4)
    assert (value["activation"], value["init"]) == ("tanh", "xavier")
    assert len(value["signals"]) == len(value["gradients"]) == 7
    assert [one["depth"] for one in value["products"]] == [1, 2, 5, 6]
    assert value["norm_growths"]["signals"]["word"] in value["description"][0]


def test_plot_signal_json_has_no_infinity(saccade: Command) -> None:
    asked: tuple[Any, ...] = ("plot", "signal", "--layers", 400, "--width", 8, "--init", "normal")
    asked += ("--activation", "linear")
    result = saccade(*asked, "--json")
    assert "Infinity" not in result.out and "NaN" not in result.out
    assert json.loads(result.out)["signals"][-1] is None
    # the product's values are messages all the same
    assert re.search(r"^400  +inf .* [\d.]+e\+1\d\d ", saccade(*asked).out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("signal", "--init", "xaveir"), "There is no init 'xaveir'. Did you mean 'xavier'?"),
        (("signal", "--activation", "than"), "no activation 'than'. Did you mean 'tanh'?"),
        (("signal", "--norm", "bach"), "There is no norm 'bach'. Did you mean 'batch'?"),
        (("signal", "--init", "kaiming", "--activation", "softmax"), "softmax has no gain"),
        (("signal", "--save", "d.gif"), "a picture can be .png, .svg, .pdf"),
        (("signal", "--alpha", "0.3"), "got an α of 0.3 for tanh; expected one of elu"),
        (("activations", "--alpha", "0.3,x"), "expected 1 to 6 numbers of 0 or more"),
        (("activations", "--alpha", "nan"), "got --alpha 'nan'"),
        (("activations", "--alpha=-1"), "try --alpha 0.01,0.3,1"),
        (("activations", "--alpha", "1,1,1,1,1,1,1"), "expected 1 to 6 numbers"),
        (("signal", "--layers", "9999", "--width", "1024"), "less than or equal to 1000"),
        (("signal", "--layers", "1000", "--width", "4096"), "would take 134.2 GB"),
    ],
)
def test_plot_refuses_invalid_options(
    arguments: tuple[str, ...], reason: str, saccade: Command, tmp_path: Path
) -> None:
    assert reason in complaint(saccade("plot", *arguments))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("signal", "--layer", "3"), "No such option: --layer"),
        (("signal", "a text"), "unexpected extra argument"),
        (("activations", "--width", "3"), "No such option: --width"),
        (("activation",), "No such command 'activation'"),
    ],
)
def test_plot_usage_errors(arguments: tuple[str, ...], reason: str, saccade: Command) -> None:
    assert reason in complaint(saccade("plot", *arguments))


def test_plot_zipf_counts_ngrams(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("the cat and the mat\n", encoding="utf-8")
    result = saccade("plot", "zipf", "book.txt", "--save", "zipf.png")
    assert result.code == 0 and "n-grams" in result.out and "distinct" in result.out
    assert (tmp_path / "zipf.png").exists()
    counts = json.loads(saccade("plot", "zipf", "book.txt", "--json").out)
    assert next(iter(counts.values()))["different"] == 4
    assert "There is no file gone.txt" in complaint(saccade("plot", "zipf", "gone.txt"))


def test_plot_zipf_counts_characters_of_a_text_without_spaces(
    saccade: Command, tmp_path: Path
) -> None:
    (tmp_path / "zh.txt").write_text("今天天气很好\n今天很好\n", encoding="utf-8")
    result = saccade("plot", "zipf", "zh.txt", "--save", "zipf.png")
    assert "no spaces between words, so characters are counted" in result.err
    counts = json.loads(saccade("plot", "zipf", "zh.txt", "--json").out)
    assert list(counts) == ["characters", "character bigrams", "character trigrams"]
    assert counts["characters"]["total"] == 10


def test_look_is_for_runs_only(saccade: Command) -> None:
    assert "is not a run" in complaint(saccade("look", "activations"))
