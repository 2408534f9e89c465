"""The contract between the training loop and a task: batches in, summed losses out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn


class Loss(NamedTuple):
    """Summed loss of a batch, and the number of correct targets where that is defined."""

    total: Tensor
    correct: Tensor | None = None


class Validation(NamedTuple):
    """Metrics on held-out data, and the score by which the best weights are selected."""

    metrics: dict[str, float]
    score: float  # higher is better


@runtime_checkable
class TrainingBatch(Protocol):
    """A batch of any task, as the loop sees it."""

    @property
    def tokens(self) -> int:
        """Number of loss terms; losses are divided by it."""
        ...


BatchT = TypeVar("BatchT", bound=TrainingBatch)


@runtime_checkable
class Objective(Protocol[BatchT]):
    """All that the training loop knows of a task.

    With `addressable = True` the n-th training batch is a function of the seed and n, so a run can
    be resumed at any step without replaying data. Where the data depends on the model itself
    (on-policy reinforcement learning) it is False; then `state_dict` must hold all that the next
    batch depends on, and `start` is ignored.
    """

    @property
    def model(self) -> nn.Module:
        """The network to train."""
        ...

    @property
    def addressable(self) -> bool:
        """True if the n-th training batch is a function of the seed and n."""
        ...

    @property
    def unit(self) -> str:
        """Plural noun of what `TrainingBatch.tokens` counts, for the speed: tokens, rows."""
        ...

    @property
    def validate(self) -> Callable[[], Validation] | None:
        """A validation of its own; None: the task's evaluator on the dev split."""
        ...

    def batches(self, split: str, start: int) -> Iterator[BatchT]:
        """Yield the batches of a split from the `start`-th on; endless for "train"."""
        ...

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all training data once."""
        ...

    def loss(self, batch: BatchT) -> Loss:
        """Return the summed loss of a batch."""
        ...

    def split_batch(self, batch: BatchT, limit: int) -> Sequence[BatchT]:
        """Split a batch into at most `limit` parts whose losses add up to its own."""
        ...

    def describe_batch(self, batch: BatchT) -> str:
        """Return file and lines of a batch, for error messages."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a batch leaves for the next one, such as a hidden state; saved with it."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        ...

    def figures(self) -> dict[str, Any]:
        """Return figures of the training itself by file name, for the report."""
        ...

    def compile(self) -> None:
        """Compile the forward pass with torch.compile, or raise a ConfigError."""
        ...


AnyObjective = Objective[Any]
