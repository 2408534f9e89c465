"""Fixtures of all tests: small data, small recipes, trained runs, and a clean start."""

import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# before matplotlib is imported: figures go to files, no window is opened
os.environ["MPLBACKEND"] = "Agg"
# before numba is imported: compiled loops check every index here, which they do not for users;
# their machine code is cached apart from the other
if os.environ.setdefault("NUMBA_BOUNDSCHECK", "1") == "1":
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parent / "__pycache__" / "bounds-checked")
# before torch is imported: spinning threads take minutes on a busy machine
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests import sparing

# `make test` draws the same examples every time; `make fuzz` draws new ones and stores failures
settings.register_profile(
    "house", deadline=None, max_examples=50, derandomize=True, database=None, print_blob=True
)
settings.register_profile("fuzz", deadline=None, max_examples=200, print_blob=True)
# as many examples as the house has, drawn by --hypothesis-seed
settings.register_profile("seeds", deadline=None, max_examples=50, database=None, print_blob=True)
settings.load_profile(os.environ.get("SACCADE_HYPOTHESIS", "house"))


# a shell starts background jobs with Ctrl-C ignored, which their processes would inherit
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the key that signs the paths of runs in a temporary folder, not in the user's."""
    folder = tempfile.TemporaryDirectory(prefix="saccade-state-")
    os.environ["XDG_STATE_HOME"] = folder.name
    config.add_cleanup(folder.cleanup)


# The longest test files start first, so that no core waits for one of them at the end.
FIRST = (
    "test_readme",
    "test_kill_training",
    "test_translation",
    "test_cli",
    "test_compare",
    "test_prune",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: position for position, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(FIRST)))


# the test files that read report/ of a run, or show what users get; others draw no figures
READERS_OF_REPORTS = {
    "test_classify",
    "test_cli",
    "test_core_install",
    "test_examples",
    "test_finetune_cli",
    "test_forecast",
    "test_machine",
    "test_old_formats",
    "test_online",
    "test_readme",
    "test_regression",
    "test_run",
    "test_table",
    "test_table_attributions",
    "test_table_cli",
    "test_text_classifiers",
    "test_vectors",
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    from saccade.runs import report, train

    def write_none(run: Any, figures: Any, log: Any) -> None: ...

    is_read = item.path.stem in READERS_OF_REPORTS
    train.write_report = report.write_report if is_read else write_none


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> None:
    """Let the tests and the commands they start obey SIGHUP, which `nohup make test` ignores."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def same_start() -> None:
    """Start each test with the same global seeds, one thread and all shape checks.

    Tensors in tests are small; on a busy machine, two threads that wait for each other take a
    hundred times as long.
    """
    torch.set_num_threads(1)
    sparing.reset_checks()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def dataset() -> Callable[[str], Path]:
    """Return a function that finds a published dataset in SACCADE_DATA or skips the test."""

    def folder(name: str) -> Path:
        root = os.environ.get("SACCADE_DATA")
        if not root:
            pytest.skip(f"{name} is a published dataset: set SACCADE_DATA to its parent folder")
        path = Path(root) / name
        if not path.exists():
            pytest.skip(f"SACCADE_DATA is {root}, which has no {name}")
        return path

    return folder


@pytest.fixture(scope="session")
def words_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 160 short words and their reversal, source TAB target."""
    draw = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < 160:
        words["".join(draw.choices("abcdef", k=draw.randint(1, 6)))] = None
    path = tmp_path_factory.mktemp("words") / "words.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), encoding="utf-8")
    return path


SMALLEST = {
    "data.max_new_tokens": 8,
    "model.width": 8,
    "model.dropout": 0.2,
    "train.steps": 13,
    "train.batch_tokens": 128,
    "train.report_every": 4,
    "train.evaluate_every": 5,
    "train.checkpoint_seconds": 1000,
    "train.threads": 1,  # two threads take minutes on a busy machine
}


@pytest.fixture(autouse=True)
def threads_given_back() -> Iterator[None]:
    """Restore the number of threads, which training sets for the whole process."""
    yield
    torch.set_num_threads(2)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


@pytest.fixture
def counted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the clock of the training loop by one that advances a second at each call."""
    from saccade.training import session

    seconds = itertools.count()

    def timed(*arguments: Any, **options: Any) -> str:
        options |= {"clock": lambda: float(next(seconds)), "setup_seconds": 10.0}
        return original(*arguments, **options)

    original = session.run_training_session
    monkeypatch.setattr(session, "run_training_session", timed)


@pytest.fixture(scope="session")
def smallest(words_file: Path) -> Callable[..., Any]:
    """Return a function that makes tiny recipes: `smallest("bahdanau", {"train.steps": 5})`."""
    from saccade.recipes.resolve import resolve_recipe

    def recipe(model: str = "bahdanau", changes: Mapping[str, Any] | None = None) -> Any:
        more = {"model.depth": 1, "model.heads": 2} if model == "transformer" else {}
        every = {**SMALLEST, **more, **(changes or {})}
        return resolve_recipe(
            every.get("data.path", str(words_file)), model=model, changes=every
        ).recipe

    return recipe


@pytest.fixture(scope="session")
def trained_runs(
    smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Return the folders of a trained run of each model; read-only for tests."""
    from saccade.runs.report import write_report
    from saccade.runs.train import TrainOptions, train_recipe

    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.runs.train.write_report", write_report)
        for model in ("bahdanau", "seq2seq", "transformer"):
            train_recipe(smallest(model), root / model, TrainOptions())
    torch.set_num_threads(2)
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="session")
def outcome_of() -> Callable[[Path], dict[str, Any]]:
    """Return a function that reads all results of a training, except times.

    Two outcomes that are equal as dictionaries are equal in every bit of every tensor.
    """
    from saccade.io.tensors import read_tensors

    def tensors(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        found, facts = read_tensors(path)
        facts.get("state", {}).pop("seconds", None)
        return {
            name: (str(t.dtype), tuple(t.shape), hashlib.sha256(t.numpy().tobytes()).hexdigest())
            for name, t in found.items()
        }, facts

    def outcome(folder: Path) -> dict[str, Any]:
        newest = sorted((folder / "checkpoint").glob("[0-9]*.safetensors"))[-1]
        metrics = []
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            values = json.loads(line)
            metrics.append({k: v for k, v in values.items() if k not in ("seconds", "rate")})
        return {
            "metrics": metrics,
            "best": tensors(folder / "model.safetensors"),
            "last": tensors(newest),
        }

    return outcome


@pytest.fixture(scope="module")
def nursery_of() -> Iterator[Callable[[str], Callable[..., bool]]]:
    """Return a function that starts a process which forks commands, so torch is loaded once.

    `nursery_of(program)` starts it and returns `call(arguments, path, limit, moments)`: run a
    command, watch `path`, and kill the command `moments` after its progress reaches `limit` (None:
    never). The result is True if the command ended by itself.
    """
    started = []

    def start(program: str) -> Callable[..., bool]:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        started.append(process)

        def call(
            arguments: list[Any], path: Path, limit: int | None = None, moments: float = 0.0
        ) -> bool:
            assert process.stdin and process.stdout
            order = [[str(a) for a in arguments], str(path), limit, moments]
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            assert code in (0, -9), f"exit code {code} of {arguments}"
            return code == 0

        return call

    yield start
    for process in started:
        process.communicate()


@pytest.fixture(scope="session")
def learned_by_fasttext() -> Callable[..., Path]:
    """Return a function that trains a model with fastText itself, in a process of its own.

    This build reads uninitialised memory; MALLOC_PERTURB_ makes that memory zero.
    """
    code = "import json, sys, fasttext; way, text, out, how = sys.argv[1:]; "
    code += "getattr(fasttext, way)(text, verbose=0, **json.loads(how)).save_model(out)"

    def learned(way: str, text: Path, **how: Any) -> Path:
        out = text.with_suffix(".bin")
        command = [sys.executable, "-c", code, way, str(text), str(out), json.dumps(how)]
        subprocess.run(command, check=True, env={**os.environ, "MALLOC_PERTURB_": "255"})
        return out

    return learned
