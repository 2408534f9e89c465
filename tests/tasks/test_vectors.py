"""Word vectors as a task: fitted, stopped, gone on with, asked, judged, refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors import word2vec
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, load_run, resume, train_recipe
from saccade.tasks import word_models
from saccade.tasks.vectors import WordVectorsTask

MODELS = ("cbow", "fasttext", "glove", "one_hot", "skipgram", "svd")
SMALL = {
    "cbow": {"model.width": 16, "model.epochs": 2},
    "fasttext": {"model.width": 16, "model.epochs": 1},
    "glove": {"model.width": 16, "model.epochs": 3},
    "one_hot": {},
    "skipgram": {"model.width": 16, "model.epochs": 2},
    "svd": {"model.width": 16},
}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cats and dogs do one thing, sun and moon another; both in two hundred ways."""
    random = np.random.default_rng(1)
    lines = []
    for _ in range(1500):
        some = [("cat", "dog"), ("sun", "moon")][int(random.integers(2))]
        done = {"cat": ("eats", "runs", "sleeps"), "sun": ("shines", "rises", "sets")}[some[0]]
        lines.append(f"the {some[int(random.integers(2))]} {done[int(random.integers(3))]} today .")
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fitted(book: Path, folder: Path, model: str, **more: object) -> WordVectorsTask:
    """A run of one thread."""
    changes = {"train.threads": 1, **SMALL[model], **more}
    recipe = resolve_recipe("vectors", data=str(book), model=model, changes=changes).recipe
    task: WordVectorsTask = train_recipe(recipe, folder, TrainOptions()).run.task
    return task


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_fitted_kept_and_asked(model: str, book: Path, tmp_path: Path) -> None:
    task = fitted(book, tmp_path / "run", model)
    again = load_run(tmp_path / "run")
    assert np.array_equal(task.unit_vectors, again.task.unit_vectors)
    assert np.allclose(np.linalg.norm(task.unit_vectors, axis=1), 1, atol=1e-5)
    answer = again.predict("cat", n_best=3)
    assert len((answer, *answer.alternatives)) == 3 and "cat" not in answer.text
    assert (tmp_path / "run" / "report" / "words.png").exists() or len(task.lexicon.words) < 103
    assert all(finding.passed for finding in again.check() if finding.num_inputs)


@pytest.mark.parametrize("model", ["cbow", "fasttext", "glove", "skipgram", "svd"])
def test_words_that_do_the_same_are_near_each_other(model: str, book: Path, tmp_path: Path) -> None:
    more = {"model.epochs": 40} if model != "svd" else {}
    if model in ("cbow", "skipgram", "fasttext"):
        more["model.subsample"] = 0
    task = fitted(book, tmp_path / "run", model, **more)
    [[cat_dog, cat_sun, _], [_, sun_moon, _]] = [
        [float(task.cosines(pair)[0, 1]) for pair in pairs]
        for pairs in (
            (("cat", "dog"), ("cat", "sun"), ("dog", "moon")),
            (("cat", "moon"), ("sun", "moon"), ("dog", "sun")),
        )
    ]
    apart = 0 if model == "glove" else 0.1  # its vectors have much in common on so small a text
    assert cat_dog > cat_sun + apart and sun_moon > cat_sun + apart


@pytest.mark.parametrize("model", ["cbow", "fasttext", "skipgram"])
def test_the_held_out_loss_falls_and_a_seed_repeats(model: str, book: Path, tmp_path: Path) -> None:
    one = fitted(book, tmp_path / "one", model)
    two = fitted(book, tmp_path / "two", model)
    assert np.array_equal(one.unit_vectors, two.unit_vectors)
    other = fitted(book, tmp_path / "other", model, **{"train.seed": 2})
    assert not np.array_equal(one.unit_vectors, other.unit_vectors)
    long = fitted(book, tmp_path / "long", model, **{"model.epochs": 20})
    assert long.evaluate("dev")["loss"] < one.evaluate("dev")["loss"] < 6 * np.log(2)


@pytest.mark.parametrize("model", ["glove", "skipgram"])
def test_stopped_and_gone_on_with_is_the_same_bits(
    model: str,
    book: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_once_saved: Callable[[Callable[[], object]], int],
) -> None:
    monkeypatch.setattr(word2vec, "WORDS_PER_BLOCK", 256)
    monkeypatch.setattr(word2vec, "REPORT_INTERVAL_SECONDS", 0.01)
    more = {"model.epochs": 150 if model == "skipgram" else 12}
    whole = fitted(book, tmp_path / "whole", model, **more)
    assert killed_once_saved(lambda: fitted(book, tmp_path / "killed", model, **more)) > 0
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    gone_on = resume(tmp_path / "killed", {}, TrainOptions()).run.task
    assert np.array_equal(whole.unit_vectors, gone_on.unit_vectors)
    assert not (tmp_path / "killed" / "checkpoint" / "fitting.safetensors").exists()


def test_an_unseen_word_has_a_vector_where_there_are_subwords(book: Path, tmp_path: Path) -> None:
    task = fitted(book, tmp_path / "run", "fasttext")
    assert task.predict(["eatsruns"])[0].text
    with pytest.raises(DataError, match="'xqzw' has no vector"):
        task.predict(["xqzw"])


def test_analogies_and_judgments_are_scored(book: Path, tmp_path: Path) -> None:
    run = load_run(fitted_folder(book, tmp_path))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("# a comment\ncat\tdog\t9.5\ncat\tsun\t1\ncat\txqzw\t1\n")
    figures = run.evaluate(pairs)
    assert figures["pairs"] == 1.0 and figures["pairs_covered"] == pytest.approx(2 / 3)
    questions = tmp_path / "questions.txt"
    questions.write_text(": beasts\ncat dog sun moon\nCat Dog Sun xqzw\n: all\ncat dog moon sun\n")
    figures = run.evaluate(questions)
    assert figures["questions_covered"] == pytest.approx(2 / 3)
    assert set(figures) >= {"questions", "questions beasts", "questions all"}


def fitted_folder(book: Path, tmp_path: Path) -> Path:
    """A run that has learned enough to be judged."""
    more = {"model.epochs": 40, "model.subsample": 0}
    fitted(book, tmp_path / "run", "skipgram", **more)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 words"),
        ("one one one one one one\n", "1 different"),
        ("a b c d e f\n", "fewer than 2 of them are there 5 times"),
    ],
)
def test_a_text_that_teaches_nothing_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        fitted(path, tmp_path / "run", "skipgram")


def test_questions_that_cannot_be_asked_are_refused(book: Path, tmp_path: Path) -> None:
    task = fitted(book, tmp_path / "run", "skipgram")
    for text, said in (
        ("catt", "Did you mean 'cat'"),
        ("cat dog", "there is no sign"),
        ("cat -", "after the last sign"),
        ("", "a word was wanted"),
    ):
        with pytest.raises(DataError, match=said):
            task.predict([text])
    with pytest.raises(ConfigError, match="one-hot"):
        words = " ".join(f"w{number}" for number in range(word_models.MAX_ONE_HOT_WORDS + 1))
        many = tmp_path / "many.txt"
        many.write_text(words)
        fitted(many, tmp_path / "many", "one_hot", **{"data.min_count": 1})


def test_nothing_of_it_loads_torch(book: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code = (
        "import sys, json\n"
        "from saccade.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "for args in json.loads(sys.argv[1]):\n"
        "    assert CliRunner().invoke(app, args).exit_code == 0, args\n"
        "assert 'torch' not in sys.modules\n"
    )
    asked = [
        ["train", "vectors", "--data", str(book), "--set", "model.epochs=1", "--out", str(folder)],
        ["predict", str(folder), "cat"],
        ["evaluate", str(folder)],
        ["look", str(folder), "cat", "dog", "--save", str(tmp_path / "map.png")],
        ["export", str(folder), "--to", "word2vec", "--out", str(tmp_path / "out.txt")],
        ["train", "classify", "--out", str(tmp_path / "classify")],
        ["predict", str(tmp_path / "classify"), "mardi 5 mars 2024"],
    ]
    subprocess.run([sys.executable, "-c", code, json.dumps(asked)], check=True, timeout=120)
    assert (tmp_path / "map.png").exists()
