"""Models compared on the same data, tokenizer, budget and metric, over several seeds.

Or one setting of one model, value after value: `saccade.workflows.compare_sweeps`. When a difference is
stated, and when it is said to be none: `saccade.workflows.compare_measure`.
"""

import json
import platform
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from saccade import __version__
from saccade.config import flatten, override_settings
from saccade.errors import ConfigError, DataError, RunError, TrainingError
from saccade.io.atomic import read_checksummed_json, read_checksummed_text, write_checksummed_json
from saccade.plots.attention import image_format
from saccade.plots.comparison import save_comparison
from saccade.recipes.resolve import resolve_recipe
from saccade.registry import lookup
from saccade.runs.run import Run, TrainOptions, load_run, resume
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.training.device import set_num_threads
from saccade.workflows.compare_measure import (
    ComparisonMetric,
    ModelDifference,
    ModelResults,
    RunResult,
    comparison_metric,
    measure_run,
    pairwise_differences,
    rank_models,
    read_stop_reason,
)
from saccade.workflows.compare_sweeps import SWEEPS, Sweep

DEFAULT_MINUTES = 2.0  # for each training, if nothing else is said
UNBOUNDED_STEPS = 10**9  # steps: the clock is to end it


class Comparison(NamedTuple):
    """The rows, the best first; what they were compared by; and what can be said."""

    rows: list[ModelResults]
    metric: ComparisonMetric
    differences: list[ModelDifference]
    notes: list[str]  # what was the same for all
    folder: Path
    plot: Path
    compared: str = "model"  # what a row is

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        differences = [{**d._asdict(), "interval": d.interval} for d in self.differences]
        return {
            "metric": self.metric._asdict(),
            "rows": [row.to_dict() for row in self.rows],
            "differences": differences,
            "notes": self.notes,
            "folder": str(self.folder),
            "plot": str(self.plot),
            "compared": self.compared,
        }


def compare(
    what: str,
    *,
    data: str | None = None,
    models: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int = 3,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    save: str | Path | None = None,
    options: TrainOptions | None = None,
) -> Comparison:
    """Train models on the same data, tokenizer and budget with seeds 1, 2, …, and compare them.

    `what`, `data` and `set` are as in `saccade.train`; without `models` all that the task has are
    tried. The budget of each training is `minutes` (2 unless said otherwise) or `steps`, or
    whichever is over first; patience ends one that has stopped getting better. Each run has its
    folder in `out` (runs/compare-NAME): one that is finished there is not trained again, one that
    was stopped goes on. The curves are drawn in `save` (comparison.png in `out`).

    If `what` is a word of `VARIED` (activations, inits, optimizers), it is that setting's values
    that are compared, all or `only` some, with `data` what else would be `what`, and with one
    model.
    """
    options = options or TrainOptions()
    varied = SWEEPS.get(what)
    name = Path((data or what).split(",")[0]).name.split(".")[0]
    if varied is not None:
        name = f"{what}-{name}"
    folder = Path("runs") / f"compare-{name}" if out is None else Path(out)
    if minutes is None and steps is None and "train.steps" not in (set or {}):
        minutes = DEFAULT_MINUTES
    budget = _budget(minutes, steps, seeds, set or {})
    changes = {**(set or {}), **budget}
    if varied is not None:
        recipes = _varied(what, varied, data, models, only, changes)
    elif only is not None:
        raise ConfigError(f"only is for {', '.join(SWEEPS)}; use models for models.")
    else:
        recipes = _recipes(what, data, models, changes)
    plot = folder / "comparison.png" if save is None else Path(save)
    try:
        image_format(plot)  # now, not after an hour
    except ValueError as error:
        raise ConfigError(str(error)) from None
    by_clock = minutes is not None and steps is None and "train.steps" not in (set or {})
    trainings = _Trainings(folder, recipes, by_clock, options)
    trainings.check(seeds)
    may_fail = varied is not None and only is None
    runs, metric, left_out = _train_all(trainings, list(recipes), seeds, may_fail, options)
    rows = rank_models([ModelResults(model, tuple(found)) for model, found in runs.items()], metric)
    over_steps = varied is not None and not by_clock
    curves = {row.model: [one.curve_over(over_steps) for one in row.runs] for row in rows}
    save_comparison(curves, metric.label, plot, "step" if over_steps else "seconds of training")
    notes = trainings.notes() + [f"{model} was left out: {why}" for model, why in left_out.items()]
    if varied is not None:
        if only is None:
            notes += [f"{v} was left out: {why}." for v, why in varied.opt_in.items()]
        notes += _own_settings(varied, {row.model: trainings.place(row.model, 1) for row in rows})
    compared = "model" if varied is None else varied.name
    return Comparison(
        rows, metric, pairwise_differences(rows, metric), notes, folder, plot, compared
    )


def _train_all(
    trainings: "_Trainings", models: list[str], seeds: int, may_fail: bool, options: TrainOptions
) -> tuple[dict[str, list[RunResult]], ComparisonMetric, dict[str, str]]:
    """What each training came to, by what, and why some were left out, if they may fail."""
    runs: dict[str, list[RunResult]] = {model: [] for model in models}
    metric, left_out = ComparisonMetric("", True), dict[str, str]()
    # all models with one seed before any with the next: stopped early, there is something to see
    for seed in range(1, seeds + 1):
        for model in list(runs):
            try:
                run = trainings.trained(model, seed)
            except (ConfigError, TrainingError) as error:
                if not may_fail or len(runs) == 1:
                    raise
                left_out[model] = str(error)
                del runs[model]
                options.log(f"{model} is left out: {error}")
                continue
            metric = comparison_metric(run.recipe)
            options.log(f"{run.folder}: trained; answering the test set …")
            runs[model].append(measure_run(run, metric, seed))
    return runs, metric, left_out


def _budget(
    minutes: float | None, steps: int | None, seeds: int, set: Mapping[str, Any]
) -> dict[str, Any]:
    if taken := {"train.seed", "train.minutes", "model.name"} & {*set}:
        raise ConfigError(
            f"compare sets {', '.join(sorted(taken))} by itself; use --seeds, --minutes and "
            "--models."
        )
    if seeds < 1:
        raise ConfigError(f"{seeds} seeds were asked for; at least 1 is needed, better 3.")
    budget: dict[str, Any] = {} if minutes is None else {"train.minutes": minutes}
    return budget | ({} if steps is None else {"train.steps": steps})


def _recipes(
    what: str, data: str | None, models: Sequence[str] | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """The recipe of each model; all that is wrong with any is said before the first is trained."""
    if models is None:
        models = sorted(task_spec_for(resolve_recipe(what, data=data).recipe).models)
    if len({*models}) < len(models) or not models:
        raise ConfigError(
            f"models are {', '.join(models) or 'none'}; each was wanted once, and one or more."
        )
    if "svm" in models and len(models) > 1:
        raise ConfigError(
            "svm makes the hinge loss small and the others do not, so their losses cannot be "
            "compared. Train both, and compare the accuracy that saccade evaluate says."
        )
    return {
        model: resolve_recipe(what, data=data, model=model, changes=changes).recipe
        for model in models
    }


def _varied(
    word: str,
    varied: Sweep,
    data: str | None,
    models: Sequence[str] | None,
    only: Sequence[str] | None,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """The recipe of each value of a setting, of one model."""
    if data is None:
        raise ConfigError(
            f"compare {word} needs something to train: --data with a recipe (see saccade list), "
            "a .toml or a file of pairs."
        )
    if models is not None and len(models) != 1:
        raise ConfigError(
            f"models are {', '.join(models) or 'none'}; compare {word} trains one model with "
            f"each {varied.name}."
        )
    if varied.path in changes:
        raise ConfigError(f"compare {word} sets {varied.path} by itself; use --only.")
    values = [v for v in varied.values if v not in varied.opt_in] if only is None else list(only)
    if len({*values}) < len(values) or not values:
        raise ConfigError(
            f"{word} are {', '.join(values) or 'none'}; each was wanted once, and one or more."
        )
    model = models[0] if models else None
    _check_has(varied, data, model, {p: v for p, v in changes.items() if p == "data.target"})
    recipes = {}
    for value in values:
        lookup(varied.values, value, varied.name)
        asked = {**varied.changes(value), **changes}
        recipes[value] = resolve_recipe(data, model=model, changes=asked).recipe
    recipe = recipes[values[0]]
    if not issubclass(task_spec_for(recipe).models[recipe.model.name], torch.nn.Module):
        raise ConfigError(
            f"{recipe.model.name} fits itself and takes no steps: {varied.path} would change "
            "nothing. Name a model that does with --models."
        )
    return recipes


def _check_has(varied: Sweep, data: str, model: str | None, target: dict[str, Any]) -> None:
    """Refuse a model without the setting, and name those of its task that have it.

    By a `target` a file is known as a table.
    """
    recipe = resolve_recipe(data, model=model, changes=target).recipe
    if varied.path in flatten(recipe):
        return
    others = [
        other
        for other in sorted(task_spec_for(recipe).models)
        if varied.path in flatten(resolve_recipe(data, model=other, changes=target).recipe)
    ]
    hint = f"Name one that has with --models: {', '.join(others)}." if others else ""
    raise ConfigError(
        f"{recipe.model.name} has no {varied.path}, so there is nothing to compare. {hint}".rstrip()
    )


def _own_settings(varied: Sweep, places: dict[str, Path]) -> list[str]:
    """What was not the same for all, because some values want it otherwise."""
    recipes = {value: flatten(load_run(place).recipe) for value, place in places.items()}
    notes = []
    for path in sorted({path for value in places for path in varied.values[value]}):
        by_setting: dict[Any, list[str]] = {}
        for value, settings in recipes.items():
            by_setting.setdefault(settings[path], []).append(value)
        if len(by_setting) > 1:
            each = [f"{setting} for {', '.join(names)}" for setting, names in by_setting.items()]
            notes.append(f"{path}: {'; '.join(each)}.")
    return notes


class _Trainings:
    """The runs of a comparison, in folders MODEL-SEED: made, gone on with, or found finished."""

    def __init__(
        self, folder: Path, recipes: dict[str, Any], by_clock: bool, options: TrainOptions
    ):
        self.folder, self.recipes, self.options = folder, recipes, options
        self.by_clock = by_clock  # whatever steps the recipe has, the clock ends it
        self.vocabulary: Any = None
        self.data: Any = None  # the settings of it, once resolved
        self.settled: dict[str, tuple[Any, str]] = {}  # of each model: recipe, print of the data
        self.seals: dict[str, str] = {}  # of each folder: its tokenizer's
        self.prints: dict[str, str] = {}  # and its training data's

    def place(self, model: str, seed: int) -> Path:
        return self.folder / f"{model}-{seed}"

    def check(self, seeds: int) -> None:
        """Refuse a folder whose runs are of another comparison; take up their tokenizer."""
        asked = {model: _asked(recipe) for model, recipe in self.recipes.items()}
        kept = self.folder / "comparison.json"
        before = read_checksummed_json(kept)["asked"] if kept.exists() else {}
        for model in self.recipes:
            for seed in range(1, seeds + 1):
                place = self.place(model, seed)
                if (place / "run.toml").exists():
                    self._take_up(place, asked[model], before.get(model))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_checksummed_json(kept, {"asked": before | asked})

    def _take_up(self, place: Path, asked: dict[str, Any], before: dict[str, Any] | None) -> None:
        if before != asked:
            found = ["it is of no comparison"]
            if before is not None:
                paths = sorted({*before, *asked})
                pairs = [
                    (path, before.get(path, "open"), asked.get(path, "open")) for path in paths
                ]
                found = [f"{path}: {old!r} → {new!r}" for path, old, new in pairs if old != new]
            raise RunError(
                f"{place} was trained as something else ({'; '.join(found)}). "
                "Choose another folder (--out), or remove that one."
            )
        values = tomllib.loads(read_checksummed_text(place / "run.toml"))
        self._check_same(place, values["made"]["data"])
        if self.vocabulary is None:
            recipe = read_recipe(values["recipe"], str(place / "run.toml"))
            kept = read_checksummed_json(place / "tokenizer.json")
            self.vocabulary, self.data = task_spec_for(recipe).vocabulary(kept), recipe.data

    def trained(self, model: str, seed: int) -> Run:
        """The run, finished."""
        place = self.place(model, seed)
        if not (place / "run.toml").exists():
            self._begin(model, seed)
        if read_stop_reason(place) in ("", "stop"):
            self.options.log(f"\n{model} with seed {seed}, into {place}:")
            trained = resume(place, {}, self.options)
            if trained.stop_reason == "stop":
                raise KeyboardInterrupt("Stopped and saved. The same command goes on from here.")
        run = load_run(place)
        self.seals[str(place)] = json.loads((place / "tokenizer.json").read_text("utf-8"))["sha256"]
        return run

    def _begin(self, model: str, seed: int) -> None:
        """Write the settings of a run that is to be trained, with the tokenizer of them all."""
        recipe, data_print = self._settle(model)
        self._check_same(self.place(model, seed), data_print)
        recipe = override_settings(recipe, {"train.seed": seed})
        metadata = {
            "saccade": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": set_num_threads(recipe.train.threads),
            "data": data_print,
        }
        place = self.place(model, seed)
        Run(place, recipe, metadata, self.vocabulary).save_settings(place)

    def _settle(self, model: str) -> tuple[Any, str]:
        """The recipe with all that follows from the data, which is read once for each model."""
        if model not in self.settled:
            recipe = self.recipes[model]
            if self.data is not None:
                recipe = recipe.with_values(data=self.data.model_dump())
            prepared = task_spec_for(recipe).prepare(
                recipe, lambda what, done, total: None, self.vocabulary
            )
            recipe = prepared.recipe
            self.vocabulary, self.data = prepared.vocabulary, recipe.data
            if self.by_clock:
                recipe = override_settings(recipe, {"train.steps": UNBOUNDED_STEPS})
            self.settled[model] = recipe, prepared.fingerprint()
        return self.settled[model]

    def _check_same(self, place: Path, data_print: str) -> None:
        """Refuse data that has changed since another of the runs was begun."""
        for other, before in self.prints.items():
            if before != data_print:
                raise DataError(
                    f"{place} and {other} do not have the same training data, so they cannot be "
                    "compared: it has changed. Bring it back, or choose another folder (--out)."
                )
        self.prints[str(place)] = data_print

    def notes(self) -> list[str]:
        """What was the same for all; refused if it was not."""
        if len({*self.seals.values()}) > 1:
            raise RunError(
                f"the runs in {self.folder} do not have the same tokenizer.json, so they cannot be "
                "compared. Choose another folder (--out)."
            )
        seal, data_print = next(iter(self.seals.values())), next(iter(self.prints.values()))
        if hasattr(self.data, "tokenizer"):
            first = f"One tokenizer for all, learned once: sha256 {seal[:12]}."
        else:
            first = f"One tokenizer.json (what was learned before training): sha256 {seal[:12]}."
        return [first, f"One set of training data for all: print {data_print[:12]}."]


def _asked(recipe: Any) -> dict[str, Any]:
    """What was asked for, as it comes back from a file."""
    return dict(json.loads(json.dumps(flatten(recipe, exclude_unset=True))))
