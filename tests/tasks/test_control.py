"""The task control: losses by loops, gradients by enumeration, resuming, scores, messages."""

import itertools
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import trim_mean

from saccade.errors import ConfigError, DataError
from saccade.inspection.episode import EpisodeRecord
from saccade.models.control import QNetwork
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.control.components import control_components
from saccade.tasks.control.data import prepare_environment
from saccade.tasks.control.policy_gradient import PolicyObjective
from saccade.tasks.control.q_learning import DQNObjective
from saccade.tasks.control.replay import ReplayMemory
from saccade.tasks.control.rollout import collect_episodes, log_probabilities, prepare_batch
from saccade.training.loop import Event, StepEvent
from saccade.workflows.compare import compare_models
from tests.tasks.worlds import Corridor

CORRIDOR = "tests.tasks.worlds:Corridor"
TINY: dict[str, Any] = {
    "data.max_episode_steps": 8,
    "data.dev_episodes": 4,
    "data.test_episodes": 10,
    "model.hidden": 8,
    "train.evaluate_every": 5,
    "train.report_every": 3,
}
SMALL_DQN = {"model.learning_starts": 20, "model.exploration_steps": 40}
SMALL_PPO = {"model.rollout_steps": 8, "model.environments": 3, "model.epochs": 2}
MODELS: dict[str, dict[str, Any]] = {
    "dqn": {**SMALL_DQN, "model.target_interval": 4, "train.batch_tokens": 8},
    "ppo": {**SMALL_PPO, "train.batch_tokens": 7},
    "a2c": {"model.rollout_steps": 5, "model.environments": 2},
    "reinforce": {"model.environments": 3},
}


def recipe_of(model: str, world: str = CORRIDOR, **changes: Any) -> Any:
    given = TINY | MODELS.get(model, {}) | {k.replace("__", "."): v for k, v in changes.items()}
    return resolve_recipe("control", data=world, model=model, changes=given).recipe


def objective_of(model: str, world: str = CORRIDOR, **changes: Any) -> Any:
    """Return the objective of a prepared recipe."""
    data = prepare_environment(recipe_of(model, world, **changes), PrepareContext())
    components = control_components(data.recipe)
    network = components.build_model(data.recipe, data.preprocessor)
    assert components.objective is not None
    return components.objective(data.recipe, network, data.preprocessor, data.splits)


# --- DQN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("huber", [True, False])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("dueling", [True, False])
def test_loss_of_dqn_equals_loops(huber: bool, double: bool, dueling: bool) -> None:
    changes = {"model__huber": huber, "model__double": double, "model__dueling": dueling}
    objective: DQNObjective = objective_of("dqn", model__discount=0.9, **changes)
    batch = next(objective.batches("train"))
    for weight in objective.model.parameters():  # target and network differ, errors exceed 1
        weight.data.mul_(3.0)
    expected = 0.0
    for state, action, reward, following, ended in zip(*batch, strict=True):
        with torch.no_grad():
            next_values = objective.target(following[None])[0]
            chosen = (objective.model if double else objective.target)(following[None])[0].argmax()
            value = objective.model(state[None])[0, int(action)]
        target = float(reward) + (0.0 if ended else 0.9 * float(next_values[chosen]))
        error = abs(float(value) - target)
        expected += 0.5 * error**2 if not huber or error <= 1 else error - 0.5
    assert float(objective.loss(batch).total.detach()) == pytest.approx(expected, rel=1e-5)


def test_dueling_network_adds_value_and_centred_advantages() -> None:
    model = objective_of("dqn", model__dueling=True).model
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(1))
    hidden = rows
    for layer in model.hidden:
        hidden = layer(hidden)
    advantages = model.output(hidden).detach()
    values = model.value(hidden).detach()
    for row in range(5):
        mean = sum(float(x) for x in advantages[row]) / 2
        expected = [float(values[row]) + float(x) - mean for x in advantages[row]]
        np.testing.assert_allclose(model(rows)[row].detach(), expected, rtol=1e-5)


def test_replay_memory_holds_the_newest_transitions() -> None:
    memory, kept = ReplayMemory(5, 2), []
    for number in range(13):
        kept.append((number, number + 0.5, number % 3, 10.0 * number, number % 2))
        memory.add(
            np.array([number, -1.0]), number % 3, 10.0 * number,
            np.array([number + 0.5, 0.0]), bool(number % 2),
        )  # fmt: skip
        newest = memory.newest(3)
        expected = kept[-3:]
        assert newest.observations[:, 0].tolist() == [row[0] for row in expected]
        assert newest.next_observations[:, 0].tolist() == [row[1] for row in expected]
        assert newest.actions[:, 0].tolist() == [row[2] for row in expected]
        assert newest.rewards.tolist() == [row[3] for row in expected]
        assert newest.terminated.tolist() == [row[4] for row in expected]
        everything = memory.take(torch.arange(memory.size)).rewards.tolist()
        assert sorted(everything) == [row[3] for row in kept[-5:]]


def test_targets_use_the_copy_and_the_memory_only_if_they_are_on() -> None:
    objective: DQNObjective = objective_of("dqn", model__target_interval=3)
    batches = objective.batches("train")
    versions = []
    for number in range(7):
        next(batches)
        versions.append(float(objective.target.output.bias[0]))
        objective.model.output.bias.data[0] = number + 100.0
    first = versions[0]
    assert versions == [first] * 3 + [102.0] * 3 + [105.0]
    without: DQNObjective = objective_of("dqn", model__target=False, model__replay=False)
    assert without.target is without.model and without.memory.capacity == 8
    batch = next(without.batches("train"))
    assert torch.equal(batch.next_observations[:-1], batch.observations[1:]) or any(
        batch.terminated[:-1]
    )


def test_exploration_falls_linearly_and_can_be_switched_off() -> None:
    objective: DQNObjective = objective_of("dqn", model__epsilon_end=0.2)
    for steps, epsilon in [(0, 1.0), (10, 0.8), (20, 0.6), (40, 0.2), (1000, 0.2)]:
        objective.steps = steps
        assert objective.epsilon() == pytest.approx(epsilon)
    assert objective_of("dqn", model__exploration=False).epsilon() == 0.0


def test_memory_larger_than_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tasks.control.replay.available_memory", lambda: 1_000_000)
    with pytest.raises(ConfigError, match=r"replay memory of 50,000 .*smaller model\.replay_size"):
        objective_of("dqn")


# --- policies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward_to_go", [True, False])
@pytest.mark.parametrize("baseline", [True, False])
def test_policy_gradient_equals_enumeration(reward_to_go: bool, baseline: bool) -> None:
    """E[Σ_t Â_t ∇ log π] = ∇ E[Σ_t r_t], over all episodes of three steps, in float64."""
    objective: PolicyObjective = objective_of(
        "reinforce",
        model__environments=1,
        model__discount=1.0,
        model__reward_to_go=reward_to_go,
        model__baseline=baseline,
        model__normalize_advantages=False,
        model__value_coefficient=0.0,
        data__max_episode_steps=3,
    )
    objective.model.double()
    runner = objective.runners[0]
    weights = [*objective.model.hidden.parameters(), *objective.model.output.parameters()]
    expected = torch.zeros(())
    found = [torch.zeros_like(weight) for weight in weights]
    total = 0.0
    for episode in itertools.product((0, 1), repeat=3):
        taken = iter(episode)
        runner.start_episode(0)
        played = collect_episodes([runner], lambda _, t=taken: np.array([next(t)]), lambda r: None)
        rest = len([*taken])  # an episode that ends early stands for all its continuations
        batch = prepare_batch(played, objective.model, objective.config, 1.0)
        log_probs, _ = log_probabilities(objective.model(batch.observations), batch.actions)
        probability = log_probs.sum().exp() / 2**rest
        total += float(probability.detach())
        expected = expected + probability * played.rewards.sum()
        gradients = torch.autograd.grad(objective.loss(batch).total, weights)
        found = [f - probability.detach() * g for f, g in zip(found, gradients, strict=True)]
    assert total == pytest.approx(1.0)
    exact = torch.autograd.grad(expected, weights)
    assert max(float(gradient.abs().max()) for gradient in exact) > 1e-3
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_ppo_uses_each_step_once_per_epoch_and_starts_at_ratio_one() -> None:
    objective: PolicyObjective = objective_of("ppo")
    batches = objective.batches("train")
    parts = [next(batches) for _ in range(8)]  # 24 steps in parts of 6, twice
    assert objective.rollouts == 1 and objective.batch is None
    for epoch in (parts[:4], parts[4:]):
        assert sorted(x for part in epoch for x in part.returns.tolist()) == sorted(
            x for part in parts[:4] for x in part.returns.tolist()
        )
    found = objective.model(parts[0].observations)
    now, _ = log_probabilities(found, parts[0].actions)
    np.testing.assert_allclose(now.detach(), parts[0].log_probs, atol=1e-5)
    next(batches)
    assert objective.rollouts == 2


def test_time_limit_has_a_value_after_it_and_an_end_has_none() -> None:
    """With λ = 0 the advantage is r + γ V(s') - V(s), V(s') = 0 only where the world ended."""
    objective: PolicyObjective = objective_of(
        "a2c",
        model__trace=0.0,
        model__normalize_advantages=False,
        model__rollout_steps=12,
        data__max_episode_steps=3,
    )
    from saccade.tasks.control.rollout import collect_steps

    rollout = collect_steps(objective.runners, objective.act, 12, lambda runner: None)
    assert rollout.cut_off.any() and (rollout.ends - rollout.cut_off).any()
    batch = prepare_batch(rollout, objective.model, objective.config, 0.0)
    found = batch.advantages.reshape(12, 2)
    for t, n in itertools.product(range(12), range(2)):
        with torch.no_grad():
            rows = torch.from_numpy(np.stack([rollout.observations[t, n], rollout.following[t, n]]))
            before, after = objective.model(rows).values.tolist()
        ended = rollout.ends[t, n] and not rollout.cut_off[t, n]
        expected = rollout.rewards[t, n] + (0.0 if ended else 0.99 * after) - before
        assert float(found[t, n]) == pytest.approx(expected, abs=1e-5)


# --- training, evaluation, prediction -------------------------------------------------------------


def interrupting(at: int) -> TrainOptions:
    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == at:
            signal.raise_signal(signal.SIGINT)

    return TrainOptions(on_event=on_event)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("model", "world"),
    [*((model, CORRIDOR) for model in MODELS), ("ppo", "tests.tasks.worlds:Steered")],
)
def test_resumed_run_has_the_same_bits(
    model: str, world: str, tmp_path: Path, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    """Stopped in the middle of episodes and of a rollout, replay memory and target included."""
    recipe = recipe_of(model, world, train__steps=14)
    assert train_recipe(recipe, tmp_path / "whole", TrainOptions()).stop_reason == "steps"
    for at in (3, 11):
        folder = tmp_path / f"cut{at}"
        assert train_recipe(recipe, folder, interrupting(at)).stop_reason == "stop"
        torch.manual_seed(99)
        assert resume(folder, {}, TrainOptions()).stop_reason == "steps"
        assert outcome_of(folder) == outcome_of(tmp_path / "whole")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run of each kind that has learned its corridor."""
    root = tmp_path_factory.mktemp("control")
    changes: dict[str, dict[str, Any]] = {
        "dqn": {"train__steps": 200, "train__evaluate_every": 100, "train__learning_rate": 0.01},
        "ppo": {"train__steps": 160, "train__evaluate_every": 80, "train__learning_rate": 0.01},
    }
    found = {
        model: train_recipe(recipe_of(model, **settings), root / model, TrainOptions()).run
        for model, settings in changes.items()
    }
    steered = recipe_of("ppo", "tests.tasks.worlds:Steered", **changes["ppo"])
    found["steered"] = train_recipe(steered, root / "steered", TrainOptions()).run
    return found


def test_corridor_is_learned_exactly(runs: dict[str, Run]) -> None:
    """The best return from position p is 1 - 0.1 (2 - p): from 0, 1 and 2 on average 0.9."""
    for model in ("dqn", "ppo"):
        found = runs[model].evaluate()
        starts = np.array(found.tables["lengths"])
        np.testing.assert_allclose(found.tables["returns"], 1 - 0.1 * (starts - 1), atol=1e-6)
        assert found["return"] > found.floors["random policy"]["return"] + 0.2
        assert found["low"] <= found["return"] <= found["high"] and not found.notes
    assert runs["steered"].evaluate()["return"] > -0.1
    assert load_run(runs["dqn"].folder).evaluate() == runs["dqn"].evaluate()


def test_values_of_dqn_are_those_of_the_corridor(runs: dict[str, Run]) -> None:
    """Q(2, right) = 1, Q(1, right) = -0.1 + γ, Q(0, right) = -0.1 - 0.1 γ + γ²."""
    run, discount = runs["dqn"], 0.99
    observations = [[2 * p / 3 - 1, (2 * p / 3 - 1) ** 2] for p in (2, 1, 0)]
    found = run.predict([json.dumps(row) for row in observations])
    expected = [1.0, -0.1 + discount, -0.1 - 0.1 * discount + discount**2]
    for prediction, value in zip(found, expected, strict=True):
        assert prediction.text == "1"
        assert prediction.value == pytest.approx(value, abs=0.1)
        assert prediction.value == max(prediction.values or ())
    assert run.predict("-1 1") == run.predict(np.array([-1.0, 1.0]))
    single = run.predict("-1 1")
    assert single.value == pytest.approx(found[2].value, rel=1e-5)
    assert run.predict([[-1, 1], (-1, 1)]) == run.predict([[-1, 1]] * 2)
    assert run.predict('{"observation": [-1, 1]}') == single
    with pytest.raises(DataError, match="input 1: got 3 numbers .*expected 2 finite numbers"):
        run.predict("[1, 2, 3]")
    with pytest.raises(DataError, match="got an object without 'observation'"):
        run.predict('{"state": [1, 2]}')


def test_policy_predicts_probabilities_or_vectors(runs: dict[str, Run]) -> None:
    found = runs["ppo"].predict("-1 1")
    assert found.probabilities is not None and sum(found.probabilities.values()) == pytest.approx(1)
    assert found.text == max(found.probabilities, key=lambda name: found.probabilities[name])
    assert found.score is not None
    steered = runs["steered"].predict("-1 1")
    assert steered.values is not None and steered.values[0] == pytest.approx(-0.5, abs=0.3)


def test_agent_no_better_than_random_is_reported(tmp_path: Path) -> None:
    recipe = recipe_of("reinforce", train__steps=1, train__learning_rate=1e-9)
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    [note] = run.evaluate().notes
    assert "no better than random: its mean return is" in note


def test_checks_pass(runs: dict[str, Run]) -> None:
    for run in runs.values():
        results = run.check()
        assert all(result.passed for result in results) and len(results) >= 2


def test_episodes_of_a_split_do_not_depend_on_the_number_of_environments(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = runs["dqn"].evaluate(limit=7).tables["returns"]
    monkeypatch.setattr("saccade.tasks.control.episodes.MAX_TOGETHER", 1)
    assert runs["dqn"].evaluate(limit=7).tables["returns"] == together


@pytest.mark.parametrize(
    ("model", "world", "message"),
    [
        ("dqn", "tests.tasks.worlds:Steered", "continuous actions for dqn; .*try --model ppo"),
        ("dqn", "tests.tasks.worlds:NaNRewards", "reward of nan in step"),
        ("dqn", "CartPol-v1", "Did you mean 'CartPole-v1'"),
    ],
)
def test_world_that_cannot_be_trained_on(
    model: str, world: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        train_recipe(recipe_of(model, world), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("world", "argument", "message"),
    [
        (CORRIDOR, "slipp", "got 'slipp' in .* Did you mean 'slip'. It takes: slip"),
        ("CartPole-v1", "gravity", "got 'gravity' in .* It takes: sutton_barto_reward"),
        (CORRIDOR, "render_mode", "got render_mode in .*try saccade look RUN --save"),
    ],
)
def test_unknown_argument_of_an_environment_is_refused(
    world: str, argument: str, message: str
) -> None:
    recipe = recipe_of("dqn", world, **{f"data__arguments__{argument}": "3"})
    with pytest.raises(ConfigError, match=message):
        prepare_environment(recipe, PrepareContext())


def test_what_is_unusual_of_an_environment_is_stated() -> None:
    for world, notes in {
        "Corridor": ["each is cut off after 1,000"],
        "Unseeded": ["each is cut off after 1,000", "is not deterministic: equal seeds"],
    }.items():
        recipe = recipe_of("dqn", f"tests.tasks.worlds:{world}", data__max_episode_steps=None)
        found = prepare_environment(recipe, PrepareContext()).notes
        assert len(found) == len(notes)
        assert all(note in text for note, text in zip(notes, found, strict=True))


def test_model_follows_from_the_environment() -> None:
    worlds = {"CartPole-v1": "dqn", "Pendulum-v1": "ppo", "Taxi-v4": "q_learning"}
    for world, model in worlds.items():
        resolved = resolve_recipe("control", data=world)
        assert resolved.recipe.model_name == model and model in resolved.notes[0]
        named = resolve_recipe("control", data=world, model="reinforce")
        assert named.recipe.model_name == "reinforce" and not named.notes
    assert resolve_recipe("control").recipe.data_name == "CliffWalking-v1"
    steps = resolve_recipe("control", data="CartPole-v1", changes={"train.steps": 7})
    assert steps.recipe.train.model_dump()["steps"] == 7


@pytest.mark.parametrize("model", ["dqn", None])
def test_environment_can_have_settings_of_its_own(model: str | None) -> None:
    """They replace those of the recipe, and not those that are given."""
    given = {"model.target_interval": "70"}
    found = resolve_recipe("control", data="MountainCar-v0", model=model, changes=given)
    config = found.recipe.model.model_dump()
    assert (config["hidden"], config["discount"], config["target_interval"]) == (256, 0.98, 70)
    assert "other settings in this environment" in found.notes[-1]
    other = resolve_recipe("control", data="Acrobot-v1", model=model, changes=given).recipe
    assert other.model.model_dump()["hidden"] == 128
    policy = resolve_recipe("control", data="MountainCar-v0", model="ppo").recipe
    assert policy.train == resolve_recipe("control", data="Acrobot-v1", model="ppo").recipe.train


def test_q_network_is_a_plain_module() -> None:
    assert isinstance(objective_of("dqn").model, QNetwork)


# --- episodes, saliency, ablations ----------------------------------------------------------------


def test_episode_is_recorded_with_pictures_and_returns(runs: dict[str, Run]) -> None:
    record = runs["dqn"].episode(2).record
    lengths = runs["dqn"].evaluate().tables["lengths"]
    assert len(record.rewards) == len(record.frames) == lengths[1] and not record.is_cut_off
    assert record.frames[0].shape == (40, 80, 3) and record.actions.tolist() == [1] * lengths[1]
    expected = [
        sum(0.99**k * reward for k, reward in enumerate(record.rewards[t:]))
        for t in range(len(record.rewards))
    ]
    np.testing.assert_allclose(record.returns, expected)
    assert record.predicted is not None and record.overestimation is not None
    assert record.overestimation == pytest.approx(np.mean(record.predicted - expected))
    found = runs["ppo"].episode(2, mode=None).record
    assert found.frames == () and found.quantity == "probability"
    np.testing.assert_allclose(found.numbers.sum(1), 1.0)


def test_return_after_a_time_limit_is_unknown() -> None:
    """Return the steps before it whose discounted rest is below 5 %."""
    record = EpisodeRecord(
        "w", "dqn", "value", ["0"], np.ones((400, 1)), np.zeros(400, int), np.ones(400), 0.99, True,
        np.full(400, 100.0),
    )  # fmt: skip
    assert record.is_known.sum() == 400 - 298  # 0.99^299 < 0.05 <= 0.99^298
    assert record.overestimation == pytest.approx(
        np.mean([100 - (1 - 0.99 ** (400 - t)) / 0.01 for t in range(102)])
    )


@pytest.mark.parametrize("method", ["render", "reset"])
def test_environment_that_cannot_be_drawn(
    method: str, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the picture needs a display."""

    def no_display(self: Corridor, **options: Any) -> Any:
        if self.render_mode is not None:
            raise RuntimeError("no available video device\nmore")
        return reset(self, **options)

    reset = Corridor.reset
    monkeypatch.setattr(Corridor, method, no_display)
    from saccade.cli.main import run as command

    for name, code in {"play.gif": 2, "play.png": 0}.items():
        out = tmp_path / name
        assert command(["look", str(runs["dqn"].folder), "--save", str(out)]) == code
        assert out.exists() == (code == 0)
    with pytest.raises(ConfigError, match=r"no available video device\); .*try --save play\.png"):
        runs["dqn"].episode(1)


def test_play_is_saved_as_animation_lines_and_text(runs: dict[str, Run], tmp_path: Path) -> None:
    for name in ("dqn", "steered"):
        episode = runs[name].episode()
        steps = len(episode.record.rewards)
        episode.save(tmp_path / f"{name}.gif")
        with Image.open(tmp_path / f"{name}.gif") as animation:
            assert animation.n_frames == steps and animation.size == (680, 240)
        episode.save(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert len(episode.terminal(100).splitlines()) == steps + 1
        assert "ended by the environment" in episode.terminal(100)
    with pytest.raises(ConfigError, match="draws no pictures .*; try .*play.png"):
        runs["dqn"].episode(mode=None).save(tmp_path / "play.gif")


@pytest.mark.parametrize("model", ["dqn", "ppo", "steered"])
def test_integrated_gradients_of_an_observation_add_up(model: str, runs: dict[str, Run]) -> None:
    found = runs[model].explain("0.4 0.2").attribution
    assert found.scores.shape == (2,) and abs(found.residual) < 1e-3
    for method in ("occlusion", "gradient"):
        assert runs[model].explain("0.4 0.2", method=method).attribution.scores.shape == (2,)


def test_saliency_of_a_named_action(runs: dict[str, Run]) -> None:
    values = runs["dqn"].predict("0.4 0.2").values
    assert values is not None
    for action in (0, 1):
        found = runs["dqn"].explain("0.4 0.2", answer=str(action)).attribution
        assert found.value == pytest.approx(values[action], rel=1e-5)
    with pytest.raises(ConfigError, match="got 'up' as the answer; expected an action: 0, 1"):
        runs["dqn"].explain("0.4 0.2", answer="up")


@pytest.mark.usefixtures("no_report")
def test_ablation_switches_one_part_off(tmp_path: Path) -> None:
    settings = TINY | MODELS["dqn"] | {"train.steps": 4}
    found = compare_models(
        "control", data=CORRIDOR, models=["dqn"], ablate=["replay", "target"], seeds=1,
        set=settings, out=tmp_path / "out",
    )  # fmt: skip
    assert {row.model for row in found.rows} == {"dqn", "dqn-no-replay", "dqn-no-target"}
    for name, replay, target in [("dqn", 1, 1), ("dqn-no-replay", 0, 1), ("dqn-no-target", 1, 0)]:
        model = load_run(tmp_path / "out" / f"{name}-1").recipe.model.model_dump()
        assert (model["replay"], model["target"]) == (bool(replay), bool(target))
    for models, ablate, message in [
        (["dqn", "ppo"], ["replay"], "expected one model"),
        (["dqn"], ["rplay"], "no switch of dqn 'rplay'. Did you mean 'replay'"),
        (["dqn"], ["double"], "got --ablate double; expected a switch that is on"),
    ]:
        with pytest.raises(ConfigError, match=message):
            compare_models("control", data=CORRIDOR, models=models, ablate=ablate, set=settings)


def test_number_of_episodes_of_the_command(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    from saccade.cli.main import run as command  # not before the shape checks are in place

    folder = str(runs["dqn"].folder)
    assert command(["evaluate", folder, "--episodes", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 3 and len(found["returns"]) == 3
    assert command(["evaluate", folder, "--episodes", "9", "--json"]) == 0
    nine = json.loads(capsys.readouterr().out)
    assert nine["interquartile_mean"] == pytest.approx(trim_mean(nine["returns"], 0.25))
    assert found["floors"]["random policy"]["return"] < found["return"]
    assert command(["look", folder, "--terminal"]) == 0
    assert "ended by the environment" in capsys.readouterr().out


def test_evaluation_in_another_environment(runs: dict[str, Run]) -> None:
    """The same corridor with other arguments; one with other observations is refused."""
    slippery = {"data.arguments": {"slip": 0.9}, "data.test_episodes": 20}
    found = runs["dqn"].evaluate(CORRIDOR, set=slippery)
    assert found["examples"] == 20 and found["return"] < 0.5
    with pytest.raises(DataError, match="got observations .*expected those of tests.tasks.worlds"):
        runs["dqn"].evaluate("CartPole-v1")


def test_run_is_evaluated_and_trained_further_with_other_arguments(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from saccade.cli.main import run as command

    folder, out = str(runs["dqn"].folder), str(tmp_path / "further")
    slippery = ["--set", "data.arguments.slip=0.9", "--json"]
    assert command(["evaluate", folder, "--episodes", "20", *slippery]) == 0
    assert json.loads(capsys.readouterr().out)["return"] < 0.5
    few = ["--set", "train.steps=2", "--set", "train.evaluate_every=1", "--out", out]
    assert command(["finetune", folder, CORRIDOR, *slippery, *few]) == 0
    further = load_run(Path(out))
    assert further.recipe.data.arguments == {"slip": 0.9}
    assert further.metadata["before"]["return"] < runs["dqn"].evaluate()["return"]
    change = (further.model.output.weight - runs["dqn"].model.output.weight).detach()
    assert 0.0 < float(change.abs().max()) < 0.05  # two steps of Adam with a rate of 0.01


def test_environment_of_a_foreign_run_is_not_executed(
    runs: dict[str, Run],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Code is run only if it was named on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # another key
    run = load_run(runs["dqn"].folder)
    with pytest.raises(DataError, match="Corridor' is code of a module, which is therefore not"):
        run.evaluate()
    from saccade.cli.main import run as command

    for options in (["--episodes", "2"], ["--set", "data.arguments.slip=0.5"]):
        assert command(["evaluate", str(run.folder), *options]) == 2
        assert "is code of a module" in capsys.readouterr().err
    assert command(["look", str(run.folder), "[-0.5, 0.25]"]) == 2
    assert "is code of a module" in capsys.readouterr().err
    assert run.predict("-1 1").text == "1"
    assert run.evaluate(CORRIDOR)["return"] > 0.5
