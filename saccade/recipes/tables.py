"""Recipes for tables."""

from typing import Any

from saccade.tasks.table_recipe import TableRecipe


def table_recipe(model: str = "mlp") -> TableRecipe:
    """A table of your own (--data, --target), or two moons: one column from the others."""
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
