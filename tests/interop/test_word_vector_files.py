"""Word vectors in others' files: written here and opened there, written there and opened here."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import fasttext
import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_model
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import ConfigError, DataError
from saccade.interop.word_vectors import (
    read_binary_vectors,
    read_fasttext_model,
    read_text_vectors,
    write_binary_vectors,
    write_text_vectors,
)
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import import_run, load_run
from saccade.runs.train import TrainOptions, train_recipe

WORDS = ["the", "كتاب", "naïve", "😀", "a-b"]
ROWS = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
LINES = "the sun rises in the east\nthe moon sets in the west\nthe cat eats the mouse\n" * 50


@pytest.fixture(scope="module")
def fasttexts(
    tmp_path_factory: pytest.TempPathFactory, learned_by_fasttext: Callable[..., Path]
) -> Path:
    """A model of fastText's own."""
    text = tmp_path_factory.mktemp("fasttext") / "model.txt"
    text.write_text(LINES)
    how = {"dim": 8, "epoch": 1, "minCount": 1, "bucket": 500, "thread": 1, "t": 1.0}
    return learned_by_fasttext("train_unsupervised", text, **how)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_vector_files_round_trip_bits(numbers: list[float]) -> None:
    rows = np.array([numbers, [1, 2, 3]], np.float32)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.txt"
        write_text_vectors(path, ["a", "b"], rows)
        assert np.array_equal(read_text_vectors(path).rows, rows)


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_our_word2vec_files(binary: bool, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    (write_binary_vectors if binary else write_text_vectors)(path, WORDS, ROWS)
    theirs = KeyedVectors.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == WORDS
    assert np.array_equal(theirs.vectors, ROWS)


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_we_read_gensim_files(binary: bool, header: bool, tmp_path: Path) -> None:
    if binary and not header:
        return  # there is no such file
    theirs = KeyedVectors(7)
    theirs.add_vectors(WORDS, ROWS)
    path = tmp_path / "vectors"
    theirs.save_word2vec_format(str(path), binary=binary, write_header=header)
    found = read_binary_vectors(path) if binary else read_text_vectors(path)
    assert found.words == WORDS
    assert np.allclose(found.rows, ROWS, atol=0 if binary else 1e-6)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim's file
def test_gensim_reads_our_glove_files(tmp_path: Path) -> None:
    write_text_vectors(tmp_path / "glove.txt", WORDS, ROWS, header=False)
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "glove.txt"), no_header=True)
    assert np.array_equal(theirs.vectors, ROWS) and theirs.index_to_key == WORDS


def test_fasttext_model_vectors(fasttexts: Path, tmp_path: Path) -> None:
    theirs = fasttext.load_model(str(fasttexts))
    run = import_run("fasttext", fasttexts, tmp_path / "run")
    assert run.preprocessor.words == theirs.get_words()
    for word, ours in zip(theirs.get_words(), run.model.word_vectors(), strict=True):
        assert np.allclose(ours, theirs.get_word_vector(word), atol=1e-6)
    assert load_run(tmp_path / "run").predict("sun").text


def test_fasttext_oov_vectors(fasttexts: Path) -> None:
    theirs, gensims = fasttext.load_model(str(fasttexts)), load_facebook_model(str(fasttexts))
    found = read_fasttext_model(fasttexts)
    assert found.grams is not None
    rows = found.grams.rows("eastwards", len(found.words))
    ours = found.rows[rows].mean(0)
    assert np.allclose(ours, theirs.get_word_vector("eastwards"), atol=1e-6)
    assert np.allclose(ours, gensims.wv["eastwards"], atol=1e-6)


@pytest.mark.parametrize("layout", ["fasttext", "glove", "word2vec", "word2vec-binary"])
def test_word_vector_run_round_trip(layout: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(LINES)
    changes = {"model.epochs": 1, "model.width": 6, "train.threads": 1}
    recipe = resolve_recipe("vectors", data=str(tmp_path / "text.txt"), changes=changes).recipe
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    out = run.export(layout, tmp_path / "out.vec")
    back = import_run(layout, out, tmp_path / "back")
    assert back.preprocessor.words == run.preprocessor.words
    assert np.array_equal(back.model.unit_vectors, run.model.unit_vectors)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 2\na 1 2\nb 1 2\n", "got 2 words; expected 3 by its first line"),
        ("a 1 2\nb 1 2 3\n", "line 2"),
        ("2 2\na 1 2\nb 1\n", "line 3"),
        ("a 1 2\nb 1 x\n", "line 2"),
        ("a 1 2\nb 1 nan\n", "that are not finite"),
        ("a 1 2\na 3 4\n", "'a' more than once"),
        ("", "has no vectors"),
    ],
)
def test_read_text_vectors_refuses_invalid_files(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_text_vectors(path)


def test_read_binary_vectors_refuses_invalid_files(fasttexts: Path, tmp_path: Path) -> None:
    path = tmp_path / "vectors.bin"
    write_binary_vectors(path, WORDS, ROWS)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="the file ends in word 5"):
        read_binary_vectors(path)
    path.write_bytes(b"no header at all")
    with pytest.raises(DataError, match="two integers"):
        read_binary_vectors(path)
    with pytest.raises(DataError, match="is not a fastText model"):
        read_fasttext_model(path)
    for length in (3, 40, 100, 2000):
        path.write_bytes(fasttexts.read_bytes()[:length])
        with pytest.raises(DataError, match="is truncated"):
            read_fasttext_model(path)


def test_export_word_vectors_refuses_other_tasks(tmp_path: Path) -> None:
    changes = {"model.epochs": 1, "model.word_ngrams": 1}
    recipe = resolve_recipe("classify", model="fasttext", changes=changes).recipe
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    with pytest.raises(ConfigError, match="only word vectors"):
        run.export("word2vec", tmp_path / "out")
