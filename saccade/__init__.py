"""Saccade trains small neural models on your own data, and shows why they answer as they do.

    run = saccade.train("dates")
    run.predict("mardi 5 mars 2024").text
    run.look("mardi 5 mars 2024").save("map.png")

Importing this package loads neither torch nor matplotlib.
"""

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from saccade.runs.run import Run
    from saccade.tasks.base import Recipe
    from saccade.types.results import Evaluation, Prediction
    from saccade.workflows.compare.compare import Comparison

__all__ = [
    "Evaluation",
    "Prediction",
    "Run",
    "__version__",
    "compare",
    "finetune",
    "load",
    "train",
]

__version__ = "0.7.0"

_LAZY = {
    "Evaluation": "saccade.types.results",
    "Prediction": "saccade.types.results",
    "Run": "saccade.runs.run",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'saccade' has no attribute {name!r}")


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _with_keyword_hints(
    function: "Callable[_Parameters, _Result]",
) -> "Callable[_Parameters, _Result]":
    """Return the function with a TypeError that names the setting of an unknown keyword."""

    @wraps(function)
    def call(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        for name in keywords:
            if name not in function.__annotations__:
                raise TypeError(_unknown_keyword(function.__name__, name, arguments, keywords))
        return function(*arguments, **keywords)

    return call


@_with_keyword_hints
def train(
    what: "str | Path | Recipe" = "translate",
    *,
    data: Any = None,
    source: str | int | None = None,
    target: str | int | None = None,
    text: str | int | None = None,
    image: str | int | None = None,
    caption: str | int | None = None,
    label: str | int | None = None,
    time: str | int | None = None,
    weight: str | int | None = None,
    model: str | None = None,
    set: dict[str, Any] | None = None,
    out: "str | Path | None" = None,
    resume: "str | Path | None" = None,
    overwrite: bool = False,
    init_from: "str | Path | None" = None,
    progress: bool = True,
) -> "Run":
    """Train a model and return the run.

    Args:
        what: name of a task or recipe, a .toml file, a data file, or a `Recipe`.
        data: a path, the name of a dataset, or data in memory: a pandas, polars or Arrow frame, a
            list of pairs, mappings or texts, a mapping from column to values, or an iterator;
            images as a list of (image, label) or arrays (images, labels), for captions as a list
            of (image, caption) or (image, captions), where an image may be a path. Data in memory
            is written next to the run folder.
        source: column of the source texts (translate), by name or by position from 1; columns that
            are not given are inferred.
        target: column of the target texts, or to predict (translate, table, forecast).
        text: column of the texts (classify, language, vectors).
        image: column of the paths of images (image, caption).
        caption: column of the captions of images (caption).
        label: column of the classes (classify, image).
        time: column of the time of each row (table, forecast).
        weight: column of the weight of each row (table).
        model: name of a model of the task.
        set: settings by dotted path, such as {"train.steps": 300}.
        out: folder of the run; runs/NAME by default.
        resume: folder of an interrupted run to resume.
        overwrite: replace a run that is in the folder.
        init_from: folder of a run whose weights and preprocessor are the start.
        progress: show progress on standard error.

    Raises:
        KeyboardInterrupt: if the training was stopped with Ctrl-C, once it is saved.
    """
    from pathlib import Path

    from saccade.data.task_records import is_in_memory
    from saccade.errors import ConfigError
    from saccade.recipes.resolve import resolve_recipe, task_of
    from saccade.runs.train import resume as resume_run
    from saccade.runs.train import train_recipe
    from saccade.tasks.base import Recipe

    options = _train_options(progress)._replace(
        overwrite=overwrite, init_from=None if init_from is None else Path(init_from)
    )
    columns = {"source": source, "target": target, "text": text, "label": label, "time": time}
    columns |= {"image": image, "caption": caption, "weight": weight}
    given = {role: str(c) for role, c in columns.items() if c is not None}
    settings = dict(set or {})
    if resume is not None:
        if is_in_memory(data):
            raise ConfigError(
                "got resume= and data in memory; expected one of them: an interrupted run is "
                "resumed on its own data; try without data=, or saccade.finetune."
            )
        path = None if data is None else str(data)
        named = {"model.name": model, "data.path": path, **_role_settings(None, given), **settings}
        changes = {path: value for path, value in named.items() if value is not None}
        return _finish(resume_run(Path(resume), changes, options))
    if not isinstance(what, str | Path | Recipe):
        raise ConfigError(
            f"got a {type(what).__name__}; expected the name of a task or recipe, a .toml file, a "
            'data file or a Recipe; try saccade.train("translate", data=…) for data in memory.'
        )
    recipe: str | Recipe = what if isinstance(what, Recipe) else str(what)
    name = recipe.task if isinstance(recipe, Recipe) else _run_name(recipe)
    folder = Path("runs") / name if out is None else Path(out)
    settings |= _role_settings(recipe, given)
    if is_in_memory(data):
        task = task_of(recipe)  # refuses a name that does not exist, before a file is written
        data = _write_data(data, folder, overwrite, task, settings)
    where = None if data is None else str(data)
    resolved = resolve_recipe(
        recipe, data=where, model=model, changes=settings, init_from=options.init_from
    )
    options = options._replace(auto_model=resolved.auto_model)
    for note in resolved.notes:
        options.log(note)
    return _finish(train_recipe(resolved.recipe, folder, options))


@_with_keyword_hints
def finetune(
    run: "str | Path | Run",
    data: Any,
    *,
    set: dict[str, Any] | None = None,
    out: "str | Path | None" = None,
    online: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> "Run":
    """Train a finished run on other data, as a new run, and return it.

    Data is given as in `train`. With `online`, the rows of a table are predicted in file order, and
    trained on one by one.
    """
    from pathlib import Path

    from saccade.data.task_records import is_in_memory
    from saccade.errors import ConfigError
    from saccade.io.run_folder import read_run_settings
    from saccade.runs.run import Run
    from saccade.workflows.finetune import (
        default_finetune_folder,
        describe_transfer,
        finetune_run,
        transfer_reports,
    )

    if not isinstance(run, str | Path | Run):
        raise ConfigError(f"got a {type(run).__name__}; expected a run or its folder.")
    folder = run.folder if isinstance(run, Run) else Path(run)
    new = default_finetune_folder(folder, online) if out is None else Path(out)
    if is_in_memory(data):
        before = read_run_settings(folder)["recipe"]
        columns = {f"data.{name}": value for name, value in before.get("data", {}).items()}
        task = before.get("task", "translate")
        data = _write_data(data, new, overwrite, task, columns | dict(set or {}))
    options = _train_options(progress)._replace(overwrite=overwrite)
    trained = _finish(finetune_run(folder, str(data), new, options, changes=set, online=online))
    for sentence in describe_transfer(transfer_reports(trained)) if progress else []:
        options.log(sentence)
    return trained


@_with_keyword_hints
def compare(
    what: str = "translate",
    *,
    data: Any = None,
    models: "Sequence[str] | None" = None,
    set: dict[str, Any] | None = None,
    out: "str | Path | None" = None,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int = 3,
    progress: bool = True,
) -> "Comparison":
    """Train models of a task on the same data and budget, and compare them over seeds.

    Data is given as in `train`; the target column of a table as set={"data.target": NAME}.
    """
    from pathlib import Path

    from saccade.data.task_records import is_in_memory
    from saccade.recipes.resolve import task_of
    from saccade.workflows.compare.compare import compare_models

    if is_in_memory(data):
        out = Path("runs") / f"compare-{_run_name(what)}" if out is None else Path(out)
        data = _write_file(data, out.parent / "data" / out.name, task_of(what), set or {})
    return compare_models(
        what,
        data=None if data is None else str(data),
        models=models,
        set=set,
        out=out,
        minutes=minutes,
        steps=steps,
        seeds=seeds,
        options=_train_options(progress),
    )


def load(folder: "str | Path") -> "Run":
    """Open the run in a folder."""
    from saccade.runs.run import load_run

    return load_run(folder)


def _unknown_keyword(
    function: str, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> str:
    """Return the message for a keyword that a function does not have."""
    from saccade.errors import SaccadeError
    from saccade.recipes.resolve import named_recipe
    from saccade.tasks.base import Recipe
    from saccade.tasks.setting_reference import has_same_unit, recipe_settings, setting_named

    what = arguments[0] if arguments else keywords.get("what", keywords.get("run", "translate"))
    recipe = what if isinstance(what, Recipe) else getattr(what, "recipe", None)
    if recipe is None:
        try:
            recipe = named_recipe(str(what), keywords.get("model"))
        except SaccadeError:  # a data file, a run, or another mistake
            recipe = named_recipe("table" if keywords.get("target") is not None else "translate")
    message = f"{function}() got an unexpected keyword argument {name!r}"
    setting = setting_named(recipe_settings(recipe), name)
    if setting is None:
        return f"{message}; settings are given as set={{NAME: VALUE}}; saccade settings lists them."
    value = repr(keywords[name]) if has_same_unit(setting, name) else "…"
    return f"{message}; try set={{{setting.path!r}: {value}}}"


def _role_settings(recipe: "str | Recipe | None", given: dict[str, str]) -> dict[str, Any]:
    """Return the settings of columns given by role, as far as the task is known by its name."""
    from saccade.data.records.role_names import TASK_ROLES
    from saccade.data.task_roles import role_settings

    task = recipe if isinstance(recipe, str | None) else recipe.task
    if task in TASK_ROLES:
        return dict(role_settings(str(task), given))
    return {f"data.{role}": column for role, column in given.items()}


def _write_data(
    data: Any, folder: "Path", overwrite: bool, task: str, settings: "Mapping[str, Any]"
) -> "Path":
    """Write data in memory next to the folder of a new run, unless the folder is taken."""
    from saccade.runs.workspace import check_folder_is_free

    check_folder_is_free(folder, overwrite)  # the run in it may use the file
    return _write_file(data, folder.parent / "data" / folder.name, task, settings)


def _write_file(data: Any, path: "Path", task: str, settings: "Mapping[str, Any]") -> "Path":
    """Write images in memory as an archive, and other data as records; return the path."""
    from saccade.data.images.memory import write_images
    from saccade.data.images.readers import TEXT_OF_TASK
    from saccade.data.records.open import open_records
    from saccade.data.task_records import RoleOptions, write_records

    if task not in TEXT_OF_TASK:
        return write_records(open_records(data), path)
    given = {role: settings.get(f"data.{role}") for role in ("image", TEXT_OF_TASK[task])}
    return write_images(data, path, task, RoleOptions(**given))


def _run_name(what: str) -> str:
    from pathlib import Path

    return Path(what.split(",")[0]).name.split(".")[0]


def _train_options(progress: bool) -> Any:
    from rich.console import Console

    from saccade.runs.train import TrainOptions

    if not progress:
        return TrainOptions()
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    return TrainOptions(console=console, log=console.print)


def _finish(result: Any) -> "Run":
    if result.stop_reason == "stop":
        folder = str(result.run.folder)
        raise KeyboardInterrupt(f"stopped and saved; resume with saccade.train(resume={folder!r})")
    run: Run = result.run
    return run
