"""Built-in tables: two synthetic ones and scikit-learn's toy datasets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from saccade.data.tables.csv import Table, table_from_columns
from saccade.errors import MissingPackageError
from saccade.seeding import generator

PLANE_WEIGHTS, PLANE_BIAS = (2.0, -3.4), 4.2


def generate_plane(count: int = 400, noise: float = 0.5, seed: int = 0) -> Table:
    r"""Return y = 2 a - 3.4 b + 4.2 + ε with a, b and ε/noise from N(0, 1)."""
    draw = generator(seed, "plane")
    inputs = draw.normal(size=(count, 2))
    y = inputs @ np.array(PLANE_WEIGHTS) + PLANE_BIAS + draw.normal(0.0, noise, count)
    columns = {"a": inputs[:, 0].tolist(), "b": inputs[:, 1].tolist(), "y": y.tolist()}
    return table_from_columns("plane", columns, "y")


def generate_moons(count: int = 400, noise: float = 0.15, seed: int = 0) -> Table:
    r"""Return two interleaved half circles with noise, which no line separates.

    (cos t, sin t) is "upper", (1 - cos t, ½ - sin t) is "lower", t uniform on [0, π].
    """
    draw = generator(seed, "moons")
    t = draw.uniform(0.0, np.pi, count)
    upper = np.arange(count) % 2 == 0
    x = np.where(upper, np.cos(t), 1 - np.cos(t)) + draw.normal(0.0, noise, count)
    y = np.where(upper, np.sin(t), 0.5 - np.sin(t)) + draw.normal(0.0, noise, count)
    names = np.where(upper, "upper", "lower").tolist()
    return table_from_columns("moons", {"x": x.tolist(), "y": y.tolist(), "moon": names}, "moon")


def load_sklearn_table(name: str, **options: Any) -> Table:
    """Return a toy dataset of scikit-learn; the target column is called "target"."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingPackageError(
            f"{name} is a dataset of scikit-learn, which is not installed: pip install "
            "'saccade[tables]'. moons and plane do not need it."
        ) from None
    found = getattr(datasets, f"load_{name}")(**options)
    columns = dict(zip(map(str, found.feature_names), found.data.T.tolist(), strict=True))
    target = found.target
    if getattr(found, "target_names", None) is not None:
        target = np.array([str(label) for label in found.target_names])[target]
    return table_from_columns(name, {**columns, "target": target.tolist()}, "target")


SYNTHETIC_TABLES: dict[str, Callable[[], Table]] = {
    "breast_cancer": partial(load_sklearn_table, "breast_cancer"),
    "diabetes": partial(load_sklearn_table, "diabetes", scaled=False),
    "digits": partial(load_sklearn_table, "digits"),
    "iris": partial(load_sklearn_table, "iris"),
    "moons": generate_moons,
    "plane": generate_plane,
    "wine": partial(load_sklearn_table, "wine"),
}
