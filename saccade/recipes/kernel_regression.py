"""Recipe for kernel regression."""

from typing import Any

from saccade.tasks.kernel_regression.config import RegressionRecipe


def kernel_regression_recipe(model: str = "kernel") -> RegressionRecipe:
    """Fit a curve to noisy points of your own (--data) or built-in ones."""
    train: dict[str, Any] = {"device": "cpu"}
    if model == "attention":
        train |= {"steps": 200, "learning_rate": 0.05, "warmup": 0}
        train |= {"evaluate_every": 20, "report_every": 5}
    return RegressionRecipe(data={"synthetic": "curve"}, model={"name": model}, train=train)
