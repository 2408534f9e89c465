"""Learning-rate schedules of `saccade plot schedules`."""

from pathlib import Path
from typing import TYPE_CHECKING

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.options import parse_overrides
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.training.config import TrainConfig

MAX_CURVE_POINTS = 1000
SCHEDULE_TABLE_ROWS = 11
# "none" is the former name of "constant"; "pid" depends on measurements made while training
UNPLOTTED_SCHEDULES = {"none", "pid"}


def plot_schedules(assignments: list[str], save: Path | None, json: bool) -> None:
    """Print and plot every schedule, or only `train.schedule` if it is set."""
    import numpy as np
    from rich.console import Console

    from saccade.config import Config, override_settings
    from saccade.optim import SCHEDULES, lr_factor
    from saccade.plots.schedules import save_schedules
    from saccade.training.config import DEFAULT_STEPS, TrainConfig

    class Settings(Config):
        train: TrainConfig = TrainConfig()

    overrides = parse_overrides(assignments)
    train = override_settings(Settings(), dict(overrides)).train
    names = sorted(SCHEDULES.keys() - UNPLOTTED_SCHEDULES)
    if "train.schedule" in overrides:
        names = [train.schedule]
    if names == ["pid"]:
        raise ConfigError(
            "the pid schedule depends on losses measured while training; train with it and see "
            "report/curves.png of the run."
        )
    if train.switch_to is not None and train.switch_learning_rate is None:
        raise ConfigError(
            f"got train.switch_to={train.switch_to}, whose learning rate is estimated while "
            "training; expected train.switch_learning_rate, too."
        )
    length = train.steps or DEFAULT_STEPS
    steps = np.unique(np.linspace(1, length, min(length, MAX_CURVE_POINTS)).round().astype(int))
    rates = {
        name: np.array(
            [
                _peak_rate(train, step)
                * lr_factor(step, (step - 1) / length, train.warmup_steps, name)
                for step in steps.tolist()
            ]
        )
        for name in names
    }
    if save is not None:
        try:
            save_schedules(steps, rates, save)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Wrote learning rate against step to {save}.")
    if json:
        curves = {name: curve.tolist() for name, curve in rates.items()}
        print_json({"steps": steps.tolist(), "rates": curves})
        return
    table = make_table("step", *names)
    rows = np.unique(np.linspace(0, len(steps) - 1, SCHEDULE_TABLE_ROWS).round().astype(int))
    for row in rows.tolist():
        table.add_row(str(steps[row]), *(f"{rates[name][row]:.3g}" for name in names))
    Console(highlight=False).print(table)


def _peak_rate(train: "TrainConfig", step: int) -> float:
    """Return the learning rate of the optimizer that makes a step."""
    if train.switch_step is not None and step > train.switch_step:
        return train.switch_learning_rate or train.learning_rate
    return train.learning_rate
