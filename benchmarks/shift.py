r"""Accuracy lost under distribution shift, and how much of it the remedy recovers.

    python benchmarks/shift.py [--seeds 10] [--json shift.json]

Real rows (scikit-learn's handwritten digits and breast_cancer), with a shift of each kind made:

- *covariate*: is a digit even? A row is in the target with the chance 1 / (1 + exp(-s z)), z its
  position on one of the pictures' principal axes in deviations, else in the source. The labels are
  what they were. Remedy: learn from the source again, by β(x) (`covariate_weights`).
- *label*: the two classes come 20:80 in the source and 80:20 in the target. Remedy: learn again by
  p(y) / q(y), p from the model's predictions on unlabelled target rows
  (`estimate_label_shift`).
- *concept*: from now on a 1 is called 7, a 3 is called 8, and the other way round. Remedy:
  fine-tune on 100 rows of the target; compared with a model trained on those 100 only.

Each seed draws its own rows. Which axes, shares and sizes are shown was chosen by looking at other
seeds, out of a dozen for each kind, so that something is lost; cases in which weights bring little
were left in. The accuracy is that on held-out rows: of the source, of the target before
and after the remedy, and of the target by a model that learned from its labelled
rows (as many as the remedy could look at; of concept 500), all with the same settings. The gain is
paired by seed. `rows left` is what the weights leave of the source, (Σβ)² / (N Σβ²): where that is
little they cannot help. `named so` is how often `detect_shift` reports this kind. One thread.
If the gain of the first line were within its spread, `docs/shift.md` would have to be changed.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from timing import print_machine, table

from saccade.data.tables.csv import Table, table_from_columns
from saccade.data.tables.schema import TableConfig, TableSchema, fit_schema
from saccade.estimators.shift.detect import detect_shift
from saccade.estimators.shift.importance_weights import (
    covariate_weights,
    effective_sample_size,
    estimate_label_shift,
)
from saccade.tasks.tabular.components import build_table_network
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit, with_row_weights
from saccade.tasks.tabular.evaluate import TableEvaluator
from saccade.tasks.tabular.objective import TabularObjective
from saccade.tasks.tabular.scoring import NetworkScorer
from saccade.training.device import set_num_threads
from saccade.training.loop import train_loop
from saccade.training.objective import Validation
from saccade.training.session import build_optimizer
from saccade.training.state import TrainState

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

SWAPPED = {1: 7, 7: 1, 3: 8, 8: 3}
FIRST = 100  # seed; which shifts are made was chosen by looking at seeds 0 to 4
SOME = 100  # rows of the target that are labelled when the concept has moved


class Rows(NamedTuple):
    """Inputs and classes."""

    x: Floats
    y: Whole

    def table(self) -> Table:
        """Return the rows as a table, as read from a file."""
        columns: dict[str, Any] = {f"x{at}": row.tolist() for at, row in enumerate(self.x.T)}
        return table_from_columns("rows", {**columns, "y": [f"class {k}" for k in self.y]}, "y")


class World(NamedTuple):
    """The rows of one seed, before and after the shift; no row is in two of them."""

    learned: Rows
    held: Rows  # of the source, held out
    seen: Rows  # of the target; a remedy looks at these, and at their labels if it is set
    asked: Rows  # of the target, judged


class Remedied(NamedTuple):
    """The model after the remedy, and the share of source rows that its weights leave."""

    scorer: NetworkScorer
    left: float | None = None


# --- worlds ---------------------------------------------------------------------------------------


def digits(side: int = 8) -> Rows:
    """1,797 pictures of side × side numbers, each the sum of a block of the 8 × 8."""
    x, y = load_digits(return_X_y=True)
    block = 8 // side
    coarse = x.reshape(-1, side, block, side, block).sum(axis=(2, 4))
    return Rows(coarse.reshape(len(x), -1), y)


def moved_inputs(seed: int, axis: int, sharp: float) -> World:
    """Even or odd, the target from one end of a principal axis, the source from the other."""
    x, y = digits()
    left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    position = left[:, axis] * sizes[axis]
    random = np.random.default_rng(seed)
    there = random.random(len(x)) < 1 / (1 + np.exp(-sharp * position / position.std()))
    whole = Rows(x, y % 2)
    source, target = (random.permutation(np.flatnonzero(side)) for side in (~there, there))
    return _world(whole, whole, source, target, 200, len(target) // 2)


def moved_labels(seed: int, whole: Rows) -> World:
    """Two classes, 20:80 in the source and 80:20 in the target, as many of each as there are."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(whole.y))
    half = len(order) // 2
    count = int(1.2 * min(np.bincount(whole.y[part]).min() for part in np.split(order, [half])))
    drawn = [
        random.permutation(
            np.concatenate(
                [part[whole.y[part] == k][: int(share * count)] for k, share in enumerate(shares)]
            )
        )
        for part, shares in zip(np.split(order, [half]), ((0.2, 0.8), (0.8, 0.2)), strict=True)
    ]
    return _world(whole, whole, *drawn, count // 2, count // 2)


def moved_meaning(seed: int) -> World:
    """Ten digits, four of which get each other's names."""
    x, y = digits()
    renamed = np.array([SWAPPED.get(k, k) for k in range(10)])[y]
    source, target = np.split(np.random.default_rng(seed).permutation(len(x)), [900])
    return _world(Rows(x, y), Rows(x, renamed), source, target, 200, 500)


def _world(before: Rows, after: Rows, source: Whole, target: Whole, held: int, seen: int) -> World:
    def some(rows: Rows, which: Whole) -> Rows:
        return Rows(rows.x[which], rows.y[which])

    return World(
        some(before, source[held:]),
        some(before, source[:held]),
        some(after, target[:seen]),
        some(after, target[seen:]),
    )


# --- learning -------------------------------------------------------------------------------------


def learn(
    rows: Rows,
    model: str,
    seed: int,
    weights: Floats | None = None,
    start: NetworkScorer | None = None,
) -> NetworkScorer:
    """Train a network without a run folder: to the least risk if linear, else for some steps.

    With a `start`, it is fine-tuned from there, for half as many steps.
    """
    read = rows.table()
    schema = start.schema if start else _schema(read)
    settings: dict[str, Any] = {"seed": seed, "loss": "cross_entropy", "penalty": 1e-3}
    if model == "softmax":
        settings |= {"optimizer": "lbfgs", "steps": 60, "learning_rate": 1.0, "warmup": 0}
        settings |= {"schedule": "constant", "batch_tokens": 10_000}
    else:
        settings |= {"steps": 100 if start else 200, "learning_rate": 1e-2, "warmup": 10}
        settings |= {"batch_tokens": 64, "weight_decay": 0.0}
    sizes = {"inputs": len(schema.feature_names), "outputs": len(schema.target.values)}  # type: ignore[union-attr]
    recipe = TableRecipe(
        model={"name": model, **sizes},
        train={**settings, "evaluate_every": settings["steps"]},
    )
    dev = TableSplit(schema.rows(read), "dev")
    train = dev if weights is None else with_row_weights(dev, weights)
    network = build_table_network(recipe, schema)
    if start is not None:
        network.load_state_dict(start.model.state_dict())
    evaluator = TableEvaluator(recipe, network, schema)

    def validate(examples: int) -> Validation:
        metrics = evaluator.evaluate(dev).metrics
        return Validation(metrics, evaluator.selection_score(metrics))

    quiet: Any = lambda event: None  # noqa: E731
    train_loop(
        TabularObjective(recipe, network, schema, {"train": train}),
        validate,
        build_optimizer(network, recipe.train),
        recipe.train,
        TrainState(),
        on_event=quiet,
        save=quiet,
        stop=lambda: False,
    )
    return NetworkScorer(recipe, network, schema)


def _schema(read: Table) -> TableSchema:
    return fit_schema(read, np.arange(len(read)), TableConfig(), "y", "class").layout


def predicted_classes(scorer: NetworkScorer, rows: Rows) -> NDArray[np.str_]:
    """Return the predicted class of each row."""
    outputs = scorer.outputs(scorer.schema.features(rows.table().columns))
    return np.array(scorer.classes)[outputs.argmax(axis=1)]


def accuracy(scorer: NetworkScorer, rows: Rows) -> float:
    """Return the fraction of rows whose class is predicted correctly."""
    return float(np.mean(predicted_classes(scorer, rows) == np.array(rows.table().columns["y"])))


# --- remedies -------------------------------------------------------------------------------------


def by_inputs(world: World, before: NetworkScorer, model: str, seed: int) -> Remedied:
    """Learn again, each row by how much likelier it is in the target; no label of that is used."""
    weights = covariate_weights(world.learned.x, world.seen.x)
    scorer = learn(world.learned, model, seed, weights.values)
    return Remedied(scorer, weights.effective_rows / len(weights.values))


def by_classes(world: World, before: NetworkScorer, model: str, seed: int) -> Remedied:
    """Learn again, each row by how much likelier its class is; no label of the target is used."""
    one_hot = [
        (predicted_classes(before, rows)[:, None] == np.array(before.classes)).astype(np.float64)
        for rows in (world.held, world.seen)
    ]
    weights = estimate_label_shift(world.held.y, *one_hot).weights[world.learned.y]
    return Remedied(
        learn(world.learned, model, seed, weights), effective_sample_size(weights) / len(weights)
    )


def by_going_on(world: World, before: NetworkScorer, model: str, seed: int) -> Remedied:
    """Fine-tune the old model, with some labelled rows of the target."""
    return Remedied(learn(_some(world), model, seed, start=before))


def anew(world: World, before: NetworkScorer, model: str, seed: int) -> Remedied:
    """Learn from the same rows and forget the old model."""
    return Remedied(learn(_some(world), model, seed))


def _some(world: World) -> Rows:
    return Rows(world.seen.x[:SOME], world.seen.y[:SOME])


# --- measuring ------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A shift, a model, and what is done."""

    kind: str
    about: str
    model: str
    make: Callable[[int], World]
    remedy: Callable[[World, NetworkScorer, str, int], Remedied]
    is_first: bool = True  # to show this shift


def cases() -> list[Case]:
    """All that is measured."""
    cancer = Rows(*load_breast_cancer(return_X_y=True))
    coarse = digits(4)
    parity = Rows(coarse.x, coarse.y % 2)
    inputs = partial(moved_inputs, axis=0, sharp=3.0)
    second_axis = partial(moved_inputs, axis=1, sharp=6.0)
    return [
        Case("covariate", "even digits, s = 3", "softmax", inputs, by_inputs),
        Case("covariate", "the same", "mlp", inputs, by_inputs, False),
        Case("covariate", "second axis, s = 6", "softmax", second_axis, by_inputs),
        Case("covariate", "the same", "mlp", second_axis, by_inputs, False),
        Case(
            "label",
            "even digits, 4 × 4",
            "softmax",
            partial(moved_labels, whole=parity),
            by_classes,
        ),
        Case("label", "breast_cancer", "softmax", partial(moved_labels, whole=cancer), by_classes),
        Case("concept", f"fine-tune, {SOME} rows", "mlp", moved_meaning, by_going_on),
        Case("concept", f"anew, {SOME} rows", "mlp", moved_meaning, anew, False),
    ]


def measured(case: Case, seed: int) -> dict[str, Any]:
    """One seed of a case."""
    world = case.make(seed)
    before = learn(world.learned, case.model, seed)
    after = case.remedy(world, before, case.model, seed)
    own = learn(world.seen, case.model, seed)
    return {
        "source": accuracy(before, world.held),
        "before": accuracy(before, world.asked),
        "after": accuracy(after.scorer, world.asked),
        "own": accuracy(own, world.asked),
        "left": after.left,
        "found": found(world) if case.is_first else None,
    }


def found(world: World) -> str:
    """The kind of shift that is seen between the rows learned from and those of the target."""
    (x, y), (u, v) = world.learned, world.seen
    source, target = ({f"x{at}": row for at, row in enumerate(part.T)} for part in (x, u))
    return detect_shift(source, target, y, v).kind


def line(case: Case, seeds: list[dict[str, Any]]) -> dict[str, str]:
    """A line of the table: means, and in brackets the deviation over the seeds."""
    gains = [one["after"] - one["before"] for one in seeds]
    left = [one["left"] for one in seeds if one["left"] is not None]
    named = sum(one["found"] == case.kind for one in seeds)
    return {
        "shift": case.kind,
        "what": case.about,
        "model": case.model,
        "source": _format([one["source"] for one in seeds]),
        "target, before": _format([one["before"] for one in seeds]),
        "after": _format([one["after"] for one in seeds]),
        "gain": _format(gains),
        "better": f"{sum(gain > 0 for gain in gains)} of {len(gains)}",
        "its own rows": _format([one["own"] for one in seeds]),
        "rows left": f"{np.mean(left):.0%}" if left else "",
        "named so": f"{named} of {len(seeds)}" if case.is_first else "",
    }


def _format(shares: list[float]) -> str:
    return f"{100 * np.mean(shares):.1f} ({100 * np.std(shares, ddof=1):.1f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    print_machine()
    set_num_threads(1)
    kept, lines = [], []
    for case in cases():
        seeds = [measured(case, seed) for seed in range(FIRST, FIRST + asked.seeds)]
        kept.append({"shift": case.kind, "what": case.about, "model": case.model, "seeds": seeds})
        lines.append(line(case, seeds))
    table(list(lines[0]), [list(values.values()) for values in lines])
    if asked.json:
        asked.json.write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
