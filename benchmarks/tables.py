"""The first networks on small tables, beside what others find on the very same rows.

    python benchmarks/tables.py [--sets iris,wine] [--seeds 3] [--json tables.json]

Each set is split anew for each seed; all see the same rows to learn from, in the same units. Where
scikit-learn is installed its own sets are tried, and its LinearRegression, LogisticRegression (as
it comes, C = 1) and MLPs of one hidden layer of 32 stand beside ours. Without it, what
LinearRegression and LogisticRegression make small is made small by numpy's lstsq and by scipy's
L-BFGS. `adult` (SACCADE_DATA) is learned from its own training file, and judged on its test file.
A difference that is larger than the spread over the seeds would say that ours learn something else.
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
from timing import say_machine, table

from saccade.metrics import accuracy, r_squared
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, train_recipe

Floats = NDArray[np.float64]
Answering = Callable[[Floats], Any]  # rows to answers: numbers, or classes

HAS_SKLEARN = find_spec("sklearn") is not None
THEIRS = ("iris", "wine", "breast_cancer", "digits", "diabetes")
OURS = ("moons", "plane")
NUMBERS = ("diabetes", "plane")
ADULT = "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race"
ADULT += ",sex,capital-gain,capital-loss,hours-per-week,native-country,income"


def main() -> None:
    """Train, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", help="names with commas; otherwise all that are there")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    say_machine()
    adult = Path(os.environ.get("SACCADE_DATA", ".")) / "adult"
    sets = [*(THEIRS if HAS_SKLEARN else ()), *OURS, *(["adult"] if adult.exists() else [])]
    lines = []
    with TemporaryDirectory() as place:
        for name in asked.sets.split(",") if asked.sets else sets:
            files = adult_files(adult, Path(place)) if name == "adult" else {}
            for model in ("linear", "mlp") if name in NUMBERS else ("softmax", "mlp"):
                lines.append(measured(name, model, asked.seeds, Path(place), files))
                print(lines[-1])
    heads = ["set", "model", "rows", "inputs", "figure", "ours", "seconds", "theirs", "by"]
    print()
    table(heads, [[line[head] for head in heads] for line in lines])
    if asked.json:
        asked.json.write_text(json.dumps(lines))


def adult_files(folder: Path, place: Path) -> dict[str, Path]:
    """The two files of the census with a row of names; the test's labels end in a dot."""
    files = {}
    for name in ("data", "test"):
        files[name] = place / f"adult.{name}.csv"
        with unpacked(folder / f"adult.{name}.xz", "rt", encoding="utf-8") as packed:
            rows = [line.strip().removesuffix(".") for line in packed if "," in line]
        files[name].write_text("\n".join([ADULT, *rows]) + "\n", encoding="utf-8")
    return files


def measured(
    name: str, model: str, seeds: int, place: Path, files: dict[str, Path]
) -> dict[str, Any]:
    """One line: ours and theirs over the seeds."""
    ours, theirs, seconds = [], [], []
    for seed in range(1, seeds + 1):
        changes: dict[str, Any] = {"data.seed": seed, "train.seed": seed}
        if files:
            changes |= {"data.target": "income", "data.test_share": 0.001}
        recipe = resolve_recipe(
            "table", data=str(files.get("data", name)), model=model, changes=changes
        )
        run = train_recipe(recipe.recipe, place / f"{name}-{model}-{seed}", TrainOptions()).run
        scores = run.evaluate(files.get("test"))
        figure = "accuracy" if run.task.classes else "r2"
        ours.append(scores[figure])
        seconds.append(run.metrics()[-1]["seconds"])
        if (answering := peer(run)) is not None:
            theirs.append(judged(run, "given" if files else "test", answering))
    return {
        "set": name,
        "model": model,
        "rows": len(run.task.rows["train"].lines),
        "inputs": len(run.task.layout.feature_names),
        "figure": figure,
        "ours": shown(ours),
        "seconds": f"{np.median(seconds):.1f}",
        "theirs": shown(theirs),
        "by": ("scikit-learn" if HAS_SKLEARN else "scipy") if theirs else "",
    }


def shown(figures: list[float]) -> str:
    """The mean, and from the least to the most."""
    if not figures:
        return "–"
    least, mean, most = (100 * f for f in (min(figures), np.mean(figures), max(figures)))
    return f"{mean:.1f} ({least:.1f} to {most:.1f})"


def judged(run: Run, split: str, answering: Answering) -> float:
    """Another's answers to the rows that ours were judged by."""
    rows = run.task.rows[split]
    judge: Any = accuracy if run.task.classes else r_squared
    return float(judge(rows.target, answering(rows.features)))


def peer(run: Run) -> Answering | None:
    """Another's model of the same kind, fitted to the same rows in the same units."""
    rows, model = run.task.rows["train"], run.recipe.model.name
    x, y = rows.features, rows.target
    if HAS_SKLEARN:
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        kind: Any = {"linear": LinearRegression, "softmax": LogisticRegression}.get(model)
        more: dict[str, Any] = {"max_iter": 2000} if model == "softmax" else {}
        if kind is None:
            kind = MLPClassifier if run.task.classes else MLPRegressor
            more = {"hidden_layer_sizes": (32,), "early_stopping": True}
            more |= {"random_state": run.recipe.train.seed, "max_iter": 500}
        answering: Answering = kind(**more).fit(x, y).predict
        return answering
    if model == "linear":
        found, *_ = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)
        return lambda rows: rows @ found[:-1] + found[-1]
    return by_scipy(x, y, len(run.task.classes)) if model == "softmax" else None


def by_scipy(x: Floats, y: NDArray[np.int64], classes: int) -> Answering:
    """The least Σ cross-entropy + ½ ‖W‖²; of two classes, one has no weights of its own."""
    free = classes if classes > 2 else 1
    wanted = np.eye(classes)[y]

    def logits(flat: Floats, rows: Floats) -> Floats:
        w, b = flat[: free * x.shape[1]].reshape(free, -1), flat[free * x.shape[1] :]
        z = rows @ w.T + b
        return z if free > 1 else np.concatenate([np.zeros((len(z), 1)), z], axis=1)

    def risk(flat: Floats) -> tuple[float, Floats]:
        z = logits(flat, x)
        z = z - z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        apart = (np.exp(log_p) - wanted)[:, -free:]
        w = flat[: free * x.shape[1]]
        gradient = np.concatenate([(apart.T @ x).ravel() + w, apart.sum(0)])
        return float(-(wanted * log_p).sum() + (w**2).sum() / 2), gradient

    start = np.zeros(free * (x.shape[1] + 1))
    best = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    return lambda rows: logits(best, rows).argmax(1)


if __name__ == "__main__":
    main()
