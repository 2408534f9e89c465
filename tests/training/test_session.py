"""A training session of a toy objective: its own validation, and its carried state."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

from saccade.io.tensors import read_tensors
from saccade.training.config import TrainConfig
from saccade.training.loop import Event
from saccade.training.objective import Loss, Objective, Validation
from saccade.training.session import run_training_session
from tests.training.toy_objective import Rows, ToyObjective, random_rows


class Counting(ToyObjective):
    """A toy objective that carries the number of batches it has seen."""

    def loss(self, batch: Rows) -> Loss:
        self.carry = {"batches": self.carry.get("batches", torch.tensor(0)) + 1}
        return super().loss(batch)


def train(objective: ToyObjective, folder: Path, steps: int, validate: Validation) -> list[Event]:
    events: list[Event] = []
    folder.mkdir(exist_ok=True)
    reason = run_training_session(
        objective,
        lambda examples, on_progress: validate,
        TrainConfig(steps=steps, evaluate_every=2),
        folder,
        console=Console(quiet=True),
        warn=pytest.fail,
        on_event=events.append,
    )
    assert reason == "steps"
    return events


def test_toy_objective_is_an_objective() -> None:
    assert isinstance(ToyObjective([]), Objective)


def test_session_prefers_the_validation_of_the_objective(tmp_path: Path) -> None:
    objective = ToyObjective(random_rows([2]))
    train(objective, tmp_path / "first", 2, Validation({"loss": 3.0}, -3.0))
    objective.validate = lambda: Validation({"return": 7.0}, 7.0)
    train(objective, tmp_path / "second", 2, Validation({"loss": 3.0}, -3.0))
    scores = [
        read_tensors(tmp_path / name / "model.safetensors")[1] for name in ("first", "second")
    ]
    assert [metadata["goodness"] for metadata in scores] == [-3.0, 7.0]


def test_session_restores_the_state_of_the_objective(tmp_path: Path) -> None:
    batches = random_rows([2, 3])
    train(Counting(batches), tmp_path, 3, Validation({}, 0.0))
    resumed = Counting(batches)
    train(resumed, tmp_path, 5, Validation({}, 0.0))
    assert resumed.carry == {"batches": torch.tensor(5)}
    assert resumed.started_at == 3
