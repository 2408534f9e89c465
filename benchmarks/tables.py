"""Tabular models against scikit-learn's (or numpy and scipy) on the same rows.

    python benchmarks/tables.py [--sets iris,wine] [--seeds 3] [--json tables.json]

Each data set is split again for each seed; all models are trained on the same rows with the same
scaling. With scikit-learn its data sets are used, and its LinearRegression, LogisticRegression
(default C = 1) and MLPs with one hidden layer of 32 are the peers. Without it, the objectives of
LinearRegression and LogisticRegression are minimised by numpy's lstsq and scipy's L-BFGS. `adult`
(SACCADE_DATA) has its own training and test files. A difference larger than the spread over the
seeds means that the models differ.
"""

import argparse
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from lzma import open as unpacked
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from timing import print_machine, table

from saccade.data.tables.schema import CategoricalColumn
from saccade.metrics import accuracy, r_squared
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.tabular.data import TableSplit

Floats = NDArray[np.float64]
PredictFunction = Callable[[Floats], Any]  # rows to predictions: numbers, or classes

HAS_SKLEARN = find_spec("sklearn") is not None
THEIRS = ("iris", "wine", "breast_cancer", "digits", "diabetes")
OURS = ("moons", "plane")
NUMBERS = ("diabetes", "plane")
ADULT = "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race"
ADULT += ",sex,capital-gain,capital-loss,hours-per-week,native-country,income"


def main() -> None:
    """Train, compare and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", help="names with commas; default: all available")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print_machine()
    adult = Path(os.environ.get("SACCADE_DATA", ".")) / "adult"
    sets = [*(THEIRS if HAS_SKLEARN else ()), *OURS, *(["adult"] if adult.exists() else [])]
    lines = []
    with TemporaryDirectory() as work_folder:
        for name in options.sets.split(",") if options.sets else sets:
            files = adult_files(adult, Path(work_folder)) if name == "adult" else {}
            for model in ("linear", "mlp") if name in NUMBERS else ("softmax", "mlp"):
                lines.append(measure(name, model, options.seeds, Path(work_folder), files))
                print(lines[-1])
    heads = ["set", "model", "rows", "inputs", "figure", "ours", "seconds", "theirs", "by"]
    print()
    table(heads, [[line[head] for head in heads] for line in lines])
    if options.json:
        options.json.write_text(json.dumps(lines))


def adult_files(folder: Path, work_folder: Path) -> dict[str, Path]:
    """Write the two census files with a header; the labels of the test file end in a dot."""
    files = {}
    for name in ("data", "test"):
        files[name] = work_folder / f"adult.{name}.csv"
        with unpacked(folder / f"adult.{name}.xz", "rt", encoding="utf-8") as packed:
            rows = [line.strip().removesuffix(".") for line in packed if "," in line]
        files[name].write_text("\n".join([ADULT, *rows]) + "\n", encoding="utf-8")
    return files


def measure(
    name: str, model: str, seeds: int, work_folder: Path, files: dict[str, Path]
) -> dict[str, Any]:
    """Return one row: our metric and the peer's over the seeds."""
    ours, theirs, seconds = [], [], []
    for seed in range(1, seeds + 1):
        changes: dict[str, Any] = {"data.seed": seed, "train.seed": seed}
        if files:
            changes |= {"data.target": "income", "data.test_share": 0.001}
        recipe = resolve_recipe(
            "table", data=str(files.get("data", name)), model=model, changes=changes
        )
        run = train_recipe(
            recipe.recipe, work_folder / f"{name}-{model}-{seed}", TrainOptions()
        ).run
        scores = run.evaluate(files.get("test"))
        figure = "accuracy" if classes_of(run) else "r2"
        ours.append(scores[figure])
        seconds.append(run.metrics()[-1]["seconds"])
        if (predict := peer(run)) is not None:
            split = run.load_split(files["test"]) if files else run.split("test")
            theirs.append(evaluate_peer(run, split, predict))
    return {
        "set": name,
        "model": model,
        "rows": len(run.split("train")),
        "inputs": len(run.preprocessor.feature_names),
        "figure": figure,
        "ours": format_range(ours),
        "seconds": f"{np.median(seconds):.1f}",
        "theirs": format_range(theirs),
        "by": ("scikit-learn" if HAS_SKLEARN else "scipy") if theirs else "",
    }


def classes_of(run: Run) -> tuple[str, ...]:
    """Return the classes of the target; none if it is a number."""
    target = run.preprocessor.target
    return target.values if isinstance(target, CategoricalColumn) else ()


def format_range(figures: list[float]) -> str:
    """Return the mean, minimum and maximum in percent."""
    if not figures:
        return "–"
    low, mean, high = (100 * f for f in (min(figures), np.mean(figures), max(figures)))
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


def evaluate_peer(run: Run, split: TableSplit, predict: PredictFunction) -> float:
    """Evaluate a peer's predictions on the rows that ours were evaluated on."""
    rows = split.rows
    metric: Any = accuracy if classes_of(run) else r_squared
    return float(metric(rows.target, predict(rows.features)))


def peer(run: Run) -> PredictFunction | None:
    """Return the predict function of a peer fitted to the same scaled rows, or None."""
    rows, model = run.split("train").rows, run.recipe.model_name
    x, y = rows.features, rows.target
    if HAS_SKLEARN:
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        kind: Any = {"linear": LinearRegression, "softmax": LogisticRegression}.get(model)
        more: dict[str, Any] = {"max_iter": 2000} if model == "softmax" else {}
        if kind is None:
            kind = MLPClassifier if classes_of(run) else MLPRegressor
            more = {"hidden_layer_sizes": (32,), "early_stopping": True}
            more |= {"random_state": run.recipe.train.seed, "max_iter": 500}
        predict: PredictFunction = kind(**more).fit(x, y).predict
        return predict
    if model == "linear":
        found, *_ = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)
        return lambda rows: rows @ found[:-1] + found[-1]
    return fit_softmax_with_scipy(x, y, len(classes_of(run))) if model == "softmax" else None


def fit_softmax_with_scipy(x: Floats, y: NDArray[np.int64], classes: int) -> PredictFunction:
    """Minimise Σ cross-entropy + ½ ‖W‖²; with two classes, one has no weights of its own."""
    free = classes if classes > 2 else 1
    one_hot = np.eye(classes)[y]

    def logits(flat: Floats, rows: Floats) -> Floats:
        w, b = flat[: free * x.shape[1]].reshape(free, -1), flat[free * x.shape[1] :]
        z = rows @ w.T + b
        return z if free > 1 else np.concatenate([np.zeros((len(z), 1)), z], axis=1)

    def risk(flat: Floats) -> tuple[float, Floats]:
        z = logits(flat, x)
        z = z - z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        error = (np.exp(log_p) - one_hot)[:, -free:]
        w = flat[: free * x.shape[1]]
        gradient = np.concatenate([(error.T @ x).ravel() + w, error.sum(0)])
        return float(-(one_hot * log_p).sum() + (w**2).sum() / 2), gradient

    start = np.zeros(free * (x.shape[1] + 1))
    best = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    return lambda rows: logits(best, rows).argmax(1)


if __name__ == "__main__":
    main()
