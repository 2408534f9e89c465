"""Fine-tuning: train a finished run on new data, as a new run.

The old run stays unchanged. Forgetting is measured on the old run's test split, if its data still
exists.
"""

from pathlib import Path
from typing import Any, NamedTuple

from saccade.errors import SaccadeError
from saccade.recipes.resolve import resolve_finetune_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, TrainResult, train_recipe


class TransferReport(NamedTuple):
    """Scores on some data before and after fine-tuning; empty with a `reason` if unknown."""

    data: str
    before: dict[str, float]
    after: dict[str, float]
    reason: str = ""


def default_finetune_folder(run: Path, online: bool = False) -> Path:
    """Return the default output folder: runs/NAME-finetuned or runs/NAME-online."""
    suffix = "online" if online else "finetuned"
    return Path("runs") / f"{run.name or run.resolve().name}-{suffix}"


def finetune_run(
    folder: Path,
    data: str,
    out: Path | None,
    options: TrainOptions,
    *,
    changes: dict[str, Any] | None = None,
    online: bool = False,
) -> TrainResult:
    """Fine-tune the run in `folder` on other data, into a new folder.

    With `online`, rows are taken in the order of the file, each predicted before training on it.
    """
    recipe = resolve_finetune_recipe(folder, data, changes=changes, online=online)
    options = options._replace(init_from=folder, is_finetuning=True)
    return train_recipe(recipe, out or default_finetune_folder(folder, online), options)


def transfer_reports(run: Run) -> list[TransferReport]:
    """Return the effect of fine-tuning on the new and on the old data; empty for other runs."""
    if "before" not in run.metadata:
        return []
    return [_on_new(run), _on_old(run)]


def _on_new(run: Run) -> TransferReport:
    """Compare on the held-out part; online, compare the predictions made with a frozen copy."""
    if not run.recipe.train.model_dump().get("online", False):
        return TransferReport(
            f"the held-out part of {run.data_name}", run.metadata["before"], _scores(run)
        )
    evaluated = [line for line in run.metrics() if "best" in line][-1]
    scores = {n.removeprefix("dev_"): v for n, v in evaluated.items() if n.startswith("dev_")}
    before = {n.removeprefix("left_"): v for n, v in scores.items() if n.startswith("left_")}
    after = {name: scores[name] for name in before}
    name = f"{run.data_name}, each row before training on it (frozen → online)"
    return TransferReport(name, before, after)


def _on_old(run: Run) -> TransferReport:
    folder = Path(run.metadata["from"])
    try:
        old, new = load_run(folder), load_run(folder)
        new.model.load_state_dict(run.model.state_dict())
        data = old.load_training_data()
    except (SaccadeError, RuntimeError) as error:  # e.g. another run is in the folder now
        return TransferReport(f"the test split of {folder}", {}, {}, str(error))
    for run_to_evaluate in (old, new):
        run_to_evaluate.attach_data(data)
    return TransferReport(f"the test split of {folder}", _scores(old), _scores(new))


def _scores(run: Run) -> dict[str, float]:
    return dict(run.evaluate().metrics)


COUNT_METRICS = ("examples", "rows", "tokens")  # not scores


def describe_transfer(reports: list[TransferReport]) -> list[str]:
    """Return a sentence for each report."""
    sentences = []
    for data, before, after, reason in reports:
        changes = [
            f"{name} {before[name]:.4g} → {after[name]:.4g}"
            for name in after
            if name in before and name not in COUNT_METRICS
        ]
        sentences.append(
            f"On {data}: {', '.join(changes)}." if changes else f"On {data}: unknown; {reason}"
        )
    return sentences
