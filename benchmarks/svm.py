"""Time to fit a support vector machine, the memory for its kernel rows, and regression.

    python benchmarks/svm.py [rows]

Two classes of made rows, with each kernel, and Fashion-MNIST's ten classes where SACCADE_DATA has
it; compared with scikit-learn's SVC (libsvm) where that is installed, with the same settings and
as much memory for rows, in turn. Both are checked to decide the same before times are printed. A
smaller cache must make it slower and not wrong. If ours took more than some three times as long,
libsvm's shrinking would be worth having. Regression is that of scikit-learn's diabetes table: R² on
a fifth of its rows, and the largest difference to scikit-learn's SVR, in standard deviations.
"""

import gzip
import lzma
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import print_machine, seconds, spread, table

from saccade.estimators.svm.config import SVMConfig, SVRConfig
from saccade.estimators.svm.svm import SVM
from saccade.estimators.svm.svr import SVR
from saccade.metrics.regression import r_squared

try:
    from sklearn import datasets, svm
    from sklearn.svm import SVC
except ImportError:
    SVC = None

REPEATS, WARMUP = 3, 1
THEIRS = {"polynomial": "poly", "gaussian": "rbf"}


def made(rows: int, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap, behind a curved border."""
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, width))
    border = x[:, 0] + x[:, 1] ** 2 - x[:, 2] * x[:, 3] + 0.5 * random.normal(size=rows)
    return x, (border > 1).astype(int)


def fashion(rows: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The first images of Fashion-MNIST, each a row of 784 numbers from 0 to 1."""
    folder = Path(os.environ.get("SACCADE_DATA", ".")) / "fashion-mnist"
    if not folder.exists():
        return None
    images = lzma.open(folder / "train-images-idx3-ubyte.xz").read(16 + 784 * rows)[16:]
    labels = gzip.open(folder / "train-labels-idx1-ubyte.gz").read(8 + rows)[8:]
    return (
        np.frombuffer(images, np.uint8).reshape(rows, 784) / 255.0,
        np.frombuffer(labels, np.uint8).astype(int),
    )


def measured(name: str, x: np.ndarray, y: np.ndarray, config: SVMConfig) -> list[object]:
    """A line of the table."""
    ours = SVM(config).fit(x, y)
    runs: list[Callable[[], Any]] = [partial(SVM(config).fit, x, y)]
    if SVC is not None:
        theirs = SVC(
            kernel=THEIRS.get(config.kernel, config.kernel),
            C=config.cost,
            coef0=config.offset,
            tol=config.tolerance,
            cache_size=config.cache_megabytes,
            decision_function_shape="ovo",
        ).fit(x, y)
        sign = 1 if len(ours.classes) == 2 else -1
        difference = np.abs(
            ours.decision_function(x[:500]) - sign * theirs.decision_function(x[:500])
        ).max()
        assert config.kernel == "sigmoid" or difference < 0.05, (
            f"decisions differ by {difference:.3f}"
        )
        runs.append(partial(theirs.fit, x, y))
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(WARMUP + REPEATS):
        for found, run in zip(times, runs, strict=True):
            took = seconds(run, 1, 0)[0]
            if turn >= WARMUP:
                found.append(took)
    steps = sum(fit.steps for fit in ours.fits)
    gap = max(fit.gap for fit in ours.fits)
    ratio = f"{spread(times[0]).middle / spread(times[1]).middle:.2f}" if SVC else "-"
    theirs_took = spread(times[1]) if SVC else "not installed"
    return [
        name,
        len(x),
        len(ours.support),
        f"{steps:,}",
        f"{gap:.0e}",
        spread(times[0]),
        theirs_took,
        ratio,
    ]


def regression(kernel: str) -> list[object]:
    """A line of the table of regression: diabetes, standardised by its training rows."""
    x, y = datasets.load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[len(x) // 5 :], order[: len(x) // 5]
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    gamma = 0.01 if kernel in ("gaussian", "sigmoid") else 0.1
    ours = SVR(SVRConfig(kernel=kernel, gamma=gamma)).fit(x[train], y[train])
    theirs = svm.SVR(kernel=THEIRS.get(kernel, kernel), gamma=gamma).fit(x[train], y[train])
    found, expected = ours.predict(x[test]), theirs.predict(x[test])
    [fit] = ours.fits
    return [
        kernel,
        len(ours.support),
        len(theirs.support_),
        f"{fit.gap:.0e}",
        f"{r_squared(y[test], found):.4f}",
        f"{r_squared(y[test], expected):.4f}",
        f"{np.abs(found - expected).max():.1e}",
    ]


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    print_machine()
    x, y = made(rows)
    lines = []
    for kernel in ("linear", "polynomial", "gaussian", "sigmoid"):
        gamma = None if kernel != "sigmoid" else 0.01
        config = SVMConfig(kernel=kernel, offset=0.0, gamma=gamma)
        lines.append(measured(kernel, x, y, config))
    small = SVMConfig(kernel="gaussian", cache_megabytes=rows * rows * 8 / 2**20 / 20)
    lines.append(measured("gaussian, 1/20 of the rows kept", x, y, small))
    images = fashion(rows)
    if images is not None:
        lines.append(measured("gaussian, Fashion-MNIST", *images, SVMConfig(cost=10.0)))
    heads = ["what", "rows", "vectors", "steps", "gap", "seconds", "scikit-learn, seconds", "ratio"]
    table(heads, lines)
    if SVC is not None:
        heads = [
            "diabetes",
            "vectors",
            "scikit-learn's",
            "gap",
            "R²",
            "scikit-learn's R²",
            "difference",
        ]
        table(
            heads,
            [regression(kernel) for kernel in ("linear", "polynomial", "gaussian", "sigmoid")],
        )


if __name__ == "__main__":
    main()
