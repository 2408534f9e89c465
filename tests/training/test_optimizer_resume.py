"""Every optimizer in the training loop: the data of a step, and bit-exact resuming."""

import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.errors import ConfigError, TrainingError
from saccade.inspection.figures import TrainingCurves
from saccade.io.tensors import read_tensors, write_tensors
from saccade.optim import OPTIMIZERS, OptimizerSettings, PIDState, make_optimizer, pid_step
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training import loop
from saccade.training.config import TrainConfig
from saccade.training.loop import Event, StepEvent
from saccade.training.objective import Loss, Validation
from saccade.training.state import TrainState
from tests.training.toy_objective import Rows, ToyObjective

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


pytestmark = pytest.mark.usefixtures("no_report")


def interrupting(at: int) -> TrainOptions:
    """Options that send SIGINT during a step."""

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == at:
            signal.raise_signal(signal.SIGINT)

    return TrainOptions(on_event=on_event)


def assert_resumes_exactly(
    recipe: Any, outcome_of: Outcomes, folder: Path, at: int
) -> dict[str, Any]:
    """Assert that a resumed run equals an uninterrupted one, and return its outcome."""
    assert train_recipe(recipe, folder / "whole", TrainOptions()).stop_reason == "steps"
    assert train_recipe(recipe, folder / "cut", interrupting(at)).stop_reason == "stop"
    torch.manual_seed(99)  # the state of a new process
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
    "nadam_lookahead": 4,
    "nesterov": 1,
    "nesterov_lookahead": 3,
    "newton": 0,
    "rmsprop": 2,
    "sgd": 0,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_resume_is_bit_exact(name: str, outcome_of: Outcomes, tmp_path: Path) -> None:
    recipe = resolve_recipe("forecast", changes={**TINY, "train.optimizer": name}).recipe
    last, _ = assert_resumes_exactly(recipe, outcome_of, tmp_path, at=4)["last"]
    kept = [path for path in last if path.startswith("optimizer/")]
    if name in KEPT:
        assert len(kept) == 4 * KEPT[name]
    else:  # lbfgs keeps lists of what has changed, under its first weight
        assert {f"optimizer/0/old_dirs/{index}" for index in range(5)} <= {*kept}


@pytest.mark.parametrize("at", [2, 3, 5])  # before the switch, at it, and after it
@pytest.mark.parametrize("names", [("adam", "momentum"), ("adamw", "sgd")])
def test_switched_optimizer_resume_is_bit_exact(
    names: tuple[str, str], at: int, outcome_of: Outcomes, tmp_path: Path
) -> None:
    switch = {"train.optimizer": names[0], "train.switch_to": names[1], "train.switch_step": 3}
    recipe = resolve_recipe("forecast", changes={**TINY, **switch}).recipe
    outcome = assert_resumes_exactly(recipe, outcome_of, tmp_path, at)
    last, metadata = outcome["last"]
    assert metadata["optimizer"]["0/switch"][0] == 7
    kept = {path for path in last if path.startswith("optimizer/")}
    buffers = {f"optimizer/{index}/momentum_buffer" for index in range(4)}
    assert kept == (buffers if names[1] == "momentum" else set())
    [line] = [line for line in outcome["metrics"] if "optimizer" in line]
    assert (line["step"], line["optimizer"]) == (4, names[1])
    assert TrainingCurves(outcome["metrics"]).switches == {4: names[1]}


def test_switch_is_reported_with_its_learning_rate(tmp_path: Path) -> None:
    switch = {"train.optimizer": "adam", "train.switch_to": "sgd", "train.switch_step": 3}
    changes = {**TINY, **switch, "train.schedule": "constant", "train.switch_learning_rate": 0.25}
    events: list[Event] = []
    messages: list[str] = []
    options = TrainOptions(log=messages.append, on_event=events.append)
    train_recipe(resolve_recipe("forecast", changes=changes).recipe, tmp_path / "given", options)
    assert "Step 4: sgd replaces adam, learning rate 0.25." in messages
    rates = [event.learning_rate for event in events if isinstance(event, StepEvent)]
    assert rates == pytest.approx([0.025, 0.05, 0.05, 0.25, 0.25, 0.25, 0.25])
    late = resolve_recipe("forecast", changes={**changes, "train.switch_step": 7}).recipe
    train_recipe(late, tmp_path / "late", options)
    never = "sgd will not replace adam: train.switch_step is 7 and train.steps 7."
    assert never in messages


def test_pid_schedule_resume_is_bit_exact(outcome_of: Outcomes, tmp_path: Path) -> None:
    changes = {**TINY, "train.schedule": "pid", "train.target_update_ratio": 0.01}
    outcome = assert_resumes_exactly(
        resolve_recipe("forecast", changes=changes).recipe, outcome_of, tmp_path, at=4
    )
    _, metadata = outcome["last"]
    assert metadata["state"]["control"][0] != 0
    lines = [line for line in outcome["metrics"] if "loss" in line]
    assert all(line["ratio"] > 0 for line in lines)
    # each line has the rate of its step, and the checkpoint what comes after the last
    assert len({line["learning_rate"] for line in lines}) == len(lines)


def test_float32_optimizer_state_of_a_float64_model_is_resumed(
    outcome_of: Outcomes, tmp_path: Path
) -> None:
    small = {"train.steps": 7, "train.threads": 1, "train.optimizer": "nadam"}
    recipe = resolve_recipe("kernel-regression", model="attention", changes=small).recipe
    last, _ = assert_resumes_exactly(recipe, outcome_of, tmp_path, at=4)["last"]
    assert {last[f"optimizer/0/{name}"][0] for name in ("mu_product", "exp_avg")} == {
        "torch.float32",
        "torch.float64",
    }


def test_line_search_with_dropout_resume_is_bit_exact(
    outcome_of: Outcomes, smallest: Callable[..., Any], tmp_path: Path
) -> None:
    changes = {"train.optimizer": "lbfgs", "train.steps": 4, "train.evaluate_every": 4}
    assert_resumes_exactly(smallest("bahdanau", changes), outcome_of, tmp_path, at=2)


def test_checkpoint_without_pid_state_is_resumed(outcome_of: Outcomes, tmp_path: Path) -> None:
    recipe = resolve_recipe("forecast", changes=TINY).recipe
    train_recipe(recipe, tmp_path / "whole", TrainOptions())
    train_recipe(recipe, tmp_path / "cut", interrupting(4))
    (newest,) = (tmp_path / "cut" / "checkpoint").glob("[0-9]*.safetensors")
    tensors, metadata = read_tensors(newest)
    assert PIDState(*metadata["state"].pop("control")) == PIDState()
    write_tensors(newest, tensors, metadata)
    assert resume(tmp_path / "cut", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "cut") == outcome_of(tmp_path / "whole")


# --- what a step sees -----------------------------------------------------------------------------


class LinearRegression(ToyObjective):
    """Least squares with noise on the targets and a state carried from batch to batch."""

    def __init__(self, sizes: list[int], noise: float = 0.0, factor: float = 1.0):
        draw = torch.Generator().manual_seed(5)
        super().__init__(
            [
                Rows(*(torch.randn(*shape, generator=draw).double() for shape in ((n, 3), (n,))))
                for n in sizes
            ]
        )
        self.noise, self.factor = noise, factor
        self.seen: list[tuple[float, float]] = []  # noise and carried state of each evaluation

    def loss(self, batch: Rows) -> Loss:
        noise = self.noise * torch.randn(len(batch.y)).double()
        before = float(self.carry.get("sum", torch.tensor(0.0)))
        self.seen.append((float(noise.sum()), before))
        error = self.model(batch.x)[:, 0] - batch.y - noise
        self.carry = {"sum": before + self.model.weight.detach().sum()}
        return Loss(error.square().sum() * self.factor)

    def describe_batch(self, batch: Rows) -> str:
        return f"rows {len(batch.y)}"

    def whole(self) -> tuple[Any, Any]:
        x = torch.cat([batch.x for batch in self.given]).numpy()
        return x, torch.cat([batch.y for batch in self.given]).numpy()


def trained(
    objective: LinearRegression, state: TrainState | None = None, **given: Any
) -> list[StepEvent]:
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
        objective,
        lambda examples: Validation({}, 0.0),
        make_optimizer(settings.optimizer, objective.model, optimizer_settings),
        settings,
        state or TrainState(),
        on_event=events.append,
        save=lambda state: None,
        stop=lambda: False,
    )
    return [event for event in events if isinstance(event, StepEvent)]


def test_gradient_descent_uses_all_data_in_every_step() -> None:
    objective = LinearRegression([3, 2, 4])
    x, y = objective.whole()
    x = np.hstack([x, np.ones((9, 1))])
    w = np.concatenate(
        [objective.model.weight.detach().numpy()[0], objective.model.bias.detach().numpy()]
    )
    steps = trained(objective, steps=5, optimizer="gradient_descent")
    for step in steps:
        assert step.tokens == 9
        assert step.loss == pytest.approx(((x @ w - y) ** 2).mean())
        w = w - 0.1 * 2 * x.T @ (x @ w - y) / 9
    np.testing.assert_allclose(objective.model.weight.detach().numpy()[0], w[:3], rtol=1e-12)
    trained(objective, TrainState(step=5), steps=6, optimizer="gradient_descent")
    assert objective.started_at == 15


def test_gradient_descent_counts_the_batches_of_every_task(
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
        make_objective = run.components.objective
        assert make_objective is not None
        objective = make_objective(run.recipe, run.model, run.preprocessor, run.data().splits)
        count = objective.batches_in_epoch()
        batches = objective.batches("train", 0)
        assert count > 1
        assert tokens[0] == sum(next(batches).tokens for _ in range(count)), name


@pytest.mark.parametrize("name", ["lbfgs", "newton"])
def test_line_search_evaluates_the_same_loss(name: str) -> None:
    objective = LinearRegression([4, 3], noise=0.5)
    state = TrainState()
    evaluations: list[int] = []
    for step in (1, 2, 3):
        objective.seen.clear()
        weights = objective.model.weight.detach().sum()
        before = float(objective.carry.get("sum", torch.tensor(0.0)))
        trained(objective, state, steps=step, optimizer=name, learning_rate=1.0)
        assert len({*objective.seen}) == 1 and objective.seen[0][1] == before
        # the carried state is that before the step, as with any other optimizer
        assert float(objective.carry["sum"]) == pytest.approx(before + float(weights))
        evaluations.append(len(objective.seen))
    assert min(evaluations) >= 2
    again = LinearRegression([4, 3], noise=0.5)
    again.model.load_state_dict(objective.model.state_dict())
    trained(again, TrainState(step=7), steps=8, optimizer=name)
    assert again.seen[0] != objective.seen[0]  # another step has other noise


def test_newton_solves_linear_regression_in_one_step() -> None:
    objective = LinearRegression([9, 8])
    (step,) = trained(objective, optimizer="newton", accumulate_steps=2, learning_rate=1.0)
    x, y = objective.whole()
    solved, *_ = np.linalg.lstsq(np.hstack([x, np.ones((17, 1))]), y, rcond=None)
    np.testing.assert_allclose(objective.model.weight.detach().numpy()[0], solved[:3], rtol=1e-9)
    assert step.tokens == 17 and step.norm > 0 and step.accuracy is None


@pytest.mark.parametrize("name", ["lbfgs", "newton"])
@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_line_search_stops_at_a_non_finite_loss(name: str, factor: float) -> None:
    objective = LinearRegression([2], factor=factor)
    before = objective.model.weight.detach().clone()
    with pytest.raises(TrainingError, match="got a loss of .* at step 1.* rows 2"):
        trained(objective, optimizer=name)
    assert torch.equal(objective.model.weight, before)


def test_training_error_names_some_of_many_batches() -> None:
    with pytest.raises(TrainingError, match="rows 1; rows 2; .*; rows 8; and 4 more batches"):
        trained(LinearRegression(list(range(1, 13)), factor=math.nan), optimizer="gradient_descent")


# --- the controller -------------------------------------------------------------------------------


def test_pid_schedule_sets_the_learning_rate() -> None:
    objective = LinearRegression([8, 8, 8], noise=1.0)
    expected = {"schedule": "pid", "target_update_ratio": 0.01, "warmup": 10, "learning_rate": 0.3}
    steps = trained(objective, steps=120, optimizer="sgd", **expected)
    control = PIDState()
    for step in steps:
        rise = min(1.0, step.step / 10)
        assert step.learning_rate == pytest.approx(0.3 * rise * control.factor, rel=1e-12)
        assert step.ratio is not None
        control = pid_step(control, step.ratio, 0.01 * rise)
    late = [math.log(step.ratio) for step in steps[60:] if step.ratio]
    assert math.exp(sum(late) / len(late)) == pytest.approx(0.01, rel=0.1)
    assert steps[0].ratio is not None and steps[0].ratio != pytest.approx(0.001, rel=0.5)


def test_step_event_has_the_update_ratio() -> None:
    objective = LinearRegression([8])
    before = torch.cat([w.detach().flatten() for w in objective.model.parameters()])
    (step,) = trained(objective, optimizer="sgd", schedule="pid")
    after = torch.cat([w.detach().flatten() for w in objective.model.parameters()])
    assert step.ratio == pytest.approx(float((after - before).norm() / before.norm()))
    assert trained(objective, optimizer="sgd")[0].ratio is None


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train.optimizer": "adma"}, "train.optimizer is 'adma': .*Did you mean 'adam'"),
        ({"train.schedule": "cosin"}, "train.schedule is 'cosin': .* Did you mean 'cosine'"),
        (
            {"train.optimizer": "gradient_descent", "train.accumulate_steps": 2},
            "train.accumulate_steps is 2: expected 1, since a step of gradient_descent uses all",
        ),
        (
            {"train.optimizer": "newton", "train.compile": True},
            "train.compile is True: expected False, since compiled kernels have no second",
        ),
        (
            {"train.switch_to": "sgd"},
            "train.switch_step is None: expected the number of steps before sgd replaces",
        ),
        ({"train.switch_to": "adamw", "train.switch_step": 3}, "train.switch_to is 'adamw'"),
        (
            {"train.switch_step": 3, "train.switch_learning_rate": 0.1},
            "train.switch_step is 3: expected train.switch_to with it; try train.switch_to=sgd",
        ),
        (
            {"train.optimizer": "lbfgs", "train.switch_to": "sgd", "train.switch_step": 3},
            "train.switch_to is 'sgd': expected none with train.optimizer=lbfgs.* try train.optim",
        ),
    ],
)
def test_train_config_refuses_invalid_combinations(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve_recipe("forecast", changes=changes)


def test_newton_refuses_large_models_before_writing_files(
    tmp_path: Path,
) -> None:
    changes = {"train.optimizer": "newton", "model.hidden": 64}
    recipe = resolve_recipe("forecast", model="recurrent", changes=changes).recipe
    with pytest.raises(ConfigError, match="train.optimizer: newton: got a model of 12,929 weights"):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_newton_trains_through_kernels_without_double_backward(
    smallest: Callable[..., Any], tmp_path: Path
) -> None:
    # a translator's loss is such a kernel; a few weights only, since each takes two gradients
    changes = {"train.optimizer": "newton", "train.steps": 1, "model.width": 2}
    run = train_recipe(smallest("seq2seq", changes), tmp_path / "run", TrainOptions()).run
    assert run.parameters < 1000
    assert load_run(tmp_path / "run").metrics()[-1]["step"] == 1
