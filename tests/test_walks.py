"""Walks: how many files of saccade/ a value passes through, from raw input to result.

A walk that grows is harder to read. Plumbing and leaf layers, listed below, are not counted.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from PIL import Image

import saccade
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import task_spec_for

PACKAGE = Path(saccade.__file__).parent
PREFIX = f"{PACKAGE}{os.sep}"
PAIR_TO_LOSS = 12
TEXT_TO_TRANSLATION = 9
ROW_TO_LOSS = 9
IMAGE_TO_LOSS = 9
PROMPT_TO_TEXT = 10  # of the default, greedy search; sampling has a file of its own

# files that are entered but do not transform the value
PLUMBING = {
    "config.py": "validates settings",
    "errors.py": "exceptions",
    "registry.py": "finds an object by name",
    "seeding.py": "seeds of random choices",
    "data/images/arrays.py": "recognises files of arrays",
    "data/images/labelled.py": "images of a source, as a value",
    "data/images/transform.py": "chooses size and channels, and computes their statistics",
    "data/images/trees.py": "lists and opens the files of folders and archives",
    "data/prediction_inputs.py": "inputs of a frame or a list",
    "data/records/base.py": "rows with named columns, as a value",
    "data/records/cell_forms.py": "recognises numbers, dates and codes in a sample",
    "data/records/columns.py": "names columns",
    "data/records/delimited.py": "detects the layout of a file",
    "data/records/dialect.py": "detects the delimiter",
    "data/records/files.py": "detects the format of a file",
    "data/records/header.py": "detects a header",
    "data/records/names.py": "names of columns in one form",
    "data/records/open.py": "distinguishes files, folders, archives and addresses",
    "data/records/profile.py": "statistics of a sample, from which columns are chosen",
    "data/records/role_names.py": "usual names of columns",
    "data/records/roles.py": "chooses the column of each role",
    "data/records/sketches.py": "counts distinct values of a sample",
    "data/records/suggest.py": "proposes a task",
    "data/tables/dates.py": "recognises columns of dates",
    "data/task_records.py": "finds the columns of a task",
    "data/task_roles.py": "the columns that a task takes",
    "io/archives.py": "detects archives",
    "io/file_kinds.py": "refuses pipes and devices by name",
    "io/normalisation.py": "unicodedata.normalize in linear time",
    "io/numbers.py": "parses numbers",
    "io/signatures.py": "detects binary formats",
    "recipes/preview.py": "chooses the task of a file",
    "types/progress.py": "progress callbacks",
    "types/shapes.py": "the batch as a named tuple",
    "types/results.py": "the prediction as a named tuple",
    "data/source.py": "chooses between path, dataset and synthetic data",
    "data/hashing.py": "hashes by which examples are divided",
    "data/split_keys.py": "row numbers of each split",
    "data/splits.py": "row numbers of each split",
    "data/samplers.py": "row numbers of samples and of shuffled batches",
    "decoding/config.py": "validates the options of predict",
    "decoding/protocol.py": "checks the arguments of a search",
    "inference/engine.py": "chooses the decoder",
    "models/image_config.py": "settings of the networks",
    "io/byte_source.py": "opens the file",
    "io/encodings.py": "detects the encoding",
    "tasks/base.py": "contracts",
    "tasks/length.py": "chooses settings from the number of steps",
    "tasks/neural.py": "device and training settings of a recipe",
    "tasks/translation/auto_config.py": "chooses settings from statistics",
    "models/config.py": "validates settings",
    "training/config.py": "validates settings",
    "training/thread_parallel.py": "maps a function over groups",
}
# layers without layers inside, and what they share: entered for their equation only
LEAF_LAYERS = {
    f"nn/{name}.py"
    for name in (
        "activations",
        "attention_scores",
        "dropout",
        "embedding",
        "feedforward",
        "kernels/causal_attention",
        "kv_cache",
        "masks",
        "norm",
        "positional_encoding",
        "rnn_cells",
    )
}


class Walk:
    """Files of the package that are entered, in order, with the number of calls."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Count the calls inside the block, in new threads too."""
        sys.setprofile(self._count)
        threading.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PREFIX):
            name = Path(path[len(PREFIX) :]).as_posix()
            self.calls[name] = self.calls.get(name, 0) + 1

    @property
    def files(self) -> list[str]:
        """The files that transform the value."""
        return [name for name in self.calls if name not in PLUMBING | dict.fromkeys(LEAF_LAYERS)]


def walk_to_loss(recipe: Any) -> Walk:
    """Return the walk from the data of a recipe to the loss of its first batch."""
    spec = task_spec_for(recipe)
    components = spec.components(recipe)
    make_objective = components.objective
    assert make_objective is not None
    walk = Walk()
    with walk.recording():
        data = spec.prepare(recipe, PrepareContext())
    network = components.build_model(data.recipe, data.preprocessor)
    with walk.recording():
        objective = make_objective(data.recipe, network, data.preprocessor, data.splits)
        loss = objective.loss(next(objective.batches("train", 0)))
    assert loss.total.requires_grad
    return walk


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_walk_from_pair_to_loss(model: str, smallest: Callable[..., Any]) -> None:
    walk = walk_to_loss(smallest(model))
    assert f"models/{model}.py" in walk.files
    assert len(walk.files) <= PAIR_TO_LOSS, "\n".join(walk.files)


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_walk_from_text_to_translation(model: str, trained_runs: dict[str, Path]) -> None:
    run = load_run(trained_runs[model])
    assert run.predictor
    walk = Walk()
    with walk.recording():
        prediction = run.predict("abc", engine="torch")
    assert prediction.finished is not None
    assert f"models/{model}.py" in walk.files
    assert len(walk.files) <= TEXT_TO_TRANSLATION, "\n".join(walk.files)


@pytest.mark.parametrize(
    "model, target", [("mlp", "kind"), ("softmax", "kind"), ("linear", "size")]
)
def test_walk_from_row_to_loss(model: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [f"{n / 7},{'red' if n % 3 else 'blue'},{n % 5},{'ab'[n % 2]}" for n in range(60)]
    path.write_text("\n".join(["size,colour,age,kind", *rows]), encoding="utf-8")
    recipe = resolve_recipe(str(path), model=model, changes={"data.target": target}).recipe
    walk = walk_to_loss(recipe)
    assert "models/tabular.py" in walk.files
    assert len(walk.files) <= ROW_TO_LOSS, "\n".join(walk.files)


def test_walk_from_image_to_loss(tmp_path: Path) -> None:
    for number in range(40):
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (16, 16), (number, 6 * number, 40)).save(path)
    recipe = resolve_recipe(str(tmp_path), changes={"data.augment.flip": True}).recipe
    walk = walk_to_loss(recipe)
    assert "models/lenet.py" in walk.files
    assert len(walk.files) <= IMAGE_TO_LOSS, "\n".join(walk.files)


@pytest.mark.parametrize(
    "options, limit",
    [({}, PROMPT_TO_TEXT), ({"sample": True, "top_k": 3}, PROMPT_TO_TEXT + 1)],
    ids=["greedy", "sampled"],
)
@pytest.mark.parametrize("model, file", [("gpt2", "gpt"), ("lstm", "rnn_lm")])
def test_walk_from_prompt_to_text(
    model: str, file: str, options: dict[str, Any], limit: int, tmp_path: Path
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be\nthat is the question\n" * 20, encoding="utf-8")
    size = {"model.width": 8, "model.depth": 1, **({"model.heads": 2} if model == "gpt2" else {})}
    recipe = resolve_recipe("language", data=str(path), model=model, changes=size).recipe
    data = task_spec_for(recipe).prepare(recipe, PrepareContext())
    run = Run(tmp_path / "run", data.recipe, {}, data.preprocessor)
    assert run.predictor
    walk = Walk()
    with walk.recording():
        prediction = run.predict("to be", engine="torch", max_new_tokens=3, **options)
    assert prediction.finished is not None
    assert f"models/{file}.py" in walk.files
    assert len(walk.files) <= limit, "\n".join(walk.files)


def test_walk_lists_existing_files() -> None:
    assert [name for name in {*PLUMBING, *LEAF_LAYERS} if not (PACKAGE / name).exists()] == []
