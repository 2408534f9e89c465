"""Saccade trains small neural models on your own data, and shows why they answer as they do.

    run = saccade.train("dates")
    run.predict("mardi 5 mars 2024").text
    run.look("mardi 5 mars 2024").save("map.png")

This is the front door: it loads nothing heavy until something is asked of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from saccade.runs.run import Run
    from saccade.tasks.task import Recipe

__all__ = ["__version__", "load", "train"]

__version__ = "0.5.0"


def train(
    what: "str | Path | Recipe",
    *,
    data: str | None = None,
    target: str | None = None,
    model: str | None = None,
    set: dict[str, Any] | None = None,
    out: "str | Path | None" = None,
    resume: "str | Path | None" = None,
    overwrite: bool = False,
    init_from: "str | Path | None" = None,
    finetune_on: "str | Path | None" = None,
    online: bool = False,
    progress: bool = True,
) -> "Run":
    """Train a recipe's name, a .toml, a file of pairs or a `Recipe`, and return the run.

    `target` is the column of a table that is to be foretold. The run's folder is `out`, or runs/
    and the recipe's name. `resume` takes a run's folder and goes on where it stood. A training
    stopped with Ctrl-C raises KeyboardInterrupt once it is saved.

    With `on`, `what` is the folder of a finished run, which goes on with other data as a new run;
    `online` answers a table's rows in their order, and learns from each once it is answered.
    """
    from pathlib import Path

    from rich.console import Console

    from saccade.errors import ConfigError
    from saccade.recipes.resolve import ResolvedRecipe, check_exclusive, resolve_recipe
    from saccade.runs.run import TrainOptions
    from saccade.runs.run import resume as resume_training
    from saccade.runs.run import train_recipe as train_new

    console = Console(stderr=True, highlight=False, markup=False, emoji=False) if progress else None
    options = TrainOptions(
        overwrite=overwrite,
        init_from=None if init_from is None else Path(init_from),
        console=console,
        log=console.print if console else lambda message: None,
    )
    set = {**(set or {}), **({"data.target": target} if target else {})}
    given = {"data": data, "model": model, "resume": resume, "init_from": init_from}
    check_exclusive(finetune_on, online, given)
    if finetune_on is not None:
        if not isinstance(what, str | Path):
            raise ConfigError(f"got a {type(what).__name__}; on goes on from a run: its folder.")
        from saccade.workflows.finetune import finetune as finetune_run

        place = None if out is None else Path(out)
        trained = finetune_run(
            Path(what), str(finetune_on), place, options, changes=set, online=online
        )
    elif resume is not None:
        asked = {"model.name": model, "data.path": data, **set}
        trained = resume_training(
            Path(resume), {path: value for path, value in asked.items() if value}, options
        )
    else:
        if isinstance(what, str | Path):
            found = resolve_recipe(str(what), data=data, model=model, changes=set)
            name = Path(str(what).split(",")[0]).name.split(".")[0]
        else:
            found, name = ResolvedRecipe(what), what.task
        folder = Path("runs") / name if out is None else Path(out)
        options = options._replace(auto_model=found.auto_model)
        trained = train_new(found.recipe, folder, options)
    if trained.stop_reason == "stop":
        raise KeyboardInterrupt(f"stopped; go on with resume={str(trained.run.folder)!r}")
    if "before" in trained.run.metadata and progress:
        from saccade.workflows.finetune import describe_transfer, transfer_reports

        for sentence in describe_transfer(transfer_reports(trained.run)):
            options.log(sentence)
    return trained.run


def load(folder: "str | Path") -> "Run":
    """Open a trained run's folder."""
    from saccade.runs.run import load_run

    return load_run(folder)
