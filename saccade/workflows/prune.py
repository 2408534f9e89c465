r"""Pruning of attention heads that do not matter, in three steps.

1. Variance of the attention weights: a query that may attend to n keys gives them weights of mean
   1/n, and

       v_h = mean over queries of  Σ_j α_tj² / n - 1 / n²

   is 0 for a head that attends uniformly.
2. Gradient at the head's output: I_h = E_x |∂L(x)/∂ξ_h| with ξ_h = 1 a factor on the output of the
   head (Michel et al. 2019, eq. 2); here per target token. It is the change of the loss if the
   head is faded out, to first order.
3. Ablation: the dev split is evaluated with the head masked.

The first two only order the heads: they are tried in the order of the sum of their two ranks, each
in addition to those masked already, and a head stays masked if no dev score loses more than a
given share. So the tolerance holds for the pruned model, not for each head separately. Michel et
al. order by I_h alone; Voita et al. 2019 train gates. As there, the last head of an attention layer
stays.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.config import override_settings
from saccade.errors import ConfigError, RunError
from saccade.io.staging import check_output_folder, replace_folder, staging_folder
from saccade.nn.hooks import thread_hooks
from saccade.nn.pruning import count_heads, gated_heads, masked_heads, prune_heads
from saccade.runs.run import Run, load_run
from saccade.tasks.translation.predict import attention_kind
from saccade.training.device import set_num_threads
from saccade.types.progress import Progress, ignore_progress

PRUNE_TOLERANCE = 0.005  # relative loss of each dev score
PRUNE_EVAL_INPUTS = 500  # dev inputs evaluated for each head
TIMING_INPUTS, TIMING_ROUNDS = 500, 5  # test inputs, and repetitions
TIMING_SEGMENTS = 64  # of a text
PRUNE_METRICS = ("exact", "chrf")


class HeadReport(NamedTuple):
    """Results of the three steps for one head."""

    kind: str  # cross, encoder or decoder; self in a language model
    layer: int  # counted from 1, as in `look`
    head: int
    variance: float
    gradient: float
    loss: float  # on dev, without the head
    scores: dict[str, float]  # on dev, without the head
    is_pruned: bool

    @property
    def verdict(self) -> str:
        """The verdict for the table: pruned or kept."""
        return "pruned" if self.is_pruned else "kept"


class RunQuality(NamedTuple):
    """Size, test scores and inference time of a run."""

    heads: int
    parameters: int
    test: dict[str, float]
    milliseconds: float = math.nan  # per input, in batches; per segment of a text


class PruneResult(NamedTuple):
    """Reports of the heads, and the run before and after (None if no head was removed)."""

    heads: list[HeadReport]
    dev: dict[str, float]  # scores of the unpruned model
    before: RunQuality
    after: RunQuality | None
    folder: Path | None

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
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
    on_progress: Progress = ignore_progress,
) -> PruneResult:
    """Remove the attention heads of a run's model that do not matter; write the result to `out`.

    The result (RUN-pruned by default) is a run like any other, with smaller matrices; its setting
    `model.pruned_heads` lists the removed heads. `tolerance` is the largest relative loss of a
    dev score.
    """
    opened = run if isinstance(run, Run) else load_run(run)
    folder = _output_folder(opened.folder, out)
    _check_prunable(opened, tolerance)
    set_num_threads(opened.recipe.train.threads)
    on_progress("evaluating on the test split", 0, 0)
    before = measure_quality(opened)
    baseline = evaluate_dev(opened)
    if not any(baseline.get(name, 1.0) for name in PRUNE_METRICS):
        raise ConfigError(
            f"{opened.folder} has no correct prediction on its dev split, so the effect of a head "
            "cannot be measured. Train it for longer first."
        )
    search = _HeadSearch(opened, baseline, tolerance, on_progress)
    heads = search.reports()
    if not search.pruned:
        (milliseconds,) = time_runs(opened)
        unchanged = before._replace(milliseconds=milliseconds)
        return PruneResult(heads, baseline, unchanged, None, None)
    with staging_folder(folder) as staging:  # there once all is measured
        _save_pruned(opened, search.pruned, staging)
        on_progress("evaluating on the test split", 0, 0)
        smaller = load_run(staging)
        after = measure_quality(smaller)
        times = time_runs(opened, smaller)
        replace_folder(staging, folder)
    before, after = (
        quality._replace(milliseconds=milliseconds)
        for quality, milliseconds in zip((before, after), times, strict=True)
    )
    return PruneResult(heads, baseline, before, after, folder)


def _output_folder(run: Path, out: str | Path | None) -> Path:
    named = run if run.name else run.resolve()  # "." has no name
    folder = named.with_name(f"{named.name}-pruned") if out is None else Path(out)
    check_output_folder(folder, kept=[run])
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} already exists; choose another folder (--out).")
    return folder


def _check_prunable(run: Run, tolerance: float) -> None:
    if not 0 <= tolerance < 1:
        raise ConfigError(
            f"got a tolerance of {tolerance}; expected a share of the dev score in [0, 1)."
        )
    if "pruned_heads" not in type(run.recipe.model).model_fields:
        raise ConfigError(
            f"{run.folder}: got the model {run.recipe.model_name}; expected a transformer or a "
            "GPT, whose attention heads can be pruned."
        )


def measure_quality(run: Run) -> RunQuality:
    """Evaluate a run on its test split."""
    test = dict(run.evaluate().metrics)
    return RunQuality(sum(count_heads(run.model).values()), run.parameters, test)


def time_runs(*runs: Run) -> list[float]:
    """Return milliseconds per input of the test split, or segment of its text, for each run.

    The runs take turns and the best time of each counts, as other processes may use the machine.
    """
    best = [math.inf] * len(runs)
    for _ in range(TIMING_ROUNDS):
        for index, run in enumerate(runs):
            split = run.split("test")
            inputs = run.evaluator.inputs(split)[:TIMING_INPUTS]
            start = time.perf_counter()
            if inputs:
                run.predict(inputs)
            else:  # a text
                run.evaluator.evaluate(split, limit=TIMING_SEGMENTS)
            milliseconds = 1000 * (time.perf_counter() - start)
            best[index] = min(best[index], milliseconds / (len(inputs) or TIMING_SEGMENTS))
    return best


def evaluate_dev(run: Run) -> dict[str, float]:
    """Return the metrics of a sample of the dev split."""
    return dict(run.evaluator.evaluate(run.split("dev"), limit=PRUNE_EVAL_INPUTS).metrics)


class _HeadSearch:
    """Greedy search for heads that can be removed."""

    def __init__(
        self, run: Run, baseline: dict[str, float], tolerance: float, on_progress: Progress
    ):
        self.run, self.baseline, self.tolerance = run, baseline, tolerance
        self.on_progress = on_progress
        self.pruned: dict[str, list[int]] = {}
        self.done, self.total = 0, 2 * sum(count_heads(run.model).values())

    def reports(self) -> list[HeadReport]:
        """Run all three steps for every head."""
        variances, gradients = score_heads(self.run, self.on_progress)
        heads = [
            (name, head)
            for name, count in count_heads(self.run.model).items()
            for head in range(count)
        ]
        ablated = {(name, head): self._evaluate_without({name: [head]}) for name, head in heads}
        ranks = dict.fromkeys(heads, 0)
        for values in (variances, gradients):
            order = sorted(heads, key=lambda key: values[key[0]][key[1]])
            for rank, key in enumerate(order):
                ranks[key] += rank
        for name, head in sorted(heads, key=lambda key: ranks[key]):
            self._try(name, head, ablated[name, head])
        reports = []
        for name, head in heads:
            kind, layer = attention_kind(name)
            metrics = ablated[name, head]
            reports.append(
                HeadReport(
                    kind,
                    layer,
                    head + 1,
                    variances[name][head],
                    gradients[name][head],
                    metrics["loss"],
                    {
                        metric: metrics[metric]
                        for metric in PRUNE_METRICS
                        if metric in self.baseline
                    },
                    head in self.pruned.get(name, ()),
                )
            )
        return reports

    def _evaluate_without(self, heads: Mapping[str, list[int]]) -> dict[str, float]:
        self.done += 1
        self.on_progress("masking heads", self.done, self.total)
        with masked_heads(self.run.model, heads):
            return evaluate_dev(self.run)

    def _try(self, name: str, head: int, ablated: dict[str, float]) -> None:
        """Mask a head in addition to the pruned ones; prune it if the scores allow it."""
        masked = sorted([*self.pruned.get(name, []), head])
        count = count_heads(self.run.model)[name]
        if len(masked) == count or not is_within_tolerance(self.baseline, ablated, self.tolerance):
            self.done += 1
            return
        together = self._evaluate_without({**self.pruned, name: masked}) if self.pruned else ablated
        if is_within_tolerance(self.baseline, together, self.tolerance):
            self.pruned[name] = masked


def is_within_tolerance(
    baseline: Mapping[str, float], current: Mapping[str, float], tolerance: float
) -> bool:
    """Return True if no score (without scores: the loss) is worse by more than the tolerance."""
    scores = [name for name in PRUNE_METRICS if name in baseline]
    if not scores:
        return current["loss"] <= (1 + tolerance) * baseline["loss"]
    return all(current[name] >= (1 - tolerance) * baseline[name] for name in scores)


HeadScores = dict[str, list[float]]  # by name of the attention layer, a score for each head


def score_heads(run: Run, on_progress: Progress) -> tuple[HeadScores, HeadScores]:
    """Return the variance and the gradient of every head over the dev split."""
    make_objective = run.components.objective
    assert make_objective is not None
    objective = make_objective(run.recipe, run.model, run.preprocessor, run.data().splits)
    model = run.model.eval()
    sums: dict[str, Tensor] = {}
    queries: dict[str, float] = {}
    gradients: dict[str, Tensor] = {}
    tokens = 0
    for index, batch in enumerate(objective.batches("dev", 0)):
        on_progress("scoring the heads", index, 0)
        with gated_heads(model) as factors, _record_variances(model, batch, sums, queries):
            loss = objective.loss(batch).total
        for name, gradient in factors.gradients(loss).items():
            gradients[name] = gradients.get(name, 0.0) + gradient.abs().sum(dim=0)
        tokens += batch.tokens
    variances = {name: (total / queries[name]).tolist() for name, total in sums.items()}
    return variances, {name: (total / tokens).tolist() for name, total in gradients.items()}


@contextmanager
def _record_variances(
    model: nn.Module, batch: Any, sums: dict[str, Tensor], queries: dict[str, float]
) -> Iterator[None]:
    """Sum the variances of the attention weights of all unpadded queries within the block."""

    @torch.no_grad()
    def record(name: str, module: Any, inputs: Any, output: Tensor) -> None:
        query, keys, _, mask = inputs
        weights = module.weights(query, keys, mask)
        may_attend = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
        variance = attention_variance(weights, may_attend)
        unpadded = _unpadded_queries(batch, name, variance)
        sums[name] = sums.get(name, 0.0) + (variance * unpadded).sum(dim=(0, 2))
        queries[name] = queries.get(name, 0.0) + float(unpadded.sum())

    found: dict[str, Any] = {name: model.get_submodule(name) for name in count_heads(model)}
    with thread_hooks({name: part.attention for name, part in found.items()}, record):
        yield


def attention_variance(weights: Tensor, may_attend: Tensor | None) -> Tensor:
    """Variance of each query's weights over the keys it may attend to: (B, H, T, S) → (B, H, T)."""
    if may_attend is None:
        return weights.var(dim=-1, correction=0)
    keys = may_attend.sum(dim=-1).clamp(min=1)
    return weights.square().sum(dim=-1) / keys - (weights.sum(dim=-1) / keys).square()


def _unpadded_queries(batch: Any, name: str, variance: Tensor) -> Tensor:
    """Return 1 for queries that are not padding, 0 for padding: (B, 1, T)."""
    B, _, T = variance.shape
    unpadded = variance.new_ones(B, T)
    if attention_kind(name)[0] == "encoder":
        if batch.source_lengths is not None:
            lengths = batch.source_lengths.to(variance.device)
            unpadded = (torch.arange(T, device=variance.device) < lengths[:, None]).to(variance)
    elif batch.target_positions is not None:
        unpadded = variance.new_zeros(B * T)
        unpadded[batch.target_positions.to(variance.device)] = 1.0
    return unpadded.view(B, 1, T)


def _save_pruned(run: Run, pruned: dict[str, list[int]], folder: Path) -> None:
    """Save the run without these heads in a new folder."""
    settings = run.recipe.model.model_dump()
    before = {name: list(heads) for name, heads in settings["pruned_heads"].items()}
    setting = dict(before)
    for name, heads in pruned.items():
        # the setting numbers the heads of the original model, some of which may be pruned already
        earlier = before.get(name, [])
        remaining = [head for head in range(settings["heads"]) if head not in earlier]
        setting[name] = sorted([*earlier, *(remaining[head] for head in heads)])
    recipe = override_settings(run.recipe, {"model.pruned_heads": setting})
    metadata = {**run.metadata, "pruned_from": run.folder.name}
    smaller = Run(folder, recipe, metadata, run.preprocessor)
    model = deepcopy(run.model)  # the opened run stays unchanged
    prune_heads(model, pruned)
    smaller.model.load_state_dict(model.state_dict())
    smaller.save(folder)
