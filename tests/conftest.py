import os
import random
from collections.abc import Callable
from pathlib import Path

# before anything imports matplotlib: pictures go to files, no window is opened
os.environ["MPLBACKEND"] = "Agg"

import numpy as np
import pytest
import torch
from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))

# where a failure must be seen again by others, the examples are the same every time; at home
# each run tries new ones and remembers those that failed
settings.register_profile(
    "house",
    deadline=None,
    derandomize=IN_CI,
    database=None if IN_CI else settings.default.database,
    print_blob=True,
)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def two_threads() -> None:
    """Sums depend on how they are split: the tests' numbers are those of two threads."""
    torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def same_start() -> None:
    """Each test finds the global generators in the same state, whichever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def published() -> Callable[[str], Path]:
    """`published("multi30k")` is that folder in SACCADE_DATA; without it the test is skipped."""

    def folder(name: str) -> Path:
        root = os.environ.get("SACCADE_DATA")
        if not root:
            pytest.skip(f"{name} is a published set: name the folder that has it in SACCADE_DATA")
        path = Path(root) / name
        if not path.exists():
            pytest.skip(f"SACCADE_DATA is {root}, which has no {name}")
        return path

    return folder
