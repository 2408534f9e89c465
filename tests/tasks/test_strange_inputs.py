"""A translator is given nonsense: an answer for every line, and nothing that stops a file."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.cli.main import run
from saccade.data.tokenizers import Tokenizer, train_tokenizer
from saccade.data.truncation import MAX_CHARS_PER_TOKEN, truncate_text
from saccade.errors import DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, load_run
from saccade.runs.run import train_recipe as train_run

LONGEST = 40
WORDS = "the a man woman dog red blue runs sits über Straße 3 15 , . !".split()

STRANGE = [
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
    """A translator of byte pairs, trained for a moment; `learned` has learned positions."""
    made: dict[str, Run] = {}
    root = tmp_path_factory.mktemp("strange")

    def make(name: str) -> Run:
        if name not in made:
            train_run(resolve_recipe(str(sentences), model=kind_of(name), changes=changes(name)).recipe,
                      root / name, TrainOptions())  # fmt: skip
            torch.set_num_threads(1)
            made[name] = load_run(root / name)
        return made[name]

    return make


def kind_of(name: str) -> str:
    return "transformer" if name == "learned" else name


def changes(name: str) -> dict[str, Any]:
    deep = {"model.depth": 1, "model.heads": 2} if kind_of(name) == "transformer" else {}
    # fewer places than answers may have tokens: the search, too, must stay within them
    learned = {"model.positions": "learned", "model.max_positions": 30} if name == "learned" else {}
    return {
        "data.tokenizer.kind": "bpe",
        "data.tokenizer.size": 300,
        "data.max_length": LONGEST,
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
def test_a_file_of_nonsense_is_answered_line_for_line(
    model: str,
    runs: Callable[[str], Run],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saccade.cli.predict_file.MAX_SHOWN_WARNINGS", 99)
    opened = runs(model)
    path, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    broken = [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80 half", b"\xf0\x9f\xa6"]
    path.write_bytes(b"".join(line + b"\n" for line in [*map(str.encode, STRANGE), *broken]))
    asked = ["predict", str(opened.folder), "--file", str(path)]
    assert run([*asked, "--json", "--out", str(out)]) == 0
    said = capsys.readouterr().err
    values = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [value["source"] for value in values[: len(STRANGE)]] == STRANGE
    assert len(values) == len(STRANGE) + len(broken)
    assert f"line {STRANGE.index('x' * 5000) + 1} is longer than this model takes" in said
    for value in values:
        text = opened.task.truncate(value["source"])
        alone = opened.predict(text)
        assert value["text"] == alone.text
        assert value["score"] == pytest.approx(alone.score, abs=1e-4)
    assert run(asked) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(values)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_the_longest_source_and_answer_can_be_read_again(
    model: str, beam: int, runs: Callable[[str], Run]
) -> None:
    """Up to the last place there is, and a law of `look`: the answer is read in one pass."""
    opened = runs(model)
    source = opened.task.truncate("the dog runs , " * 30)
    tokens = len(opened.task.tokenizers.source.encode(source))
    assert tokens <= opened.task.max_length == (29 if model == "learned" else LONGEST)
    assert tokens > opened.task.max_length - 5  # no more is cut than must be
    assert opened.predict(source, beam=beam).score < 0
    attention_maps = opened.task.attention_maps(source)
    assert {
        map.weights.shape[1] for (kind, *_), map in attention_maps.items() if kind == "cross"
    } == {tokens + 1}
    with pytest.raises(DataError, match=f"longer than the {opened.task.max_length} tokens"):
        opened.predict("the dog runs , " * 30)


def test_an_answer_beyond_the_last_place_is_refused(runs: Callable[[str], Run]) -> None:
    with pytest.raises(
        DataError, match=r"the answer has 40 tokens; the learned positions .* at 29"
    ):
        runs("learned").look("the dog", answer="#" * 40)


def test_a_line_of_ten_megabytes_is_never_cut_into_tokens_whole(
    runs: Callable[[str], Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened = runs("bahdanau")
    tokenizer = type(opened.task.tokenizers.source)
    seen: list[int] = []
    encode, encode_many = tokenizer.encode, tokenizer.encode_many

    def spied(self: Any, text: str) -> list[int]:
        seen.append(len(text))
        return encode(self, text)

    def spied_many(self: Any, texts: list[str]) -> list[list[int]]:
        seen.extend(map(len, texts))
        return encode_many(self, texts)

    monkeypatch.setattr(tokenizer, "encode", spied)
    monkeypatch.setattr(tokenizer, "encode_many", spied_many)
    for line in ("x" * 10_000_000, "the dog 🦊 " * 1_000_000):
        (tmp_path / "in.txt").write_text(f"the man\n{line}\nthe dog\n", encoding="utf-8")
        assert run(["predict", str(opened.folder), "--file", str(tmp_path / "in.txt")]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3
    assert max(seen) <= LONGEST * MAX_CHARS_PER_TOKEN


def test_an_empty_file_has_no_answers(
    runs: Callable[[str], Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes(b"")
    assert run(["predict", str(runs("bahdanau").folder), "--file", str(tmp_path / "in.txt")]) == 0
    assert capsys.readouterr() == ("", "")


# --- shortening -----------------------------------------------------------------------------------

TOKENIZERS = {
    kind: train_tokenizer(kind, ["a b ab abab é 🦊", "ba a"]) for kind in ("character", "word")
} | {"bpe": train_tokenizer("bpe", ["abab abab é 🦊"], 270)}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(
    text=st.text(st.sampled_from("ab é🦊\t") | st.characters(categories=None), max_size=60),
    max_length=st.integers(0, 12),
)
def test_what_is_shortened_is_a_beginning_that_fits(kind: str, text: str, max_length: int) -> None:
    tokenizer: Tokenizer = TOKENIZERS[kind]
    short = truncate_text(text, tokenizer, max_length)
    assert text.startswith(short)
    assert len(tokenizer.encode(short)) <= max_length
    if len(tokenizer.encode(text)) <= max_length and len(text) <= MAX_CHARS_PER_TOKEN * max_length:
        assert short == text
    elif kind == "character" and len(text) <= MAX_CHARS_PER_TOKEN * max_length:
        # by characters nothing more would fit, unless it is composed with the one before
        assert len(tokenizer.encode(text[: len(short) + 1])) > max_length


def test_a_text_without_end_is_cut_before_it_is_looked_at() -> None:
    text = "x" * 10_000_000
    assert len(truncate_text(text, TOKENIZERS["word"], 5)) == 5 * MAX_CHARS_PER_TOKEN
    assert truncate_text(text, TOKENIZERS["character"], 5) == "xxxxx"
