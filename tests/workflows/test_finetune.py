"""Going on with a run: on other data, as a run of its own."""

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
from saccade.runs.run import Run, TrainOptions, load_run, resume, train_recipe
from saccade.workflows.finetune import (
    default_finetune_folder,
    describe_transfer,
    finetune,
    transfer_reports,
)

FEW = {"train.threads": 1, "train.checkpoint_seconds": 1000}


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
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a table, to be read and never written to."""
    root = tmp_path_factory.mktemp("table")
    changes = FEW | {"data.target": "colour", "train.steps": 60, "train.learning_rate": 0.1}
    recipe = resolve_recipe(
        "table", data=str(write(root / "old.csv", 150)), model="softmax", changes=changes
    )
    return train_recipe(recipe.recipe, root / "old", TrainOptions()).run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- tables ---------------------------------------------------------------------------------------


def test_a_concept_that_was_turned_round_is_learned_anew_and_the_old_one_forgotten(
    table: Run, tmp_path: Path
) -> None:
    before = contents(table.folder)
    new = write(tmp_path / "new.csv", 150, turned=True, seed=2)
    told: list[str] = []
    options = TrainOptions(log=told.append)
    run = finetune(table.folder, str(new), tmp_path / "finetune_on", options).run
    assert contents(table.folder) == before
    on_new, on_old = transfer_reports(run)
    assert on_new.before["accuracy"] < 0.2 < 0.8 < on_new.after["accuracy"]
    assert on_old.before["accuracy"] > 0.8 > 0.2 > on_old.after["accuracy"]
    # each is what `evaluate` says of those weights and that data
    assert on_new.after["loss"] == run.evaluate()["loss"]
    assert on_old.before["loss"] == table.evaluate()["loss"]
    old_data = Path(str(table.recipe.data.path))
    assert run.evaluate(old_data)["accuracy"] < 0.2
    [said] = [line for line in told if line.startswith("Before it goes on")]
    assert f"accuracy {on_new.before['accuracy']:.4g}" in said
    words = describe_transfer([on_new, on_old])
    assert "held-out part of" in words[0] and "new.csv: loss" in words[0] and " → " in words[1]


def test_what_is_learned_of_the_columns_is_kept(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    run = finetune(
        table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes={"train.steps": 1}
    ).run
    old = read_checksummed_json(table.folder / "tokenizer.json")
    assert read_checksummed_json(run.folder / "tokenizer.json") == old
    assert run.recipe.model == table.recipe.model
    assert run.recipe.train.learning_rate == table.recipe.train.learning_rate
    assert run.recipe.train.steps == 1 and run.recipe.data.path == str(new)


def test_it_begins_with_the_weights_of_the_run(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    changes = {"train.steps": 1, "train.learning_rate": 1e-12}
    run = finetune(
        table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes=changes
    ).run
    for name, weight in table.task.weights().items():
        torch.testing.assert_close(run.task.weights()[name], weight, atol=1e-9, rtol=1e-6)
    assert run.evaluate()["loss"] == pytest.approx(run.metadata["before"]["loss"])


@pytest.mark.parametrize("killed_after", [0, 7])
def test_killed_and_resumed_it_is_the_same(
    killed_after: int, table: Run, tmp_path: Path, outcome_of: Any, monkeypatch: Any
) -> None:
    """Before its first checkpoint, too: what it began from is in its folder."""
    new = write(tmp_path / "new.csv", 60, turned=True, seed=3)
    changes = {"train.steps": 12, "train.evaluate_every": 5}
    finetune(table.folder, str(new), tmp_path / "whole", TrainOptions(), changes=changes)
    changes["train.checkpoint_seconds"] = 0 if killed_after else 1000
    loss, calls = type(table.task).loss, []

    def dying(self: Any, batch: Any) -> Any:
        calls.append(batch)
        if len(calls) == killed_after + 1:
            raise RuntimeError("killed")
        return loss(self, batch)

    monkeypatch.setattr(type(table.task), "loss", dying)
    with pytest.raises(RuntimeError, match="killed"):
        finetune(table.folder, str(new), tmp_path / "parts", TrainOptions(), changes=changes)
    run = resume(tmp_path / "parts", {}, TrainOptions()).run
    assert outcome_of(tmp_path / "parts") == outcome_of(tmp_path / "whole")
    assert [one.after for one in transfer_reports(run)] == [
        one.after for one in transfer_reports(load_run(tmp_path / "whole"))
    ]


@pytest.mark.parametrize(
    ("more", "columns", "message"),
    [
        ("1,2,A,green\n", "", r"new.csv has what .*old cannot learn.*\n  - line 42: 'green' is no"),
        ("1,2,A,green\n", "", "'colour' that was learned; they are: blue, red"),
        ("", "x,y,shop,hue", "new.csv has no column 'colour', which is to be foretold"),
        ("", "x,why,shop,colour", "new.csv: there is no column 'y'"),
        ("far,2,A,red\n", "", "line 42: 'far' in the column 'x'"),
    ],
)
@pytest.mark.parametrize("online", [False, True])
def test_a_table_that_does_not_fit_is_refused(
    online: bool, more: str, columns: str, message: str, table: Run, tmp_path: Path
) -> None:
    new = write(tmp_path / "new.csv", 40, more=more)
    if columns:
        new.write_text(new.read_text().replace("x,y,shop,colour", columns))
    with pytest.raises(DataError, match=message):
        finetune(table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), online=online)
    assert not (tmp_path / "finetune_on").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.outputs": 3}, "do not fit these settings of the model: outputs: 2 → 3"),
        ({"data.target": "x"}, "learned with other settings of the data: target: 'colour' → 'x'"),
        ({"data.categories": "x"}, r"categories: \(\) → \('x',\). Leave them out, or train from"),
        ({"train.stepps": 3}, "there is no setting 'train.stepps'. Did you mean 'train.steps'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    changes: dict[str, Any], message: str, table: Run, tmp_path: Path
) -> None:
    new = write(tmp_path / "new.csv", 40)
    with pytest.raises(ConfigError, match=message):
        finetune(table.folder, str(new), tmp_path / "finetune_on", TrainOptions(), changes=changes)


def test_from_takes_a_table_too(table: Run, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", 60, seed=3)
    changes = FEW | {"data.target": "colour", "train.steps": 1, "train.learning_rate": 1e-12}
    recipe = resolve_recipe("table", data=str(new), model="softmax", changes=changes).recipe
    run = train_recipe(recipe, tmp_path / "new", TrainOptions(init_from=table.folder)).run
    assert run.vocabulary == table.vocabulary and transfer_reports(run) == []
    for name, weight in table.task.weights().items():
        torch.testing.assert_close(run.task.weights()[name], weight, atol=1e-9, rtol=1e-6)


def test_old_data_that_is_gone_or_changed_is_said(table: Run, tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", 60)
    changes = FEW | {"data.target": "colour", "train.steps": 2}
    recipe = resolve_recipe("table", data=str(old), model="softmax", changes=changes).recipe
    first = train_recipe(recipe, tmp_path / "first", TrainOptions()).run
    run = finetune(
        first.folder,
        str(write(tmp_path / "new.csv", 60, seed=3)),
        tmp_path / "finetune_on",
        TrainOptions(),
    )
    write(old, 60, turned=True)
    [_, on_old] = transfer_reports(run.run)
    assert not on_old.after and "is not what it was when the run began" in on_old.reason
    assert "not known: the training data" in describe_transfer([on_old])[0]
    old.unlink()
    assert "There is no file" in transfer_reports(run.run)[1].reason
    assert transfer_reports(run.run)[0].after  # that of the new data is known all the same


def test_the_run_itself_is_never_replaced(table: Run, tmp_path: Path) -> None:
    before = contents(table.folder)
    new = write(tmp_path / "new.csv", 40)
    with pytest.raises(RunError, match="is the run to start from, and would be replaced"):
        finetune(table.folder, str(new), table.folder, TrainOptions(overwrite=True))
    assert contents(table.folder) == before


def test_where_it_goes() -> None:
    assert default_finetune_folder(Path("runs/mine")) == Path("runs/mine-on")
    assert default_finetune_folder(Path("elsewhere/mine"), online=True) == Path("runs/mine-online")
    assert default_finetune_folder(Path(".")).name == f"{Path.cwd().name}-on"


# --- the other tasks ------------------------------------------------------------------------------


def test_a_translator_goes_on(trained_runs: dict[str, Path], tmp_path: Path) -> None:
    new = tmp_path / "new.tsv"
    pairs = [f"{a}{b}Ω\tx{b}{a}ccccccccccccc" for a in "abcdef" for b in "abcdef"]
    new.write_text("\n".join(pairs) + "\n")
    told: list[str] = []
    folder = trained_runs["transformer"]
    changes = {"train.steps": 2}
    options = TrainOptions(log=told.append)
    run = finetune(folder, str(new), tmp_path / "finetune_on", options, changes=changes).run
    old = load_run(folder)
    assert run.recipe.model == old.recipe.model
    assert read_checksummed_json(run.folder / "tokenizer.json") == read_checksummed_json(
        folder / "tokenizer.json"
    )
    # answers are as long as the new data asks for, and not as the old did
    assert run.recipe.data.max_new_tokens > old.recipe.data.max_new_tokens
    assert any("of the tokens of" in line and "not in the vocabulary" in line for line in told)
    on_new, on_old = transfer_reports(run)
    assert on_new.before["loss"] > on_new.after["loss"]
    assert on_old.before["loss"] == old.evaluate()["loss"]


def test_a_model_of_text_goes_on(tmp_path: Path) -> None:
    texts = {name: tmp_path / f"{name}.txt" for name in ("old", "new")}
    texts["old"].write_text("the cat sat on the mat\n" * 60)
    texts["new"].write_text("the mat sat on the cat\n" * 60)
    changes = FEW | {"train.steps": 3, "model.width": 8, "train.batch_tokens": 128}
    recipe = resolve_recipe("language", data=str(texts["old"]), model="gru", changes=changes).recipe
    first = train_recipe(recipe, tmp_path / "first", TrainOptions()).run
    run = finetune(first.folder, str(texts["new"]), tmp_path / "finetune_on", TrainOptions()).run
    assert run.vocabulary.to_json() == first.vocabulary.to_json()
    on_new, on_old = transfer_reports(run)
    assert on_new.after["loss"] < on_new.before["loss"]
    assert on_old.before["perplexity"] == first.evaluate()["perplexity"]


def test_a_forecaster_goes_on_in_the_units_it_has(tmp_path: Path) -> None:
    changes = FEW | {"train.steps": 30}
    first = train_recipe(
        resolve_recipe("forecast", changes=changes).recipe, tmp_path / "first", TrainOptions()
    ).run
    new = tmp_path / "new.txt"
    new.write_text("\n".join(f"{np.cos(t / 7) + 3:.4f}" for t in range(300)) + "\n")
    run = finetune(first.folder, str(new), tmp_path / "finetune_on", TrainOptions()).run
    assert run.vocabulary == first.vocabulary
    on_new, on_old = transfer_reports(run)
    assert on_new.after["loss"] < on_new.before["loss"]
    assert on_old.before["rmse_1"] == first.evaluate()["rmse_1"]
    with pytest.raises(ConfigError, match="other settings of the data: lags: 4 → 8"):
        finetune(first.folder, str(new), tmp_path / "x", TrainOptions(), changes={"data.lags": 8})
    with pytest.raises(ConfigError, match="task forecast, which has no rows to answer one by one"):
        finetune(first.folder, str(new), tmp_path / "x", TrainOptions(), online=True)


@pytest.mark.parametrize(
    ("recipe", "model", "changes"),
    [
        ("kernel-regression", "kernel", {}),
        ("kernel-regression", "attention", {"train.steps": 2}),
        ("language", "ngram", {}),
    ],
)
def test_what_fits_itself_says_what_to_do(
    recipe: str, model: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    text = tmp_path / "old.txt"
    text.write_text("the cat sat on the mat\n" * 60)
    data = str(text) if recipe == "language" else None
    threads = {"train.threads": 1}
    found = resolve_recipe(recipe, data=data, model=model, changes=threads | changes).recipe
    first = train_recipe(found, tmp_path / "first", TrainOptions()).run
    wanted = f"{model} learns from all of its data at once.*into one file, and train on that"
    with pytest.raises(ConfigError, match=wanted):
        finetune(first.folder, str(text), tmp_path / "finetune_on", TrainOptions())


# --- the front door -------------------------------------------------------------------------------


def test_the_front_door(
    table: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("new.csv"), 60, turned=True, seed=3)
    run = saccade.train(table.folder, finetune_on="new.csv", set={"train.steps": 3})
    assert run.folder == Path("runs/old-on") and run.recipe.train.steps == 3
    said = capsys.readouterr().err.replace("\n", " ")
    assert "Before it goes on, on new.csv" in said and "held-out part of new.csv: loss" in said
    run = saccade.train(table.folder, finetune_on=Path("new.csv"), online=True, progress=False)
    assert run.folder == Path("runs/old-online") and run.task.rows_seen == 60
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"finetune_on": "new.csv", "resume": "x"}, "resume cannot be given beside that"),
        (
            {"finetune_on": "new.csv", "init_from": "x", "model": "mlp"},
            "model and init_from cannot",
        ),
        ({"online": True}, "to learn online is to go on from a run"),
    ],
)
def test_what_cannot_be_asked_for_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        saccade.train("runs/none", progress=False, **given)


def test_a_recipe_is_no_run(smallest: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="got a TranslationRecipe; on goes on from a run"):
        saccade.train(smallest(), finetune_on="new.csv", progress=False)
    with pytest.raises(RunError, match="dates is not a run"):
        saccade.train("dates", finetune_on="new.csv", progress=False)
