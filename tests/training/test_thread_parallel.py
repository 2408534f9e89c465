"""Thread-parallel gradients: equal to those of the whole batch, and deterministic."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.runs.train import TrainOptions, train_recipe
from saccade.seeding import thread_generator, thread_rng
from saccade.tasks.translation import objective as translation_objective
from saccade.training.config import TrainConfig
from saccade.training.objective import Loss
from saccade.training.thread_parallel import ThreadParallel

Recipes = Callable[..., Any]


@pytest.fixture(autouse=True)
def two_threads(threads_given_back: None) -> None:
    torch.set_num_threads(2)


class Squares:
    """Squared error on rows of numbers; a third weight is unused."""

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


def gradients_of(
    objective: Squares, batch: Tensor, threads: int
) -> tuple[float, int | None, list[Any]]:
    torch.set_num_threads(threads)
    objective.model.zero_grad()
    with ThreadParallel(objective, TrainConfig()) as workers:
        total, correct = workers.accumulate_gradients(batch, 7, step=1)
        assert workers.count == threads
    return total, correct, [weight.grad for weight in objective.model.parameters()]


def test_thread_parallel_gradients_equal_those_of_the_batch() -> None:
    objective, batch = Squares(), torch.randn(7, 3, dtype=torch.float64)
    total, correct, gradients = gradients_of(objective, batch, 1)
    for threads in (2, 3, 4):
        again, right, others = gradients_of(objective, batch, threads)
        assert again == pytest.approx(total, rel=1e-12)
        assert right == correct
        for mine, theirs in zip(gradients, others, strict=True):
            if mine is None:
                assert theirs is None  # the weight that is not used
            else:
                torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    assert any(gradient is None for gradient in gradients)


def test_thread_parallel_accumulates_gradients() -> None:
    objective, batch = Squares(), torch.randn(4, 3, dtype=torch.float64)
    with ThreadParallel(objective, TrainConfig()) as workers:
        workers.accumulate_gradients(batch, 4, step=1)
        once = objective.model["used"].weight.grad.clone()
        workers.accumulate_gradients(batch, 4, step=1)
    torch.testing.assert_close(objective.model["used"].weight.grad, 2 * once)


@pytest.mark.parametrize("threads", [1, 2])
def test_thread_parallel_gradients_have_the_strides_of_the_weights(threads: int) -> None:
    """Fused optimizers ignore strides and would mix up the entries."""

    class Turned(Squares):
        def loss(self, batch: Tensor) -> Loss:
            # the gradient of this comes back transposed
            return Loss(torch.einsum("rk,ok->ro", batch, self.model["used"].weight).square().sum())

    objective, batch = Turned(), torch.randn(4, 3, dtype=torch.float64)
    objective.model["used"] = nn.Linear(3, 5).double()
    weight = objective.model["used"].weight
    objective.loss(batch).total.backward()
    expected = weight.grad.clone()
    (bare,) = torch.autograd.grad(objective.loss(batch).total, [weight])
    print(bare.stride(), weight.stride())
    gradients_of(objective, batch, threads)
    assert weight.grad.stride() == weight.stride()
    torch.testing.assert_close(7 * weight.grad, expected)


def test_thread_parallel_raises_exceptions_of_a_part() -> None:
    objective, batch = Squares(), torch.zeros(4, 3, dtype=torch.float64)
    objective.broken, batch[2:] = True, 9.0
    with (
        pytest.raises(ArithmeticError, match="of one part"),
        ThreadParallel(objective, TrainConfig()) as some,
    ):
        some.accumulate_gradients(batch, 4, step=1)


def test_thread_parallel_dropout_has_a_generator_for_each_part() -> None:
    assert thread_generator() is None
    with thread_rng(1, "dropout", 3):
        first = torch.rand(5, generator=thread_generator())
    with thread_rng(1, "dropout", 3):
        torch.rand(5)  # the global generator is another's
        assert torch.equal(torch.rand(5, generator=thread_generator()), first)
    assert thread_generator() is None


@pytest.mark.parametrize("model", ["bahdanau", "luong", "seq2seq", "transformer"])
def test_training_with_two_threads_is_deterministic(
    model: str,
    smallest: Recipes,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_report: None,
) -> None:
    calls = []
    original = translation_objective.slice_batch

    def counting(*arguments: Any) -> Any:
        calls.append(arguments[1:])
        return original(*arguments)

    monkeypatch.setattr(translation_objective, "slice_batch", counting)
    recipe = smallest(model, {"train.threads": 2, "train.batch_tokens": 1024, "train.steps": 5})
    for name in ("one", "other"):
        train_recipe(recipe, tmp_path / name, TrainOptions())
    assert len(calls) > 8 and len(calls) % 4 == 0  # two parts of some batches, twice
    assert outcome_of(tmp_path / "one") == outcome_of(tmp_path / "other")
