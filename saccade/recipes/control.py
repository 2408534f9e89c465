"""Recipes for acting in environments."""

from typing import Any

from saccade.tasks.control.config import ControlRecipe

CONTROL_TRAINING: dict[str, dict[str, Any]] = {
    "a2c": {
        "steps": 500,
        "learning_rate": 1e-3,
        "schedule": "linear",
        "evaluate_every": 25,
        "clip_norm": 0.5,
    },
    "dqn": {"steps": 20_000, "learning_rate": 1e-3, "evaluate_every": 1000},
    "ppo": {"steps": 3200, "learning_rate": 3e-4, "evaluate_every": 160, "clip_norm": 0.5},
    "reinforce": {"steps": 120, "learning_rate": 3e-3, "evaluate_every": 6, "clip_norm": 0.5},
}
CONTROL_SIZES = {"a2c": {"rollout_steps": 32}, "dqn": {"hidden": 128}}

# of environments that the settings of CartPole do not learn, by environment and model
WORLD_SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("MountainCar-v0", "dqn"): {  # of RL Baselines3 Zoo (Raffin 2020), whose target interval is 300
        "model.hidden": 256,
        "model.discount": 0.98,
        "model.replay_size": 10_000,
        "model.collect_steps": 16,
        "model.updates": 8,
        "model.exploration_steps": 24_000,
        "model.epsilon_end": 0.07,
        "model.target_interval": 600,
        "train.batch_tokens": 128,
        "train.learning_rate": 4e-3,
        "train.steps": 60_000,
        "train.evaluate_every": 3000,
    },
    ("Pendulum-v1", "ppo"): {
        "model.discount": 0.9,
        "train.learning_rate": 1e-3,
        "train.steps": 6400,
        "train.evaluate_every": 320,
    },
}


def world_settings(world: str | None, model: str) -> dict[str, Any]:
    """Return settings by dotted path for a model in an environment that needs others."""
    return WORLD_SETTINGS.get((world or "", model), {})


def control_recipe(model: str | None = None) -> ControlRecipe:
    """Act in an environment of Gymnasium or your own (--world): the cliff in seconds."""
    world = "CartPole-v1" if model in CONTROL_TRAINING else "CliffWalking-v1"
    name = model or "q_learning"
    return ControlRecipe(
        data={"world": world, "dev_episodes": 10},
        model={"name": name} | CONTROL_SIZES.get(name, {}),
        train=CONTROL_TRAINING.get(name, {}),
    )
