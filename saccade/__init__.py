"""Saccade trains small neural models on your own data, and shows why they answer as they do.

    run = saccade.train("dates")
    run.predict("mardi 5 mars 2024").text
    run.look("mardi 5 mars 2024").save("map.png")

This is the front door: it loads nothing heavy until something is asked of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from saccade.run import Run
    from saccade.tasks.task import Recipe

__all__ = ["__version__", "open", "train"]

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
    weights_from: "str | Path | None" = None,
    on: "str | Path | None" = None,
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
    from saccade.recipes.finding import Found, find, refuse_beside
    from saccade.run import Options
    from saccade.run import resume as go_on
    from saccade.run import train as begin

    console = Console(stderr=True, highlight=False, markup=False, emoji=False) if progress else None
    options = Options(
        overwrite=overwrite,
        weights_from=None if weights_from is None else Path(weights_from),
        show=console,
        said=console.print if console else lambda message: None,
    )
    set = {**(set or {}), **({"data.target": target} if target else {})}
    given = {"data": data, "model": model, "resume": resume, "weights_from": weights_from}
    refuse_beside(on, online, given)
    if on is not None:
        if not isinstance(what, str | Path):
            raise ConfigError(f"got a {type(what).__name__}; on goes on from a run: its folder.")
        from saccade.verbs.going_on import go_on as go_on_with

        place = None if out is None else Path(out)
        trained = go_on_with(Path(what), str(on), place, options, changes=set, online=online)
    elif resume is not None:
        asked = {"model.name": model, "data.path": data, **set}
        trained = go_on(
            Path(resume), {path: value for path, value in asked.items() if value}, options
        )
    else:
        if isinstance(what, str | Path):
            found = find(str(what), data=data, model=model, changes=set)
            name = Path(str(what).split(",")[0]).name.split(".")[0]
        else:
            found, name = Found(what), what.task
        folder = Path("runs") / name if out is None else Path(out)
        options = options._replace(name_model=found.name_model)
        trained = begin(found.recipe, folder, options)
    if trained.ended == "stop":
        raise KeyboardInterrupt(f"stopped; go on with resume={str(trained.run.folder)!r}")
    if "before" in trained.run.made and progress:
        from saccade.verbs.going_on import moved, sentences

        for sentence in sentences(moved(trained.run)):
            options.said(sentence)
    return trained.run


def open(folder: "str | Path") -> "Run":
    """Open a trained run's folder."""
    from saccade.run import open_run

    return open_run(folder)
