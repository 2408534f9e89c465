"""Going on with a run: what it has learned, and data that it has not seen.

The old run stays as it is; what comes of it is a run of its own. What the new weights have
forgotten is seen on the old run's test split, if its data is still there.
"""

from pathlib import Path
from typing import Any, NamedTuple

from saccade.errors import SaccadeError
from saccade.recipes.resolve import resolve_finetune_recipe
from saccade.runs.run import Run, TrainOptions, TrainResult, load_run, train_recipe


class TransferReport(NamedTuple):
    """Figures on some data, before going on and after; an empty one is not known, and why."""

    data: str
    before: dict[str, float]
    after: dict[str, float]
    reason: str = ""


def default_finetune_folder(run: Path, online: bool = False) -> Path:
    """Where a run that goes on is, if nobody says it."""
    return Path("runs") / f"{run.name or run.resolve().name}-{'online' if online else 'on'}"


def finetune(
    folder: Path,
    data: str,
    out: Path | None,
    options: TrainOptions,
    *,
    changes: dict[str, Any] | None = None,
    online: bool = False,
) -> TrainResult:
    """Train the run in `folder` on with other data, in a folder of its own.

    `online`: row after row in the order of the file, each answered before it is learned from.
    """
    recipe = resolve_finetune_recipe(folder, data, changes=changes, online=online)
    options = options._replace(init_from=folder, is_finetuning=True)
    return train_recipe(recipe, out or default_finetune_folder(folder, online), options)


def transfer_reports(run: Run) -> list[TransferReport]:
    """What going on has changed: on the new data, and on the old; nothing if it did not."""
    if "before" not in run.metadata:
        return []
    return [_on_new(run), _on_old(run)]


def _on_new(run: Run) -> TransferReport:
    """On its held-out part; online, of the answers as they were given, and as it was."""
    if not getattr(run.recipe.train, "online", False):
        return TransferReport(
            f"the held-out part of {run.task.name}", run.metadata["before"], _figures(run)
        )
    judged = [line for line in run.metrics() if "best" in line][-1]
    scores = {n.removeprefix("dev_"): v for n, v in judged.items() if n.startswith("dev_")}
    before = {n.removeprefix("left_"): v for n, v in scores.items() if n.startswith("left_")}
    after = {name: scores[name] for name in before}
    name = f"{run.task.name}, each row before it was learned from (left as it was → learning)"
    return TransferReport(name, before, after)


def _on_old(run: Run) -> TransferReport:
    folder = Path(run.metadata["from"])
    try:
        old, new = load_run(folder), load_run(folder)
        new.task.load(run.task.weights())
        data = old.load_training_data()
    except (SaccadeError, RuntimeError) as error:  # another run is there by now, say
        return TransferReport(f"what {folder} was tested on", {}, {}, str(error))
    for one in (old, new):
        one.attach_data(data)
    return TransferReport(f"what {folder} was tested on", _figures(old), _figures(new))


def _figures(run: Run) -> dict[str, float]:
    return {name: value for name, value in run.evaluate().items() if isinstance(value, float)}


COUNT_METRICS = ("examples", "rows", "tokens")  # that are no scores


def describe_transfer(found: list[TransferReport]) -> list[str]:
    """What has moved, in words."""
    said = []
    for data, before, after, reason in found:
        both = [
            f"{name} {before[name]:.4g} → {after[name]:.4g}"
            for name in after
            if name in before and name not in COUNT_METRICS
        ]
        said.append(f"On {data}: {', '.join(both)}." if both else f"On {data}, not known: {reason}")
    return said
