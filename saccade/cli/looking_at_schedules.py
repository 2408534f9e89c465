"""look schedule: how the learning rate moves."""

from pathlib import Path

from saccade.cli.learning import read_changes
from saccade.cli.printing import errors, print_json, table
from saccade.errors import ConfigError

POINTS = 1000  # of a line, at most
SHOWN = 11  # of them in the table
NOT_DRAWN = {"none", "pid"}  # constant is its other name; what is measured cannot be foreseen


def look_at_schedules(assignments: list[str], save: Path | None, json: bool) -> None:
    """Every schedule with the settings of a training, or the one that is asked for."""
    import numpy as np
    from rich.console import Console

    from saccade.config import Config, set_paths
    from saccade.look.draw_schedules import save_schedules
    from saccade.optim import DECAYS, scale
    from saccade.training.settings import TrainConfig

    class Settings(Config):
        train: TrainConfig = TrainConfig()

    changes = read_changes(assignments)
    train = set_paths(Settings(), changes).train
    names = sorted(DECAYS.keys() - NOT_DRAWN)
    if "train.decay" in changes:
        names = [train.decay]
    if names == ["pid"]:
        raise ConfigError(
            "the rate of pid follows from what is measured in a training: train with it, and see "
            "the run's report/curves.png."
        )
    steps = np.unique(np.linspace(1, train.steps, min(train.steps, POINTS)).round().astype(int))
    rates = {
        name: np.array(
            [
                train.learning_rate * scale(step, (step - 1) / train.steps, train.warmup, name)
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
        errors().print(f"The learning rate over the steps is drawn in {save}.")
    if json:
        lists = {name: line.tolist() for name, line in rates.items()}
        print_json({"steps": steps.tolist(), "rates": lists})
        return
    shown = table("step", *names)
    for place in np.unique(np.linspace(0, len(steps) - 1, SHOWN).round().astype(int)).tolist():
        shown.add_row(str(steps[place]), *(f"{rates[name][place]:.3g}" for name in names))
    Console(highlight=False).print(shown)
