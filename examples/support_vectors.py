"""A support vector machine on two rings: KKT conditions, primal and dual objective, a plot.

python examples/support_vectors.py margin.png
"""

import sys
from pathlib import Path

import numpy as np

from saccade.estimators.svm.config import SVMConfig
from saccade.estimators.svm.svm import SVM
from saccade.plots.margin import save_margin


def rings(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of two concentric rings, which are not linearly separable, and labels."""
    random = np.random.default_rng(3)
    angle = random.uniform(0, 2 * np.pi, count)
    outer = np.arange(count) % 2
    radius = 1 + 1.3 * outer + random.normal(0, 0.3, count)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), outer


def main(picture: Path) -> None:
    """Fit each kernel to the same points, and plot the last one."""
    points, ring = rings(160)
    for kernel in ("linear", "polynomial", "gaussian"):
        config = SVMConfig(kernel=kernel, degree=2, gamma=0.5, offset=1.0, tolerance=1e-5)
        machine = SVM(config).fit(points, ring)
        accuracy = (machine.predict(points) == ring).mean()
        print(f"{kernel:10} accuracy {accuracy:4.0%}, {len(machine.support)} support vectors")

    [fit] = machine.fits
    print(f"primal {fit.primal:.4f}, dual {fit.dual:.4f}, duality gap {fit.gap:.1e}")
    print(fit.conditions.table(tolerance=1e-5))

    is_support = np.isin(np.arange(len(points)), machine.support)
    save_margin(points, ring, is_support, machine.decision_function, picture)
    print(f"saved {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
