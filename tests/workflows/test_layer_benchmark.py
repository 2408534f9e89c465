import json

import numpy as np
import pytest
import torch

from saccade.cli.main import run as command
from saccade.errors import ConfigError
from saccade.plots.comparison import save_layer_benchmark
from saccade.workflows import compare_layers
from saccade.workflows import layer_benchmark as layers_module
from saccade.workflows.layer_benchmark import (
    LAYER_SPECS,
    LayerMeasurement,
    count_sequential_products,
    longest_path,
    saved_tensor_bytes,
)


@pytest.fixture(scope="module")
def found():
    messages = []
    made = compare_layers(128, on_progress=lambda *what: messages.append(what))
    assert messages[-1][1:] == (7, 8)
    return made


def test_layer_benchmark_paths_match_theory(found):
    assert [(row.layer, row.length) for row in found.rows] == [
        (name, n) for n in (64, 128) for name in LAYER_SPECS
    ]
    for row in found.rows:
        n, d, k = row.length, found.width, found.kernel
        expected = {
            "convolution": (1, n - 1, k * n * d**2, k * n * d**2),
            "recurrence": (n, n, n * d**2, 2 * n * d**2),
            # the three matrices, then the kernel; without it the scores, then the mean
            "self-attention": (2, 1, n**2 * d, 3 * n * d**2 + 2 * n**2 * d),
            "self-attention, table": (3, 1, n**2 * d, 3 * n * d**2 + 2 * n**2 * d),
        }
        found_row = row.sequential_products, row.path, row.operations, row.counted_operations
        assert found_row == expected[row.layer]
        assert row.milliseconds > 0


def test_layer_benchmark_memory_growth(found):
    kept = {(row.layer, row.length): row.megabytes for row in found.rows}
    table, fused = "self-attention, table", "self-attention"
    for n in (64, 128):
        # queries, keys, values and the input; the fused one also keeps its result, and a number
        # for each query; the other has the table of n² in that place
        assert kept[table, n] == pytest.approx(4e-6 * (4 * n * 64 + n * n), rel=0.01)
        assert kept[fused, n] == pytest.approx(4e-6 * (5 * n * 64 + n), rel=0.01)


class Squared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(5))

    def forward(self, x):
        y = x * self.weight  # keeps both; the weight is not counted
        return y * y  # keeps y, once


def test_saved_tensor_bytes():
    x = torch.randn(1, 7, 5, requires_grad=True)
    assert saved_tensor_bytes(Squared(), x) == 2 * 7 * 5 * 4


def test_count_sequential_products():
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    assert count_sequential_products(x + 1) == 0
    assert count_sequential_products((x @ w) + ((x @ w).tanh() @ w @ w)) == 3
    alongside = torch.cat([x @ w for _ in range(9)])
    assert count_sequential_products(alongside) == 1


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_longest_path_shrinks_with_the_kernel(kernel):
    for n in (2, 10, 33):
        assert longest_path("convolution", n, kernel) == -(-(n - 1) // (kernel // 2))
    assert longest_path("recurrence", 9, kernel) == 9


def test_compare_layers_with_another_kernel_and_width(monkeypatch):
    monkeypatch.setattr(layers_module, "MIN_TIMING_SECONDS", 0.0)
    found = compare_layers(128, width=8, kernel=9)
    assert (found.width, found.kernel) == (8, 9)
    rows = {row.layer: row for row in found.rows if row.length == 128}
    assert rows["convolution"].counted_operations == 9 * 128 * 8**2
    assert rows["convolution"].path == -(-127 // 4)  # n / k: 4 positions to each side
    with pytest.raises(ConfigError, match="got a kernel of 4; expected an odd number .* try 5"):
        compare_layers(128, kernel=4)


def test_longest_path_refuses_disconnected_layers(monkeypatch):
    alone = LAYER_SPECS["convolution"]._replace(
        build=lambda width, kernel: torch.nn.Linear(width, width)
    )
    monkeypatch.setitem(LAYER_SPECS, "convolution", alone)
    with pytest.raises(
        ValueError, match="convolution of 5 positions: the last never depends on the first"
    ):
        longest_path("convolution", 5)


def test_layer_benchmark_fits_the_longest_lengths():
    def rows(power):
        for name in LAYER_SPECS:
            for n in (64, 128, 256, 512):
                slow = 1.0 if n == 64 else n**power  # short sequences carry no information
                yield LayerMeasurement(name, n, 3 * slow, 5.0 * n, 1, 1, 1, 1)

    for power in (1, 2):
        for growth in layers_module._growth(list(rows(power))):
            assert growth.time_exponent == pytest.approx(power)
            assert growth.memory_exponent == pytest.approx(1)


def test_layer_benchmark_restores_threads_and_generator(found):
    torch.set_num_threads(2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    compare_layers(128)
    assert torch.get_num_threads() == 2
    assert np.array_equal(torch.get_rng_state(), before)


def test_compare_layers_command(found, tmp_path, capsys, monkeypatch):
    for name in ("layers.png", "layers.svg"):
        save_layer_benchmark(found.panels(), tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    monkeypatch.setattr(layers_module, "MIN_TIMING_SECONDS", 0.0)
    picture = tmp_path / "more.png"
    assert command(["compare", "layers", "--max-length", "128", "--save", str(picture)]) == 0
    output = capsys.readouterr().out
    assert "O(n² d)" in output and "(n^2)" in output and "O(n / k)" in output and picture.exists()
    sizes = ["--max-length", "130", "--kernel", "5", "--width", "8"]
    assert command(["compare", "layers", *sizes, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["rows"]) == 8 and (shown["kernel"], shown["width"]) == (5, 8)
    assert command(["compare", "copy", "--kernel", "5"]) == 2
    assert "--kernel is an option of compare layers only" in capsys.readouterr().err


def test_compare_layers_refuses_invalid_options(tmp_path, capsys):
    with pytest.raises(ConfigError, match="longest sequence of 100; expected at least 128"):
        compare_layers(100)
    assert command(["compare", "layers", "--models", "seq2seq", "--steps", "3"]) == 2
    assert "takes no --models, --steps; it takes --max-length" in capsys.readouterr().err
    assert command(["compare", "layers", "--save", str(tmp_path / "x.txt")]) == 2
    assert "x.png" in capsys.readouterr().err
