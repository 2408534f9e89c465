"""Readers of tagged sentences, and the schemes of their tags."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.tagging.config import TaggedTextConfig
from saccade.data.tagging.readers import read_tagged
from saccade.data.tagging.schemes import allowed_moves
from saccade.data.tagging.synthetic import generate_tagged_sentences
from saccade.errors import ConfigError, DataError
from saccade.metrics.spans import TagSpan, tag_spans
from saccade.recipes.preview import choose_task

TEXT = "Ada\tB-p\nBerg\tI-p\nsang\tO\n\t\n \t \nin\tO\nRome\tB-l\n"
SENTENCES = [(("Ada", "Berg", "sang"), ("B-p", "I-p", "O")), (("in", "Rome"), ("O", "B-l"))]


def read(content: str | bytes, folder: Path, name: str = "a.conll", **settings: Any) -> Any:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = read_tagged(str(path), TaggedTextConfig(**settings))
    return [(sentence.tokens, sentence.tags) for sentence in found]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", TEXT),
        ("a.conll", TEXT.replace("\n", "\r\n")),
        ("a.conll", b"\xef\xbb\xbf" + TEXT.encode()),
        ("a.conll", TEXT.replace("\t\n \t \n", "\n").replace("\t", " ")),
        (
            "a.txt",
            "-DOCSTART- -X- O O\n\n" + TEXT.replace("\t\n \t \n", "\n").replace("\t", " N N "),
        ),
        ("a.conll", "# a comment\n# id = 3 of 4\n" + TEXT + "\n\n"),
        ("a.conll.gz", gzip.compress(TEXT.encode())),
        ("a.conll.xz", lzma.compress(TEXT.encode())),
        ("a.conll", TEXT.encode("utf-16")),
        (
            "a.jsonl",
            "\n".join(json.dumps({"tokens": words, "ner_tags": tags}) for words, tags in SENTENCES),
        ),
    ],
    ids=["tabs", "crlf", "bom", "blanks", "conll2003", "comments", "gz", "xz", "utf-16", "jsonl"],
)
def test_formats_give_the_same_sentences(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert read(content, tmp_path, name) == SENTENCES


def test_hash_signs_are_tokens_where_they_have_a_tag(tmp_path: Path) -> None:
    assert read("#\tO\n#x y\tB-t\n", tmp_path) == [(("#", "#x y"), ("O", "B-t"))]


def test_columns_are_chosen_by_number(tmp_path: Path) -> None:
    conllu = "# text = a b\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n"
    conllu += "1\ta\tA\tDET\t_\t_\t0\t_\t_\t_\n2\tb\tB\tNOUN\t_\t_\t0\t_\t_\t_\n"
    found = read(conllu, tmp_path, token_column=2, tag_column=4, scheme="plain")
    assert found == [(("a", "b"), ("DET", "NOUN"))]
    with pytest.raises(DataError, match="got column 2 of 2 for both tokens and tags"):
        read(TEXT, tmp_path, token_column=2)
    with pytest.raises(DataError, match="got lines of 2 columns, and 3 as a column"):
        read(TEXT, tmp_path, tag_column=3)
    with pytest.raises(ValueError, match="counted from 1"):
        TaggedTextConfig(tag_column=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "got no sentences"),
        ("\n \n", "got no sentences"),
        ("one\n", "got column 1 of 1 for both"),
        ("a O\nb\n", "line 2: got 1 columns; expected 2 columns"),
        ("a\tO\nb\t\n", "line 2: got an empty cell"),
        ("a O\nb DET\nc X-y\n", r"not BIO \(line 2: 'DET', line 3: 'X-y'\).*data.scheme=plain"),
        ("a B-x\nb I-y\n", "break the scheme bio .line 2: I-y after B-x"),
        ("a S-x\nb B-x\n\nc O\n", "break the scheme bioes .line 2: O after B-x"),
    ],
)
def test_unreadable_lines_are_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(content, tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "got a list; expected an object"),
        ('{"tokens": ["a"]}', "got no list of strings as tags"),
        ('{"tokens": ["a"], "tags": [1]}', "got no list of strings as tags"),
        ('{"tokens": ["a", "b"], "tags": ["O"]}', "got 2 tokens and 1 tags"),
        ("{", "line 1"),
    ],
)
def test_unreadable_json_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(line, tmp_path, "a.jsonl")


def test_data_in_memory_is_read_in_three_forms() -> None:
    pairs = [(["a", "b"], ["O", "B-x"])]
    config = TaggedTextConfig()
    for data in (pairs, [{"words": ["a", "b"], "labels": ["O", "B-x"]}], tuple(pairs)):
        [found] = read_tagged(data, config)
        assert (found.tokens, found.tags) == (("a", "b"), ("O", "B-x"))
    with pytest.raises(DataError, match="item 1: got a str"):
        read_tagged(["ab c"], config)
    with pytest.raises(DataError, match="got a int; expected a list"):
        read_tagged(3, config)


# --- schemes --------------------------------------------------------------------------------------


@st.composite
def spans_of_a_row(draw: st.DrawFn) -> tuple[int, list[TagSpan]]:
    """Draw a length and spans that do not overlap."""
    at, spans = 0, []
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("xy")), max_size=4)
    ):
        spans.append(TagSpan(at + gap, at + gap + size, label))
        at += gap + size
    return at + draw(st.integers(1, 2)), spans


def written(length: int, spans: list[TagSpan], scheme: str) -> list[str]:
    """Return the tags of spans by the definition of each scheme."""
    tags = ["O"] * length
    for number, (start, end, label) in enumerate(spans):
        follows = number and spans[number - 1][1:] == (start, label)
        for at in range(start, end):
            letter = "B" if at == start and (scheme != "iob1" or follows) else "I"
            if scheme == "bioes" and at == end - 1:
                letter = "S" if at == start else "E"
            tags[at] = f"{letter}-{label}"
    return tags


@given(
    st.lists(spans_of_a_row(), min_size=1, max_size=3), st.sampled_from(["bio", "iob1", "bioes"])
)
def test_every_scheme_is_read_as_the_same_spans(
    rows: list[tuple[int, list[TagSpan]]], scheme: Any
) -> None:
    data = [(["w"] * length, written(length, spans, scheme)) for length, spans in rows]
    found = read_tagged(data, TaggedTextConfig(scheme=scheme))
    assert [tag_spans(sentence.tags) for sentence in found] == [spans for _, spans in rows]
    inferred = read_tagged(data, TaggedTextConfig())
    assert [tag_spans(sentence.tags) for sentence in inferred] == [spans for _, spans in rows]


def test_allowed_moves_are_those_of_bio() -> None:
    tags = ["O", "B-x", "I-x", "I-y"]
    moves, starts = allowed_moves(tags, is_bio=True)
    assert starts.tolist() == [True, True, False, False]
    refused = {(tags[a], tags[b]) for a in range(4) for b in range(4) if not moves[a, b]}
    assert refused == {("O", "I-x"), ("O", "I-y"), ("B-x", "I-y"), ("I-x", "I-y"), ("I-y", "I-x")}
    assert allowed_moves(tags, is_bio=False).moves.all()


def test_conll_files_are_recognised_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "a.conll.gz").write_bytes(gzip.compress(TEXT.encode()))
    found = choose_task(str(tmp_path / "a.conll.gz"), {})
    assert found.task == "tag" and "ends with .conll" in found.reason


def test_columns_of_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="no such column of sentences"):
        TaggedTextConfig(split_column="part")
    assert issubclass(ConfigError, Exception)


def test_generated_sentences_are_distinct_and_valid() -> None:
    found = generate_tagged_sentences()
    assert found == generate_tagged_sentences()
    assert len({sentence.tokens for sentence in found}) == len(found)
    labels = {span.label for sentence in found for span in tag_spans(sentence.tags)}
    assert labels == {"amount", "date", "person", "location", "time"}
    read_tagged([(s.tokens, s.tags) for s in found], TaggedTextConfig(scheme="bio"))
