"""One `Run` shared by eight threads gives exactly the answers of sequential calls."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.types.results import Evaluation

THREADS = 8
ROUNDS = 2  # each with a newly opened run, so that what is built on first use is built in a race
Call = Callable[[Run], object]

QUICK = {"train.threads": 1, "train.report_every": 50, "train.checkpoint_seconds": 1000}
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Switch threads fifty times as often as Python does by default."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session")
def thread_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that trains a small run of a kind once; do not change the run."""
    root = tmp_path_factory.mktemp("threads")

    def trained(kind: str) -> Path:
        if not (root / kind).exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
                train_recipe(RECIPES[kind](root), root / kind, TrainOptions())
        return root / kind

    return trained


def translator_recipe(root: Path) -> Any:
    path = root / "words.tsv"
    rows = [f"{a} {b} {c}" for a in NUMBERS for b in NUMBERS[:5] for c in NUMBERS[:4]]
    path.write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    changes = {"model.width": 16, "model.depth": 1, "model.heads": 2, "data.max_new_tokens": 18}
    changes |= QUICK | {"train.steps": 6, "train.batch_tokens": 256, "train.evaluate_every": 6}
    return resolve_recipe(str(path), model="transformer", changes=changes).recipe


def gpt_recipe(root: Path) -> Any:
    path = root / "text.txt"
    lines = (f"{NUMBERS[i % 10]} and {NUMBERS[(3 * i + 1) % 10]} more" for i in range(300))
    path.write_text("\n".join(lines), encoding="utf-8")
    changes = {"model.width": 16, "model.depth": 1, "data.segment_length": 16}
    changes |= QUICK | {"train.steps": 6, "train.batch_tokens": 256, "train.evaluate_every": 6}
    return resolve_recipe("language", data=str(path), model="gpt2", changes=changes).recipe


def table_recipe(root: Path) -> Any:
    path = root / "table.csv"
    random = np.random.default_rng(1)
    rows = [(*random.normal(size=2), ("red", "blue")[row % 2]) for row in range(200)]
    lines = (f"{x},{y},{colour},{'ab'[int(x * y > 0)]}" for x, y, colour in rows)
    path.write_text("\n".join(["x,y,colour,kind", *lines]), encoding="utf-8")
    changes = QUICK | {"train.steps": 20, "train.evaluate_every": 20, "data.target": "kind"}
    return resolve_recipe("table", data=str(path), model="mlp", changes=changes).recipe


def vectors_recipe(root: Path) -> Any:
    path = root / "book.txt"
    lines = (f"{NUMBERS[i % 10]} and {NUMBERS[(3 * i + 1) % 10]} more" for i in range(400))
    path.write_text("\n".join(lines), encoding="utf-8")
    changes = {"train.threads": 1, "model.width": 8}
    return resolve_recipe("vectors", data=str(path), model="svd", changes=changes).recipe


RECIPES = {
    "translator": translator_recipe,
    "gpt": gpt_recipe,
    "table": table_recipe,
    "vectors": vectors_recipe,
}


def translator_calls(thread: int, folder: Path) -> list[Call]:
    a, b = NUMBERS[thread], NUMBERS[-thread]
    short, long = [f"{a} {b}", "ten"], [f"{a} {b} {a} {b}", f"{a} five"]
    engine, other = ("fused", "torch") if thread % 2 else ("torch", "fused")
    limit = 1 + thread % 3
    return [
        lambda run: run.predict(long, engine=engine),
        lambda run: run.predict(short, engine=other, beam=2, coverage=0.3, n_best=2),
        lambda run: run.predict(long, engine=other),
        lambda run: run.evaluate(limit=limit),
        lambda run: run.predict(short, engine=engine, beam=2, coverage=0.2),
        lambda run: run.predict(short, engine=engine, sample=True, seed=thread),
        lambda run: weights_of(run.look(f"{a} {b}", answer="eno owt", kind="cross")),
    ]


def gpt_calls(thread: int, folder: Path) -> list[Call]:
    a, b = NUMBERS[thread], NUMBERS[-thread]
    prompts = [f"{a} and", f"{b} and {a} mo", ""]
    engine, other = ("fused", "torch") if thread % 2 else ("torch", "fused")
    path = folder.parent / f"text{thread}.txt"
    path.write_text(f"{a} and {b} more\n" * (3 + thread), encoding="utf-8")
    return [
        lambda run: run.predict(prompts, engine=engine, max_new_tokens=12),
        lambda run: run.predict(prompts, engine=other, beam=2, n_best=2, max_new_tokens=10),
        lambda run: run.evaluate(path),
        lambda run: run.predict(prompts, sample=True, seed=thread, max_new_tokens=10),
        lambda run: run.evaluate(limit=2 + thread),
        lambda run: weights_of(run.look(prompts[0], answer=b)),
        lambda run: run.evaluate(split=("dev", "test")[thread % 2]),
    ]


def table_calls(thread: int, folder: Path) -> list[Call]:
    random = np.random.default_rng(thread)
    rows = [{"x": float(x), "y": float(y), "colour": "red"} for x, y in random.normal(size=(5, 2))]
    path = folder.parent / f"table{thread}.csv"
    lines = (f"{row['x']},{row['y']},blue,{'ab'[n % 2]}" for n, row in enumerate(rows))
    path.write_text("\n".join(["x,y,colour,kind", *lines]), encoding="utf-8")
    return [
        lambda run: run.predict(rows, n_best=2),
        lambda run: evaluation_of(run.evaluate(path)),
        lambda run: run.predict(rows[0]),
        lambda run: evaluation_of(run.evaluate(split=("dev", "test")[thread % 2])),
    ]


def vectors_calls(thread: int, folder: Path) -> list[Call]:
    a, b, c = (NUMBERS[(thread + more) % 10] for more in range(3))
    path = folder.parent / f"pairs{thread}.tsv"
    path.write_text(f"{a}\t{b}\t3\n{b}\t{c}\t{thread}\n{a}\tmore\t1\n", encoding="utf-8")
    return [
        lambda run: run.predict([a, f"{a} - {b} + {c}"]),
        lambda run: run.evaluate(path),
        lambda run: run.predict(b, n_best=2 + thread % 3),
        lambda run: run.evaluate(split=("dev", "test")[thread % 2]),
    ]


CALLS = {
    "translator": translator_calls,
    "gpt": gpt_calls,
    "table": table_calls,
    "vectors": vectors_calls,
}


def weights_of(found: Any) -> dict[Any, Any]:
    return {key: (map_.weights.tolist(), map_.rows) for key, map_ in found.maps.items()}


def evaluation_of(found: Evaluation) -> str:
    return repr((found.metrics, found.tables, found.floors))  # tables hold arrays


def call_each(run: Run, calls: Sequence[Call]) -> list[object]:
    return [call(run) for call in calls]


@pytest.mark.parametrize("kind", list(RECIPES))
def test_run_shared_by_threads_equals_sequential_calls(
    kind: str, thread_runs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SACCADE_DATA", raising=False)  # no published benchmarks
    folder = thread_runs(kind)
    calls = [CALLS[kind](thread, folder) for thread in range(THREADS)]
    torch.set_num_threads(1)
    run = load_run(folder)
    expected = [call_each(run, some) for some in calls]
    barrier = Barrier(THREADS)

    def work(shared: Run, some: Sequence[Call]) -> list[object]:
        barrier.wait(60)
        return call_each(shared, some)

    with ThreadPoolExecutor(THREADS, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for _ in range(ROUNDS):
            shared = load_run(folder)
            found = list(pool.map(work, [shared] * THREADS, calls))
            for thread, (answers, of_thread) in enumerate(zip(found, expected, strict=True)):
                for number, answer in enumerate(answers):
                    assert answer == of_thread[number], f"thread {thread}, call {number}"
