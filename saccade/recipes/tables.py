"""Recipes for tables."""

from typing import Any

from saccade.tasks.tabular.config import TableRecipe


def table_recipe(model: str = "mlp") -> TableRecipe:
    """Predict a column of your own table (--data, --target), or of two moons."""
    train: dict[str, Any] = {
        "steps": 1000,
        "batch_tokens": 256,
        "weight_decay": 0.0,
        "beta2": 0.999,
    }
    train |= {"warmup": 50, "evaluate_every": 50, "patience": 20}
    train |= {"learning_rate": 1e-2 if model == "mlp" else 3e-2}
    synthetic = "plane" if model == "linear" else "moons"
    return TableRecipe(data={"synthetic": synthetic}, model={"name": model}, train=train)
