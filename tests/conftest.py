import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# before anything imports matplotlib: pictures go to files, no window is opened
os.environ["MPLBACKEND"] = "Agg"
# and before torch is loaded: threads that spin as they wait take minutes on a busy machine
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests import sparing

# `make test` draws the same examples for everyone, every time; `make fuzz` searches for new ones
# and remembers those that failed
settings.register_profile(
    "house", deadline=None, max_examples=50, derandomize=True, database=None, print_blob=True
)
settings.register_profile("fuzz", deadline=None, max_examples=200, print_blob=True)
settings.load_profile(os.environ.get("SACCADE_HYPOTHESIS", "house"))


# Files whose tests take longest come first: on several cores the last one to begin is the last to
# end, and the others would wait for it.
FIRST = ("test_readme", "test_killed", "test_translation", "test_cli", "test_compare", "test_prune")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(FIRST)))


@pytest.fixture(autouse=True)
def same_start() -> None:
    """Each test finds the global generators in the same state, whichever ran before it.

    The shapes of every function are checked anew. And one thread: the tensors of a test are small,
    and on a busy machine two threads that wait for each other take a hundred times as long.
    """
    torch.set_num_threads(1)
    sparing.begin()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def dataset() -> Callable[[str], Path]:
    """`published("multi30k")` is that folder in SACCADE_DATA; without it the test is skipped."""

    def folder(name: str) -> Path:
        root = os.environ.get("SACCADE_DATA")
        if not root:
            pytest.skip(f"{name} is a published set: name the folder that has it in SACCADE_DATA")
        path = Path(root) / name
        if not path.exists():
            pytest.skip(f"SACCADE_DATA is {root}, which has no {name}")
        return path

    return folder


@pytest.fixture(scope="session")
def words_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 different short words and what they are backwards, as source TAB target."""
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
    "train.threads": 1,  # threads that wait for each other take minutes on a busy machine
}


@pytest.fixture(autouse=True)
def threads_given_back() -> Iterator[None]:
    """A training sets the number of threads for all that comes after it."""
    yield
    torch.set_num_threads(2)


@pytest.fixture(scope="session")
def smallest(words_file: Path) -> Callable[..., Any]:
    """`smallest("bahdanau", {"train.steps": 5})`: a recipe that trains in no time."""
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
    """A finished run of each model, to be read and never written to."""
    from saccade.runs.run import TrainOptions, train_recipe

    root = tmp_path_factory.mktemp("runs")
    for model in ("bahdanau", "seq2seq", "transformer"):
        train_recipe(smallest(model), root / model, TrainOptions())
    torch.set_num_threads(2)
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="session")
def outcome_of() -> Callable[[Path], dict[str, Any]]:
    """All that a training leaves in its folder, to the bit, but for what the clock says.

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
    """Commands as children of one process, so that torch is loaded once and not 200 times.

    `nursery_of(program)` starts the process. What that gives is called with a command's arguments,
    the path to watch, how far it may come before it is killed (None: to its end), and how many
    moments later; it says whether it came to its end.
    """
    started = []

    def begin(program: str) -> Callable[..., bool]:
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
            arguments: list[Any], path: Path, most: int | None = None, moments: float = 0.0
        ) -> bool:
            assert process.stdin and process.stdout
            order = [[str(a) for a in arguments], str(path), most, moments]
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            assert code in (0, -9), f"exit code {code} of {arguments}"
            return code == 0

        return call

    yield begin
    for process in started:
        process.communicate()


@pytest.fixture(scope="session")
def learned_by_fasttext() -> Callable[..., Path]:
    """A model of fastText's own from a text, by one of its two ways of learning.

    This build begins from memory that was never written. In a process whose memory is handed out
    full of zeros that does no harm.
    """
    code = "import json, sys, fasttext; way, text, out, how = sys.argv[1:]; "
    code += "getattr(fasttext, way)(text, verbose=0, **json.loads(how)).save_model(out)"

    def learned(way: str, text: Path, **how: Any) -> Path:
        out = text.with_suffix(".bin")
        command = [sys.executable, "-c", code, way, str(text), str(out), json.dumps(how)]
        subprocess.run(command, check=True, env={**os.environ, "MALLOC_PERTURB_": "255"})
        return out

    return learned
