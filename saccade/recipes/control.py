"""Recipes for acting in environments."""

from typing import Any

from saccade.tasks.control.config import ControlRecipe

CONTROL_TRAINING: dict[str, dict[str, Any]] = {
    "a2c": {"steps": 3000, "learning_rate": 1e-3, "evaluate_every": 150, "clip_norm": 0.5},
    "dqn": {"steps": 25_000, "learning_rate": 1e-3, "evaluate_every": 1000},
    "ppo": {"steps": 3200, "learning_rate": 3e-4, "evaluate_every": 160, "clip_norm": 0.5},
    "reinforce": {"steps": 300, "learning_rate": 3e-3, "evaluate_every": 15, "clip_norm": 0.5},
}


def control_recipe(model: str = "dqn") -> ControlRecipe:
    """Act in an environment of Gymnasium or your own (--world): CartPole in minutes."""
    return ControlRecipe(
        data={"world": "CartPole-v1"}, model={"name": model}, train=CONTROL_TRAINING[model]
    )
