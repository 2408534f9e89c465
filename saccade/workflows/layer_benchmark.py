r"""Convolution, recurrence and self-attention measured against the length of a sequence.

Vaswani et al. 2017, table 1, and Zhang et al., *Dive into Deep Learning*, 11.6, compare three
layers that map n vectors of width d to n others (k is the kernel's width):

    layer            operations   sequential   longest path
    convolution      O(k n d²)    O(1)         O(n / k)
    recurrence       O(n d²)      O(n)         O(n)
    self-attention   O(n² d)      O(1)         O(1)

Here each is measured on one thread, since the table counts operations and not parallelism.
Self-attention is measured twice: with the fused kernel, which never stores the n² weights, and by
the equation, which does.

- time: forward and backward pass, the best of several repetitions;
- memory: bytes of the tensors saved for the backward pass, each counted once, without the weights
  (but with a copy in another order, as convolution makes one). This is the peak of a training
  step; torch does not report its allocations on a CPU;
- sequential: the longest chain of matrix products, counted in the graph of the backward pass. The
  recurrence is unrolled for that, as the fused one, which is timed, hides its steps;
- operations counted: multiply-adds of the matrix products of a forward pass, half of the operations
  that torch's counter finds. Self-attention has its three projections next to the formula's term,
  3 n d² + 2 n² d, and a recurrence two products for each step, 2 n d²;
- longest path: the number of layers (of a recurrence: steps) until the output at the last position
  depends on the first input, followed by gradients, layer by layer. A centred kernel reaches
  (k - 1) / 2 positions to each side, so the O(n / k) of the table is 2 (n - 1) / (k - 1).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from saccade.errors import ConfigError
from saccade.inspection.figures import LayerPanel
from saccade.nn.conv1d import Convolution
from saccade.nn.masks import Mask
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import UnrolledRNN
from saccade.nn.transformer import AttentionLayer
from saccade.seeding import preserve_rng, seed_torch

BENCHMARK_WIDTH, BENCHMARK_KERNEL, MIN_BENCHMARK_LENGTH = 64, 3, 64  # defaults
PATH_WIDTH = 4  # for the longest path, which does not depend on the width
FIT_LENGTHS = 3  # exponents are fitted to this many of the longest lengths
MIN_TIMING_SECONDS = 0.05  # of all repetitions


class ConvolutionLayer(nn.Module):
    """A centred convolution."""

    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.layer = Convolution(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        return self.layer(x)


class RecurrentLayer(nn.Module):
    """The plain recurrence h_t = tanh(W x_t + U h_{t-1} + b), computed by torch."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = RNN("rnn", width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        return self.layer(x).outputs


class SelfAttentionLayer(nn.Module):
    """Single-head self-attention without a mask."""

    def __init__(self, width: int, fused: bool):
        super().__init__()
        self.layer = AttentionLayer(width, width, width)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        layer = self.layer
        if self.fused:
            return layer(x)
        query, key, value = layer.query(x), layer.key(x), layer.value(x)
        keys = layer.attention.score.prepare(key[:, None])
        return layer.attention.reference(query[:, None], keys, value[:, None], Mask())[:, 0]


class LayerSpec(NamedTuple):
    """A kind of layer with its row of the table above."""

    build: Callable[[int, int], nn.Module]  # arguments: width, kernel
    operations: str
    count_operations: Callable[[int, int, int], int]  # arguments: n, d, k
    operations_exponent: int  # power of n
    sequential_products: str
    path: str
    build_unrolled: Callable[[int, int], nn.Module]  # with every step in the autograd graph


LAYER_SPECS = {
    "convolution": LayerSpec(
        ConvolutionLayer,
        "O(k n d²)",
        lambda n, d, k: k * n * d * d,
        1,
        "O(1)",
        "O(n / k)",
        ConvolutionLayer,
    ),
    "recurrence": LayerSpec(
        lambda d, k: RecurrentLayer(d),
        "O(n d²)",
        lambda n, d, k: n * d * d,
        1,
        "O(n)",
        "O(n)",
        lambda d, k: UnrolledRNN("rnn", d, d),
    ),
    "self-attention": LayerSpec(
        lambda d, k: SelfAttentionLayer(d, True),
        "O(n² d)",
        lambda n, d, k: n * n * d,
        2,
        "O(1)",
        "O(1)",
        lambda d, k: SelfAttentionLayer(d, True),
    ),
    "self-attention, table": LayerSpec(
        lambda d, k: SelfAttentionLayer(d, False),
        "O(n² d)",
        lambda n, d, k: n * n * d,
        2,
        "O(1)",
        "O(1)",
        lambda d, k: SelfAttentionLayer(d, False),
    ),
}


class LayerMeasurement(NamedTuple):
    """Measurements of one layer at one length."""

    layer: str
    length: int
    milliseconds: float
    megabytes: float
    sequential_products: int
    path: int
    operations: int  # by the formula
    counted_operations: int  # multiply-adds of a forward pass


class LayerGrowth(NamedTuple):
    """Complexity of a layer by the table, and measured exponents of n for large n."""

    layer: str
    operations: str
    sequential_products: str
    path: str
    theory_exponent: int  # of the operations
    time_exponent: float
    memory_exponent: float


class LayerComparison(NamedTuple):
    """Measurements of all layers at all lengths."""

    rows: list[LayerMeasurement]
    growth: list[LayerGrowth]
    width: int
    kernel: int

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements for JSON."""
        return {
            "width": self.width,
            "kernel": self.kernel,
            "rows": [row._asdict() for row in self.rows],
            "growth": [row._asdict() for row in self.growth],
        }

    def panels(self) -> list[LayerPanel]:
        """Return the panels of the plot."""
        fields = [
            ("milliseconds", "milliseconds"),
            ("megabytes saved", "megabytes"),
            ("sequential products", "sequential_products"),
            ("longest path", "path"),
            ("multiply-adds counted", "counted_operations"),
        ]
        return [LayerPanel(title, self._curves(name)) for title, name in fields]

    def _curves(self, name: str) -> dict[str, tuple[list[int], list[float]]]:
        curves = {}
        for layer in LAYER_SPECS:
            rows = [row for row in self.rows if row.layer == layer]
            values = [float(getattr(row, name)) for row in rows]
            curves[layer] = [row.length for row in rows], values
        return curves


def compare_layers(
    max_length: int = 2048,
    *,
    width: int = BENCHMARK_WIDTH,
    kernel: int = BENCHMARK_KERNEL,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> LayerComparison:
    """Measure every layer at the lengths 64, 128, … up to `max_length`.

    Args:
        max_length: the longest sequence.
        width: d, of inputs and outputs.
        kernel: k, of the convolution; odd, since it is centred.
        on_progress: is called with a text, the number of measurements done, and of all.
    """
    if kernel < 3 or kernel % 2 == 0:
        raise ConfigError(
            f"got a kernel of {kernel}; expected an odd number from 3 on, centred on a position; "
            f"try {max(3, kernel + 1)}."
        )
    if max_length < 2 * MIN_BENCHMARK_LENGTH:
        raise ConfigError(
            f"got a longest sequence of {max_length}; expected at least "
            f"{2 * MIN_BENCHMARK_LENGTH}, as lengths are doubled from {MIN_BENCHMARK_LENGTH} on."
        )
    lengths = [
        MIN_BENCHMARK_LENGTH << power
        for power in range((max_length // MIN_BENCHMARK_LENGTH).bit_length())
    ]
    rows: list[LayerMeasurement] = []
    total = len(lengths) * len(LAYER_SPECS)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with preserve_rng():
            seed_torch(1, "layers")
            for length in lengths:
                for name in LAYER_SPECS:
                    on_progress(f"{name}, n = {length}", len(rows), total)
                    rows.append(_measure(name, length, width, kernel))
    finally:
        torch.set_num_threads(threads)
    return LayerComparison(rows, list(_growth(rows)), width, kernel)


def _measure(name: str, length: int, width: int, kernel: int) -> LayerMeasurement:
    layer = LAYER_SPECS[name]
    module, unrolled = layer.build(width, kernel), layer.build_unrolled(width, kernel)
    x = torch.randn(1, length, width, requires_grad=True)
    return LayerMeasurement(
        layer=name,
        length=length,
        milliseconds=1000 * time_forward_backward(module, x),
        megabytes=saved_tensor_bytes(module, x) / 1e6,
        sequential_products=count_sequential_products(unrolled(x)),
        path=longest_path(name, length, kernel),
        operations=layer.count_operations(length, width, kernel),
        counted_operations=count_multiply_adds(unrolled, x),
    )


def count_multiply_adds(module: nn.Module, x: Tensor) -> int:
    """Return the multiply-adds of the matrix products of a forward pass."""

    def attention(query: Any, key: Any, value: Any, *others: Any, **options: Any) -> int:
        return sdpa_flop_count(query, key, value)  # shapes

    # torch counts the kernels of GPUs only
    kernels = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}
    with FlopCounterMode(display=False, custom_mapping=kernels) as counter, torch.no_grad():
        module(x)
    return int(counter.get_total_flops() // 2)


def _growth(rows: Sequence[LayerMeasurement]) -> Iterator[LayerGrowth]:
    for name, layer in LAYER_SPECS.items():
        longest = [row for row in rows if row.layer == name][-FIT_LENGTHS:]
        lengths = np.log([row.length for row in longest])
        time_slope, _ = np.polyfit(lengths, np.log([row.milliseconds for row in longest]), 1)
        memory_slope, _ = np.polyfit(lengths, np.log([row.megabytes for row in longest]), 1)
        theory = layer.operations, layer.sequential_products, layer.path, layer.operations_exponent
        yield LayerGrowth(name, *theory, float(time_slope), float(memory_slope))


def time_forward_backward(module: nn.Module, x: Tensor) -> float:
    """Return seconds of a forward and backward pass, the best of several repetitions."""
    best, total, repetitions = float("inf"), 0.0, 0
    while repetitions < 3 or total < MIN_TIMING_SECONDS:
        start = time.perf_counter()
        module(x).sum().backward()
        seconds = time.perf_counter() - start
        repetitions += 1
        if repetitions > 1:  # the first is a warm-up
            best, total = min(best, seconds), total + seconds
    return best


def saved_tensor_bytes(module: nn.Module, x: Tensor) -> int:
    """Return the bytes that the forward pass saves for the backward pass, without the weights."""
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    saved: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        y = module(x)  # keeps the saved tensors alive, so that no address is reused
    total = sum(saved.values())
    del y
    return total


MATMUL_NODES = ("Addmm", "Mm", "Bmm", "Linear", "ScaledDot")


def count_sequential_products(y: Tensor) -> int:
    """Return the largest number of matrix products on any path from the input to y."""
    longest: dict[Any, int] = {}
    stack = [y.grad_fn]
    while stack:  # not recursive: chains have thousands of nodes
        node: Any = stack[-1]
        inputs = [n for n, _ in node.next_functions if n is not None]
        missing = [n for n in inputs if n not in longest]
        if missing:
            stack += missing
            continue
        stack.pop()
        is_product = node.name().removeprefix("Unsafe").startswith(MATMUL_NODES)
        longest[node] = max((longest[n] for n in inputs), default=0) + int(is_product)
    return longest[y.grad_fn]


def longest_path(name: str, length: int, kernel: int = BENCHMARK_KERNEL) -> int:
    """Return the layers (or recurrent steps) until the last position depends on the first."""
    if name == "recurrence":
        return _recurrent_path(length)
    module = LAYER_SPECS[name].build(PATH_WIDTH, kernel).double()
    x = torch.randn(1, length, PATH_WIDTH, dtype=torch.float64, requires_grad=True)
    y = module(x)
    depends = torch.zeros(length, dtype=torch.bool)
    depends[-1] = True
    layers = 0
    while not depends[0]:
        # one layer at a time: through all layers together the gradient would underflow
        probe = torch.randn_like(y) * depends[None, :, None]
        (gradient,) = torch.autograd.grad(y, x, probe, retain_graph=True)
        reached = gradient[0].abs().sum(dim=-1) > 0
        layers += 1
        if bool((reached | depends).equal(depends)):
            raise ValueError(f"{name} of {length} positions: the last never depends on the first.")
        depends |= reached
    return layers


def _recurrent_path(length: int) -> int:
    """Return the steps from the first input to the last output; check that each has a gradient."""
    layer = RNN("rnn", PATH_WIDTH, PATH_WIDTH).double()
    x = torch.randn(1, length, PATH_WIDTH, dtype=torch.float64)
    state = torch.zeros(1, 1, PATH_WIDTH, dtype=torch.float64)
    steps = 0
    for position in range(length):
        step_input = x[:, position : position + 1].requires_grad_(position == 0)
        state = state.detach().requires_grad_(position > 0)
        source = step_input if position == 0 else state
        next_state = layer(step_input, None, state).last_state
        (gradient,) = torch.autograd.grad(next_state.sum(), source)
        if not gradient.abs().sum() > 0:
            raise ValueError(f"step {position + 1} of the recurrence has no gradient.")
        state, steps = next_state, steps + 1
    return steps
