"""Delimited files and lines of text as records."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.base import CHUNK_ROWS, ReadOptions, Records
from saccade.data.records.delimited_rows import divide_cells
from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io import text_files


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(records: Records) -> list[tuple[str | None, ...]]:
    return [
        row
        for chunk in records.chunks()
        for row in zip(*(chunk.columns[name] for name in records.columns), strict=True)
    ]


def numbers_of(records: Records) -> list[int]:
    return [number for chunk in records.chunks() for number in chunk.numbers.tolist()]


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        rows_of(open_records(path, ReadOptions.model_validate(options)))
    return str(caught.value)


# --- cells of whole blocks ------------------------------------------------------------------------


@given(st.lists(st.text('a",;\n\r \x1fé', max_size=12), min_size=1, max_size=6), st.booleans())
def test_cell_division_are_those_of_the_csv_module(lines: list[str], has_quotes: bool) -> None:
    text = "".join(f"{line}\n" for line in lines)
    divided = divide_cells(text.encode(), ",", has_quotes)
    if divided is None:
        assert has_quotes or "\x1f" in text
        return
    if has_quotes:
        whole = text.encode()[: divided.size].decode()
        reader = csv.reader(io.StringIO(whole, newline="\n"), strict=True)
        starts, expected = [0], []
        for row in reader:
            expected.append(row)
            starts.append(reader.line_num)
        assert divided.lines.tolist() == starts[:-1]
    else:
        plain = text.replace("\r\n", "\n").split("\n")[:-1]
        expected = [line.split(",") if line else [] for line in plain]
    if divided.size < len(text.encode()):  # a quotation mark is not closed
        assert has_quotes and text.count('"') % 2
    assert divided.rows() == expected
    for width in (1, 2, 3):
        columns = divided.columns(width)
        assert (columns is not None) == all(len(row) == width for row in expected)
        if columns is not None:
            assert [[*row] for row in zip(*columns, strict=True)] == expected


cells = st.lists(st.text('ab",;\n ', max_size=5), min_size=2, max_size=2)


@given(st.lists(cells, min_size=1), st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
def test_quoted_cells_are_marked(rows: list[list[str]], quoting: Any) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=quoting, lineterminator="\r\n").writerows(rows)
    divided = divide_cells(written.getvalue().encode(), ",", True)
    assert divided is not None and divided.rows() == rows


@pytest.mark.parametrize(
    "text", ['a"b,c\n', '"a"b,c\n', '"a",b"\n', "a\rb,c\n", "a\x1eb\n", "a\x1fb\n"]
)
def test_other_text_is_left_to_the_csv_module(text: str) -> None:
    divided = divide_cells(text.encode(), ",", True)
    assert divided is None or not divided.size  # no whole row


# --- formats --------------------------------------------------------------------------------------

REVIEWS = [("good, very good", "1"), ('he said "no"', "0"), ("two\nlines", "1"), ("", "0")]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "\x01", "^"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_quoted_cells(tmp_path: Path, delimiter: str, line_end: str) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end)
    writer.writerows([("review", "label"), *REVIEWS])
    records = open_records(write(tmp_path, "a.csv", text.getvalue()))
    assert records.columns == ("review", "label")
    assert rows_of(records) == REVIEWS
    assert numbers_of(records) == [2, 3, 4, 6]
    assert records.delimiter == delimiter
    assert records.has_header


def test_tsv_of_pairs_has_no_header(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.tsv", "Go.\tVa !\nHi.\tSalut.\nRun!\tCours !\n"))
    assert records.format == "tsv"
    assert records.columns == ("column 1", "column 2")
    assert not records.has_header
    assert rows_of(records)[0] == ("Go.", "Va !")
    assert numbers_of(records) == [1, 2, 3]


def test_stray_quotes_are_ordinary_characters(tmp_path: Path) -> None:
    # like the sentence pairs of STS-B: plain tabs, unpaired marks at the start of a cell
    text = "score\tsentence1\tsentence2\n"
    text += '4.5\t"A man is here.\tA man is there.\n' * 2 + '1.0\tHe said "no.\t"Yes" he said.\n'
    records = open_records(write(tmp_path, "sts.tsv", text))
    assert rows_of(records)[0] == ("4.5", '"A man is here.', "A man is there.")
    assert rows_of(records)[2] == ("1.0", 'He said "no.', '"Yes" he said.')
    assert any("quotation marks are ordinary characters" in note for note in records.notes)
    records = open_records(write(tmp_path, "sts.csv", text.replace("\t", ",")))
    assert rows_of(records)[2] == ("1.0", 'He said "no.', '"Yes" he said.')


def test_quoted_sentence_in_a_tsv_keeps_its_quotes(tmp_path: Path) -> None:
    text = '"Come here," he said.\t« Viens »\n"No."\t« Non. »\nYes.\tOui.\n'
    assert rows_of(open_records(write(tmp_path, "a.tsv", text)))[1] == ('"No."', "« Non. »")


@pytest.mark.parametrize(
    "text",
    [
        'text\tn\n"a\tb"\t1\nc\t2\n',  # a delimiter inside
        'text\tn\n"a\nb"\t1\nc\t2\n',  # a line end inside
        'text\tn\n"say ""a"""\t1\nc\t2\n',  # doubled marks
        'text\tn\n"a"\t1\n"c"\t2\n',  # a column of quoted cells
    ],
)
def test_quoted_cells_of_a_tsv(tmp_path: Path, text: str) -> None:
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))[1:]
    assert rows_of(open_records(write(tmp_path, "a.tsv", text))) == list(map(tuple, expected))


def test_backslash_before_quotes(tmp_path: Path) -> None:
    text = 'text,n\n"he said \\"no, no\\"",1\n"b",2\n'
    records = open_records(write(tmp_path, "a.csv", text))
    assert rows_of(records) == [('he said "no, no"', "1"), ("b", "2")]


def test_backslashes_in_plain_text(tmp_path: Path) -> None:
    text = '3\t" He said \\"no\\" there\n' * 3 + "1\tends with a backslash\\\n" * 3
    records = open_records(write(tmp_path, "a.tsv", text))
    assert rows_of(records)[0] == ("3", '" He said \\"no\\" there')
    assert rows_of(records)[5] == ("1", "ends with a backslash\\")


@pytest.mark.parametrize(("delimiter", "name"), [(",", "commas"), ("\t", "tabs")])
def test_delimiters_in_a_free_text(tmp_path: Path, delimiter: str, name: str) -> None:
    texts = ["well, it was good", "no", "bad, really bad, and long", 'a "fine" one, or not'] * 2
    texts = [text.replace(",", delimiter) for text in texts]
    lines = [f"{n % 2}{delimiter}{text}\n" for n, text in enumerate(texts)]
    records = open_records(write(tmp_path, "a.csv", f"label{delimiter}text\n" + "".join(lines)))
    assert rows_of(records) == [(str(n % 2), text) for n, text in enumerate(texts)]
    assert f"{name} in the last column ('text') belong to its text" in records.notes
    message = complaint(write(tmp_path, "b.csv", "".join(lines)))  # are there 2 or 3 columns?
    assert "got rows of a wrong length; expected 3 cells" in message
    assert f"(column 1, column 2, column 3) with {name} between" in message


def test_one_column_with_commas(tmp_path: Path) -> None:
    text = "review\nit was good, very good\nbad, and long, and sad\nno comment at all from me\n"
    records = open_records(write(tmp_path, "a.csv", text))
    assert records.columns == ("review",)
    assert rows_of(records)[1] == ("bad, and long, and sad",)


def test_missing_last_cells_between_tabs(tmp_path: Path) -> None:
    text = "".join(f"{n}\ta{n}\tb" + "\tc\td\n" * (n % 4 == 0) + "\n" for n in range(40))
    records = open_records(write(tmp_path, "a.tsv", text))
    assert rows_of(records)[:2] == [("0", "a0", "b", "c", "d"), ("1", "a1", "b", "", "")]
    assert "some rows have 3 cells: the last ones are missing" in records.notes


def test_comments_at_the_start(tmp_path: Path) -> None:
    text = "# a table\n# of words\n# word 1\tword 2\tscore\na\tb\t1\nc\td\t2\n"
    records = open_records(write(tmp_path, "a.txt", text))
    assert records.columns == ("word 1", "word 2", "score")
    assert rows_of(records) == [("a", "b", "1"), ("c", "d", "2")]
    assert numbers_of(records) == [4, 5]
    assert records.notes[0] == "the first 2 lines are left out as comments (#)"
    text = '# made by hand\ntext,n\n"a, b",1\n"c, d" e,2\n'
    message = complaint(write(tmp_path, "b.csv", text))
    assert "line 4: got a quotation mark that opens a cell" in message
    text = "# A title\nand text, as usual\n# Another\nand more, too\n"
    assert open_records(write(tmp_path, "c.txt", text)).format == "text"
    assert numbers_of(open_records(write(tmp_path, "d.csv", "#tag,n\na,1\nb,2\n"))) == [2, 3]


def test_spaces_after_delimiters(tmp_path: Path) -> None:
    text = "".join(f"{age}, State-gov, <=50K\n" for age in range(20, 40))
    records = open_records(write(tmp_path, "adult.data", text))
    assert rows_of(records)[0] == ("20", "State-gov", "<=50K")
    records = open_records(write(tmp_path, "a.csv", 'a, b\n"x", "y, z"\n'))
    assert rows_of(records) == [("x", "y, z")]


def test_decimal_commas(tmp_path: Path) -> None:
    text = "name;price;size;code\na;1,5;1.234,5;1,a\nb;2;7;2,5\nc;-0,25e3;;x\n"
    records = open_records(write(tmp_path, "a.csv", text))
    assert rows_of(records) == [
        ("a", "1.5", "1234.5", "1,a"),
        ("b", "2", "7", "2,5"),
        ("c", "-0.25e3", "", "x"),
    ]
    assert "decimal commas are read as points in 'price', 'size'" in records.notes


def test_lines_of_text(tmp_path: Path) -> None:
    text = "It was the best of times,\r\nit was the worst of times\n\nit was, in short, both"
    records = open_records(write(tmp_path, "book.txt", text))
    assert (records.format, records.columns) == ("text", ("text",))
    assert [row[0] for row in rows_of(records)] == text.replace("\r", "").split("\n")
    assert numbers_of(records) == [1, 2, 3, 4]


def test_txt_with_tabs_or_names_is_delimited(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.txt", "spam\tbuy now\nham\tsee you\nspam\tfree\n"))
    assert records.columns == ("column 1", "column 2")
    records = open_records(write(tmp_path, "b.txt", "label,text\n1,hello you\n0,bye you\n"))
    assert records.columns == ("label", "text")


def test_one_column(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.csv", "text\nhello\nbye\n"))
    assert records.columns == ("text",)
    assert rows_of(records) == [("hello",), ("bye",)]


def test_given_options_are_used(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1:2\n3:4\n")
    records = open_records(path, ReadOptions(delimiter=":", header=True))
    assert records.columns == ("1", "2")
    assert rows_of(records) == [("3", "4")]
    path = write(tmp_path, "b.txt", "a||b\nc||d\n")
    records = open_records(path, ReadOptions(delimiter="||", header=False))
    assert rows_of(records) == [("a", "b"), ("c", "d")]
    path = write(tmp_path, "c.csv", 'x,y\n"a",b\n')
    assert rows_of(open_records(path, ReadOptions(quoting=False))) == [('"a"', "b")]


def test_repeated_and_missing_names(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.csv", ",text,text\n0,a,b\n1,c,d\n"))
    assert records.columns == ("column 1", "text", "text (2)")
    assert "'text' is the name of several columns; the second is 'text (2)'" in records.notes


def test_row_names_of_r(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.csv", '"age","sex"\n"1",20,"f"\n"2",30,"m"\n'))
    assert records.columns == ("column 1", "age", "sex")
    assert rows_of(records) == [("1", "20", "f"), ("2", "30", "m")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_and_bom(tmp_path: Path, line_end: str) -> None:
    text = f"\ufefftext,label{line_end}été,a{line_end}{line_end}hiver,b"
    records = open_records(write(tmp_path, "a.csv", text))
    assert records.columns == ("text", "label")
    assert rows_of(records) == [("été", "a"), ("hiver", "b")]
    assert numbers_of(records) == [2, 4]


def test_nul_bytes_are_kept(tmp_path: Path) -> None:
    for name, between in (("a.csv", ","), ("a.tsv", "\t")):
        text = f"text{between}label\na\0b{between}1\nc{between}2\n"
        assert rows_of(open_records(write(tmp_path, name, text)))[0] == ("a\0b", "1")


def test_rows_without_text_are_skipped(tmp_path: Path) -> None:
    text = "a,b\n\n1,x\n,\n  \n,y\n2,z,\n3,,\n"
    records = open_records(write(tmp_path, "a.csv", text))
    assert rows_of(records) == [("1", "x"), ("", "y"), ("2", "z"), ("3", "")]
    assert numbers_of(records) == [3, 6, 7, 8]


# --- header ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "age,income\n30,1000\n40,2000\n", True),
        ("a.csv", "30,1000\n40,2000\n", False),
        ("a.csv", "label,review\n1,很好\n0,不好\n", True),
        ("a.csv", "标签,评论\n好,很好\n坏,不好\n", True),
        ("a.tsv", "spam\tbuy now please\nham\tsee you\nspam\tfree\n", False),
        ("a.tsv", "label\ttext\nham\tsee you\nspam\tfree\n", True),
        ("a.tsv", "en\tfr\nI am here.\tJe suis ici.\nYou go.\tTu vas.\n", True),
        ("a.tsv", "Go.\tVa !\nI am very happy.\tJe suis content.\n", False),
        ("a.tsv", "hello\tbonjour\nworld\tmonde\n", False),
        ("a.csv", "color,shape\nred,round\nblue,flat\n", True),
        ("a.csv", "red,round\nblue,flat\nred,flat\n", False),
        ("a.csv", "en_US,Heading\nI am very happy to be here,x\nYou are very kind to me,y\n", True),
        ("a.csv", "2020-01-01,3.5\n2020-01-02,?\n2020-01-03,4.5\n", False),
        ("a.csv", "date,temp\n2020-01-01,3.5\n2020-01-02,?\n", True),
        ("a.csv", ",text,label\n0,a,x\n1,b,y\n", True),
        ("a.csv", "?,a\n3,b\n4,a\n", False),
        ("a.csv", "text,label\n", True),
        ("a.csv", "hello world,5\n", False),
        ("a.csv", "Hello there!,Bye now!\nYes,No\n", False),
    ],
)
def test_header_detection(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    records = open_records(write(tmp_path, name, text))
    assert records.has_header is expected, records.notes
    total = len([line for line in text.split("\n") if line])
    assert len(rows_of(records)) == total - expected


# --- errors ---------------------------------------------------------------------------------------


def test_empty_files(tmp_path: Path) -> None:
    for content in ("", "\n\n", "\ufeff"):
        path = write(tmp_path, "a.csv", content)
        assert complaint(path) == f"{path}: got an empty file; expected rows or lines of text."


def test_ragged_rows_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,label\n" + "a,1\n" * 20 + "b\n" + "c,1,2\n" + "d,1\n" * 9)
    message = complaint(path)
    assert message.startswith(
        f"{path}: got rows of a wrong length; expected 2 cells (text, label) with commas between:\n"
        "  - line 22: got 1 cell; expected 2\n  - line 23: got 3 cells; expected 2\nTry: put "
    )
    assert message.endswith(f"sed 22d {path} > new-file")


def test_unclosed_quote_names_the_line_that_opens_it(tmp_path: Path) -> None:
    text = 'text,label\n"a\nb",1\n"c\nd","e\n' + "f,1\n" * 50
    path = write(tmp_path, "a.csv", text)
    message = complaint(path)
    assert message.startswith(
        f"{path}, line 5: got a quotation mark that opens a cell and is never"
    )
    assert "--set data.quoting=false" in message


def test_text_after_a_closing_quote(tmp_path: Path) -> None:
    text = 'text,label\n"a, b",1\n"c, d" e,2\n"f, g",1\n'
    message = complaint(write(tmp_path, "a.csv", text))
    assert "line 3: got a quotation mark that opens a cell, and text after the one" in message
    assert "that closes it on line 3; expected commas or a line end there" in message


def test_carriage_return_inside_a_cell(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, "a.csv", "text,label\na\rb,1\nc,2\n"))
    assert "line 2: got a carriage return inside a cell" in message


def test_unknown_column(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.csv", "text,label\na,1\n"))
    with pytest.raises(DataError, match="got no column 'txt'. Did you mean 'text'"):
        records.chunks(["txt"])


# --- encodings ------------------------------------------------------------------------------------

FRENCH = (
    "texte,classe\n" + "L'été à la plage était très agréable à Noël,a\nOù êtes-vous allé ?,b\n" * 9
)


def test_guessed_encoding_is_noted(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.csv", FRENCH.encode("latin-1")))
    assert records.encoding == "cp1252"
    assert rows_of(records)[0][0] == "L'été à la plage était très agréable à Noël"
    assert records.notes[0].startswith("read as cp1252 (detected); if letters look wrong, try")


def test_given_encoding_is_used(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", FRENCH.encode("utf-8"))
    records = open_records(path, ReadOptions(encoding="latin-1"))
    assert rows_of(records)[0][0].startswith("L'Ã©tÃ©")
    assert "which does not exist; expected a name such as utf-8" in complaint(path, encoding="x")


# --- streaming and round trips --------------------------------------------------------------------


def test_long_file_is_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2 * CHUNK_ROWS + 5
    lines = [f'"text {i}\nmore",{i}' if i % 7 == 0 else f"text {i},{i}" for i in range(count)]
    path = write(tmp_path, "a.csv", "text,n\n" + "\n".join(lines))
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", 1000)
    records = open_records(path)
    chunks = list(records.chunks(["n"]))
    assert sum(map(len, chunks)) == count
    assert all(CHUNK_ROWS - 100 < len(chunk) <= CHUNK_ROWS for chunk in chunks[:-1])
    assert [int(n or "") for chunk in chunks for n in chunk.columns["n"]] == list(range(count))
    starts = [2]
    for line in lines[:-1]:
        starts.append(starts[-1] + 1 + line.count("\n"))
    assert numbers_of(records) == starts
    assert records.head(10).columns["n"] == list(map(str, range(10)))


# a short file of control characters is binary
CELL = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n\t"), max_size=12
)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.tuples(*[CELL] * width).filter(any), min_size=1, max_size=8)
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_csv_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    delimiter: str,
    line_end: str,
    quoting: int,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
        writer.writerows([[f"name {i}" for i in range(len(rows[0]))], *rows])
    options = ReadOptions(delimiter=delimiter, header=True, quoting=True, encoding="utf-8")
    assert rows_of(open_records(path, options)) == rows
