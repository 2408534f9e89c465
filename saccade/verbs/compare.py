"""Models compared on the same data, tokenizer, budget and metric, over several seeds.

Or one setting of one model, value after value: `saccade.verbs.varying`. When a difference is
stated, and when it is said to be none: `saccade.verbs.measuring`.
"""

import json
import platform
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from saccade import __version__
from saccade.config import flatten, set_paths
from saccade.errors import ConfigError, DataError, RunError, TrainingError
from saccade.look.draw import format_of
from saccade.look.draw_comparison import save_comparison
from saccade.lookup import pick
from saccade.recipes.finding import find
from saccade.run import Options, Run, open_run, resume
from saccade.sealed import read_json, read_text, write_json
from saccade.tasks.kinds import kind_of, read_recipe
from saccade.training.precision import set_threads
from saccade.verbs.measuring import (
    Difference,
    Figure,
    One,
    Row,
    ended,
    figure_of,
    measure,
    ranked,
    said_of,
)
from saccade.verbs.varying import VARIED, Varied

MINUTES = 2.0  # for each training, if nothing else is said
UNBOUNDED = 10**9  # steps: the clock is to end it


class Comparison(NamedTuple):
    """The rows, the best first; what they were compared by; and what can be said."""

    rows: list[Row]
    figure: Figure
    differences: list[Difference]
    notes: list[str]  # what was the same for all
    folder: Path
    picture: Path
    varies: str = "model"  # what a row is

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        said = [{**d._asdict(), "interval": d.interval} for d in self.differences]
        return {
            "figure": self.figure._asdict(),
            "rows": [row.plain() for row in self.rows],
            "differences": said,
            "notes": self.notes,
            "folder": str(self.folder),
            "picture": str(self.picture),
            "varies": self.varies,
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
    options: Options | None = None,
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
    options = options or Options()
    varied = VARIED.get(what)
    name = Path((data or what).split(",")[0]).name.split(".")[0]
    if varied is not None:
        name = f"{what}-{name}"
    folder = Path("runs") / f"compare-{name}" if out is None else Path(out)
    if minutes is None and steps is None and "train.steps" not in (set or {}):
        minutes = MINUTES
    budget = _budget(minutes, steps, seeds, set or {})
    changes = {**(set or {}), **budget}
    if varied is not None:
        recipes = _varied(what, varied, data, models, only, changes)
    elif only is not None:
        raise ConfigError(f"only is for {', '.join(VARIED)}; use models for models.")
    else:
        recipes = _recipes(what, data, models, changes)
    picture = folder / "comparison.png" if save is None else Path(save)
    try:
        format_of(picture)  # now, not after an hour
    except ValueError as error:
        raise ConfigError(str(error)) from None
    by_clock = minutes is not None and steps is None and "train.steps" not in (set or {})
    trainings = _Trainings(folder, recipes, by_clock, options)
    trainings.check(seeds)
    may_fail = varied is not None and only is None
    ones, figure, left_out = _train_all(trainings, list(recipes), seeds, may_fail, options)
    rows = ranked([Row(model, tuple(found)) for model, found in ones.items()], figure)
    over_steps = varied is not None and not by_clock
    curves = {row.model: [one.curve_over(over_steps) for one in row.ones] for row in rows}
    save_comparison(curves, figure.label, picture, "step" if over_steps else "seconds of training")
    notes = trainings.notes() + [f"{model} was left out: {why}" for model, why in left_out.items()]
    if varied is not None:
        if only is None:
            notes += [f"{v} was left out: {why}." for v, why in varied.unasked.items()]
        notes += _own_settings(varied, {row.model: trainings.place(row.model, 1) for row in rows})
    varies = "model" if varied is None else varied.name
    return Comparison(rows, figure, said_of(rows, figure), notes, folder, picture, varies)


def _train_all(
    trainings: "_Trainings", models: list[str], seeds: int, may_fail: bool, options: Options
) -> tuple[dict[str, list[One]], Figure, dict[str, str]]:
    """What each training came to, by what, and why some were left out, if they may fail."""
    ones: dict[str, list[One]] = {model: [] for model in models}
    figure, left_out = Figure("", True), dict[str, str]()
    # all models with one seed before any with the next: stopped early, there is something to see
    for seed in range(1, seeds + 1):
        for model in list(ones):
            try:
                run = trainings.trained(model, seed)
            except (ConfigError, TrainingError) as error:
                if not may_fail or len(ones) == 1:
                    raise
                left_out[model] = str(error)
                del ones[model]
                options.said(f"{model} is left out: {error}")
                continue
            figure = figure_of(run.recipe)
            options.said(f"{run.folder}: trained; answering the test set …")
            ones[model].append(measure(run, figure, seed))
    return ones, figure, left_out


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
        models = sorted(kind_of(find(what, data=data).recipe).models)
    if len({*models}) < len(models) or not models:
        raise ConfigError(
            f"models are {', '.join(models) or 'none'}; each was wanted once, and one or more."
        )
    if "svm" in models and len(models) > 1:
        raise ConfigError(
            "svm makes the hinge loss small and the others do not, so their losses cannot be "
            "compared. Train both, and compare the accuracy that saccade evaluate says."
        )
    return {model: find(what, data=data, model=model, changes=changes).recipe for model in models}


def _varied(
    word: str,
    varied: Varied,
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
    values = [v for v in varied.values if v not in varied.unasked] if only is None else list(only)
    if len({*values}) < len(values) or not values:
        raise ConfigError(
            f"{word} are {', '.join(values) or 'none'}; each was wanted once, and one or more."
        )
    model = models[0] if models else None
    _check_has(varied, data, model, {p: v for p, v in changes.items() if p == "data.target"})
    recipes = {}
    for value in values:
        pick(varied.values, value, varied.name)
        asked = {**varied.changes(value), **changes}
        recipes[value] = find(data, model=model, changes=asked).recipe
    recipe = recipes[values[0]]
    if not issubclass(kind_of(recipe).models[recipe.model.name], torch.nn.Module):
        raise ConfigError(
            f"{recipe.model.name} fits itself and takes no steps: {varied.path} would change "
            "nothing. Name a model that does with --models."
        )
    return recipes


def _check_has(varied: Varied, data: str, model: str | None, target: dict[str, Any]) -> None:
    """Refuse a model without the setting, and name those of its task that have it.

    By a `target` a file is known as a table.
    """
    recipe = find(data, model=model, changes=target).recipe
    if varied.path in flatten(recipe):
        return
    others = [
        other
        for other in sorted(kind_of(recipe).models)
        if varied.path in flatten(find(data, model=other, changes=target).recipe)
    ]
    hint = f"Name one that has with --models: {', '.join(others)}." if others else ""
    raise ConfigError(
        f"{recipe.model.name} has no {varied.path}, so there is nothing to compare. {hint}".rstrip()
    )


def _own_settings(varied: Varied, places: dict[str, Path]) -> list[str]:
    """What was not the same for all, because some values want it otherwise."""
    recipes = {value: flatten(open_run(place).recipe) for value, place in places.items()}
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

    def __init__(self, folder: Path, recipes: dict[str, Any], by_clock: bool, options: Options):
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
        before = read_json(kept)["asked"] if kept.exists() else {}
        for model in self.recipes:
            for seed in range(1, seeds + 1):
                place = self.place(model, seed)
                if (place / "run.toml").exists():
                    self._take_up(place, asked[model], before.get(model))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(kept, {"asked": before | asked})

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
        values = tomllib.loads(read_text(place / "run.toml"))
        self._check_same(place, values["made"]["data"])
        if self.vocabulary is None:
            recipe = read_recipe(values["recipe"], str(place / "run.toml"))
            kept = read_json(place / "tokenizer.json")
            self.vocabulary, self.data = kind_of(recipe).vocabulary(kept), recipe.data

    def trained(self, model: str, seed: int) -> Run:
        """The run, finished."""
        place = self.place(model, seed)
        if not (place / "run.toml").exists():
            self._begin(model, seed)
        if ended(place) in ("", "stop"):
            self.options.said(f"\n{model} with seed {seed}, into {place}:")
            trained = resume(place, {}, self.options)
            if trained.ended == "stop":
                raise KeyboardInterrupt("Stopped and saved. The same command goes on from here.")
        run = open_run(place)
        self.seals[str(place)] = json.loads((place / "tokenizer.json").read_text("utf-8"))["sha256"]
        return run

    def _begin(self, model: str, seed: int) -> None:
        """Write the settings of a run that is to be trained, with the tokenizer of them all."""
        recipe, data_print = self._settle(model)
        self._check_same(self.place(model, seed), data_print)
        recipe = set_paths(recipe, {"train.seed": seed})
        made = {
            "saccade": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": set_threads(recipe.train.threads),
            "data": data_print,
        }
        place = self.place(model, seed)
        Run(place, recipe, made, self.vocabulary).save_settings(place)

    def _settle(self, model: str) -> tuple[Any, str]:
        """The recipe with all that follows from the data, which is read once for each model."""
        if model not in self.settled:
            recipe = self.recipes[model]
            if self.data is not None:
                recipe = recipe.with_values(data=self.data.model_dump())
            prepared = kind_of(recipe).prepare(
                recipe, lambda what, done, total: None, self.vocabulary
            )
            recipe = prepared.recipe
            self.vocabulary, self.data = prepared.vocabulary, recipe.data
            if self.by_clock:
                recipe = set_paths(recipe, {"train.steps": UNBOUNDED})
            self.settled[model] = recipe, prepared.print()
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
    return dict(json.loads(json.dumps(flatten(recipe, only_set=True))))
