"""Every optimiser in the loop: what a step sees, and that a stopped training goes on to the bit."""

import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from saccade.errors import ConfigError, TrainingError
from saccade.io.tensors import read_tensors, write_tensors
from saccade.optim import OPTIMIZERS, OptimizerSettings, PIDState, make_optimizer, pid_step
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, load_run, resume, train_recipe
from saccade.training import loop
from saccade.training.config import TrainConfig
from saccade.training.loop import Event, Loss, StepEvent, TrainState

Outcomes = Callable[[Path], dict[str, Any]]

# a pass over the series has 8 batches; reports come at 2, 4, 6, evaluations at 3, 6, 7
TINY = {
    "data.length": 60,
    "model.hidden": 3,
    "train.steps": 7,
    "train.batch_tokens": 4,
    "train.warmup": 2,
    "train.weight_decay": 0.01,
    "train.report_every": 2,
    "train.evaluate_every": 3,
    "train.checkpoint_seconds": 1000,
    "train.threads": 1,
}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


def interrupting(at: int) -> TrainOptions:
    """Ctrl-C during a step."""

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == at:
            signal.raise_signal(signal.SIGINT)

    return TrainOptions(on_event=on_event)


def assert_goes_on(recipe: Any, outcome_of: Outcomes, folder: Path, at: int) -> dict[str, Any]:
    """Stopped and resumed is as never stopped; what both came to."""
    assert train_recipe(recipe, folder / "whole", TrainOptions()).stop_reason == "steps"
    assert train_recipe(recipe, folder / "cut", interrupting(at)).stop_reason == "stop"
    torch.manual_seed(99)  # whatever the new process did before
    assert resume(folder / "cut", {}, TrainOptions()).stop_reason == "steps"
    outcome = outcome_of(folder / "whole")
    assert outcome_of(folder / "cut") == outcome
    return outcome


# --- to the bit -----------------------------------------------------------------------------------

# tensors that are kept for each of the four weights
KEPT = {
    "adadelta": 3,
    "adagrad": 2,
    "adam": 3,
    "adamw": 3,
    "averaged_momentum": 1,
    "gradient_descent": 0,
    "lamb": 2,
    "lamb_unclamped": 2,
    "lars": 1,
    "momentum": 1,
    "nadam": 4,
    "nesterov": 1,
    "newton": 0,
    "rmsprop": 2,
    "sgd": 0,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_stopped_and_resumed_is_as_never_stopped(
    name: str, outcome_of: Outcomes, tmp_path: Path
) -> None:
    recipe = resolve_recipe("forecast", changes={**TINY, "train.optimizer": name}).recipe
    last, _ = assert_goes_on(recipe, outcome_of, tmp_path, at=4)["last"]
    kept = [path for path in last if path.startswith("optimizer/")]
    if name in KEPT:
        assert len(kept) == 4 * KEPT[name]
    else:  # lbfgs keeps lists of what has changed, under its first weight
        assert {f"optimizer/0/old_dirs/{place}" for place in range(5)} <= {*kept}


def test_a_controlled_rate_goes_on_too(outcome_of: Outcomes, tmp_path: Path) -> None:
    changes = {**TINY, "train.schedule": "pid", "train.target_update_ratio": 0.01}
    outcome = assert_goes_on(
        resolve_recipe("forecast", changes=changes).recipe, outcome_of, tmp_path, at=4
    )
    _, facts = outcome["last"]
    assert facts["state"]["control"][0] != 0
    lines = [line for line in outcome["metrics"] if "loss" in line]
    assert all(line["ratio"] > 0 for line in lines)
    # each line has the rate of its step, and the checkpoint what comes after the last
    assert len({line["learning_rate"] for line in lines}) == len(lines)


def test_in_float64_what_is_kept_in_float32_stays_so(outcome_of: Outcomes, tmp_path: Path) -> None:
    small = {"train.steps": 7, "train.threads": 1, "train.optimizer": "nadam"}
    recipe = resolve_recipe("kernel-regression", model="attention", changes=small).recipe
    last, _ = assert_goes_on(recipe, outcome_of, tmp_path, at=4)["last"]
    assert {last[f"optimizer/0/{name}"][0] for name in ("mu_product", "exp_avg")} == {
        "torch.float32",
        "torch.float64",
    }


def test_a_search_with_dropout_goes_on_too(
    outcome_of: Outcomes, smallest: Callable[..., Any], tmp_path: Path
) -> None:
    changes = {"train.optimizer": "lbfgs", "train.steps": 4, "train.evaluate_every": 4}
    assert_goes_on(smallest("bahdanau", changes), outcome_of, tmp_path, at=2)


def test_what_was_saved_before_there_was_control_goes_on(
    outcome_of: Outcomes, tmp_path: Path
) -> None:
    recipe = resolve_recipe("forecast", changes=TINY).recipe
    train_recipe(recipe, tmp_path / "whole", TrainOptions())
    train_recipe(recipe, tmp_path / "cut", interrupting(4))
    (newest,) = (tmp_path / "cut" / "checkpoint").glob("[0-9]*.safetensors")
    tensors, facts = read_tensors(newest)
    assert PIDState(*facts["state"].pop("control")) == PIDState()
    write_tensors(newest, tensors, facts)
    assert resume(tmp_path / "cut", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "cut") == outcome_of(tmp_path / "whole")


# --- what a step sees -----------------------------------------------------------------------------


class Rows(NamedTuple):
    x: Tensor
    y: Tensor

    @property
    def tokens(self) -> int:
        return len(self.y)


class Toy:
    """Least squares, with noise on the answers and something handed from batch to batch."""

    def __init__(self, sizes: list[int], noise: float = 0.0, poison: float = 0.0):
        draw = torch.Generator().manual_seed(5)
        self.given = [
            Rows(*(torch.randn(*shape, generator=draw).double() for shape in ((n, 3), (n,))))
            for n in sizes
        ]
        self.model = nn.Linear(3, 1).double()
        self.noise, self.poison = noise, poison
        self.carry: dict[str, Tensor] = {}
        self.seen: list[tuple[float, float]] = []  # noise and what was handed on, of each loss
        self.started_at = -1

    def batches(self, split: str, start: int) -> Iterator[Rows]:
        self.started_at = start
        while True:
            yield self.given[start % len(self.given)]
            start += 1

    def batches_in_epoch(self) -> int:
        return len(self.given)

    def loss(self, batch: Rows) -> Loss:
        noise = self.noise * torch.randn(len(batch.y)).double()
        before = float(self.carry.get("sum", torch.tensor(0.0)))
        self.seen.append((float(noise.sum()), before))
        error = self.model(batch.x)[:, 0] - batch.y - noise
        self.carry = {"sum": before + self.model.weight.detach().sum()}
        if self.poison:
            return Loss(error.square().sum() * self.poison)
        return Loss(error.square().sum())

    def split_batch(self, batch: Rows, limit: int) -> list[Rows]:
        return [batch]

    def evaluate(self, split: str, limit: int | None = None) -> dict[str, float]:
        return {"good": 0.0}

    def selection_score(self, scores: dict[str, float]) -> float:
        return scores["good"]

    def describe_batch(self, batch: Rows) -> str:
        return f"rows {len(batch.y)}"

    def whole(self) -> tuple[Any, Any]:
        x = torch.cat([batch.x for batch in self.given]).numpy()
        return x, torch.cat([batch.y for batch in self.given]).numpy()


def taught(task: Toy, state: TrainState | None = None, **given: Any) -> list[StepEvent]:
    plain = {
        "steps": 1,
        "learning_rate": 0.1,
        "warmup": 0,
        "schedule": "constant",
        "clip_norm": 1e9,
    }
    settings = TrainConfig(**{**plain, "weight_decay": 0.0, "evaluate_every": 10**6, **given})
    optimizer_settings = OptimizerSettings(settings.learning_rate, settings.weight_decay)
    events: list[Any] = []
    loop.train_loop(
        task,
        make_optimizer(settings.optimizer, task.model, optimizer_settings),
        settings,
        state or TrainState(),
        on_event=events.append,
        save=lambda state: None,
        stop=lambda: False,
    )
    return [event for event in events if isinstance(event, StepEvent)]


def test_gradient_descent_sees_all_there_is_in_every_step() -> None:
    task = Toy([3, 2, 4])
    x, y = task.whole()
    x = np.hstack([x, np.ones((9, 1))])
    w = np.concatenate([task.model.weight.detach().numpy()[0], task.model.bias.detach().numpy()])
    steps = taught(task, steps=5, optimizer="gradient_descent")
    for step in steps:
        assert step.tokens == 9
        assert step.loss == pytest.approx(((x @ w - y) ** 2).mean())
        w = w - 0.1 * 2 * x.T @ (x @ w - y) / 9
    np.testing.assert_allclose(task.model.weight.detach().numpy()[0], w[:3], rtol=1e-12)
    taught(task, TrainState(step=5), steps=6, optimizer="gradient_descent")
    assert task.started_at == 15


def test_gradient_descent_knows_how_much_there_is_of_every_task(
    smallest: Callable[..., Any], tmp_path: Path
) -> None:
    one = {"train.optimizer": "gradient_descent", "train.steps": 1}
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose is a rose\n" * 40, encoding="utf-8")
    of_text = {**one, "data.segment_length": 8, "train.batch_tokens": 64, "model.width": 8}
    recipes = {
        "pairs": smallest("seq2seq", one),
        "series": resolve_recipe("forecast", changes={**TINY, **one}).recipe,
        "points": resolve_recipe(
            "kernel-regression", model="attention", changes={**one, "train.batch_tokens": 7}
        ).recipe,
        "text": resolve_recipe("language", data=str(text), model="rnn", changes=of_text).recipe,
        "gaps": resolve_recipe(
            "language", data=str(text), model="bidirectional", changes=of_text
        ).recipe,
    }
    for name, recipe in recipes.items():
        tokens: list[int] = []
        options = TrainOptions(on_event=lambda e, t=tokens: t.append(getattr(e, "tokens", 0)))
        run = train_recipe(recipe, tmp_path / name, options).run
        count = run.task.batches_in_epoch()
        batches = run.task.batches("train", 0)
        assert count > 1
        assert tokens[0] == sum(next(batches).tokens for _ in range(count)), name


@pytest.mark.parametrize("name", ["lbfgs", "newton"])
def test_every_look_of_a_search_sees_the_same(name: str) -> None:
    task = Toy([4, 3], noise=0.5)
    state = TrainState()
    looks: list[int] = []
    for step in (1, 2, 3):
        task.seen.clear()
        weights = task.model.weight.detach().sum()
        before = float(task.carry.get("sum", torch.tensor(0.0)))
        taught(task, state, steps=step, optimizer=name, learning_rate=1.0)
        assert len({*task.seen}) == 1 and task.seen[0][1] == before
        # what is handed on is what the step began with, as with any other optimiser
        assert float(task.carry["sum"]) == pytest.approx(before + float(weights))
        looks.append(len(task.seen))
    assert min(looks) >= 2
    again = Toy([4, 3], noise=0.5)
    again.model.load_state_dict(task.model.state_dict())
    taught(again, TrainState(step=7), steps=8, optimizer=name)
    assert again.seen[0] != task.seen[0]  # another step has noise of its own


def test_newton_finds_least_squares_in_one_step() -> None:
    task = Toy([9, 8])
    (step,) = taught(task, optimizer="newton", accumulate_steps=2, learning_rate=1.0)
    x, y = task.whole()
    solved, *_ = np.linalg.lstsq(np.hstack([x, np.ones((17, 1))]), y, rcond=None)
    np.testing.assert_allclose(task.model.weight.detach().numpy()[0], solved[:3], rtol=1e-9)
    assert step.tokens == 17 and step.norm > 0 and step.accuracy is None


@pytest.mark.parametrize("name", ["lbfgs", "newton"])
@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_search_stops_at_what_is_no_number(name: str, poison: float) -> None:
    task = Toy([2], poison=poison)
    before = task.model.weight.detach().clone()
    with pytest.raises(TrainingError, match="at step 1 the loss is .* rows 2"):
        taught(task, optimizer=name)
    assert torch.equal(task.model.weight, before)


def test_of_many_batches_some_are_named() -> None:
    with pytest.raises(TrainingError, match="rows 1; rows 2; .*; rows 8; and of 4 batches more"):
        taught(Toy(list(range(1, 13)), poison=math.nan), optimizer="gradient_descent")


# --- the controller -------------------------------------------------------------------------------


def test_the_rate_is_what_the_controller_says() -> None:
    task = Toy([8, 8, 8], noise=1.0)
    wanted = {"schedule": "pid", "target_update_ratio": 0.01, "warmup": 10, "learning_rate": 0.3}
    steps = taught(task, steps=120, optimizer="sgd", **wanted)
    control = PIDState()
    for step in steps:
        rise = min(1.0, step.step / 10)
        assert step.learning_rate == pytest.approx(0.3 * rise * control.factor, rel=1e-12)
        assert step.ratio is not None
        control = pid_step(control, step.ratio, 0.01 * rise)
    late = [math.log(step.ratio) for step in steps[60:] if step.ratio]
    assert math.exp(sum(late) / len(late)) == pytest.approx(0.01, rel=0.1)
    assert steps[0].ratio is not None and steps[0].ratio != pytest.approx(0.001, rel=0.5)


def test_the_ratio_is_that_of_the_step() -> None:
    task = Toy([8])
    before = torch.cat([w.detach().flatten() for w in task.model.parameters()])
    (step,) = taught(task, optimizer="sgd", schedule="pid")
    after = torch.cat([w.detach().flatten() for w in task.model.parameters()])
    assert step.ratio == pytest.approx(float((after - before).norm() / before.norm()))
    assert taught(task, optimizer="sgd")[0].ratio is None


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train.optimizer": "adma"}, "train.optimizer is 'adma': .* Did you mean 'adam'"),
        ({"train.schedule": "cosin"}, "train.schedule is 'cosin': .* Did you mean 'cosine'"),
        (
            {"train.optimizer": "gradient_descent", "train.accumulate_steps": 2},
            "train.accumulate_steps is 2: a step of gradient_descent takes all batches",
        ),
        (
            {"train.optimizer": "newton", "train.compile": True},
            "train.compile is True: compiled kernels have no second derivatives",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve_recipe("forecast", changes=changes)


def test_too_many_weights_for_newton_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    changes = {"train.optimizer": "newton", "model.hidden": 64}
    recipe = resolve_recipe("forecast", model="recurrent", changes=changes).recipe
    with pytest.raises(ConfigError, match="train.optimizer: newton computes 12,929 × 12,929"):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_newton_learns_through_kernels_without_a_second_derivative(
    smallest: Callable[..., Any], tmp_path: Path
) -> None:
    # a translator's loss is such a kernel; a few weights only, since each takes two gradients
    changes = {"train.optimizer": "newton", "train.steps": 1, "model.width": 2}
    run = train_recipe(smallest("seq2seq", changes), tmp_path / "run", TrainOptions()).run
    assert run.parameters < 1000
    assert load_run(tmp_path / "run").metrics()[-1]["step"] == 1
