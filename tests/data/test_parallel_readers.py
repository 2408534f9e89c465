"""Parallel text from files: every format, every odd input, every complaint."""

import gzip
import io
import json
import lzma
import os
import sys
import tracemalloc
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from saccade.data.parallel import pairs as pairs_module
from saccade.data.parallel.pairs import SentencePairs, assign_split, split_indices
from saccade.data.parallel.readers import open_pairs, read_pairs
from saccade.data.task_records import RoleOptions
from saccade.errors import ConfigError, DataError
from saccade.io import text_files
from saccade.io.text_files import read_lines

TWO = [("a b", "x y"), ("ç", "é")]
LINE = st.text(st.characters(exclude_characters="\0\n\t\r", codec="utf-8"))
FULL = LINE.filter(lambda text: text.encode().strip())
# of a file of some letters, quotation marks may enclose both columns, and control characters look
# like a binary format: neither can be decided by its content
PLAIN = st.text(st.characters(exclude_categories=("Cc",), exclude_characters='"', codec="utf-8"))
CELL = PLAIN.filter(lambda text: text.encode().strip())
MANY = st.lists(st.tuples(CELL, CELL), min_size=1)


def write(folder, name, content):
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(raw))
    return path


def complaint(spec, **options):
    with pytest.raises(DataError) as caught:
        read_pairs(spec, **options)
    return str(caught.value)


# --- formats ------------------------------------------------------------------------------------

TSV = "a b\tx y\nç\té\n"
JSONL = '{"source": "a b", "target": "x y"}\n{"target": "é", "id": 7, "source": "\\u00e7"}\n'


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.tsv", TSV),
        ("pairs.jsonl", JSONL),
        ("pairs.json", JSONL),
        ("pairs.jsonl", JSONL.replace("source", "src").replace("target", "tgt")),
        ("pairs.txt", TSV),
        ("pairs", "\n" + JSONL),
        ("pairs,2.tsv", TSV),
    ],
)
def test_read_pairs_formats_agree(tmp_path, name, content, packed):
    pairs = read_pairs(str(write(tmp_path, name + packed, content)))
    assert list(pairs) == TWO
    assert len(pairs) == 2
    assert pairs.name.endswith(name + packed)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_read_pairs_of_two_parallel_files(tmp_path, packed):
    left = write(tmp_path, "a.en" + packed, "a b\nç\n")
    right = write(tmp_path, "a.de" + packed, "x y\r\né")
    assert list(read_pairs(f"{left},{right}")) == TWO
    assert list(read_pairs(f"{left}, {right}")) == TWO
    assert list(read_pairs([left, right])) == TWO


def test_read_pairs_detects_compression_by_content(tmp_path):
    path = write(tmp_path, "pairs.tsv", gzip.compress(TSV.encode()))
    assert list(read_pairs(path)) == TWO


@given(pairs=MANY)
@example([("\u2028a\x0b\x85\x1cb", "\u2029 שלום 👩‍👩‍👧")])
@settings(deadline=None, max_examples=40)
def test_read_pairs_does_not_depend_on_the_block_size(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("pairs")
    tsv = write(folder, "p.tsv", "".join(f"{a}\t{b}\n" for a, b in pairs))
    crlf = write(folder, "c.tsv", "\ufeff" + "\r\n".join(f"{a}\t{b}" for a, b in pairs))
    rows = [json.dumps({"source": a, "target": b}, ensure_ascii=len(a) > 3) for a, b in pairs]
    jsonl = write(folder, "p.jsonl", "\n".join(rows))
    left = write(folder, "p.a", "\n".join(a for a, _ in pairs))
    right = write(folder, "p.b", "\ufeff" + "".join(b + "\r\n" for _, b in pairs))
    for size in (3, text_files.READ_BLOCK_BYTES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "READ_BLOCK_BYTES", size)
            for spec in (tsv, crlf, jsonl, [left, right]):
                got = read_pairs(spec)
                assert list(got) == pairs
                assert got.lines.tolist() == list(range(1, len(pairs) + 1))
                assert got.notes == []


def test_read_pairs_keeps_tabs_and_line_ends_of_json(tmp_path):
    path = write(tmp_path, "p.jsonl", '{"source": "a\\tb\\nc", "target": "\\u2028"}')
    assert list(read_pairs(path)) == [("a\tb\nc", "\u2028")]


def test_read_pairs_accepts_a_very_long_line(tmp_path):
    long = "näh " * 2_000_000
    pairs = read_pairs(write(tmp_path, "p.tsv", f"a\tb\n{long}\tshort\nc\td\n"))
    assert pairs[1] == (long, "short")
    assert pairs[2] == ("c", "d")


def test_read_pairs_keeps_surrounding_spaces(tmp_path):
    assert list(read_pairs(write(tmp_path, "p.tsv", "  a \t b\n"))) == [("  a ", " b")]


# --- skipped lines ------------------------------------------------------------------------------


def test_read_pairs_skips_empty_sides_and_keeps_line_numbers(tmp_path):
    path = write(tmp_path, "p.tsv", "\na\tb\n\t\n  \r\n\tx\ny\t \nc\td\n")
    pairs = read_pairs(path)
    assert list(pairs) == [("a", "b"), ("c", "d")]
    assert [pairs.line(0), pairs.line(1), pairs.line(-1)] == [2, 7, 7]
    assert sorted(pairs.notes) == [
        f"{path}: 2 pairs with an empty side were left out (lines 5, 6).",
        f"{path}: 3 empty lines were left out (lines 1, 3, 4).",
    ]


def test_read_pairs_skips_empty_sides_of_json_and_parallel_files(tmp_path):
    path = write(tmp_path, "p.jsonl", '\n{"source": "a", "target": ""}\n' + JSONL)
    pairs = read_pairs(path)
    assert list(pairs) == TWO
    assert pairs.lines.tolist() == [3, 4]
    assert pairs.notes == [f"{path}: 1 pair with an empty side was left out (line 2)."]
    left, right = write(tmp_path, "a", "a\n\nb\nc"), write(tmp_path, "b", "x\n\n\nz\n")
    pairs = read_pairs([left, right])
    assert list(pairs) == [("a", "x"), ("c", "z")]
    assert pairs.lines.tolist() == [1, 4]
    assert len(pairs.notes) == 2


def test_read_pairs_skips_pairs_beyond_the_limit(tmp_path):
    path = write(tmp_path, "p.tsv", "年年年\tb\nabcd\tb\n" + "a\t12345\n" * 6)
    pairs = read_pairs(path, limit=3)
    assert list(pairs) == [("年年年", "b")]
    assert pairs.notes == [
        f"{path}: 7 pairs with more than 3 characters on a side were left out "
        "(lines 2, 3, 4, 5, 6, …)."
    ]
    assert "got no pairs" in complaint(path, limit=0)


# --- errors -------------------------------------------------------------------------------------


def test_read_pairs_reports_a_missing_file(tmp_path):
    write(tmp_path, "pairs.tsv", TSV)
    message = complaint(tmp_path / "pair.tsv")
    assert message == f"There is no file {tmp_path / 'pair.tsv'}. Did you mean 'pairs.tsv'?"
    assert complaint(tmp_path / "zzz").endswith("Check the path; the folder has: pairs.tsv.")
    assert "there is no folder" in complaint(tmp_path / "no" / "pairs.tsv")
    assert "There is no file" in complaint(f"{tmp_path / 'pairs.tsv'},{tmp_path / 'b.de'}")
    assert "could not be opened" in complaint("x" * 5000)


def test_read_pairs_of_a_folder(tmp_path):
    assert "got no data file; expected .csv, .tsv" in complaint(tmp_path)
    write(tmp_path, "a.tsv", TSV)
    write(tmp_path, "b.tsv", "d\tz\n")
    assert list(read_pairs(str(tmp_path))) == [*TWO, ("d", "z")]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_read_pairs_reports_missing_permission(tmp_path):
    path = write(tmp_path, "pairs.tsv", TSV)
    path.chmod(0)
    assert "could not be opened: Permission denied" in complaint(path)


@pytest.mark.parametrize("spec", ["", "a,", "a,b,c", [], ["a", "b", "c"]])
def test_read_pairs_rejects_a_wrong_number_of_files(spec):
    assert "expected one file of pairs or two parallel files (a.en,a.de)" in complaint(spec)


@pytest.mark.parametrize("name", ["p.tsv", "p.jsonl", "p.txt", "p.tsv.gz"])
def test_read_pairs_reports_an_empty_file(tmp_path, name):
    path = write(tmp_path, name, "")
    assert complaint(path).startswith(f"{path}: got an empty file; expected ")
    path.write_bytes(b"")
    assert "got an empty file" in complaint(path)
    assert "got an empty file" in complaint(write(tmp_path, name, "\n \r\n\n"))
    assert "got no pairs" in complaint([path, path])


@pytest.mark.parametrize("block", [4, text_files.READ_BLOCK_BYTES])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["p.tsv", "p.txt", "p.tsv.gz"])
def test_read_pairs_reports_latin_1_with_its_line(tmp_path, monkeypatch, name, bom, block):
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", block)
    raw = bom + "été\tsummer\n".encode() + "été\tsummer\n".encode("latin1")
    message = complaint(write(tmp_path, name, raw))
    offset = raw.index(b"\xe9t")
    assert f"{name}, line 2: byte {offset} of the file (0xe9) is not UTF-8" in message
    assert "try --set data.encoding=cp1252" in message


def test_read_pairs_reports_a_truncated_character(tmp_path):
    message = complaint(write(tmp_path, "p.tsv", "a\té".encode()[:-1]))
    assert "line 1: byte 2 of the file (0xc3) is not UTF-8" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_read_pairs_of_utf_16(tmp_path, encoding):
    raw = ("\ufeff" * (encoding != "utf-16") + TSV).encode(encoding)
    pairs = read_pairs(write(tmp_path, "p.tsv", raw))
    assert list(pairs) == [("a b", "x y"), ("ç", "é")]


def test_read_pairs_lists_all_lines_with_wrong_columns(tmp_path):
    lines = ["a\tb", "one", "a\tb\tc", "", "x" * 100, "d\te"] + ["more"] * 6
    path = write(tmp_path, "p.tsv", "\n".join(lines))
    assert complaint(path).split("\n") == [
        f"{path}: 9 lines cannot be used; expected source TAB target in each line.",
        "  - line 2: got 1 column (no tab): 'one'",
        "  - line 3: got 3 columns: 'a\\tb\\tc'",
        f"  - line 5: got 1 column (no tab): '{'x' * 57}…'",
        "  - line 7: got 1 column (no tab): 'more'",
        "  - line 8: got 1 column (no tab): 'more'",
        "  … and 4 more",
        f"To keep the first two columns: cut -f1,2 {path} > new-file",
    ]


def test_read_pairs_advises_on_one_column(tmp_path):
    message = complaint(write(tmp_path, "p.tsv", "a b\nc\td\n"))
    assert ": 1 line cannot be used" in message
    assert message.endswith("or give two parallel files (a.en,a.de).")


def test_read_pairs_counts_lines_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", 64)
    message = complaint(write(tmp_path, "p.tsv", "a\tb\n" * 1000 + "bad\n" + "a\tb\n" * 9))
    assert "line 1001: got 1 column" in message


def test_read_pairs_reports_unequal_parallel_files(tmp_path, monkeypatch):
    left, right = write(tmp_path, "a.en", "a\n" * 700), write(tmp_path, "a.de", "b\n" * 69 + "b")
    for size in (64, text_files.READ_BLOCK_BYTES):
        monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", size)
        expected = f"got 700 lines in {left} and 70 in {right}; expected line n of one to be"
        assert complaint([left, right]).startswith(expected)
        assert f"got 70 lines in {right} and 700 in {left};" in complaint([right, left])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a", ', "got text that is not JSON (Expecting property name"),
        ("hello", "got text that is not JSON (Expecting value) at 'hello'"),
        ("[" * 100_000, "got JSON that is nested too deeply"),
        ('["a", "b"]', "expected named fields, as in the first row"),
        ('"a"', "expected named fields, as in the first row"),
    ],
)
def test_read_pairs_reports_bad_json_lines(tmp_path, line, message):
    text = complaint(write(tmp_path, "p.jsonl", f"{JSONL}\n{line}\n"))
    assert "p.jsonl, line 4" in text and message in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ('{"source": "a", "target": 5}', [("a", "5")]),
        ('{"source": null, "target": "b"}', []),
        ('{"en": "a", "de": "b"}', []),
    ],
)
def test_read_pairs_takes_what_other_json_lines_have(tmp_path, line, pair):
    pairs = read_pairs(write(tmp_path, "p.jsonl", f"{JSONL}\n{line}\n"))
    assert list(pairs) == TWO + pair
    assert bool(pairs.notes) != bool(pair)  # a row without a text is stated with its line
    assert all("(line 4)" in note for note in pairs.notes)


# --- columns ------------------------------------------------------------------------------------

FORMS = {
    "header.tsv": "source\ttarget\na b\tx y\nç\té\n",
    "languages.csv": "en,fr\na b,x y\nç,é\n",
    "other.csv": "id;question;answer\n1;a b;x y\n2;ç;é\n",
    "swapped.csv": '"target","source"\n"x y","a b"\n"é","ç"\n',
    "quoted.tsv": 'source\ttarget\n"a b"\t"x y"\n"ç"\t"é"\n',
    "list.json": json.dumps([{"src": a, "tgt": b} for a, b in TWO], indent=1),
    "nested.jsonl": "".join(json.dumps({"translation": {"en": a, "fr": b}}) + "\n" for a, b in TWO),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_read_pairs_finds_the_columns(tmp_path, name, encoding):
    opened = open_pairs(write(tmp_path, name, FORMS[name].encode(encoding)))
    assert list(opened.read(None)) == TWO
    assert {choice.role for choice in opened.choices} == {"source", "target"}
    assert set(opened.columns) == {"source", "target"} and opened.notes


def test_read_pairs_leaves_out_a_third_column_of_attributions(tmp_path):
    licence = "CC-BY 2.0 (France) Attribution: tatoeba.org #{} (CK)"
    pairs = [(f"Go {n}.", f"Va {n} !") for n in range(9)]
    lines = [f"{a}\t{b}\t{licence.format(n)}\n" for n, (a, b) in enumerate(pairs)]
    assert list(read_pairs(write(tmp_path, "fra.txt", "".join(lines)))) == pairs


def test_read_pairs_of_named_columns(tmp_path):
    text = "fr\tid\ten\n" + "".join(f"{b}\t{n}\t{a}\n" for n, (a, b) in enumerate(TWO))
    for name, content in (("p.tsv", text), ("p.csv", text.replace("\t", ","))):
        path = write(tmp_path, name, content)
        opened = open_pairs(path, RoleOptions(source="en", target="1"))
        assert list(opened.read(None)) == TWO and opened.choices == []
        assert opened.columns == {"source": "en", "target": "fr"}
        assert opened.read(None).lines.tolist() == [2, 3]
        with pytest.raises(DataError, match="got no column 'de', the target.*try --target NAME"):
            open_pairs(path, RoleOptions(source="en", target="de"))


def test_read_pairs_in_memory():
    for data in (TWO, [{"en": a, "de": b} for a, b in TWO], iter(TWO)):
        assert list(read_pairs(data)) == TWO
    with pytest.raises(DataError, match="row 1: got a lone surrogate"):
        read_pairs([("a\ud83d", "b"), ("c", "d")])


@pytest.mark.parametrize("first", ["time\ttemps", "text\ttexte", "name\tnom"])
def test_read_pairs_keeps_a_first_pair_that_looks_like_names(tmp_path, first):
    path = write(tmp_path, "p.tsv", f"{first}\nthe dog\tle chien\n")
    assert read_pairs(path)[0] == tuple(first.split("\t"))
    assert len(open_pairs(path, RoleOptions(header=True)).read(None)) == 1


@given(
    rows=st.lists(st.lists(FULL, min_size=5, max_size=5), min_size=1, max_size=6),
    picked=st.permutations(range(5)),
)
@settings(deadline=None, max_examples=30)
def test_read_pairs_takes_any_two_of_many_columns(tmp_path_factory, rows, picked):
    path = write(
        tmp_path_factory.mktemp("pairs"), "p.tsv", "".join("\t".join(r) + "\n" for r in rows)
    )
    options = RoleOptions(source=picked[0] + 1, target=picked[1] + 1, header=False, quoting=False)
    for size in (3, text_files.READ_BLOCK_BYTES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "READ_BLOCK_BYTES", size)
            found = open_pairs(path, options).read(None)
            assert list(found) == [(row[picked[0]], row[picked[1]]) for row in rows]


@pytest.mark.parametrize("name", ["p.tsv.gz", "p.tsv.xz"])
def test_read_pairs_reports_damaged_compression(tmp_path, name):
    path = write(tmp_path, name, os.urandom(3000).hex() + "\tb\n")
    whole = path.read_bytes()
    path.write_bytes(whole[:-500])
    assert (
        "expected one that is complete and undamaged; try to copy or download it again."
        in complaint(path)
    )
    path.write_bytes(whole[:600] + bytes(300) + whole[900:])
    assert "that is complete and undamaged" in complaint(path)
    path.write_text(TSV)
    message = complaint(path)
    assert f"got a file that is not {path.suffix}; expected" in message
    assert "rename it to p.tsv;" in message


# --- lines --------------------------------------------------------------------------------------


def test_read_lines_yields_each_line(tmp_path):
    text = "\ufeffa\r\n\n \nb\u2028c\x85\x0b\x0cd\re\n\n"
    for name in ("lines.txt", "lines.gz", "lines.xz"):
        lines = list(read_lines(write(tmp_path, name, text)))
        assert lines == ["a", "", " ", "b\u2028c\x85\x0b\x0cd\re", ""]
    assert list(read_lines(write(tmp_path, "lines", "no end"))) == ["no end"]
    assert list(read_lines(write(tmp_path, "lines", ""))) == []
    with pytest.raises(DataError, match="There is no file"):
        list(read_lines(tmp_path / "gone"))


def test_read_lines_streams_standard_input(monkeypatch):
    class Slow(io.BytesIO):
        """Gives a few bytes at a time, and fails if more is asked for than was needed."""

        def read1(self, size=-1):
            return super().read(4)

        def read(self, size=-1):
            raise AssertionError("would wait for the end")

    slow = Slow("one\ntwø\nthree".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(slow))
    lines = read_lines("-")
    assert next(lines) == "one"
    assert slow.tell() <= 8
    assert list(lines) == ["twø", "three"]
    assert not slow.closed


# --- columns ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(), st.text())), st.data())
@settings(deadline=None)
def test_sentence_pairs_behave_like_a_list(pairs, data):
    columns = SentencePairs.from_strings(iter(pairs), "made")
    assert list(columns) == pairs
    assert [columns[i] for i in range(-len(pairs), len(pairs))] == pairs + pairs
    assert columns.lines.tolist() == list(range(1, len(pairs) + 1))
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1)) if pairs else st.just([]))
    indices = np.array(chosen, dtype=np.int64)
    taken = columns.take(indices)
    assert list(taken) == [pairs[i] for i in chosen]
    assert list(columns.sources(indices)) == [pairs[i][0] for i in chosen]
    assert list(columns.targets(indices)) == [pairs[i][1] for i in chosen]
    assert [taken.line(i) for i in range(len(taken))] == [i + 1 for i in chosen]
    with pytest.raises(IndexError):
        columns[len(pairs)]


def test_sentence_pairs_of_several_chunks(monkeypatch):
    monkeypatch.setattr(pairs_module, "STRING_CHUNK", 7)
    pairs = [(f"source {i}", f"ziel {i}" * (i % 3)) for i in range(100)]
    columns = SentencePairs.from_strings(pairs, "made")
    order = np.random.default_rng(1).permutation(len(pairs))
    assert list(columns.take(order)) == [pairs[i] for i in order]


def test_sentence_pairs_are_read_only():
    columns = SentencePairs.from_strings(TWO, "made")
    for array in (columns.source.buffer, columns.target.offsets, columns.lines):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        columns.name = "other"


def test_sentence_pairs_reject_lone_surrogates():
    with pytest.raises(DataError, match="made, pair 1: got a lone surrogate .* at character 2"):
        SentencePairs.from_strings([("a\ud800", "b")], "made")


def test_sentence_pairs_take_twenty_bytes_beyond_their_text():
    tracemalloc.start()
    columns = SentencePairs.from_strings(
        ((f"number {i:06d}", f"{i:06d}") for i in range(8_000)), "made"
    )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert columns.bytes_per_pair == pytest.approx(13 + 6 + 20, abs=0.01)
    assert held / len(columns) < 1.2 * columns.bytes_per_pair  # the measured memory


# --- splits -------------------------------------------------------------------------------------


@given(st.text(), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.5))
@settings(deadline=None)
def test_assign_split_is_stable_when_a_share_grows(source, dev, test, more):
    side = assign_split(source, dev, test)
    assert side == assign_split(unicodedata.normalize("NFD", source), dev, test)
    if side == "test":
        assert assign_split(source, min(more, 1 - test), test) == "test"
    if side == "dev":
        assert assign_split(source, dev, min(more, 1 - dev)) == "dev"


def test_assign_split_is_the_same_in_every_version():
    # another hash would change the splits of every existing run
    sides = [assign_split(f"sentence {i} ü", 0.2, 0.2) for i in range(12)]
    assert " ".join(sides) == ("test test train test train dev train dev train train train train")


def test_assign_split_with_shares_of_zero_and_one():
    for dev, test, expected in ((0.0, 0.0, "train"), (1.0, 0.0, "dev"), (0.0, 1.0, "test")):
        assert {assign_split(str(i), dev, test) for i in range(300)} == {expected}


def test_split_indices_partition_the_pairs_by_source():
    pairs = SentencePairs.from_strings([(f"sätz {i % 2000}", str(i)) for i in range(4000)], "made")
    parts = split_indices(pairs, 0.1, 0.05)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(4000))
    for name, indices in parts.items():
        assert all(assign_split(source, 0.1, 0.05) == name for source in pairs.sources(indices))
        assert set(indices % 2000) == set(indices[indices < 2000])
    assert len(parts["dev"]) == pytest.approx(400, rel=0.2)
    assert len(parts["test"]) == pytest.approx(200, rel=0.2)


@pytest.mark.parametrize(
    ("dev", "test"), [(-0.1, 0.0), (0.6, 0.5), (0.0, 1.5), (float("nan"), 0.0)]
)
def test_assign_split_rejects_wrong_shares(dev, test):
    with pytest.raises(ConfigError, match="expected numbers from 0 to 1"):
        assign_split("a", dev, test)
