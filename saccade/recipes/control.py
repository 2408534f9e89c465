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


def control_recipe(model: str | None = None) -> ControlRecipe:
    """Act in an environment of Gymnasium or your own (--world): the cliff in seconds."""
    world = "CartPole-v1" if model in CONTROL_TRAINING else "CliffWalking-v1"
    name = model or "q_learning"
    return ControlRecipe(
        data={"world": world, "dev_episodes": 10},
        model={"name": name} | CONTROL_SIZES.get(name, {}),
        train=CONTROL_TRAINING.get(name, {}),
    )
