r"""Heads of attention that do not matter, found in three steps and taken out.

1. By the variance of its weights: a query that sees n keys gives them weights of mean 1/n, and

       v_h = mean over queries of  Σ_j α_tj² / n - 1 / n²

   is 0 for a head that looks at all alike, and so chooses nothing.
2. By the gradient at its output: I_h = E_x |∂L(x)/∂ξ_h|, ξ_h = 1 a factor before the head
   (Michel et al. 2019, eq. 2); here per target token. It is the loss's change if the head faded
   and all else stayed linear.
3. By ablation: the held-out data is scored with the head switched off.

The first two only say which head to try first: heads go in the order of the sum of their two
ranks, each on top of those that are off already, and one stays off if the dev scores lose no more
than a given share of what they were. So what is confirmed is the model that is written, not each
head by itself. Michel et al. go by I_h alone; Voita et al. 2019 train gates. As there, the last
head of an attention stays: without any it would be another model.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.config import override_settings
from saccade.errors import ConfigError, RunError
from saccade.nn.pruning import count_heads, gated_heads, masked_heads, prune_heads
from saccade.runs.run import Run, load_run
from saccade.tasks.translation import parse_attention_name
from saccade.training.device import set_num_threads

PRUNE_TOLERANCE = 0.005  # of each dev score
PRUNE_EVAL_INPUTS = 500  # dev inputs that are answered for one head
TIMING_INPUTS, TIMING_ROUNDS = (
    500,
    5,
)  # test inputs that are answered to see how fast it is, and how often
PRUNE_METRICS = ("exact", "chrf")

ProgressCallback = Callable[[str, int, int], None]


class HeadReport(NamedTuple):
    """One head, and what the three steps found."""

    kind: str  # cross, encoder or decoder
    layer: int  # counted from 1, as `look` counts
    head: int
    variance: float
    gradient: float
    loss: float  # on dev, without it
    scores: dict[str, float]  # likewise
    is_pruned: bool

    @property
    def verdict(self) -> str:
        """In a word."""
        return "pruned" if self.is_pruned else "kept"


class RunQuality(NamedTuple):
    """How good, how large and how fast a run is."""

    heads: int
    parameters: int
    test: dict[str, float]
    milliseconds: float = math.nan  # to answer one input, many asked together


class PruneResult(NamedTuple):
    """The heads, and the run before and after; None if no head could go."""

    heads: list[HeadReport]
    dev: dict[str, float]  # of the whole model
    before: RunQuality
    after: RunQuality | None
    folder: Path | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "heads": [{**head._asdict(), "verdict": head.verdict} for head in self.heads],
            "dev": self.dev,
            "before": self.before._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "run": None if self.folder is None else str(self.folder),
        }


def prune(
    run: str | Path | Run,
    *,
    out: str | Path | None = None,
    tolerance: float = PRUNE_TOLERANCE,
    on_progress: ProgressCallback = lambda what, done, total: None,
) -> PruneResult:
    """Take out of a run's model the heads that do not matter; the rest is written to `out`.

    `out` (RUN-pruned) is a run like any other, with smaller matrices: its setting `model.pruned_heads`
    says which heads are gone. `tolerance` is the share of the dev scores that may be lost.
    """
    opened = run if isinstance(run, Run) else load_run(run)
    folder = _free(opened.folder, out)
    _check(opened, tolerance)
    set_num_threads(opened.recipe.train.threads)
    on_progress("answering the test set", 0, 0)
    before = measure_quality(opened)
    whole = opened.task.evaluate("dev", PRUNE_EVAL_INPUTS)
    if not any(whole.get(name, 1.0) for name in PRUNE_METRICS):
        raise ConfigError(
            f"{opened.folder} has no right answer on its dev data, so nothing shows which heads "
            "matter. Train it for longer first."
        )
    found = _Search(opened, whole, tolerance, on_progress)
    heads = found.heads()
    if not found.off:
        (speed,) = time_runs(opened)
        return PruneResult(heads, whole, before._replace(milliseconds=speed), None, None)
    _write(opened, found.off, folder)
    on_progress("answering the test set", 0, 0)
    smaller = load_run(folder)
    after = measure_quality(smaller)
    both = zip((before, after), time_runs(opened, smaller), strict=True)
    before, after = (one._replace(milliseconds=speed) for one, speed in both)
    return PruneResult(heads, whole, before, after, folder)


def _free(run: Path, out: str | Path | None) -> Path:
    here = run if run.name else run.resolve()  # "." has no name to add to
    folder = here.with_name(f"{here.name}-pruned") if out is None else Path(out)
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise RunError(f"{folder} is there already; choose another folder (--out).")
    return folder


def _check(run: Run, tolerance: float) -> None:
    if not 0 <= tolerance < 1:
        raise ConfigError(
            f"the tolerance is {tolerance}; a share of the dev score from 0 up to 1 was wanted."
        )
    if "pruned_heads" not in type(run.recipe.model).model_fields:
        raise ConfigError(
            f"{run.folder} is of the model {run.recipe.model.name}, which has no heads to take "
            "out. A transformer has."
        )


def measure_quality(run: Run) -> RunQuality:
    """Score a run on its test set."""
    test = {name: value for name, value in run.evaluate().items() if name != "conventions"}
    return RunQuality(sum(count_heads(run.task.model).values()), run.parameters, test)


def time_runs(*runs: Run) -> list[float]:
    """Milliseconds to answer one input of the test set, for each of some runs.

    They take turns, and the best time of each counts: others use the machine too.
    """
    best = [math.inf] * len(runs)
    for _ in range(TIMING_ROUNDS):
        for place, run in enumerate(runs):
            inputs = list(run.task.pairs["test"].sources())[:TIMING_INPUTS]
            began = time.perf_counter()
            run.predict(inputs)
            taken = 1000 * (time.perf_counter() - began) / len(inputs)
            best[place] = min(best[place], taken)
    return best


class _Search:
    """Which heads can go."""

    def __init__(
        self, run: Run, whole: dict[str, float], tolerance: float, on_progress: ProgressCallback
    ):
        self.run, self.whole, self.tolerance, self.on_progress = run, whole, tolerance, on_progress
        self.off: dict[str, list[int]] = {}
        self.done, self.total = 0, 2 * sum(count_heads(run.task.model).values())

    def heads(self) -> list[HeadReport]:
        """All three steps, for every head."""
        variances, gradients = score_heads(self.run.task, self.on_progress)
        each = [
            (name, h)
            for name, count in count_heads(self.run.task.model).items()
            for h in range(count)
        ]
        alone = {(name, h): self._without({name: [h]}) for name, h in each}
        ranks = dict.fromkeys(each, 0)
        for values in (variances, gradients):
            order = sorted(each, key=lambda place: values[place[0]][place[1]])
            for rank, place in enumerate(order):
                ranks[place] += rank
        for name, h in sorted(each, key=lambda place: ranks[place]):
            self._try(name, h, alone[name, h])
        heads = []
        for name, h in each:
            kind, layer = parse_attention_name(name)
            weighed = variances[name][h], gradients[name][h]
            scores = {n: alone[name, h][n] for n in PRUNE_METRICS if n in self.whole}
            is_pruned = h in self.off.get(name, ())
            heads.append(
                HeadReport(kind, layer, h + 1, *weighed, alone[name, h]["loss"], scores, is_pruned)
            )
        return heads

    def _without(self, heads: Mapping[str, list[int]]) -> dict[str, float]:
        self.done += 1
        self.on_progress("switching heads off", self.done, self.total)
        with masked_heads(self.run.task.model, heads):
            return self.run.task.evaluate("dev", PRUNE_EVAL_INPUTS)

    def _try(self, name: str, head: int, alone: dict[str, float]) -> None:
        off = sorted([*self.off.get(name, []), head])
        count = count_heads(self.run.task.model)[name]
        if len(off) == count or not is_within_tolerance(self.whole, alone, self.tolerance):
            self.done += 1
            return
        together = alone if not self.off else self._without({**self.off, name: off})
        if is_within_tolerance(self.whole, together, self.tolerance):
            self.off[name] = off


def is_within_tolerance(
    whole: Mapping[str, float], now: Mapping[str, float], tolerance: float
) -> bool:
    """Whether no score lost more than its share (of a task without scores: the loss)."""
    scores = [name for name in PRUNE_METRICS if name in whole]
    if not scores:
        return now["loss"] <= (1 + tolerance) * whole["loss"]
    return all(now[name] >= (1 - tolerance) * whole[name] for name in scores)


HeadScores = dict[str, list[float]]  # by the attention's name, a figure for each head


def score_heads(task: Any, on_progress: ProgressCallback) -> tuple[HeadScores, HeadScores]:
    """The variance and the gradient of every head, over the dev data."""
    model = task.model.eval()
    sums: dict[str, Tensor] = {}
    queries: dict[str, float] = {}
    gradients: dict[str, Tensor] = {}
    tokens = 0
    for number, batch in enumerate(task.batches("dev", 0)):
        on_progress("weighing the heads", number, 0)
        with gated_heads(model) as factors, _variances(model, batch, sums, queries):
            total = task.loss(batch).total
        for name, slope in factors.gradients(total).items():
            gradients[name] = gradients.get(name, 0.0) + slope.abs().sum(dim=0)
        tokens += batch.tokens
    variances = {name: (total / queries[name]).tolist() for name, total in sums.items()}
    return variances, {name: (total / tokens).tolist() for name, total in gradients.items()}


@contextmanager
def _variances(
    model: Any, batch: Any, sums: dict[str, Tensor], queries: dict[str, float]
) -> Iterator[None]:
    """Add up the variances of the weights of all real queries while the block is open."""
    hooks = []

    def follow(name: str) -> None:
        @torch.no_grad()
        def note(module: Any, inputs: Any, output: Tensor) -> None:
            query, keys, _, mask = inputs
            found = module.weights(query, keys, mask)
            may_see = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
            variance = attention_variance(found, may_see)
            real = _real(batch, name, variance)
            sums[name] = sums.get(name, 0.0) + (variance * real).sum(dim=(0, 2))
            queries[name] = queries.get(name, 0.0) + float(real.sum())

        hooks.append(model.get_submodule(name).attention.register_forward_hook(note))

    for name in count_heads(model):
        follow(name)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def attention_variance(weights: Tensor, may_see: Tensor | None) -> Tensor:
    """Of the weights of each query over the keys it may see: (B, H, T, S) → (B, H, T)."""
    if may_see is None:
        return weights.var(dim=-1, correction=0)
    seen = may_see.sum(dim=-1).clamp(min=1)
    return weights.square().sum(dim=-1) / seen - (weights.sum(dim=-1) / seen).square()


def _real(batch: Any, name: str, variance: Tensor) -> Tensor:
    """1 for the queries that are no padding, 0 for those that are: (B, 1, T)."""
    B, _, T = variance.shape
    real = variance.new_ones(B, T)
    if parse_attention_name(name)[0] == "encoder":
        if batch.source_lengths is not None:
            lengths = batch.source_lengths.to(variance.device)
            real = (torch.arange(T, device=variance.device) < lengths[:, None]).to(variance)
    elif batch.target_positions is not None:
        real = variance.new_zeros(B * T)
        real[batch.target_positions.to(variance.device)] = 1.0
    return real.view(B, 1, T)


def _write(run: Run, off: dict[str, list[int]], folder: Path) -> None:
    """The run without these heads, in a folder of its own."""
    before = {name: list(heads) for name, heads in run.recipe.model.pruned_heads.items()}
    out = dict(before)
    for name, heads in off.items():
        # the setting counts the heads of the whole model, some of which may be gone already
        gone = before.get(name, [])
        there = [head for head in range(run.recipe.model.heads) if head not in gone]
        out[name] = sorted([*gone, *(there[head] for head in heads)])
    recipe = override_settings(run.recipe, {"model.pruned_heads": out})
    metadata = {**run.metadata, "pruned_from": run.folder.name}
    pruned = Run(folder, recipe, metadata, run.vocabulary)
    model = deepcopy(run.task.model)  # the run that was opened stays as it was
    prune_heads(model, off)
    pruned.task.load(model.state_dict())
    pruned.save(folder)
