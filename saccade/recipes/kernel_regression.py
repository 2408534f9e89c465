"""Recipes for curves."""

from typing import Any

from saccade.tasks.regression import RegressionRecipe


def kernel_regression_recipe(model: str = "kernel") -> RegressionRecipe:
    """A noisy curve → an estimate for any x, and the points it looked at."""
    train: dict[str, Any] = {"device": "cpu"}
    if model == "attention":
        train |= {"steps": 200, "learning_rate": 0.05, "warmup": 0}
        train |= {"evaluate_every": 20, "report_every": 5}
    return RegressionRecipe(data={"synthetic": "curve"}, model={"name": model}, train=train)
