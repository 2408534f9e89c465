"""The base of toy objectives: what the training loop needs, with no data files and no task."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.training.objective import Loss, Validation


class Rows(NamedTuple):
    """A batch of a regression: each row is a token."""

    x: Tensor
    y: Tensor
    lines: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Return the number of rows."""
        return len(self.y)


class ToyObjective:
    """Linear regression on given batches, which repeat."""

    addressable = True
    unit = "rows"
    validate: Callable[[], Validation] | None = None

    def __init__(self, batches: list[Rows]):
        self.given = batches
        self.model = nn.Linear(3, 1).double()
        self.carry: dict[str, Tensor] = {}
        self.started_at: int | None = None

    def batches(self, split: str, start: int) -> Iterator[Rows]:
        """Yield the batches from the `start`-th on, without end."""
        assert split == "train"
        self.started_at = position = start
        while True:
            yield self.given[position % len(self.given)]
            position += 1

    def batches_in_epoch(self) -> int:
        """Return the number of different batches."""
        return len(self.given)

    def loss(self, batch: Rows) -> Loss:
        """Return the summed squared error; errors below 1 count as correct."""
        error = self.model(batch.x).squeeze(-1) - batch.y
        return Loss(error.square().sum(), (error.abs() < 1).sum())

    def split_batch(self, batch: Rows, limit: int) -> list[Rows]:
        """Return the batch as it is."""
        return [batch]

    def describe_batch(self, batch: Rows) -> str:
        """Return the lines of a batch."""
        return f"pairs.tsv, lines {', '.join(map(str, batch.lines))}"

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state that a batch leaves for the next one."""
        return dict(self.carry)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state."""
        self.carry = dict(state)

    def figures(self) -> dict[str, Any]:
        """Return no figures."""
        return {}

    def compile(self) -> None:
        """Compile nothing."""


def random_rows(sizes: list[int], scale: float = 1.0) -> list[Rows]:
    """Return batches of these sizes from the global generator, with lines counted from 1."""
    made, line = [], 1
    for size in sizes:
        x = torch.randn(size, 3, dtype=torch.float64)
        y = scale * torch.randn(size, dtype=torch.float64)
        made.append(Rows(x, y, tuple(range(line, line + size))))
        line += size
    return made
