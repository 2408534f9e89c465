r"""Convolution, recurrence and self-attention measured against the length of a sequence.

Vaswani et al. 2017, table 1, and Zhang et al., *Dive into Deep Learning*, 11.6, compare three
layers that turn n vectors of width d into n others (k is the kernel's width):

    layer            operations   in turn   longest path
    convolution      O(k n d²)    O(1)      O(n / k)
    recurrence       O(n d²)      O(n)      O(n)
    self-attention   O(n² d)      O(1)      O(1)

Here each is measured, on one thread, since operations are counted and not how many are done at
once. Self-attention is there twice: as the fused kernel computes it, which never holds the table
of n² weights, and by the equation, which does.

- time: forward and backward, the best of some repetitions;
- memory: the bytes of the tensors that the forward pass keeps for the backward one, each counted
  once and the weights not (but a copy of them in another order, as convolution makes). They are
  what is held when a training step needs most; torch's own allocations cannot be asked for on a
  CPU;
- in turn: the longest chain of matrix products of which each waits for the one before, counted in
  the graph of the backward pass. The recurrence is unrolled for that: the framework's own, which
  is timed, hides its steps;
- longest path: the layers (or, in a recurrence, the steps) after which the output at the last
  place depends on the first input, followed by gradients, layer by layer. A centred kernel
  reaches (k - 1) / 2 places to each side, so the O(n / k) of the table is 2 (n - 1) / (k - 1).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.nn.attention import AttentionLayer
from saccade.nn.conv1d import Convolution
from saccade.nn.masks import Mask
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import UnrolledRNN
from saccade.plots.comparison import LayerPanel
from saccade.seeding import preserve_rng, seed_torch

BENCHMARK_WIDTH, BENCHMARK_KERNEL, MIN_BENCHMARK_LENGTH = 64, 3, 64
PATH_WIDTH = 4  # for the longest path: what depends on what does not depend on the width
FIT_LENGTHS = 3  # lengths, the longest ones, that an exponent is fitted to
MIN_TIMING_SECONDS = 0.05  # of repetitions


class ConvolutionLayer(nn.Module):
    """A centred convolution."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = Convolution(width, width, BENCHMARK_KERNEL)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        return self.layer(x)


class RecurrentLayer(nn.Module):
    """The plain recurrence h_t = tanh(W x_t + U h_{t-1} + b), as the framework computes it."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = RNN("rnn", width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        return self.layer(x).outputs


class SelfAttentionLayer(nn.Module):
    """One head of self-attention, in which every place sees every place."""

    def __init__(self, width: int, fused: bool):
        super().__init__()
        self.layer = AttentionLayer(width, width, width)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) → (B, n, d)."""
        own = self.layer
        if self.fused:
            return own(x)
        query, key, value = own.query(x), own.key(x), own.value(x)
        keys = own.attention.score.prepare(key[:, None])
        return own.attention.reference(query[:, None], keys, value[:, None], Mask())[:, 0]


class LayerSpec(NamedTuple):
    """A kind of layer, and what the books say of it (the table above)."""

    build: Callable[[int], nn.Module]  # by its width
    operations: str
    count_operations: Callable[[int, int, int], int]  # of n, d, k
    operations_exponent: int  # the power of n in it
    sequential_products: str
    path: str
    build_unrolled: Callable[[int], nn.Module]  # the same with every step in the graph


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
        RecurrentLayer,
        "O(n d²)",
        lambda n, d, k: n * d * d,
        1,
        "O(n)",
        "O(n)",
        lambda d: UnrolledRNN("rnn", d, d),
    ),
    "self-attention": LayerSpec(
        lambda d: SelfAttentionLayer(d, True),
        "O(n² d)",
        lambda n, d, k: n * n * d,
        2,
        "O(1)",
        "O(1)",
        lambda d: SelfAttentionLayer(d, True),
    ),
    "self-attention, table": LayerSpec(
        lambda d: SelfAttentionLayer(d, False),
        "O(n² d)",
        lambda n, d, k: n * n * d,
        2,
        "O(1)",
        "O(1)",
        lambda d: SelfAttentionLayer(d, False),
    ),
}


class LayerMeasurement(NamedTuple):
    """One layer at one length."""

    layer: str
    length: int
    milliseconds: float
    megabytes: float
    sequential_products: int
    path: int
    operations: int  # by the formula


class LayerGrowth(NamedTuple):
    """What the books say of a layer, and how its time grows: ∝ n^exponent, where n is largest."""

    layer: str
    operations: str
    sequential_products: str
    path: str
    theory_exponent: int  # the exponent of the operations
    time_exponent: float  # of the time
    memory_exponent: float


class LayerComparison(NamedTuple):
    """All that was measured."""

    rows: list[LayerMeasurement]
    growth: list[LayerGrowth]
    width: int
    kernel: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "width": self.width,
            "kernel": self.kernel,
            "rows": [row._asdict() for row in self.rows],
            "growth": [row._asdict() for row in self.growth],
        }

    def panels(self) -> list[LayerPanel]:
        """What a picture shows."""
        shown = [
            ("milliseconds", "milliseconds"),
            ("megabytes kept", "megabytes"),
            ("products in turn", "sequential_products"),
            ("longest path", "path"),
        ]
        return [LayerPanel(title, self._lines(name)) for title, name in shown]

    def _lines(self, name: str) -> dict[str, tuple[list[int], list[float]]]:
        lines = {}
        for layer in LAYER_SPECS:
            mine = [row for row in self.rows if row.layer == layer]
            lines[layer] = [row.length for row in mine], [float(getattr(r, name)) for r in mine]
        return lines


def compare_layers(
    max_length: int = 2048,
    *,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> LayerComparison:
    """Measure every layer at the lengths 64, 128, … up to `max_length`; width 64, kernel 3."""
    if max_length < 2 * MIN_BENCHMARK_LENGTH:
        raise ConfigError(
            f"the longest sequence is {max_length}; lengths are doubled from {MIN_BENCHMARK_LENGTH} on, so at "
            f"least {2 * MIN_BENCHMARK_LENGTH} is needed."
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
                    rows.append(_measure(name, length))
    finally:
        torch.set_num_threads(threads)
    return LayerComparison(rows, list(_growth(rows)), BENCHMARK_WIDTH, BENCHMARK_KERNEL)


def _measure(name: str, length: int) -> LayerMeasurement:
    layer = LAYER_SPECS[name]
    module = layer.build(BENCHMARK_WIDTH)
    x = torch.randn(1, length, BENCHMARK_WIDTH, requires_grad=True)
    return LayerMeasurement(
        layer=name,
        length=length,
        milliseconds=1000 * time_forward_backward(module, x),
        megabytes=saved_tensor_bytes(module, x) / 1e6,
        sequential_products=count_sequential_products(layer.build_unrolled(BENCHMARK_WIDTH)(x)),
        path=longest_path(name, length),
        operations=layer.count_operations(length, BENCHMARK_WIDTH, BENCHMARK_KERNEL),
    )


def _growth(rows: Sequence[LayerMeasurement]) -> Iterator[LayerGrowth]:
    for name, layer in LAYER_SPECS.items():
        mine = [row for row in rows if row.layer == name][-FIT_LENGTHS:]
        lengths = np.log([row.length for row in mine])
        time_slope, _ = np.polyfit(lengths, np.log([row.milliseconds for row in mine]), 1)
        memory_slope, _ = np.polyfit(lengths, np.log([row.megabytes for row in mine]), 1)
        books = layer.operations, layer.sequential_products, layer.path, layer.operations_exponent
        yield LayerGrowth(name, *books, float(time_slope), float(memory_slope))


def time_forward_backward(module: nn.Module, x: Tensor) -> float:
    """Forward and backward, the best of repetitions: others use the machine too."""
    best, spent, tries = float("inf"), 0.0, 0
    while tries < 3 or spent < MIN_TIMING_SECONDS:
        began = time.perf_counter()
        module(x).sum().backward()
        taken = time.perf_counter() - began
        tries += 1
        if tries > 1:  # the first finds nothing in its place
            best, spent = min(best, taken), spent + taken
    return best


def saved_tensor_bytes(module: nn.Module, x: Tensor) -> int:
    """What the forward pass keeps for the backward one, the weights not counted."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = module(x)  # held, so that what it keeps stays where it is
    total = sum(kept.values())
    del y
    return total


MATMUL_NODES = ("Addmm", "Mm", "Bmm", "Linear", "ScaledDot")


def count_sequential_products(y: Tensor) -> int:
    """The most matrix products on any way from the input to y."""
    longest: dict[Any, int] = {}
    waiting = [y.grad_fn]
    while waiting:  # by hand: a chain of thousands is too deep for calls
        node: Any = waiting[-1]
        before = [n for n, _ in node.next_functions if n is not None]
        missing = [n for n in before if n not in longest]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        is_product = node.name().removeprefix("Unsafe").startswith(MATMUL_NODES)
        longest[node] = max((longest[n] for n in before), default=0) + int(is_product)
    return longest[y.grad_fn]


def longest_path(name: str, length: int) -> int:
    """Layers, or steps of a recurrence, until the last place depends on the first input."""
    if name == "recurrence":
        return _steps_between(length)
    module = LAYER_SPECS[name].build(PATH_WIDTH).double()
    x = torch.randn(1, length, PATH_WIDTH, dtype=torch.float64, requires_grad=True)
    y = module(x)
    depends = torch.zeros(length, dtype=torch.bool)
    depends[-1] = True
    layers = 0
    while not depends[0]:
        # one layer at a time: through all at once the gradient would be too small to be told from 0
        probe = torch.randn_like(y) * depends[None, :, None]
        (slope,) = torch.autograd.grad(y, x, probe, retain_graph=True)
        reached = slope[0].abs().sum(dim=-1) > 0
        layers += 1
        if bool((reached | depends).equal(depends)):
            raise ValueError(f"{name} of {length} places never reaches the first from the last.")
        depends |= reached
    return layers


def _steps_between(length: int) -> int:
    """Steps from the first input to the last output, each seen to pass something on."""
    layer = RNN("rnn", PATH_WIDTH, PATH_WIDTH).double()
    x = torch.randn(1, length, PATH_WIDTH, dtype=torch.float64)
    state = torch.zeros(1, 1, PATH_WIDTH, dtype=torch.float64)
    steps = 0
    for place in range(length):
        first = x[:, place : place + 1].requires_grad_(place == 0)
        state = state.detach().requires_grad_(place > 0)
        source = first if place == 0 else state
        after = layer(first, None, state).last_state
        (slope,) = torch.autograd.grad(after.sum(), source)
        if not slope.abs().sum() > 0:
            raise ValueError(f"step {place + 1} of a recurrence passed nothing on.")
        state, steps = after, steps + 1
    return steps
