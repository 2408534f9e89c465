"""Recipes for time series."""

from typing import Any

from saccade.tasks.forecasting.config import ForecastRecipe


def forecast_recipe(model: str = "autoregressive") -> ForecastRecipe:
    """Forecast a series of your own (--data) or a noisy sine, one and many steps ahead."""
    train: dict[str, Any] = {"weight_decay": 0.0, "patience": 20}
    if model == "recurrent":
        train |= {"steps": 120, "learning_rate": 0.02, "warmup": 10, "evaluate_every": 20}
        train |= {"batch_tokens": 2048}
    else:
        train |= {"steps": 300, "learning_rate": 0.05, "warmup": 0, "evaluate_every": 30}
    return ForecastRecipe(data={"synthetic": "sine"}, model={"name": model}, train=train)
