"""Train and compare models on the same data, tokenizer, budget and metric, over several seeds.

Or values of one setting of one model (`recipes.sweeps`). `significance` decides whether a
difference is stated.
"""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import flatten, override_settings
from saccade.errors import ConfigError, DataError, RunError, Stopped, TrainingError
from saccade.io.atomic import read_checksummed_json, read_checksummed_text, write_checksummed_json
from saccade.io.documents import parse_json, parse_toml
from saccade.plots.comparison import save_comparison
from saccade.plots.style import image_format
from saccade.recipes.resolve import RECIPES, named_recipe, resolve_recipe
from saccade.recipes.sweeps import SWEEPS, Sweep
from saccade.registry import lookup
from saccade.runs.run import Run, load_run, run_metadata
from saccade.runs.train import TrainOptions, resume
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.training.device import set_num_threads
from saccade.types.html import html_image, html_paragraph, html_table
from saccade.types.results import ComparisonMetric
from saccade.workflows.compare.measure import (
    ModelResults,
    RunResult,
    measure_run,
    read_stop_reason,
)
from saccade.workflows.compare.significance import (
    ModelDifference,
    pairwise_differences,
    rank_models,
)

DEFAULT_MINUTES = 2.0  # of each training
MIN_CURVE_POINTS = 10  # evaluations of a training by steps, for a curve


class Comparison(NamedTuple):
    """Result of `compare`."""

    rows: list[ModelResults]  # the best first
    metric: ComparisonMetric
    differences: list[ModelDifference]
    notes: list[str]  # shared tokenizer and data, and settings that differ
    folder: Path
    plot: Path
    compared: str = "model"  # heading of the first column

    def _repr_html_(self) -> str:
        """Return the table, the verdicts and the curves for a notebook."""
        columns = [self.compared, "parameters", "dev", "test", "seeds", "ms"]
        rows = [
            [
                row.model,
                f"{row.runs[0].parameters:,}",
                *(f"{row.mean(name):.4g}" for name in ("dev", "test")),
                f"{min(row.values('test')):.3g}–{max(row.values('test')):.3g}",
                f"{row.mean('milliseconds'):.3g}",
            ]
            for row in self.rows
        ]
        parts = [html_paragraph(self.metric.label), html_table(columns, rows)]
        parts += [html_paragraph(difference.summary) for difference in self.differences]
        if self.plot.suffix == ".png" and self.plot.exists():
            parts.append(html_image(self.plot.read_bytes(), f"{self.metric.label} over training"))
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
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


def compare_models(
    what: str,
    *,
    data: str | None = None,
    models: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    ablate: Sequence[str] | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int = 3,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    save: str | Path | None = None,
    options: TrainOptions | None = None,
) -> Comparison:
    """Train models on the same data, tokenizer and budget with seeds 1, 2, …, and compare them.

    Patience ends a training that has stopped improving. Each run has its folder in `out`: a
    finished run there is not trained again, an interrupted one is resumed.

    Args:
        what: as in `saccade.train`; or a name of `SWEEPS` (activations, inits, optimizers), to
            compare the values of that setting with one model.
        data: as in `saccade.train`; for a sweep, what `what` would be otherwise.
        models: names; all models of the task by default.
        only: for a sweep, the values to compare; all by default.
        ablate: switches of one model; it is compared with itself with each of them off.
        minutes: time budget of each training; 2 by default if no steps are given, except of agents
            (the task control), each of which has the length of its recipe.
        steps: steps of each training; with `minutes`, whichever ends first.
        seeds: number of trainings of each model.
        set: settings by dotted path, for all models.
        out: folder of the runs; runs/compare-NAME by default.
        save: image of the curves; comparison.png in `out` by default.
        options: progress and logging.
    """
    options = options or TrainOptions()
    sweep = SWEEPS.get(what)
    name = Path((data or what).split(",")[0]).name.split(".")[0]
    if sweep is not None:
        name = f"{what}-{name}"
    folder = Path("runs") / f"compare-{name}" if out is None else Path(out)
    has_length = minutes is not None or steps is not None or "train.steps" in (set or {})
    if not has_length and not _is_trained_by_steps(what if sweep is None else data):
        minutes = DEFAULT_MINUTES
    budget = _budget_settings(minutes, steps, seeds, set or {})
    changes = {**(set or {}), **budget}
    if sweep is not None:
        recipes = _sweep_recipes(what, sweep, data, models, only, changes)
    elif ablate is not None:
        recipes = _ablation_recipes(what, data, models, ablate, changes)
    elif only is not None:
        raise ConfigError(f"--only selects values of {', '.join(SWEEPS)}; use --models for models.")
    else:
        recipes = _model_recipes(what, data, models, changes)
    plot = folder / "comparison.png" if save is None else Path(save)
    try:
        image_format(plot)  # before the trainings, not after
    except ValueError as error:
        raise ConfigError(str(error)) from None
    by_clock = minutes is not None and steps is None and "train.steps" not in (set or {})
    keeps_interval = "train.evaluate_every" in (set or {})
    trainings = _Trainings(folder, recipes, by_clock, keeps_interval, options)
    trainings.check(seeds)
    may_fail = sweep is not None and only is None
    runs, metric, left_out = _train_all(trainings, list(recipes), seeds, may_fail, options)
    rows = rank_models([ModelResults(model, tuple(found)) for model, found in runs.items()], metric)
    over_steps = sweep is not None and not by_clock
    curves = {row.model: [run.curve_over(over_steps) for run in row.runs] for row in rows}
    save_comparison(curves, metric.label, plot, "step" if over_steps else "seconds of training")
    notes = trainings.notes()
    if metric.by_seeds:
        notes += _baselines(load_run(trainings.run_folder(rows[0].model, 1)), metric)
    notes += [f"{model} was left out: {reason}" for model, reason in left_out.items()]
    if sweep is not None:
        if only is None:
            notes += [f"{value} was left out: {reason}." for value, reason in sweep.opt_in.items()]
        folders = {row.model: trainings.run_folder(row.model, 1) for row in rows}
        notes += _value_specific_settings(sweep, folders)
    compared = "model" if sweep is None else sweep.name
    return Comparison(
        rows, metric, pairwise_differences(rows, metric), notes, folder, plot, compared
    )


def _baselines(run: Run, metric: ComparisonMetric) -> list[str]:
    """Return the scores of trivial baselines on the test split, as sentences."""
    found = run.evaluator.floors(run.split("train"), run.split("test"))
    return [
        f"{name}: {metric.factor * values[metric.name]:.4g}, on the same test episodes."
        for name, values in found.items()
    ]


def _train_all(
    trainings: "_Trainings", models: list[str], seeds: int, may_fail: bool, options: TrainOptions
) -> tuple[dict[str, list[RunResult]], ComparisonMetric, dict[str, str]]:
    """Return the results by model, the metric, and why models were left out (if they may fail)."""
    runs: dict[str, list[RunResult]] = {model: [] for model in models}
    metric, left_out = ComparisonMetric("", True), dict[str, str]()
    # every model with one seed before the next seed: an interrupted comparison has all models
    for seed in range(1, seeds + 1):
        for model in list(runs):
            try:
                run = trainings.trained_run(model, seed)
            except (ConfigError, TrainingError) as error:
                if not may_fail or len(runs) == 1:
                    raise
                left_out[model] = str(error)
                del runs[model]
                options.log(f"{model} is left out: {error}")
                continue
            metric = run.comparison_metric
            options.log(f"{run.folder}: trained; evaluating on the test split …")
            runs[model].append(measure_run(run, metric, seed))
    return runs, metric, left_out


def _budget_settings(
    minutes: float | None, steps: int | None, seeds: int, set: Mapping[str, Any]
) -> dict[str, Any]:
    if taken := {"train.seed", "train.minutes", "model.name"} & {*set}:
        raise ConfigError(
            f"compare sets {', '.join(sorted(taken))} itself; use --seeds, --minutes and --models."
        )
    if seeds < 1:
        raise ConfigError(f"got {seeds} seeds; expected at least 1, better 3.")
    budget: dict[str, Any] = {} if minutes is None else {"train.minutes": minutes}
    return budget | ({} if steps is None else {"train.steps": steps})


def _model_recipes(
    what: str, data: str | None, models: Sequence[str] | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """Return the recipe of each model; all errors are raised before the first training."""
    if models is None:
        models = sorted(task_spec_for(resolve_recipe(what, data=data).recipe).models)
    if len({*models}) < len(models) or not models:
        raise ConfigError(
            f"got the models {', '.join(models) or 'none'}; expected one or more, each once."
        )
    own = {"svm": ("hinge", "accuracy"), "svr": ("ε-insensitive", "RMSE")}
    for model in [model for model in models if model in own and len(models) > 1]:
        raise ConfigError(
            f"{model} minimises the {own[model][0]} loss and the others do not, so their losses "
            f"cannot be compared. Train both, and compare the {own[model][1]} of saccade evaluate."
        )
    return {
        model: resolve_recipe(what, data=data, model=model, changes=changes).recipe
        for model in models
    }


def _is_trained_by_steps(what: str | None) -> bool:
    """Return True for a task whose trainings have the length of the recipe, no time budget."""
    if what is None or not (what in RECIPES or what.endswith(".toml")):
        return False
    return task_spec_for(named_recipe(what)).is_trained_by_steps


def _ablation_recipes(
    what: str,
    data: str | None,
    models: Sequence[str] | None,
    ablate: Sequence[str],
    changes: dict[str, Any],
) -> dict[str, Any]:
    """Return the recipe of a model, and the same with each of some switches off."""
    if models is None or len(models) != 1:
        raise ConfigError(
            f"got --ablate with the models {', '.join(models or ()) or 'of the task'}; expected "
            "one model, whose parts are switched off; try --models with one name."
        )
    whole = resolve_recipe(what, data=data, model=models[0], changes=changes).recipe
    switches = {
        path.removeprefix("model."): value
        for path, value in flatten(whole).items()
        if path.startswith("model.") and isinstance(value, bool)
    }
    for name in ablate:
        lookup(switches, name, f"switch of {models[0]}")
        if not switches[name]:
            raise ConfigError(
                f"got --ablate {name}; expected a switch that is on; try --set model.{name}=true."
            )
    recipes = {models[0]: whole}
    for name in ablate:
        off = {**changes, f"model.{name}": False}
        recipes[f"{models[0]}-no-{name}"] = resolve_recipe(
            what, data=data, model=models[0], changes=off
        ).recipe
    return recipes


def _sweep_recipes(
    word: str,
    sweep: Sweep,
    data: str | None,
    models: Sequence[str] | None,
    only: Sequence[str] | None,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """Return the recipe of each value of a setting, all with one model."""
    if data is None:
        raise ConfigError(
            f"compare {word} needs something to train: --data with a recipe (see saccade list), "
            "a .toml or a file of pairs."
        )
    if models is not None and len(models) != 1:
        raise ConfigError(
            f"got the models {', '.join(models) or 'none'}; expected one, which compare {word} "
            f"trains with each {sweep.name}."
        )
    if sweep.path in changes:
        raise ConfigError(f"compare {word} sets {sweep.path} itself; use --only.")
    values = [v for v in sweep.values if v not in sweep.opt_in] if only is None else list(only)
    if len({*values}) < len(values) or not values:
        raise ConfigError(
            f"got the {word} {', '.join(values) or 'none'}; expected one or more, each once."
        )
    model = models[0] if models else None
    target = {path: value for path, value in changes.items() if path == "data.target"}
    _check_has_setting(sweep, data, model, target)
    recipes = {}
    for value in values:
        lookup(sweep.values, value, sweep.name)
        overrides = {**sweep.changes(value), **changes}
        recipes[value] = resolve_recipe(data, model=model, changes=overrides).recipe
    recipe = recipes[values[0]]
    if task_spec_for(recipe).components(recipe).objective is None:
        raise ConfigError(
            f"{recipe.model_name} is not trained by gradient descent, so {sweep.path} has no "
            "effect. Choose another model with --models."
        )
    return recipes


def _check_has_setting(sweep: Sweep, data: str, model: str | None, target: dict[str, Any]) -> None:
    """Refuse a model without the setting; the message lists the models that have it.

    `target` marks a data file as a table.
    """
    recipe = resolve_recipe(data, model=model, changes=target).recipe
    if sweep.path in flatten(recipe):
        return
    suitable = [
        name
        for name in sorted(task_spec_for(recipe).models)
        if sweep.path in flatten(resolve_recipe(data, model=name, changes=target).recipe)
    ]
    hint = f"Models that have it: {', '.join(suitable)} (--models)." if suitable else ""
    raise ConfigError(f"the model {recipe.model_name} has no {sweep.path}. {hint}".rstrip())


def _value_specific_settings(sweep: Sweep, folders: dict[str, Path]) -> list[str]:
    """Describe settings that differ between the values of a sweep, e.g. learning rates."""
    recipes = {value: flatten(load_run(folder).recipe) for value, folder in folders.items()}
    notes = []
    for path in sorted({path for value in folders for path in sweep.values[value]}):
        by_setting: dict[Any, list[str]] = {}
        for value, settings in recipes.items():
            by_setting.setdefault(settings[path], []).append(value)
        if len(by_setting) > 1:
            parts = [f"{setting} for {', '.join(names)}" for setting, names in by_setting.items()]
            notes.append(f"{path}: {'; '.join(parts)}.")
    return notes


class _Trainings:
    """The runs of a comparison in folders MODEL-SEED: new, interrupted or finished."""

    def __init__(
        self,
        folder: Path,
        recipes: dict[str, Any],
        by_clock: bool,
        keeps_interval: bool,
        options: TrainOptions,
    ):
        self.folder, self.recipes, self.options = folder, recipes, options
        self.by_clock = by_clock  # the time budget ends a training, not its steps
        self.keeps_interval = keeps_interval  # between evaluations: it was requested
        self.preprocessor: Any = None
        self.data: Any = None  # data settings, once resolved
        self.prepared: dict[str, tuple[Any, str]] = {}  # by model: recipe, data fingerprint
        self.tokenizer_checksums: dict[str, str] = {}  # by folder
        self.data_fingerprints: dict[str, str] = {}  # by folder

    def run_folder(self, model: str, seed: int) -> Path:
        return self.folder / f"{model}-{seed}"

    def check(self, seeds: int) -> None:
        """Refuse a folder with runs of another comparison; reuse the tokenizer of its runs."""
        requested = {model: _explicit_settings(recipe) for model, recipe in self.recipes.items()}
        record = self.folder / "comparison.json"
        before = read_checksummed_json(record)["asked"] if record.exists() else {}
        for model in self.recipes:
            for seed in range(1, seeds + 1):
                folder = self.run_folder(model, seed)
                if (folder / "run.toml").exists():
                    self._reuse(folder, requested[model], before.get(model))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_checksummed_json(record, {"asked": before | requested})

    def _reuse(
        self, folder: Path, requested: dict[str, Any], before: dict[str, Any] | None
    ) -> None:
        if before != requested:
            differences = ["not part of a comparison"]
            if before is not None:
                paths = sorted({*before, *requested})
                pairs = [
                    (path, before.get(path, "unset"), requested.get(path, "unset"))
                    for path in paths
                ]
                differences = [f"{p}: {old!r} → {new!r}" for p, old, new in pairs if old != new]
            raise RunError(
                f"{folder} was trained with other settings ({'; '.join(differences)}). "
                "Choose another folder (--out), or remove that one."
            )
        values = parse_toml(read_checksummed_text(folder / "run.toml"))
        self._check_same_data(folder, values["made"]["data"])
        if self.preprocessor is None:
            recipe = read_recipe(values["recipe"], str(folder / "run.toml"))
            saved = read_checksummed_json(folder / "tokenizer.json")
            self.preprocessor, self.data = (
                task_spec_for(recipe).read_preprocessor(saved),
                recipe.data,
            )

    def trained_run(self, model: str, seed: int) -> Run:
        """Return the finished run; train or resume it if necessary."""
        folder = self.run_folder(model, seed)
        if not (folder / "run.toml").exists():
            self._create(model, seed)
        if read_stop_reason(folder) in ("", "stop"):
            self.options.log(f"\n{model} with seed {seed}, into {folder}:")
            result = resume(folder, {}, self.options)
            if result.stop_reason == "stop":
                message = "Stopped and saved. The same command resumes."
                raise Stopped(message, result.signal_number or signal.SIGINT)
        run = load_run(folder)
        saved = parse_json((folder / "tokenizer.json").read_text("utf-8"))
        self.tokenizer_checksums[str(folder)] = saved["sha256"]
        return run

    def _create(self, model: str, seed: int) -> None:
        """Write the settings of a new run, with the tokenizer that all runs share."""
        recipe, fingerprint = self._prepare(model)
        folder = self.run_folder(model, seed)
        self._check_same_data(folder, fingerprint)
        recipe = override_settings(recipe, {"train.seed": seed})
        threads = set_num_threads(recipe.train.threads)
        metadata = run_metadata(threads, fingerprint, recipe, folder)
        Run(folder, recipe, metadata, self.preprocessor).save_settings(folder)

    def _prepare(self, model: str) -> tuple[Any, str]:
        """Return the resolved recipe and the data fingerprint; the data is read once a model."""
        if model not in self.prepared:
            recipe = self.recipes[model]
            if self.data is not None:
                recipe = recipe.with_values(data=self.data.model_dump())
            prepared = task_spec_for(recipe).prepare(
                recipe, PrepareContext(preprocessor=self.preprocessor)
            )
            recipe = prepared.recipe
            self.preprocessor, self.data = prepared.preprocessor, recipe.data
            recipe = override_settings(recipe, self._curve_settings(recipe))
            self.prepared[model] = recipe, prepared.fingerprint()
        return self.prepared[model]

    def _curve_settings(self, recipe: Any) -> dict[str, Any]:
        """Return the settings by which a short training, too, is evaluated often enough.

        A recipe's interval between evaluations suits the recipe's own length; where a time budget
        ends a training, it plans the evaluations itself.
        """
        length: dict[str, Any] = {"train.steps": None} if self.by_clock else {}
        if self.keeps_interval or "evaluate_every" not in type(recipe.train).model_fields:
            return length
        if self.by_clock:
            return length | {"train.evaluate_every": None}
        train = recipe.train
        before = train.evaluation_interval
        interval = min(before, max(1, int(train.max_steps) // MIN_CURVE_POINTS))
        settings = {"train.evaluate_every": interval}
        if train.patience is not None:  # the same number of steps without improvement
            settings["train.patience"] = train.patience * before // interval
        return settings

    def _check_same_data(self, folder: Path, fingerprint: str) -> None:
        """Refuse data that has changed since another run of the comparison started."""
        for other_folder, other_fingerprint in self.data_fingerprints.items():
            if other_fingerprint != fingerprint:
                raise DataError(
                    f"{folder} and {other_folder} do not have the same training data, so they "
                    "cannot be compared: it has changed. Restore it, or choose another folder "
                    "(--out)."
                )
        self.data_fingerprints[str(folder)] = fingerprint

    def notes(self) -> list[str]:
        """Describe what all runs share; raise RunError if their tokenizers differ."""
        if len({*self.tokenizer_checksums.values()}) > 1:
            raise RunError(
                f"the runs in {self.folder} do not have the same tokenizer.json, so they cannot be "
                "compared. Choose another folder (--out)."
            )
        checksum = next(iter(self.tokenizer_checksums.values()))
        fingerprint = next(iter(self.data_fingerprints.values()))
        shared = "tokenizer" if hasattr(self.data, "tokenizer") else "preprocessing"
        return [
            f"Same {shared} for all, fitted once: sha256 {checksum[:12]}.",
            f"Same training data for all: fingerprint {fingerprint[:12]}.",
        ]


def _explicit_settings(recipe: Any) -> dict[str, Any]:
    """Return the settings that were set explicitly, as they are read back from JSON."""
    return dict(json.loads(json.dumps(flatten(recipe, exclude_unset=True))))
