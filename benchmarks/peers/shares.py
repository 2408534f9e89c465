"""Where the time of training goes, by what kind of work it is."""

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
PROFILED = 6  # steps
MARKED = ("Dropout", "Embedding", "LayerNorm")  # modules whose small operations are theirs
NODE = "autograd::engine::evaluate_function"


def kind_of(name: str) -> str:
    """What kind of work an operator's name tells of."""
    low = name.lower()
    return next((kind for kind, words in KINDS.items() if any(w in low for w in words)), REST)


@contextmanager
def profiled(model: nn.Module) -> Iterator[profile]:
    """Watch all that happens, and mark what the small modules of a model do."""
    open_: dict[int, list[Any]] = defaultdict(list)  # of each thread, innermost last

    def enter(module: nn.Module, inputs: Any) -> None:
        mark = record_function(type(module).__name__)
        open_[get_ident()].append(mark)
        mark.__enter__()

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        open_[get_ident()].pop().__exit__(None, None, None)

    handles = []
    for module in model.modules():
        if type(module).__name__ in MARKED:
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave))
    everywhere = _ExperimentalConfig(profile_all_threads=True)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=everywhere) as seen:
        yield seen
    for handle in handles:
        handle.remove()


def _above(event: Any) -> Iterator[Any]:
    """The event and all that called it, the nearest first."""
    while event is not None:
        yield event
        event = event.cpu_parent


def _by_name(event: Any) -> str:
    kinds = (kind_of(each.name) for each in _above(event))
    return next((kind for kind in kinds if kind != REST), REST)


def _forward_kinds(events: list[Any]) -> dict[int, str]:
    """The kind of the forward operator with each of autograd's numbers."""
    found: dict[int, str] = {}
    for event in events:
        forward = not any(each.name.startswith(NODE) for each in _above(event))
        if forward and event.sequence_nr >= 0 and (kind := _by_name(event)) != REST:
            found.setdefault(event.sequence_nr, kind)
    return found


def shares(seen: profile) -> dict[str, Any]:
    """Each kind's and each operator's share of the time, operators' own time only.

    Where an operator's name tells nothing, what called it does; in the backward pass, the forward
    operator whose gradient it is part of.
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

    def ordered(spent: dict[str, float], most: int) -> dict[str, float]:
        costly = sorted(spent.items(), key=lambda item: -item[1])[:most]
        return {name: time / total for name, time in costly}

    return {"kinds": ordered(kinds, len(kinds)), "operators": ordered(operators, 15)}


def show_profile(contestant: Contestant, warm: float) -> dict[str, Any]:
    """Print where a contestant's time goes, once it is warm, and give what was printed."""
    contestant.ask(do="window", seconds=warm)
    found = contestant.ask(do="profile", steps=PROFILED)
    print(f"\n{contestant.name}'s own time over {found['steps']} steps, under the profiler:")
    table(["kind of work", "of the time"], [[k, f"{v:.1%}"] for k, v in found["kinds"].items()])
    print()
    table(["operator", "own time"], [[k, f"{v:.1%}"] for k, v in found["operators"].items()])
    return found
