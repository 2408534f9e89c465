r"""Tables that are always there: two that are drawn, and those that scikit-learn carries."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from saccade.data.tables import Table, table_of
from saccade.errors import MissingPackage
from saccade.seeding import generator

WEIGHTS, BIAS = (2.0, -3.4), 4.2  # of the plane


def plane(count: int = 400, noise: float = 0.5, seed: int = 0) -> Table:
    r"""y = 2 a - 3.4 b + 4.2 + ε with a, b and ε/noise from N(0, 1)."""
    draw = generator(seed, "plane")
    inputs = draw.normal(size=(count, 2))
    y = inputs @ np.array(WEIGHTS) + BIAS + draw.normal(0.0, noise, count)
    columns = {"a": inputs[:, 0].tolist(), "b": inputs[:, 1].tolist(), "y": y.tolist()}
    return table_of("plane", columns, "y")


def moons(count: int = 400, noise: float = 0.15, seed: int = 0) -> Table:
    r"""Two half circles, one hanging into the other, with noise: no line parts them.

    (cos t, sin t) is "upper", (1 - cos t, ½ - sin t) is "lower", t uniform on [0, π].
    """
    draw = generator(seed, "moons")
    t = draw.uniform(0.0, np.pi, count)
    upper = np.arange(count) % 2 == 0
    x = np.where(upper, np.cos(t), 1 - np.cos(t)) + draw.normal(0.0, noise, count)
    y = np.where(upper, np.sin(t), 0.5 - np.sin(t)) + draw.normal(0.0, noise, count)
    names = np.where(upper, "upper", "lower").tolist()
    return table_of("moons", {"x": x.tolist(), "y": y.tolist(), "moon": names}, "moon")


def from_scikit_learn(name: str, **how: Any) -> Table:
    """One of the sets that scikit-learn carries; what is to be foretold is called "target"."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingPackage(
            f"{name} comes with scikit-learn, which is not installed: pip install "
            "'saccade[tables]'. moons and plane are there without it."
        ) from None
    found = getattr(datasets, f"load_{name}")(**how)
    columns = dict(zip(map(str, found.feature_names), found.data.T.tolist(), strict=True))
    target = found.target
    if getattr(found, "target_names", None) is not None:
        target = np.array([str(label) for label in found.target_names])[target]
    return table_of(name, {**columns, "target": target.tolist()}, "target")


TABLES: dict[str, Callable[[], Table]] = {
    "breast_cancer": partial(from_scikit_learn, "breast_cancer"),
    "diabetes": partial(from_scikit_learn, "diabetes", scaled=False),
    "digits": partial(from_scikit_learn, "digits"),
    "iris": partial(from_scikit_learn, "iris"),
    "moons": moons,
    "plane": plane,
    "wine": partial(from_scikit_learn, "wine"),
}
