"""Parts of a batch in threads of their own give what the whole batch gives, each time the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.runs.run import TrainOptions, train_recipe
from saccade.seeding import thread_generator, thread_rng
from saccade.tasks import translation
from saccade.training.config import TrainConfig
from saccade.training.loop import Loss
from saccade.training.thread_parallel import ThreadParallel

Recipes = Callable[..., Any]


@pytest.fixture(autouse=True)
def two_threads(threads_given_back: None) -> None:
    torch.set_num_threads(2)


class Squares:
    """Rows of numbers, of which each is to be learned; a third weight is not used at all."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: Any = nn.ModuleDict({"used": nn.Linear(3, 1), "other": nn.Linear(2, 1)})
        self.model.double()
        self.broken = False

    def loss(self, batch: Tensor) -> Loss:
        if self.broken and batch[0, 0] > 5:
            raise ArithmeticError("of one part")
        error = self.model["used"](batch).squeeze(-1) - 1
        return Loss(error.square().sum(), (error.abs() < 1).sum())

    def split_batch(self, batch: Tensor, limit: int) -> list[Tensor]:
        return list(batch.chunk(limit))


def learned(task: Squares, batch: Tensor, threads: int) -> tuple[float, int | None, list[Any]]:
    torch.set_num_threads(threads)
    task.model.zero_grad()
    with ThreadParallel(task, TrainConfig()) as workers:
        total, correct = workers.accumulate_gradients(batch, 7, step=1)
        assert workers.count == threads
    return total, correct, [weight.grad for weight in task.model.parameters()]


def test_parts_add_up_to_the_whole() -> None:
    task, batch = Squares(), torch.randn(7, 3, dtype=torch.float64)
    total, correct, gradients = learned(task, batch, 1)
    for threads in (2, 3, 4):
        again, right, others = learned(task, batch, threads)
        assert again == pytest.approx(total, rel=1e-12)
        assert right == correct
        for mine, theirs in zip(gradients, others, strict=True):
            if mine is None:
                assert theirs is None  # the weight that is not used
            else:
                torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    assert any(gradient is None for gradient in gradients)


def test_gradients_are_added_to_those_that_are_there() -> None:
    task, batch = Squares(), torch.randn(4, 3, dtype=torch.float64)
    with ThreadParallel(task, TrainConfig()) as workers:
        workers.accumulate_gradients(batch, 4, step=1)
        once = task.model["used"].weight.grad.clone()
        workers.accumulate_gradients(batch, 4, step=1)
    torch.testing.assert_close(task.model["used"].weight.grad, 2 * once)


@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_lie_in_memory_as_their_weights_do(threads: int) -> None:
    """An optimiser in one kernel does not look at strides, and would take them for others."""

    class Turned(Squares):
        def loss(self, batch: Tensor) -> Loss:
            # the gradient of this comes back transposed
            return Loss(torch.einsum("rk,ok->ro", batch, self.model["used"].weight).square().sum())

    task, batch = Turned(), torch.randn(4, 3, dtype=torch.float64)
    task.model["used"] = nn.Linear(3, 5).double()
    weight = task.model["used"].weight
    task.loss(batch).total.backward()
    wanted = weight.grad.clone()
    (bare,) = torch.autograd.grad(task.loss(batch).total, [weight])
    print(bare.stride(), weight.stride())
    learned(task, batch, threads)
    assert weight.grad.stride() == weight.stride()
    torch.testing.assert_close(7 * weight.grad, wanted)


def test_what_goes_wrong_in_a_part_is_raised() -> None:
    task, batch = Squares(), torch.zeros(4, 3, dtype=torch.float64)
    task.broken, batch[2:] = True, 9.0
    with (
        pytest.raises(ArithmeticError, match="of one part"),
        ThreadParallel(task, TrainConfig()) as some,
    ):
        some.accumulate_gradients(batch, 4, step=1)


def test_each_thread_draws_its_own_luck() -> None:
    assert thread_generator() is None
    with thread_rng(1, "dropout", 3):
        first = torch.rand(5, generator=thread_generator())
    with thread_rng(1, "dropout", 3):
        torch.rand(5)  # the global generator is another's
        assert torch.equal(torch.rand(5, generator=thread_generator()), first)
    assert thread_generator() is None


@pytest.mark.parametrize("model", ["bahdanau", "luong", "seq2seq", "transformer"])
def test_a_training_in_two_threads_is_the_same_each_time(
    model: str,
    smallest: Recipes,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)
    asked = []
    original = translation.slice_batch

    def counting(*arguments: Any) -> Any:
        asked.append(arguments[1:])
        return original(*arguments)

    monkeypatch.setattr(translation, "slice_batch", counting)
    recipe = smallest(model, {"train.threads": 2, "train.batch_tokens": 1024, "train.steps": 5})
    for name in ("one", "other"):
        train_recipe(recipe, tmp_path / name, TrainOptions())
    assert len(asked) > 8 and len(asked) % 4 == 0  # two parts of some batches, twice
    assert outcome_of(tmp_path / "one") == outcome_of(tmp_path / "other")
