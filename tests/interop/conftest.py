import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn


@torch.no_grad()
def loudly(model: nn.Module, times: float = 1.6) -> None:
    """Make a model that is sure of itself: with flat distributions a mistake would not show."""
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        parameter.mul_(times).add_(0.1 * noise)


@pytest.fixture(scope="session")
def loud() -> Callable[..., None]:
    return loudly


@pytest.fixture(scope="session")
def loud_run(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported Transformer run, whose answers differ and some of which end; never written to."""
    from saccade.runs.train import TrainOptions, train_recipe

    folder = tmp_path_factory.mktemp("loud") / "run"
    run = train_recipe(smallest("transformer", {"train.steps": 2}), folder, TrainOptions()).run
    loudly(run.model, 2.0)
    run.save_weights(run.model.state_dict(), {})
    run.export("ctranslate2")
    return folder


@pytest.fixture
def own_run(loud_run: Path, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    shutil.copytree(loud_run, tmp_path / "run")
    return tmp_path / "run"
