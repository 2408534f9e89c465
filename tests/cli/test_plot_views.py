"""`saccade plot`: Markov chains, codes, reading, scores, positions, losses, decay, powers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
WEATHER = "sun=0.5,rain=0.25,fog=0.125,snow=0.125"


@pytest.mark.parametrize(
    ("name", "expected", "kind"),
    [
        ("reading", "batch1", "HeatMapGrid"),
        ("scores", "scaled_dot: scores", "HeatMapGrid"),
        ("positions", "dot product p_0 · p_t", "HeatMapGrid"),
        ("losses", "classification: derivatives", "LinePanels"),
        ("temperature", "bound on mutual information", "LinePanels"),
        ("weight-decay", "end of the path", "LinePanels"),
        ("powers", "largest |λ|", "LinePanels"),
        ("bandits", "Lower bound (Lai and Robbins 1985): 6.77 · ln T", "LinePanels"),
        ("planning", "3           → 0.742", "LinePanels"),
    ],
)
def test_plot(name: str, expected: str, kind: str, saccade: Command, tmp_path: Path) -> None:
    result = saccade("plot", name, "--save", "p.png")
    assert result.code == 0 and expected in result.out
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    value = json.loads(saccade("plot", name, "--json").out)
    assert value["kind"] == kind
    refused = saccade("plot", name, "--save", "p.bmp")
    assert refused.code == 2 and "a picture can be .png" in refused.err


def test_plots_of_learning_in_small_worlds(saccade: Command, tmp_path: Path) -> None:
    few = ("--seeds", 2, "--seed", 3, "--save", "p.svg")
    paths = saccade("plot", "paths", "--episodes", 200, *few)
    assert paths.code == 0 and "sarsa           on-policy" in paths.out
    assert "double_q        off-policy" in paths.out and (tmp_path / "p.svg").exists()
    off_policy = saccade("plot", "off-policy", "--seeds", 1, "--json")
    titles = [panel["title"] for panel in json.loads(off_policy.out)["panels"]]
    assert titles[0] == "Q-learning without ratios: largest error of q"
    for arguments, message in {
        ("paths", "--world", "Taxi-v4"): "whose states are no grid",
        ("planning", "--world", "FrozenLak-v1"): "FrozenLake-v1",
        ("planning", "--world", "Blackjack-v1"): "publishes no transition table",
        ("bandits", "--arms", "0.5,x"): "expected probabilities: --arms",
        ("bandits", "--arms", "0.5,2"): "two probabilities or more, from 0 to 1",
    }.items():
        refused = saccade("plot", *arguments)
        assert refused.code == 2 and message in refused.err


def test_plot_markov(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfThe cat sat.\r\nThe dog sat.\r\n")
    result = saccade("plot", "markov", "--data", "t.txt", "--steps", 6, "--save", "m.png")
    assert result.code == 0 and (tmp_path / "m.png").exists()
    assert "the    0.2500      cat 0.50, dog 0.50" in result.out and "k = 6:" in result.out
    value = json.loads(saccade("plot", "markov", "t.txt", "--characters", "--json").out)
    titles = [map["title"] for map in value["maps"]]
    assert titles == [
        "transition matrix P",
        *(f"after {k} steps: P^{k}" for k in (2, 4, 8)),
        "stationary distribution",
    ]
    (tmp_path / "ab.txt").write_text("a b a b")
    assert "periodic" in saccade("plot", "markov", "ab.txt").out
    (tmp_path / "empty.txt").write_text("")
    for wrong in (("empty.txt",), (), ("missing.txt",)):
        assert saccade("plot", "markov", *wrong).code == 2


def test_plot_huffman(saccade: Command, tmp_path: Path) -> None:
    asked = ("plot", "huffman", "--weights", WEATHER)
    result = saccade(*asked, "--code", "sun=10,rain=110,fog=0,snow=111", "--save", "h.png")
    assert "given code: 2.25 bits per symbol; entropy 1.75" in result.out
    assert "Huffman code: 1.75 bits per symbol." in result.out and (tmp_path / "h.png").exists()
    other = saccade(*asked, "--code", "sun=0,rain=110,fog=10,snow=111").out
    assert "given code: 1.875 bits" in other
    (tmp_path / "t.txt").write_text("a a a a b b c d\n")
    assert "Huffman code: 1.75 bits" in saccade("plot", "huffman", "t.txt").out
    for wrong in ((), ("t.txt", "--weights", WEATHER), ("--weights", "a"), ("--weights", "a=x")):
        assert saccade("plot", "huffman", *wrong).code == 2
    assert "prefix code" in saccade(*asked, "--code", "sun=1,rain=11,fog=0,snow=111").err


def test_plot_ratios(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Solid ice water\ngas steam water\nice is solid, steam is gas")
    asked = ("plot", "ratios", "t.txt", "--probes", "solid,gas,water", "--window", 2)
    result = saccade(*asked, "--save", "r.png")
    assert result.code == 0 and "P(k|ice)" in result.out and (tmp_path / "r.png").exists()
    value = json.loads(saccade(*asked, "--json").out)
    ice, steam = value["maps"][0]["values"]
    assert ice[0] > steam[0] and ice[1] < steam[1]
    assert "got 'sloid'" in saccade("plot", "ratios", "t.txt", "--probes", "sloid").err
    assert saccade("plot", "ratios").code == 2
