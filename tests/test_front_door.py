"""`saccade.train`, `finetune`, `compare` and `load`, with data in files and in memory."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.data.parallel.readers import read_pairs
from saccade.data.points import read_points
from saccade.data.prediction_inputs import list_inputs
from saccade.data.records.open import open_records
from saccade.data.task_records import RoleOptions, is_in_memory, write_records
from saccade.data.text.corpus import open_text_corpus
from saccade.data.time_series import read_series
from saccade.errors import ConfigError, DataError, RunError

QUICK = {
    "data.max_new_tokens": 8,
    "model.width": 8,
    "train.steps": 2,
    "train.evaluate_every": 2,
    "train.batch_tokens": 128,
    "train.threads": 1,
}
QUICK_TABLE = {"train.steps": 2, "train.evaluate_every": 2, "train.threads": 1}
WORDS = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ij"]
PAIRS = [(word, word[::-1]) for word in WORDS]


FRAMES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "arrow": lambda records: pytest.importorskip("pyarrow").Table.from_pylist(records),
    "pandas": lambda records: pytest.importorskip("pandas").DataFrame(records),
    "polars": lambda records: pytest.importorskip("polars").DataFrame(records),
}
PAIR_RECORDS = [{"source": source, "target": target} for source, target in PAIRS]
PAIR_DATA: dict[str, Callable[[], Any]] = {
    "tuples": lambda: PAIRS,
    "lists": lambda: [list(pair) for pair in PAIRS],
    "mappings": lambda: PAIR_RECORDS,
    "mappings in another order": lambda: [
        {"target": record["target"], "source": record["source"]} for record in PAIR_RECORDS
    ],
    "mappings with other keys": lambda: [{"en": a, "fr": b} for a, b in PAIRS],
    "generator": lambda: (pair for pair in PAIRS),
    "array": lambda: np.array(PAIRS),
    "columns": lambda: {"source": WORDS, "target": [word[::-1] for word in WORDS]},
    **{name: lambda make=make: make(PAIR_RECORDS) for name, make in FRAMES.items()},
}


def table_records(count: int = 60) -> list[dict[str, Any]]:
    return [
        {"a": at % 7, "b": (at * 5) % 11 / 4, "answer": "yes" if at % 7 > 3 else "no"}
        for at in range(count)
    ]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- import -------------------------------------------------------------------------------------


def test_import_loads_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, saccade\n"
        "saccade.train, saccade.finetune, saccade.compare, saccade.load, saccade.Prediction\n"
        "print(*(name for name in ('torch', 'matplotlib', 'numba') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_package_has_its_public_names() -> None:
    assert all(getattr(saccade, name) for name in saccade.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        saccade.trian  # type: ignore[attr-defined]  # noqa: B018


# --- train and load -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PAIR_DATA)
def test_pairs_in_memory_are_written_as_they_are(kind: str, tmp_path: Path) -> None:
    data = PAIR_DATA[kind]()
    assert is_in_memory(data)
    path = write_records(open_records(data), tmp_path / "new" / "run.v2")
    assert path == tmp_path / "new" / "run.v2.jsonl"
    assert list(read_pairs(path)) == PAIRS


def test_train_in_memory_equals_training_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    options: dict[str, Any] = {"model": "bahdanau", "set": QUICK, "progress": False}
    from_file = saccade.train("translate", data="pairs.tsv", out="file", **options)
    from_list = saccade.train("translate", data=iter(PAIRS), **options)
    assert from_list.folder == Path("runs/translate") and Path("runs/data/translate.jsonl").exists()
    assert from_list.metadata["data"] == from_file.metadata["data"]
    expected = from_file.predict(WORDS[:3])
    assert from_list.predict(WORDS[:3]) == expected
    opened = saccade.load("runs/translate")
    assert opened.predict(WORDS[:3]) == expected
    single = opened.predict(WORDS[0])
    assert single.text == expected[0].text
    assert single.score == pytest.approx(expected[0].score, abs=1e-5)
    assert opened.evaluate() == from_list.evaluate()
    assert isinstance(opened, saccade.Run) and isinstance(single, saccade.Prediction)


def test_train_file_and_recipe_object(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    run = saccade.train(Path("pairs.tsv"), model="seq2seq", set=QUICK, progress=False)
    assert run.folder == Path("runs/pairs") and run.recipe.model_name == "seq2seq"
    again = saccade.train(
        run.recipe,
        data=PAIR_RECORDS,
        model="bahdanau",
        set={"model.width": 4, "train.seed": 5},
        out="again",
        progress=False,
    )
    assert again.recipe.model_name == "bahdanau"
    assert again.recipe.train.model_dump()["seed"] == 5
    assert again.recipe.train.steps == run.recipe.train.steps
    assert again.data_name.endswith("data/again.jsonl")


@pytest.mark.parametrize("kind", FRAMES)
def test_table_frame_is_trained_and_predicted(kind: str) -> None:
    make = FRAMES[kind]
    frame = make(table_records())
    run = saccade.train(
        "table", data=frame, target="answer", model="softmax", set=QUICK_TABLE, progress=False
    )
    assert run.recipe.task == "table" and Path("runs/data/table.jsonl").exists()
    evaluation = run.evaluate()
    assert isinstance(evaluation, saccade.Evaluation) and "majority class" in evaluation.floors
    inputs = [{"a": record["a"], "b": record["b"]} for record in table_records(3)]
    predictions = run.predict(make(inputs))
    assert predictions == run.predict(inputs) and len(predictions) == 3
    assert run.predict(inputs[0]) == predictions[0]


def test_table_missing_values_are_empty_cells(tmp_path: Path) -> None:
    rows = [{"a": 0.1, "b": None}, {"a": float("nan"), "b": "x,y"}, {"b": 'q"', "c": True}]
    path = write_records(open_records(rows), tmp_path / "table")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["a"] for line in lines] == ["0.1", None, None]
    assert lines[2] == {"a": None, "b": 'q"', "c": "true"}


def test_labelled_texts_in_memory(tmp_path: Path) -> None:
    many = [{"mood": "good", "review": f"fine {n}"} for n in range(30)]
    many += [{"mood": "bad", "review": f"poor {n}"} for n in range(30)]
    quick = {"model.word_ngrams": 1, "model.char_ngrams": 0, "model.penalty": 1, "train.threads": 1}
    run = saccade.train("classify", data=many, target="mood", set=quick, progress=False)
    assert run.predict("fine 3").text in ("good", "bad")
    assert (run.recipe.data.label, run.recipe.data.text) == ("mood", "review")
    again = saccade.train(
        "classify", data=many, text="review", label="mood", set=quick, out="again", progress=False
    )
    assert again.metadata["data"] == run.metadata["data"]
    assert run.predict(many)[0] == run.predict("fine 0") and len(run.predict(many)) == 60
    assert run.evaluate(many)["examples"] == 60
    renamed = [{"class": row["mood"], "words": row["review"]} for row in many]
    with pytest.raises(DataError, match="got no column 'review', the text.*--text NAME"):
        run.evaluate(renamed)
    columns = {"text": "words", "label": "class"}
    assert run.evaluate(renamed, columns=columns) == run.evaluate(many)
    with pytest.raises(
        ConfigError, match="--source x; the columns that classify takes are: --text"
    ):
        run.evaluate(renamed, columns={"source": "x"})


def test_numbers_and_texts_in_memory(tmp_path: Path) -> None:
    path = write_records(open_records([(1, 0.1), (3, 2)]), tmp_path / "points")
    points = read_points(path)
    assert (points.x.tolist(), points.y.tolist()) == ([1, 3], [0.1, 2])
    path = write_records(open_records(np.arange(3) / 4), tmp_path / "x")
    assert read_series(path).values.tolist() == [0, 0.25, 0.5]
    path = write_records(open_records([{"day": 1, "sold": 2}]), tmp_path / "y")
    assert read_series(path, "sold").values.tolist() == [2]
    path = write_records(open_records(["one\ntwo", "three"]), tmp_path / "z")
    corpus = open_text_corpus(path, RoleOptions(), "language")
    assert list(corpus.read()) == ["one", "two", "three"]
    assert b"".join(corpus.read_blocks()) == b"one\ntwo\nthree\n"


def test_train_forecast_of_a_list() -> None:
    values = np.sin(np.arange(300) / 9).tolist()
    run = saccade.train(
        "forecast", data=values, set={**QUICK_TABLE, "data.lags": 4}, progress=False
    )
    assert "last value" in run.evaluate().floors


def test_recipe_name_decides_how_memory_is_written() -> None:
    run = saccade.train("reverse", data=PAIRS, model="seq2seq", set=QUICK, progress=False)
    assert run.data_name.endswith("runs/data/reverse.jsonl")


def test_train_keeps_the_data_of_an_existing_run() -> None:
    options: dict[str, Any] = {"model": "seq2seq", "set": QUICK, "progress": False, "out": "run"}
    saccade.train("translate", data=PAIRS, **options)
    before = Path("data/run.jsonl").read_bytes()
    with pytest.raises(RunError, match="run already holds a run"):
        saccade.train("translate", data=PAIRS[:20], **options)
    assert Path("data/run.jsonl").read_bytes() == before
    saccade.train("translate", data=PAIRS[:20], overwrite=True, **options)
    assert len(Path("data/run.jsonl").read_text().splitlines()) == 20


def test_resume_uses_the_data_of_the_run() -> None:
    run = saccade.train("translate", data=PAIRS, model="seq2seq", set=QUICK, progress=False)
    assert saccade.train(resume=run.folder, progress=False).folder == run.folder
    with pytest.raises(ConfigError, match="got resume= and data in memory"):
        saccade.train(resume=run.folder, data=PAIRS, progress=False)


# --- finetune and compare -----------------------------------------------------------------------


def test_finetune_in_memory() -> None:
    run = saccade.train("translate", data=PAIRS, model="seq2seq", set=QUICK, progress=False)
    new = saccade.finetune(run, (pair for pair in PAIRS[::-1]), progress=False)
    assert new.folder == Path("runs/translate-finetuned")
    assert new.data_name.endswith("runs/data/translate-finetuned.jsonl")
    assert new.metadata["from"] == str(run.folder)
    new = saccade.finetune("runs/translate", "runs/data/translate.jsonl", out="new", progress=False)
    assert new.folder == Path("new")
    with pytest.raises(RunError, match="new already holds a run"):
        saccade.finetune(run, PAIRS, out="new", progress=False)


def test_compare_in_memory() -> None:
    small = {name: value for name, value in QUICK.items() if name != "train.steps"}
    options: dict[str, Any] = {"models": ["bahdanau", "seq2seq"], "set": small, "progress": False}
    found = saccade.compare("translate", data=PAIRS, steps=2, seeds=1, **options)
    assert {row.model for row in found.rows} == {"bahdanau", "seq2seq"}
    assert found.folder == Path("runs/compare-translate")
    assert Path("runs/data/compare-translate.jsonl").exists()
    path = Path("runs/data/compare-translate.jsonl")
    again = saccade.compare("translate", data=path, steps=2, seeds=1, out="other", **options)
    assert [row.model for row in again.rows] == [row.model for row in found.rows]


# --- what is refused ----------------------------------------------------------------------------


def numbers() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("translate", 3, "got a int as data; expected a path, a pandas, polars or Arrow frame"),
        ("translate", b"a\tb", "got a bytes as data; expected a path"),
        ("translate", {"source": "a"}, "got a str for 'source'; expected a mapping from column"),
        ("translate", {("a", "b")}, "got a set as data, which has no order"),
        ("translate", [], "got no rows; expected at least one"),
        (
            "translate",
            [("a", "b"), ("c",)],
            "row 2: got 1 values?; expected 2, as in the first row",
        ),
        ("translate", numbers(), "got no column that may be the source"),
        ("translate", ["ab"], "got no column that may be the target"),
        ("translate", [("a", None)], "got no pairs"),
        (
            "translate",
            [{"id": 1, "a": "b", "b": "c", "c": "d"}],
            "(?s)columns that may be the source.*--source",
        ),
        ("table", [(1, 2)], "got no column that .*the target .*--target 'column 2'"),
        ("classify", [{"a": n, "b": n / 2} for n in range(60)], "got no column that may be the"),
        ("kernel-regression", [(1, "x")], "row 1: 'x' is not a number|line 1: 'x' is not a number"),
        ("language", [{"a": 1, "b": 2}], "got no column that may be the text"),
    ],
)
def test_bad_data_in_memory_is_refused(task: str, data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        saccade.train(task, data=data, progress=False)
    assert not Path("runs", task).exists()


def test_bad_first_argument_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'got a list; .*try saccade.train\("translate", data=…\)'
    ):
        saccade.train(PAIRS, progress=False)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no recipe 'transalte'. Did you mean 'translate'"):
        saccade.train("transalte", data=PAIRS, progress=False)
    with pytest.raises(ConfigError, match="no setting 'data.label'"):
        saccade.train("reverse", label="x", progress=False)
    with pytest.raises(ConfigError, match="--label x; the columns that translate takes are: --sou"):
        saccade.train("translate", data=PAIRS, label="x", progress=False)
    with pytest.raises(RunError, match="is not a run"):
        saccade.load("nowhere")
    assert list(tmp_path.iterdir()) == []


def test_inputs_are_texts_or_the_input_column() -> None:
    given = {"source": None, "target": None}
    for data in (WORDS, iter(WORDS), np.array(WORDS), PAIR_RECORDS, PAIRS):
        assert list_inputs(data, "translate", given, (str,)) == WORDS
    for make in FRAMES.values():
        assert list_inputs(make(PAIR_RECORDS), "translate", given, (str,)) == WORDS
    with pytest.raises(DataError, match="got a int as inputs"):
        list_inputs(3, "translate", given, (str,))
    with pytest.raises(DataError, match="no order"):
        list_inputs({"a"}, "translate", given, (str,))


@pytest.mark.parametrize(
    ("what", "keyword", "value", "expected"),
    [
        ("translate", "lr", 0.1, "try set={'train.learning_rate': 0.1}"),
        ("translate", "epochs", 3, "try set={'train.steps': …}"),
        ("vectors", "epochs", 3, "try set={'model.epochs': 3}"),
        ("pairs.tsv", "minutes", 2, "try set={'train.minutes': 2}"),
        ("translate", "colour", "red", "settings are given as set={NAME: VALUE}"),
    ],
)
def test_unknown_keywords_are_answered_with_the_setting(
    what: str, keyword: str, value: Any, expected: str
) -> None:
    with pytest.raises(TypeError) as caught:
        saccade.train(what, data="pairs.tsv", **{keyword: value})
    message = f"train() got an unexpected keyword argument {keyword!r}; {expected}"
    assert str(caught.value).startswith(message)


def test_unknown_keywords_of_other_functions(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"finetune\(\) .* try set=.'train.steps': 3"):
        saccade.finetune(tmp_path, "pairs.tsv", steps=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"compare\(\) .* try set=.'train.batch_tokens': …"):
        saccade.compare("translate", batch_size=3)  # type: ignore[call-arg]
