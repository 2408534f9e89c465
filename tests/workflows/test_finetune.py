"""Fine-tuning a run on other data, as a run of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import saccade
from saccade.errors import ConfigError, DataError, RunError
from saccade.io.atomic import read_checksummed_json
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.tabular.objective import TabularObjective
from saccade.workflows.finetune import (
    default_finetune_folder,
    describe_transfer,
    finetune_run,
    transfer_reports,
)

SMALL = {"train.threads": 1, "train.checkpoint_seconds": 1000}


def write(path: Path, count: int, turned: bool = False, seed: int = 1, more: str = "") -> Path:
    """A table whose colour is by which side of a line x is on, or the other way round."""
    draw = np.random.default_rng(seed)
    lines = ["x,y,shop,colour"]
    for at, (x, y) in enumerate(draw.normal(size=(count, 2))):
        lines.append(f"{x},{y},{'AB'[at % 2]},{'red' if (x > 0) != turned else 'blue'}")
    path.write_text("\n".join(lines) + "\n" + more)
    return path


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a table, to be read and never written to."""
    root = tmp_path_factory.mktemp("table")
    changes = SMALL | {"data.target": "colour", "train.steps": 60, "train.learning_rate": 0.1}
    recipe = resolve_recipe(
        "table", data=str(write(root / "old.csv", 150)), model="softmax", changes=changes
    )
    return train_recipe(recipe.recipe, root / "old", TrainOptions()).run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- tables ---------------------------------------------------------------------------------------


def test_finetune_learns_new_and_forgets_old_concept(table: Run, tmp_path: Path) -> None:
    before = contents(table.folder)
    new = write(tmp_path / "new.csv", 150, turned=True, seed=2)
    messages: list[str] = []
    options = TrainOptions(log=messages.append)
    run = finetune_run(table.folder, str(new), tmp_path / "finetune_on", options).run
    assert contents(table.folder) == before
    on_new, on_old = transfer_reports(run)
    assert on_new.before["accuracy"] < 0.2 < 0.8 < on_new.after["accuracy"]
    assert on_old.before["accuracy"] > 0.8 > 0.2 > on_old.after["accuracy"]
    # each is what `evaluate` returns for those weights and that data
    assert on_new.after["loss"] == run.evaluate()["loss"]
    assert on_old.before["loss"] == table.evaluate()["loss"]
    old_data = Path(str(table.recipe.data.path))
    assert run.evaluate(old_data)["accuracy"] < 0.2
    [result] = [line for line in messages if line.startswith("Before fine-tuning")]
    assert f"accuracy {on_new.before['accuracy']:.4g}" in result
    words = describe_transfer([on_new, on_old])
    assert "held-out part of" in words[0] and "new.csv: loss" in words[0] and " → " in words[1]


def test_finetune_keeps_the_schema(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    run = finetune_run(
        table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes={"train.steps": 1}
    ).run
    old = read_checksummed_json(table.folder / "tokenizer.json")
    assert read_checksummed_json(run.folder / "tokenizer.json") == old
    assert run.recipe.model == table.recipe.model
    assert run.recipe.train.learning_rate == table.recipe.train.learning_rate
    assert run.recipe.train.steps == 1 and run.recipe.data.path == str(new)


def test_finetune_starts_from_the_weights(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    changes = {"train.steps": 1, "train.learning_rate": 1e-12}
    run = finetune_run(
        table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes=changes
    ).run
    for name, weight in table.model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], weight, atol=1e-9, rtol=1e-6)
    assert run.evaluate()["loss"] == pytest.approx(run.metadata["before"]["loss"])


@pytest.mark.parametrize("killed_after", [0, 7])
def test_finetune_resume_is_bit_exact(
    killed_after: int, table: Run, tmp_path: Path, outcome_of: Any, monkeypatch: Any
) -> None:
    """Before its first checkpoint, too: what it started from is in its folder."""
    new = write(tmp_path / "new.csv", 60, turned=True, seed=3)
    changes = {"train.steps": 12, "train.evaluate_every": 5}
    finetune_run(table.folder, str(new), tmp_path / "whole", TrainOptions(), changes=changes)
    changes["train.checkpoint_seconds"] = 0 if killed_after else 1000
    loss, calls = TabularObjective.loss, []

    def dying(self: Any, batch: Any) -> Any:
        calls.append(batch)
        if len(calls) == killed_after + 1:
            raise RuntimeError("killed")
        return loss(self, batch)

    monkeypatch.setattr(TabularObjective, "loss", dying)
    with pytest.raises(RuntimeError, match="killed"):
        finetune_run(table.folder, str(new), tmp_path / "parts", TrainOptions(), changes=changes)
    run = resume(tmp_path / "parts", {}, TrainOptions()).run
    assert outcome_of(tmp_path / "parts") == outcome_of(tmp_path / "whole")
    assert [one.after for one in transfer_reports(run)] == [
        one.after for one in transfer_reports(load_run(tmp_path / "whole"))
    ]


@pytest.mark.parametrize(
    ("more", "columns", "message"),
    [
        (
            "1,2,A,green\n",
            "",
            r"new.csv has rows that .*old cannot learn.*\n  - line 42: got 'green'",
        ),
        ("1,2,A,green\n", "", "as 'colour'; expected one of the trained classes: blue, red"),
        ("", "x,y,shop,hue", "new.csv: got no column 'colour', the target"),
        ("", "x,why,shop,colour", "new.csv: no column 'y'"),
        ("far,2,A,red\n", "", "line 42: got 'far' in the column 'x'"),
    ],
)
@pytest.mark.parametrize("online", [False, True])
def test_finetune_refuses_incompatible_tables(
    online: bool, more: str, columns: str, message: str, table: Run, tmp_path: Path
) -> None:
    new = write(tmp_path / "new.csv", 40, more=more)
    if columns:
        new.write_text(new.read_text().replace("x,y,shop,colour", columns))
    with pytest.raises(DataError, match=message):
        finetune_run(
            table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), online=online
        )
    assert not (tmp_path / "finetune_on").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.outputs": 3}, "got other settings of the model than those of .*: outputs: 2 → 3"),
        (
            {"data.target": "x"},
            "settings of the data than those of .*: target: 'colour' → 'x'",
        ),
        (
            {"data.categories": "x"},
            r"categories: \(\) → \('x',\); try without them, or train",
        ),
        ({"train.stepps": 3}, "there is no setting 'train.stepps'. Did you mean 'train.steps'"),
    ],
)
def test_finetune_refuses_incompatible_settings(
    changes: dict[str, Any], message: str, table: Run, tmp_path: Path
) -> None:
    new = write(tmp_path / "new.csv", 40)
    with pytest.raises(ConfigError, match=message):
        finetune_run(
            table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes=changes
        )


def test_init_from_table(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    changes = SMALL | {"data.target": "colour", "train.steps": 1, "train.learning_rate": 1e-12}
    recipe = resolve_recipe("table", data=str(new), model="softmax", changes=changes).recipe
    run = train_recipe(recipe, tmp_path / "new", TrainOptions(init_from=table.folder)).run
    assert run.preprocessor == table.preprocessor and transfer_reports(run) == []
    for name, weight in table.model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], weight, atol=1e-9, rtol=1e-6)


def test_transfer_reports_missing_or_changed_old_data(table: Run, tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", 60)
    changes = SMALL | {"data.target": "colour", "train.steps": 2}
    recipe = resolve_recipe("table", data=str(old), model="softmax", changes=changes).recipe
    first = train_recipe(recipe, tmp_path / "first", TrainOptions()).run
    run = finetune_run(
        first.folder,
        str(write(tmp_path / "new.csv", 60, seed=3)),
        tmp_path / "finetune_on",
        TrainOptions(),
    )
    write(old, 60, turned=True)
    [_, on_old] = transfer_reports(run.run)
    assert not on_old.after and "than when the run was started" in on_old.reason
    assert "unknown; got other training data" in describe_transfer([on_old])[0]
    old.unlink()
    assert "is gone" in transfer_reports(run.run)[1].reason
    assert transfer_reports(run.run)[0].after  # that of the new data is known all the same


def test_finetune_never_replaces_the_run(table: Run, tmp_path: Path) -> None:
    before = contents(table.folder)
    new = write(tmp_path / "new.csv", 40)
    with pytest.raises(RunError, match="which is the run to start from and would be replaced"):
        finetune_run(table.folder, str(new), table.folder, TrainOptions(overwrite=True))
    assert contents(table.folder) == before


def test_default_finetune_folder() -> None:
    assert default_finetune_folder(Path("runs/mine")) == Path("runs/mine-finetuned")
    assert default_finetune_folder(Path("elsewhere/mine"), online=True) == Path("runs/mine-online")
    assert default_finetune_folder(Path(".")).name == f"{Path.cwd().name}-finetuned"


# --- the other tasks ------------------------------------------------------------------------------


def test_finetune_translation(trained_runs: dict[str, Path], tmp_path: Path) -> None:
    new = tmp_path / "new.tsv"
    pairs = [f"{a}{b}Ω\tx{b}{a}ccccccccccccc" for a in "abcdef" for b in "abcdef"]
    new.write_text("\n".join(pairs) + "\n")
    messages: list[str] = []
    folder = trained_runs["transformer"]
    changes = {"train.steps": 2}
    options = TrainOptions(log=messages.append)
    run = finetune_run(folder, str(new), tmp_path / "finetune_on", options, changes=changes).run
    old = load_run(folder)
    assert run.recipe.model == old.recipe.model
    assert read_checksummed_json(run.folder / "tokenizer.json") == read_checksummed_json(
        folder / "tokenizer.json"
    )
    # answers are as long as the new data asks for, and not as the old did
    assert run.recipe.data.max_new_tokens > old.recipe.data.max_new_tokens
    assert any("of the tokens of" in line and "not in the vocabulary" in line for line in messages)
    on_new, on_old = transfer_reports(run)
    assert on_new.before["loss"] > on_new.after["loss"]
    assert on_old.before["loss"] == old.evaluate()["loss"]


def test_finetune_language_model(tmp_path: Path) -> None:
    texts = {name: tmp_path / f"{name}.txt" for name in ("old", "new")}
    texts["old"].write_text("the cat sat on the mat\n" * 60)
    texts["new"].write_text("the mat sat on the cat\n" * 60)
    changes = SMALL | {"train.steps": 3, "model.width": 8, "train.batch_tokens": 128}
    recipe = resolve_recipe("language", data=str(texts["old"]), model="gru", changes=changes).recipe
    first = train_recipe(recipe, tmp_path / "first", TrainOptions()).run
    run = finetune_run(
        first.folder, str(texts["new"]), tmp_path / "finetune_on", TrainOptions()
    ).run
    assert run.preprocessor.to_json() == first.preprocessor.to_json()
    on_new, on_old = transfer_reports(run)
    assert on_new.after["loss"] < on_new.before["loss"]
    assert on_old.before["perplexity"] == first.evaluate()["perplexity"]


def test_finetune_forecaster_keeps_units(tmp_path: Path) -> None:
    changes = SMALL | {"train.steps": 30}
    first = train_recipe(
        resolve_recipe("forecast", changes=changes).recipe, tmp_path / "first", TrainOptions()
    ).run
    new = tmp_path / "new.txt"
    new.write_text("\n".join(f"{np.cos(t / 7) + 3:.4f}" for t in range(300)) + "\n")
    run = finetune_run(first.folder, str(new), tmp_path / "finetune_on", TrainOptions()).run
    assert run.preprocessor == first.preprocessor
    on_new, on_old = transfer_reports(run)
    assert on_new.after["loss"] < on_new.before["loss"]
    assert on_old.before["rmse_1"] == first.evaluate()["rmse_1"]
    with pytest.raises(ConfigError, match="settings of the data than those of .*: lags: 4 → 8"):
        finetune_run(
            first.folder, str(new), tmp_path / "x", TrainOptions(), changes={"data.lags": 8}
        )
    with pytest.raises(ConfigError, match="task forecast; --online needs a table"):
        finetune_run(first.folder, str(new), tmp_path / "x", TrainOptions(), online=True)


@pytest.mark.parametrize(
    ("recipe", "model", "changes"),
    [
        ("kernel-regression", "kernel", {}),
        ("kernel-regression", "attention", {"train.steps": 2}),
        ("language", "ngram", {}),
    ],
)
def test_finetune_refuses_fitted_models(
    recipe: str, model: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    text = tmp_path / "old.txt"
    text.write_text("the cat sat on the mat\n" * 60)
    data = str(text) if recipe == "language" else None
    threads = {"train.threads": 1}
    found = resolve_recipe(recipe, data=data, model=model, changes=threads | changes).recipe
    first = train_recipe(found, tmp_path / "first", TrainOptions()).run
    expected = f"got {model}, which is fitted to all of its data.*into one file, and train on that"
    with pytest.raises(ConfigError, match=expected):
        finetune_run(first.folder, str(text), tmp_path / "finetune_on", TrainOptions())


# --- the front door -------------------------------------------------------------------------------


def test_finetune_function(
    table: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("new.csv"), 60, turned=True, seed=3)
    run = saccade.finetune(table.folder, "new.csv", set={"train.steps": 3})
    assert run.folder == Path("runs/old-finetuned") and run.recipe.train.steps == 3
    result = capsys.readouterr().err.replace("\n", " ")
    assert "Before fine-tuning, on new.csv" in result and "held-out part of new.csv: loss" in result
    run = saccade.finetune(table, Path("new.csv"), online=True, progress=False)
    assert run.folder == Path("runs/old-online") and run.metrics()[-1]["dev_rows"] == 60
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", ["resume", "init_from", "model"])
def test_finetune_function_refuses_arguments_of_train(name: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        saccade.finetune("runs/none", "new.csv", progress=False, **{name: "x"})


def test_train_function_refuses_online() -> None:
    arguments: dict[str, Any] = {"online": True}
    with pytest.raises(TypeError, match="unexpected keyword argument 'online'"):
        saccade.train("runs/none", progress=False, **arguments)


def test_finetune_function_needs_a_run(smallest: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="got a TranslationRecipe; expected a run or its folder"):
        saccade.finetune(smallest(), "new.csv", progress=False)
    with pytest.raises(RunError, match="dates is not a run"):
        saccade.finetune("dates", "new.csv", progress=False)
