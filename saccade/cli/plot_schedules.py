"""look schedule: how the learning rate moves."""

from pathlib import Path

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.train import parse_overrides
from saccade.errors import ConfigError

SCHEDULE_POINTS = 1000  # of a line, at most
SCHEDULE_TABLE_ROWS = 11  # of them in the table
UNPLOTTED_SCHEDULES = {
    "none",
    "pid",
}  # constant is its other name; what is measured cannot be foreseen


def look_at_schedules(assignments: list[str], save: Path | None, json: bool) -> None:
    """Every schedule with the settings of a training, or the one that is asked for."""
    import numpy as np
    from rich.console import Console

    from saccade.config import Config, override_settings
    from saccade.optim import SCHEDULES, lr_factor
    from saccade.plots.schedules import save_schedules
    from saccade.training.config import TrainConfig

    class Settings(Config):
        train: TrainConfig = TrainConfig()

    changes = parse_overrides(assignments)
    train = override_settings(Settings(), changes).train
    names = sorted(SCHEDULES.keys() - UNPLOTTED_SCHEDULES)
    if "train.schedule" in changes:
        names = [train.schedule]
    if names == ["pid"]:
        raise ConfigError(
            "the rate of pid follows from what is measured in a training: train with it, and see "
            "the run's report/curves.png."
        )
    steps = np.unique(
        np.linspace(1, train.steps, min(train.steps, SCHEDULE_POINTS)).round().astype(int)
    )
    rates = {
        name: np.array(
            [
                train.learning_rate * lr_factor(step, (step - 1) / train.steps, train.warmup, name)
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
        stderr_console().print(f"The learning rate over the steps is drawn in {save}.")
    if json:
        lists = {name: line.tolist() for name, line in rates.items()}
        print_json({"steps": steps.tolist(), "rates": lists})
        return
    shown = make_table("step", *names)
    for place in np.unique(
        np.linspace(0, len(steps) - 1, SCHEDULE_TABLE_ROWS).round().astype(int)
    ).tolist():
        shown.add_row(str(steps[place]), *(f"{rates[name][place]:.3g}" for name in names))
    Console(highlight=False).print(shown)
