"""Changes of settings that an interrupted or finished run may be resumed with: train longer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saccade.config import Config, flatten, override_settings
from saccade.errors import ConfigError
from saccade.tasks.base import Recipe

if TYPE_CHECKING:
    from saccade.training.config import TrainConfig
    from saccade.training.state import TrainState

# settings that may differ when a run is resumed: they change neither the model nor its past
RESUME_SETTINGS = (
    "train.checkpoint_seconds",
    "train.device",
    "train.evaluate_every",
    "train.minutes",
    "train.patience",
    "train.report_every",
    "train.steps",
    "train.threads",
)
EXTENDING_SETTINGS = ("train.minutes", "train.patience", "train.steps")
# schedules whose past does not depend on the length of the training
OPEN_ENDED_SCHEDULES = ("constant", "inverse_sqrt", "none", "pid")


class SettingChange(NamedTuple):
    """A setting of a run that is resumed with another value."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} → {self.new!r}"


def changed_settings(recipe: Recipe, changes: Mapping[str, Any]) -> list[SettingChange]:
    """Return the settings that differ from those of a run; of another model, only its name."""
    name = changes.get("model.name", recipe.model_name)
    if name != recipe.model_name:
        return [SettingChange("model.name", recipe.model_name, name)]
    before = flatten(recipe)
    after = flatten(override_settings(recipe, dict(changes)), exclude_unset=True)
    return [
        SettingChange(path, before.get(path), value)
        for path, value in sorted(after.items())
        if before.get(path) != value
    ]


def resumed_recipe(
    recipe: Recipe, changes: Mapping[str, Any], where: Path, is_trained_by_loop: bool
) -> tuple[Recipe, list[SettingChange]]:
    """Return the recipe to resume a run with and what differs, or refuse the changes.

    The length is that of the whole training: with new steps an old time budget no longer holds,
    and with a new time budget the old number of steps does not.
    """
    changed = changed_settings(recipe, changes)
    if refused := [change for change in changed if change.path not in RESUME_SETTINGS]:
        again = ""
        if not is_trained_by_loop and any(change.path.startswith("model.") for change in refused):
            again = f" {_fit_again(recipe, changes)}"
        raise ConfigError(
            f"got other settings ({'; '.join(map(str, refused))}) than {where} was started with; "
            "try to resume it without them, or start a new run from its weights with "
            f"--init-from.{again}"
        )
    paths = {change.path for change in changed}
    if not is_trained_by_loop and (given := sorted(paths.intersection(EXTENDING_SETTINGS))):
        raise ConfigError(
            f"got {', '.join(given)} for {recipe.model_name}, which is fitted to its data without "
            f"training steps and cannot be extended. {_fit_again(recipe, {})}"
        )
    lengths = {"train.steps", "train.minutes"} & paths
    replaced = {
        "train.steps": {"train.minutes": None},
        "train.minutes": {"train.steps": None},
    }
    other = replaced[lengths.pop()] if len(lengths) == 1 else {}
    new = {change.path: change.new for change in changed} | {
        path: None for path in other if path not in changes
    }
    return override_settings(recipe, new), changed


def _fit_again(recipe: Recipe, changes: Mapping[str, Any]) -> str:
    """Return the command that fits an estimator again."""
    values = {**flatten(recipe), **changes}
    data = next(
        (values[path] for path in ("data.path", "data.dataset") if values.get(path)),
        values.get("data.synthetic"),
    )
    given = "".join(f" --set {path}={value}" for path, value in changes.items())
    return (
        f"It is fitted again with: saccade train {recipe.task} --data {data} --model "
        f"{recipe.model_name}{given} --out NEW."
    )


def extend_state(
    state: "TrainState", settings: "TrainConfig", changed: list[SettingChange], where: Path
) -> list[str]:
    """Adapt the state of a run to its new length; return messages for the user.

    A ConfigError is raised if the new length has been reached already. A run that was stopped
    early counts its evaluations without improvement from 0 again.
    """
    paths = {change.path for change in changed}
    if not paths.intersection(EXTENDING_SETTINGS):
        return []
    _check_length(state, settings, paths, where)
    messages = []
    if state.evals_since_best >= settings.patience:
        messages.append(
            f"The run had stopped early, after {state.evals_since_best} evaluations without "
            "improvement; they are counted from 0 again (train.patience)."
        )
        state.evals_since_best = 0
    if paths.intersection(("train.steps", "train.minutes")):
        messages.append(_describe_extension(state, settings))
    return messages


def _check_length(
    state: "TrainState", settings: "TrainConfig", paths: set[str], where: Path
) -> None:
    if "train.steps" in paths and settings.max_steps <= state.step:
        raise ConfigError(
            f"got train.steps={settings.steps}, of which {where} has made {state.step:,}; expected "
            "more: it is the length of the whole training."
        )
    minutes, used = settings.minutes, state.seconds / 60
    if "train.minutes" in paths and minutes is not None and minutes <= used:
        raise ConfigError(
            f"got train.minutes={minutes:g}, of which {where} has used {used:.2f}; expected more: "
            "it is the time of the whole training."
        )


def _describe_extension(state: "TrainState", settings: "TrainConfig") -> str:
    start, minutes = f"Training continues at step {state.step:,}", settings.minutes
    if minutes is not None:
        return (
            f"{start}: {state.seconds / 60:.2f} of {minutes:g} minutes are used, and the "
            f"{settings.schedule} schedule follows the clock from here."
        )
    if settings.schedule in OPEN_ENDED_SCHEDULES:
        return (
            f"{start} of {settings.max_steps:,.0f}; the {settings.schedule} schedule does not "
            "depend on the length, so the result is that of an uninterrupted run of this length."
        )
    return (
        f"{start} of {settings.max_steps:,.0f}. The {settings.schedule} schedule depends on the "
        f"length: from here on the learning rate is that of a run of {settings.max_steps:,.0f} "
        "steps, so the result is not that of an uninterrupted run of this length."
    )


def depends_on_length(settings: Config) -> bool:
    """Return True if the past of the learning rate depends on the length of the training."""
    values = settings.model_dump()
    return values["minutes"] is not None or values["schedule"] not in OPEN_ENDED_SCHEDULES
