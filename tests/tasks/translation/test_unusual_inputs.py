"""Translators on unusual inputs: a prediction for every line, whatever it contains."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.cli.main import run as run_command
from saccade.data.tokenizers import MAX_CHARS_PER_TOKEN, Tokenizer, train_tokenizer, truncate
from saccade.errors import DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe

MAX_LENGTH = 40
WORDS = "the a man woman dog red blue runs sits über Straße 3 15 , . !".split()

UNUSUAL_LINES = [
    "",
    " ",
    "   \t ",
    "\t",
    "a man\tsits",
    "  the dog  runs ",
    "🦊🦊 👩‍👩‍👧‍👦 🏳️‍🌈",
    "שלום עולם",
    "مرحبا بالعالم",
    "\u202eevil\u202c",
    "漢字とかな 한국어",
    "𒀀𒀁 𐍈 ꙮ",
    "\x00\x01\x07\x1b[31m\x7f",
    "\x0b\x0c\x1c\x85\u2028\u2029",
    "a\rb",
    "\ufeffthe man",
    "\ufeff",
    "e\u0301\u0301\u0301 Z̵̡̢a̶l̷g̸o̵",
    "\ufffd\ufffe\uffff",
    "3.14159 1e400 -0 ½ ٣ Ⅷ",
    "1234567890" * 3,
    "THE MAN SITS!!!???",
    "<unk> <s> </s> ▷ ⏎ [PAD]",
    "'; DROP TABLE runs; --",
    "no-break\u00a0space\u2009thin\u3000wide",
    "the dog runs , " * 30,  # longer than the limit
    "x" * 5000,
    "é" * 5000,
    "🦊" * 3000,
    " " * 5000,
    "the man .",
]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(5)
    path = tmp_path_factory.mktemp("sentences") / "pairs.tsv"
    lines = dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(200))
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(sentences: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A BPE translator after a few steps, by name; `learned` has learned positions."""
    made: dict[str, Run] = {}
    root = tmp_path_factory.mktemp("unusual")

    def make(name: str) -> Run:
        if name not in made:
            found = resolve_recipe(str(sentences), model=model_of(name), changes=changes(name))
            train_recipe(found.recipe, root / name, TrainOptions())
            torch.set_num_threads(1)
            made[name] = load_run(root / name)
        return made[name]

    return make


def model_of(name: str) -> str:
    return "transformer" if name == "learned" else name


def changes(name: str) -> dict[str, Any]:
    deep = {"model.depth": 1, "model.heads": 2} if model_of(name) == "transformer" else {}
    # fewer positions than max_new_tokens: the search must stay within them
    learned = {"model.positions": "learned", "model.max_positions": 30} if name == "learned" else {}
    return {
        "data.tokenizer.kind": "bpe",
        "data.tokenizer.size": 300,
        "data.max_length": MAX_LENGTH,
        "data.max_new_tokens": 50 if name == "learned" else 12,
        "data.on_too_long": "skip",
        "model.width": 8,
        "train.steps": 10,
        "train.batch_tokens": 128,
        "train.evaluate_every": 10,
        "train.threads": 1,
        **deep,
        **learned,
    }


MODELS = ("bahdanau", "transformer", "learned")


@pytest.mark.parametrize("model", MODELS)
def test_predict_file_answers_every_unusual_line(
    model: str,
    runs: Callable[[str], Run],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saccade.cli.predict_file.MAX_PRINTED_WARNINGS", 99)
    opened = runs(model)
    path, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    broken = [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80 half", b"\xf0\x9f\xa6"]
    path.write_bytes(b"".join(line + b"\n" for line in [*map(str.encode, UNUSUAL_LINES), *broken]))
    command = ["predict", str(opened.folder), "--file", str(path)]
    assert run_command([*command, "--json", "--out", str(out)]) == 0
    stderr = capsys.readouterr().err
    values = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    # of "source TAB target" the source is read
    sources = [line.replace("a man\tsits", "a man") for line in UNUSUAL_LINES]
    assert [value["source"] for value in values[: len(UNUSUAL_LINES)]] == sources
    assert len(values) == len(UNUSUAL_LINES) + len(broken)
    assert f"line {UNUSUAL_LINES.index('x' * 5000) + 1} is longer than this model takes" in stderr
    for value in values:
        text = opened.predictor.truncate(value["source"])
        single = opened.predict(text)
        assert value["text"] == single.text
        assert value["score"] == pytest.approx(single.score, abs=1e-4)
    assert run_command(command) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(values)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_predictor_accepts_sources_of_maximum_length(
    model: str, beam: int, runs: Callable[[str], Run]
) -> None:
    """Sources and answers up to the last position; attention maps read the answer in one pass."""
    opened = runs(model)
    source = opened.predictor.truncate("the dog runs , " * 30)
    tokens = len(opened.preprocessor.source.encode(source))
    assert tokens <= opened.predictor.max_length == (29 if model == "learned" else MAX_LENGTH)
    assert tokens > opened.predictor.max_length - 5  # the longest prefix that fits
    assert opened.predict(source, beam=beam).score < 0
    attention_maps = opened.inspector.attention_maps(source)
    assert {
        map.weights.shape[1] for (kind, *_), map in attention_maps.items() if kind == "cross"
    } == {tokens + 1}
    with pytest.raises(DataError, match=f"expected at most {opened.predictor.max_length} tokens"):
        opened.predict("the dog runs , " * 30)


def test_look_refuses_answers_beyond_the_last_position(runs: Callable[[str], Run]) -> None:
    with pytest.raises(
        DataError, match=r"got an answer of 40 tokens; expected at most 29, the learned positions"
    ):
        runs("learned").look("the dog", answer="#" * 40)


def test_predict_file_tokenizes_only_a_prefix_of_huge_lines(
    runs: Callable[[str], Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened = runs("bahdanau")
    tokenizer = type(opened.preprocessor.source)
    lengths: list[int] = []
    encode, encode_many = tokenizer.encode, tokenizer.encode_many

    def spied(self: Any, text: str) -> list[int]:
        lengths.append(len(text))
        return encode(self, text)

    def spied_many(self: Any, texts: list[str]) -> list[list[int]]:
        lengths.extend(map(len, texts))
        return encode_many(self, texts)

    monkeypatch.setattr(tokenizer, "encode", spied)
    monkeypatch.setattr(tokenizer, "encode_many", spied_many)
    for line in ("x" * 10_000_000, "the dog 🦊 " * 1_000_000):
        (tmp_path / "in.txt").write_text(f"the man\n{line}\nthe dog\n", encoding="utf-8")
        assert run_command(["predict", str(opened.folder), "--file", str(tmp_path / "in.txt")]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3
    assert max(lengths) <= MAX_LENGTH * MAX_CHARS_PER_TOKEN


def test_predict_file_of_an_empty_file_is_empty(
    runs: Callable[[str], Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes(b"")
    assert (
        run_command(["predict", str(runs("bahdanau").folder), "--file", str(tmp_path / "in.txt")])
        == 0
    )
    assert capsys.readouterr() == ("", "")


# --- truncation -----------------------------------------------------------------------------------

TOKENIZERS = {
    kind: train_tokenizer(kind, ["a b ab abab é 🦊", "ba a"]) for kind in ("character", "word")
} | {"bpe": train_tokenizer("bpe", ["abab abab é 🦊"], 270)}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(
    text=st.text(st.sampled_from("ab é🦊\t") | st.characters(categories=None), max_size=60),
    max_length=st.integers(0, 12),
)
def test_truncate_returns_a_prefix_within_the_limit(kind: str, text: str, max_length: int) -> None:
    tokenizer: Tokenizer = TOKENIZERS[kind]
    prefix = truncate(text, tokenizer, max_length)
    assert text.startswith(prefix)
    assert len(tokenizer.encode(prefix)) <= max_length
    if len(tokenizer.encode(text)) <= max_length and len(text) <= MAX_CHARS_PER_TOKEN * max_length:
        assert prefix == text
    elif kind == "character" and len(text) <= MAX_CHARS_PER_TOKEN * max_length:
        # one more character does not fit, unless it composes with the one before
        assert len(tokenizer.encode(text[: len(prefix) + 1])) > max_length


def test_truncate_tokenizes_only_a_prefix_of_huge_texts() -> None:
    text = "x" * 10_000_000
    assert len(truncate(text, TOKENIZERS["word"], 5)) == 5 * MAX_CHARS_PER_TOKEN
    assert truncate(text, TOKENIZERS["character"], 5) == "xxxxx"
