"""Extension points: a model is one class and one row, a task one folder and one row."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from saccade.errors import DataError
from saccade.inspection import invariants
from saccade.inspection.checks import COMPILE_PARITY, skipped
from saccade.models.base import EncoderDecoder
from saccade.models.config import TranslatorConfig
from saccade.models.registry import TRANSLATION_MODELS, ModelEntry
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.registry import TASKS, read_recipe
from saccade.tasks.translation.config import TranslationRecipe
from saccade.types.results import Prediction
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds
from saccade.workflows.compare import compare_models

# --- a model: one class, one row ------------------------------------------------------------------


class BagOfTokensConfig(TranslatorConfig):
    """Settings of the toy translator; it has no dropout."""

    name: Literal["bag_of_tokens"] = "bag_of_tokens"


class BagMemory(NamedTuple):
    """Mean embedding of the source."""

    mean: Tensor


class BagOfTokens(EncoderDecoder):
    """h_t = tanh(W [mean of e(x); e(y_{t-1})]): no order, no attention."""

    def __init__(self, config: BagOfTokensConfig):
        super().__init__()
        self.source = nn.Embedding(config.source_vocab_size, config.width)
        self.target = nn.Embedding(config.target_vocab_size, config.width)
        self.hidden = nn.Linear(2 * config.width, config.width)
        self.output = nn.Linear(config.width, config.target_vocab_size)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> BagMemory:
        """Return the mean over the real tokens."""
        if lengths is None:
            lengths = torch.full((len(source),), source.shape[1])
        real = torch.arange(source.shape[1]) < lengths[:, None]
        return BagMemory((self.source(source) * real[..., None]).sum(1) / lengths[:, None])

    def init_state(self, memory: BagMemory) -> DecoderState:
        """Return the memory; steps add no state."""
        return DecoderState(memory, torch.zeros(len(memory.mean), 1))

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Return the hidden vectors of T tokens."""
        mean = state.memory.mean.repeat_interleave(len(ids) // len(state.memory.mean), dim=0)
        mean = mean[:, None].expand(-1, ids.shape[1], -1)
        return torch.tanh(self.hidden(torch.cat([mean, self.target(ids)], -1))), state


@pytest.fixture
def bag_of_tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Add the row; the recipe class is rebuilt, as it would be on import."""
    entry = ModelEntry(BagOfTokensConfig, BagOfTokens)
    with monkeypatch.context() as patch:
        patch.setitem(TRANSLATION_MODELS, "bag_of_tokens", entry)
        TranslationRecipe.model_rebuild(force=True)
        yield "bag_of_tokens"
    TranslationRecipe.model_rebuild(force=True)


def test_new_model_trains_predicts_and_evaluates(
    bag_of_tokens: str, words_file: Path, tmp_path: Path
) -> None:
    values = {
        "task": "translate",
        "data": {"path": str(words_file), "max_new_tokens": 8},
        "model": {"name": bag_of_tokens, "width": 8},
        "train": {"steps": 12, "evaluate_every": 6, "warmup": 2, "threads": 1},
    }
    run = train_recipe(read_recipe(values, "the test"), tmp_path / "run", TrainOptions()).run
    assert isinstance(run.model, BagOfTokens)
    losses = [line["dev_loss"] for line in run.metrics() if "dev_loss" in line]
    assert losses[-1] < losses[0]
    again = load_run(tmp_path / "run")
    for options in ({}, {"beam": 3, "n_best": 2}, {"engine": "torch"}):
        assert again.predict(["abc", "fed"], **options) == run.predict(["abc", "fed"], **options)
    assert {"loss", "exact", "chrf"} <= run.evaluate().keys()


def test_new_model_passes_the_checks(
    bag_of_tokens: str,
    smallest: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out = skipped(COMPILE_PARITY, "compiling takes half a minute")
    monkeypatch.setattr(invariants, "compile_parity", lambda model, example: left_out)
    recipe = smallest("seq2seq").with_values(model={"name": bag_of_tokens, "width": 8})
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    results = run.check(inputs=3)
    failed = [result for result in results if result.verdict == "FAILED"]
    assert failed == []
    assert sum(result.num_inputs > 0 for result in results) >= 8


def test_new_model_can_be_compared(bag_of_tokens: str, words_file: Path, tmp_path: Path) -> None:
    result = compare_models(
        str(words_file),
        models=["seq2seq", bag_of_tokens],
        steps=4,
        seeds=1,
        set={"model.width": 8, "data.max_new_tokens": 8, "train.threads": 1},
        out=tmp_path / "runs",
    )
    assert {row.model for row in result.rows} == {"seq2seq", bag_of_tokens}
    assert result.metric.name == "exact"


# --- a task: one folder, one row ------------------------------------------------------------------

TASK_SETTINGS = {
    "task": "toy-images",
    "data": {"synthetic": "bars", "size": 40},
    "model": {"name": "conv"},
    "train": {
        "steps": 40,
        "batch_tokens": 20,
        "learning_rate": 0.05,
        "warmup": 2,
        "evaluate_every": 20,
        "report_every": 10,
        "threads": 1,
    },
}


@pytest.fixture(scope="module")
def toy_task() -> Iterator[str]:
    """Add the row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS.import_paths, "toy-images", "tests.tasks.toy_images.spec:TOY_IMAGES")
        yield "toy-images"


@pytest.fixture(scope="module")
def image_run(toy_task: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a trained run of the task."""
    recipe = read_recipe(TASK_SETTINGS, "the test")
    return train_recipe(recipe, tmp_path_factory.mktemp("toy") / "run", TrainOptions()).run


def test_new_task_predicts_from_arrays(image_run: Run) -> None:
    images = image_run.split("test").images
    prediction = image_run.predict(images[0])
    assert isinstance(prediction, Prediction)
    assert prediction.text in {"horizontal", "vertical"}
    assert prediction.probabilities is not None
    assert sum(prediction.probabilities.values()) == pytest.approx(1.0)
    several = image_run.predict(list(images[:3]))
    assert [type(one) for one in several] == [Prediction] * 3
    assert several[0].text == prediction.text
    assert image_run.predict([]) == []
    with pytest.raises(DataError, match=r"input 2: got an array of shape \(2, 2\)"):
        image_run.predict([images[0], np.zeros((2, 2))])


def test_new_task_evaluates_splits_and_files(image_run: Run, tmp_path: Path) -> None:
    evaluation = image_run.evaluate()
    assert evaluation["accuracy"] > evaluation.floors["majority class"]["accuracy"]
    assert evaluation["examples"] == 40
    split = image_run.split("test")
    np.savez(tmp_path / "images.npz", images=split.images, labels=split.labels)
    assert image_run.evaluate(tmp_path / "images.npz") == evaluation


def test_new_task_checks_and_reloads(image_run: Run) -> None:
    results = {result.invariant: result.verdict for result in image_run.check(inputs=4)}
    assert results["batch invariance"] == results["reload consistency"] == "passed"
    again = load_run(image_run.folder)
    images = list(image_run.split("test").images)
    assert again.predict(images) == image_run.predict(images)
    assert again.preprocessor == image_run.preprocessor
    assert again.evaluate() == image_run.evaluate()


def test_new_task_can_be_compared(toy_task: str, tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(
        f'task = "{toy_task}"\n[data]\nsynthetic = "bars"\nsize = 20\n'
        "[train]\nwarmup = 1\nthreads = 1\nevaluate_every = 5\n"
    )
    result = compare_models(str(tmp_path / "toy.toml"), steps=10, seeds=2, out=tmp_path / "runs")
    assert {row.model for row in result.rows} == {"conv", "linear"}
    assert result.metric.name == "accuracy"
    assert len(result.rows[0].runs) == 2
    assert result.rows[0].per_example() is not None
