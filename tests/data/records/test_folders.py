"""Folders, globs, archives, compressed files and standard input as records."""

import bz2
import gzip
import io
import json
import lzma
import random
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import polars as pl
import pytest
import zstandard

from saccade.data.records import concatenate
from saccade.data.records.base import Records
from saccade.data.records.open import open_records
from saccade.errors import DataError, MissingPackageError
from saccade.io import compression
from saccade.io.text_files import read_lines

KEPT = Path(__file__).parents[2] / "kept" / "hugging_face"  # written by datasets 5.2.0
CSV = "text,label\na,1\nb,0\n"
CELLS = {"text": ["a", "b"], "label": ["1", "0"]}


def columns_of(records: Records) -> dict[str, list[str | None]]:
    cells: dict[str, list[str | None]] = {name: [] for name in records.columns}
    for chunk in records.chunks():
        for name, column in chunk.columns.items():
            cells[name] += column
    return cells


def positions_of(records: Records) -> list[str]:
    return [
        records.where(number) for chunk in records.chunks() for number in chunk.numbers.tolist()
    ]


def complaint(data: str | Path) -> str:
    with pytest.raises(DataError) as caught:
        columns_of(open_records(data))
    return str(caught.value)


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


# --- folders --------------------------------------------------------------------------------------


def test_folder_of_files(tmp_path: Path) -> None:
    folder = write_files(
        tmp_path / "rows",
        {
            "part-2.csv": "label,text\n0,c\n",  # another order
            "part-1.csv": CSV,
            "more/part-3.csv": "text,label\n\nd,1\n",
            "README.md": "# Rows",
            "notes.txt": "no rows here",
            ".hidden.csv": "x\n",
        },
    )
    records = open_records(folder)
    assert columns_of(records) == {"text": ["d", "a", "b", "c"], "label": ["1", "1", "0", "0"]}
    assert records.name == str(folder)
    assert positions_of(records) == [
        f"{folder}/more/part-3.csv, line 3",
        f"{folder}/part-1.csv, line 2",
        f"{folder}/part-1.csv, line 3",
        f"{folder}/part-2.csv, line 2",
    ]
    assert records.notes[0] == "3 files, from more/part-3.csv to part-2.csv"
    assert columns_of(open_records(f"{folder}#part-1.csv")) == CELLS
    assert columns_of(open_records(f"{folder}#more"))["text"] == ["d"]
    assert "got no file 'part-9.csv'. Did you mean 'part-" in complaint(f"{folder}#part-9.csv")


def test_glob_of_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.csv": CSV, "b.csv": CSV, "c.tsv": "x\n", "d/e.csv": CSV})
    assert columns_of(open_records(f"{tmp_path}/*.csv"))["text"] == ["a", "b"] * 2
    assert columns_of(open_records(f"{tmp_path}/**/*.csv"))["text"] == ["a", "b"] * 3
    assert f"{tmp_path}/*.json: got no file that matches; expected" in complaint(
        f"{tmp_path}/*.json"
    )
    write_files(tmp_path, {"[1].csv": CSV, "f#g.csv": CSV})  # names that look like patterns
    assert columns_of(open_records(tmp_path / "[1].csv")) == CELLS
    assert columns_of(open_records(tmp_path / "f#g.csv")) == CELLS


def test_pieces_of_a_divided_file_have_one_header(tmp_path: Path) -> None:
    write_files(tmp_path, {"x.aa.csv": CSV, "x.ab.csv": "c,1\nd,0\n"})
    records = open_records(tmp_path)
    assert columns_of(records) == {"text": ["a", "b", "c", "d"], "label": ["1", "0", "1", "0"]}


def test_files_with_other_columns(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.csv": CSV, "b.csv": "text,stars\na,1\n"})
    assert complaint(tmp_path) == (
        f"{tmp_path}/b.csv: got the columns text, stars; expected those of {tmp_path}/a.csv: text, "
        "label; try one file, or files with the same columns."
    )


def test_files_of_json_may_lack_fields(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jsonl": '{"text": "a"}\n', "b.jsonl": '{"text": "b", "n": 1}\n'})
    assert columns_of(open_records(tmp_path)) == {"text": ["a", "b"], "n": [None, "1"]}


def test_files_of_several_formats(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.csv": CSV, "b.jsonl": '{"text": "a"}\n'})
    message = complaint(tmp_path)
    assert message.startswith(f"{tmp_path}: got files of several formats; expected one; try one of")
    assert f"{tmp_path}#a.csv, {tmp_path}#b.jsonl" in message


def test_folder_without_data(tmp_path: Path) -> None:
    write_files(tmp_path, {"photo.jpg": "x", "LICENSE": "free"})
    assert complaint(tmp_path) == (
        f"{tmp_path}: got no data file; expected .csv, .tsv, .jsonl, .parquet or another table. It "
        "contains: LICENSE, photo.jpg."
    )
    (tmp_path / "empty").mkdir()
    assert complaint(tmp_path / "empty").endswith("It contains: nothing.")


def test_splits_of_a_folder(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": ["a", "b"], "label": [1, 0]})
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    records = open_records(tmp_path)
    assert records.columns == ("text", "label", "split")
    assert columns_of(records)["split"] == ["train"] * 4 + ["validation"] * 2
    assert next(records.chunks(["split"])).columns == {"split": ["train", "train"]}
    assert "--set data.split_column=split" in records.notes[-1]


def test_many_files_are_opened_while_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concatenate, "MAX_OPENED_FILES", 2)
    write_files(tmp_path, {f"{i}.csv": f"text,label\nrow {i},1\n" for i in range(5)})
    assert columns_of(open_records(tmp_path))["text"] == [f"row {i}" for i in range(5)]
    write_files(tmp_path, {"4.csv": "other,columns\na,1\n"})
    records = open_records(tmp_path)
    with pytest.raises(DataError, match="4.csv: got the columns other, columns; expected those of"):
        columns_of(records)


# --- datasets of Hugging Face ---------------------------------------------------------------------


def test_saved_dataset_with_splits() -> None:
    records = open_records(KEPT)
    cells = columns_of(records)
    assert records.columns == ("text", "label", "translation.en", "translation.de", "split")
    assert cells["text"] == [f"text {i}, é" for i in range(9)]
    assert cells["label"] == ["bad", "good"] * 4 + ["bad"]
    assert cells["translation.en"] == [f"en {i}" for i in range(9)]
    assert cells["translation.de"] == [None if i % 3 else f"de {i}" for i in range(9)]
    assert cells["split"] == ["train"] * 7 + ["test"] * 2
    assert positions_of(records)[4] == f"{KEPT}/train/data-00001-of-00002.arrow, row 1"
    test = columns_of(open_records(f"{KEPT}#test"))
    assert test["text"] == ["text 7, é", "text 8, é"]
    assert "got no file 'dev'. It contains: test, train." in complaint(f"{KEPT}#dev")


def test_saved_dataset_without_splits(tmp_path: Path) -> None:
    shutil.copytree(KEPT / "train", tmp_path / "train")
    assert len(columns_of(open_records(tmp_path / "train"))["text"]) == 7
    state = json.loads((tmp_path / "train/state.json").read_text())
    state["_indices_data_files"] = [{"filename": "indices.arrow"}]
    (tmp_path / "train/state.json").write_text(json.dumps(state))
    assert "try dataset.flatten_indices().save_to_disk(FOLDER)." in complaint(tmp_path / "train")
    (tmp_path / "train/state.json").write_text("{")
    assert "state.json could not be read: Expecting property" in complaint(tmp_path / "train")


# --- compression ----------------------------------------------------------------------------------

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    packed = COMPRESSIONS[suffix](CSV.encode())
    path.write_bytes(packed + COMPRESSIONS[suffix](b"c,1\n"))  # parts after one another
    assert columns_of(open_records(path))["text"] == ["a", "b", "c"]
    path.rename(tmp_path / "b.csv")  # known by the first bytes
    assert columns_of(open_records(tmp_path / "b.csv"))["text"] == ["a", "b", "c"]
    path.write_text(CSV)
    assert f"{path}: got a file that is not {suffix}; expected the format of its" in complaint(path)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_damaged_compressed_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    rows = "".join(f"{n:x},{n}\n" for n in random.Random(0).sample(range(1 << 40), 500))
    packed = COMPRESSIONS[suffix](f"text,label\n{rows}".encode())
    for damaged in (packed[:-500], packed[:600] + bytes(300) + packed[900:]):
        path.write_bytes(damaged)
        assert (
            "expected one that is complete and undamaged; try to copy or download it again."
            in complaint(path)
        )


def test_missing_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.zst"
    path.write_bytes(COMPRESSIONS[".zst"](CSV.encode()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'saccade\[files\]'. Or decompress"):
        open_records(path)


# --- archives -------------------------------------------------------------------------------------


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, f"w:{path.suffix[1:] if path.suffix != '.tar' else ''}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_tar_zst(path: Path, files: dict[str, bytes]) -> Path:
    plain = write_tar(path.with_suffix(""), files)
    path.write_bytes(COMPRESSIONS[".zst"](plain.read_bytes()))
    return path


ARCHIVES: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "a.zip": write_zip,
    "a.tar": write_tar,
    "a.tar.gz": write_tar,
    "a.tar.bz2": write_tar,
    "a.tar.xz": write_tar,
    "a.tar.zst": write_tar_zst,
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(tmp_path: Path, name: str) -> None:
    frame = io.BytesIO()
    pl.DataFrame({"n": [1, 2]}).write_parquet(frame)
    one = {"data/rows.csv": CSV.encode(), "README.md": b"#", "__MACOSX/._rows.csv": b"\0\1"}
    path = ARCHIVES[name](tmp_path / name, one)
    records = open_records(path)
    assert columns_of(records) == CELLS
    assert positions_of(records)[0] == f"{path}#data/rows.csv, line 2"
    several = {
        "a.csv": CSV.encode(),
        "b.parquet": frame.getvalue(),
        "c.csv.gz": gzip.compress(CSV.encode()),
        "../../d.csv": CSV.encode(),
    }
    path = ARCHIVES[name](tmp_path / name, several)
    assert f"try one of: {path}#../../d.csv, {path}#b.parquet" in complaint(path)
    assert columns_of(open_records(f"{path}#b.parquet")) == {"n": ["1", "2"]}
    assert columns_of(open_records(f"{path}#c.csv.gz")) == CELLS
    assert columns_of(open_records(f"{path}#../../d.csv")) == CELLS
    assert not (tmp_path.parent.parent / "d.csv").exists()
    assert "got no member 'a.tsv'. Did you mean 'a.csv'? It contains:" in complaint(f"{path}#a.tsv")


def test_files_of_an_archive_are_read_one_after_another(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"train.csv": CSV.encode(), "test.csv": CSV.encode()})
    assert columns_of(open_records(path))["split"] == ["test", "test", "train", "train"]


def test_workbook_in_an_archive(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.create_sheet("Data").append([1, 2])
    content = io.BytesIO()
    book.save(content)
    path = write_zip(tmp_path / "a.zip", {"book.xlsx": content.getvalue()})
    assert columns_of(open_records(f"{path}#book.xlsx#Data"))["column 2"] == ["2"]
    assert columns_of(open_records(path))["column 2"] == ["2"]


def test_archive_in_an_archive(tmp_path: Path) -> None:
    inner = write_zip(tmp_path / "in.zip", {"a.csv": CSV.encode()}).read_bytes()
    path = write_zip(tmp_path / "out.zip", {"in.zip": inner})
    assert "got a zip archive inside another; expected" in complaint(f"{path}#in.zip")


def test_implausible_unpacked_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "MIN_BOMB_BYTES", 1 << 20)
    path = write_zip(tmp_path / "a.zip", {"a.csv": b"0" * (3 << 20)})
    message = complaint(path)
    assert "bytes that unpack to 3,145,728; expected at most 1,000 times the size" in message


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives(tmp_path: Path, name: str) -> None:
    rows = "".join(f"{n:x},{n}\n" for n in random.Random(0).sample(range(1 << 40), 500))
    path = ARCHIVES[name](tmp_path / name, {"a.csv": f"text,label\n{rows}".encode()})
    whole = path.read_bytes()
    path.write_bytes(whole[:2000])
    assert "cannot be unpacked" in complaint(path)
    path.write_bytes(whole[:1000] + bytes(500) + whole[1500:])
    assert "cannot be unpacked" in complaint(path)


def test_archive_with_a_password(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"a.csv": CSV.encode()})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flags of the member say that it is encrypted
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    message = complaint(path)
    assert "password required for extraction" in message
    assert message.endswith("or to unpack it yourself: unzip a.zip")


# --- standard input -------------------------------------------------------------------------------


class Pipe(io.BytesIO):
    """Standard input that gives some bytes at a time, and only once."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read(7 if size is None or size < 0 else min(size, 7))

    def seek(self, position: int, whence: int = 0, /) -> int:
        raise OSError("a pipe cannot be rewound")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_kept(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    text = "label\ttext\n" + "".join(f"{i}\trow {i}\n" for i in range(50))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(pack(text.encode()))))
    records = open_records("-")
    for _ in range(2):
        cells = columns_of(records)
        assert cells["column 1" if "column 1" in cells else "label"][-1] == "49"
        assert len(next(iter(cells.values()))) >= 50
    both = list(zip(records.chunks(), records.chunks(), strict=True))
    assert all(one.columns == other.columns for one, other in both)


def test_standard_input_is_read_as_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    class Live(Pipe):
        read_so_far = 0

        def read1(self, size: int | None = -1, /) -> bytes:
            content = super().read1(size)
            self.read_so_far += len(content)
            return content

    pipe = Live(b"first\nsecond\nthird and more\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
    lines = read_lines("-")
    assert next(lines) == "first"
    assert pipe.read_so_far == 7


def test_archive_on_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar(tmp_path / "a.tar", {"a.csv": CSV.encode()})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert "got a tar archive on standard input; expected a table; try to save" in complaint("-")
