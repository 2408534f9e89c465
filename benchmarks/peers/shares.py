"""Profile of training by kind of operation."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from peers.alternating import Contestant
from timing import table
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

# the first kind of which a word is in the name is taken
KINDS = {
    "optimiser": ("optimizer", "adam", "foreach", "linalg_vector_norm"),
    "attention": ("scaled_dot_product", "attendback"),
    "matrix products": ("mm", "matmul", "linear", "bmm", "einsum"),
    "loss": ("log_softmax", "nll_loss", "cross_entropy", "argmax"),
    "dropout": ("dropout", "random_", "bernoulli"),
    "norms": ("layer_norm", "layernorm"),
    "GELU": ("gelu",),
    "embeddings": ("embedding", "index_select"),
}
REST = "rest"
PROFILED_STEPS = 6
RECORDED_MODULES = (
    "Dropout",
    "Embedding",
    "LayerNorm",
)  # modules whose small operations are theirs
NODE = "autograd::engine::evaluate_function"


def kind_of(name: str) -> str:
    """Return the kind of work of an operator, by its name."""
    low = name.lower()
    return next((kind for kind, words in KINDS.items() if any(w in low for w in words)), REST)


@contextmanager
def profiled(model: nn.Module) -> Iterator[profile]:
    """Profile all threads, and record the small modules of a model by name."""
    open_: dict[int, list[Any]] = defaultdict(list)  # of each thread, innermost last

    def enter(module: nn.Module, inputs: Any) -> None:
        record = record_function(type(module).__name__)
        open_[get_ident()].append(record)
        record.__enter__()

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        open_[get_ident()].pop().__exit__(None, None, None)

    handles = []
    for module in model.modules():
        if type(module).__name__ in RECORDED_MODULES:
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave))
    everywhere = _ExperimentalConfig(profile_all_threads=True)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=everywhere) as seen:
        yield seen
    for handle in handles:
        handle.remove()


def _above(event: Any) -> Iterator[Any]:
    """Yield the event and its callers, the nearest first."""
    while event is not None:
        yield event
        event = event.cpu_parent


def _by_name(event: Any) -> str:
    kinds = (kind_of(each.name) for each in _above(event))
    return next((kind for kind in kinds if kind != REST), REST)


def _forward_kinds(events: list[Any]) -> dict[int, str]:
    """Return the kind of the forward operator by autograd sequence number."""
    found: dict[int, str] = {}
    for event in events:
        forward = not any(each.name.startswith(NODE) for each in _above(event))
        if forward and event.sequence_nr >= 0 and (kind := _by_name(event)) != REST:
            found.setdefault(event.sequence_nr, kind)
    return found


def shares(seen: profile) -> dict[str, Any]:
    """Return the share of self time of each kind and each operator.

    An operator without a kind takes that of its caller; in the backward pass, that of the forward
    operator whose gradient it computes.
    """
    events = list(seen.events() or [])
    forward = _forward_kinds(events)
    kinds: dict[str, float] = {}
    operators: dict[str, float] = {}
    for event in events:
        kind = _by_name(event)
        if kind == REST:
            nodes = (each for each in _above(event) if each.name.startswith(NODE))
            kind = next((forward.get(node.sequence_nr, REST) for node in nodes), REST)
        kinds[kind] = kinds.get(kind, 0.0) + event.self_cpu_time_total
        operators[event.name] = operators.get(event.name, 0.0) + event.self_cpu_time_total
    total = sum(kinds.values()) or 1.0

    def ordered(spent: dict[str, float], limit: int) -> dict[str, float]:
        costly = sorted(spent.items(), key=lambda item: -item[1])[:limit]
        return {name: time / total for name, time in costly}

    return {"kinds": ordered(kinds, len(kinds)), "operators": ordered(operators, 15)}


def show_profile(contestant: Contestant, warm: float) -> dict[str, Any]:
    """Warm up a contestant, print its profile and return it."""
    contestant.ask(do="window", seconds=warm)
    found = contestant.ask(do="profile", steps=PROFILED_STEPS)
    print(f"\n{contestant.name}'s own time over {found['steps']} steps, under the profiler:")
    table(["kind of work", "share of time"], [[k, f"{v:.1%}"] for k, v in found["kinds"].items()])
    print()
    table(["operator", "own time"], [[k, f"{v:.1%}"] for k, v in found["operators"].items()])
    return found
