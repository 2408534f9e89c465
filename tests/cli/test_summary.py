"""`saccade summary`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]


def test_summary_prints_layers_and_totals(saccade: Command) -> None:
    done = saccade("summary", "lenet", "--input", "1,28,28", "--classes", "10")
    lines = done.out.splitlines()
    assert lines[0].split() == ["layer", "kind", "output", "parameters", "multiply-adds", "field"]
    assert lines[1].split() == ["features.0", "Conv2d", "6,28,28", "156", "117,600", "5"]
    assert lines[-2:] == [
        "61,706 parameters (0.2 MB)",
        "416,520 multiply-adds for one image",
    ]


def test_summary_as_json_with_a_setting(saccade: Command) -> None:
    command = ("summary", "resnet18", "--input", "3,32,32", "--set", "model.width=8", "--json")
    found = json.loads(saccade(*command).out)
    assert found["layers"][0] == {
        "name": "conv1",
        "kind": "Conv2d",
        "output_shape": [8, 32, 32],
        "parameters": 216,
        "multiply_adds": 221184,
        "receptive_field": 3,
    }
    assert found["parameters"] == sum(layer["parameters"] for layer in found["layers"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet19"], "Did you mean 'resnet18'"),
        (["lenet", "--input", "28,28"], "got --input 28,28; expected channels, height and width"),
        (["lenet", "--input", "1,28,20"], "of a square image; try --input 3,224,224"),
        (["lenet", "--input", "1,-3,-3"], "got --input 1,-3,-3"),
        (["lenet", "--input", "1,99999,99999"], "image_size"),
        (["vgg11", "--input", "3,28,28"], "the layer features.20"),
        (["lenet", "--set", "model.widht=3"], "Did you mean 'width'"),
    ],
)
def test_bad_arguments_are_refused(saccade: Command, arguments: list[str], message: str) -> None:
    done = saccade("summary", *arguments)
    assert done.code == 2
    assert message in done.message
