import errno
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from saccade.errors import RunError
from saccade.io import atomic
from saccade.io.atomic import (
    read_checksummed_json,
    read_checksummed_text,
    write_atomically,
    write_checksummed_json,
    write_checksummed_text,
)
from saccade.io.tensors import read_tensors, write_tensors

TENSORS = {"w": torch.tensor([[1.5, -2.0]]), "état": torch.tensor([3])}


class Kind(NamedTuple):
    """A kind of checksummed file: a function that writes an example, and one that reads it."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]


KINDS = {
    "text": Kind(
        lambda path: write_checksummed_text(path, 'note = "мая"\nsteps = 3\n'),
        read_checksummed_text,
    ),
    "json": Kind(
        lambda path: write_checksummed_json(
            path, {"b": [1, 0.1, None, True], "a": {"é": "x\n\udcff"}}
        ),
        read_checksummed_json,
    ),
    "tensors": Kind(lambda path: write_tensors(path, TENSORS, {"step": 7}), read_tensors),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# --- round trip -----------------------------------------------------------------------------------


def through_a_file(write: Callable[[Path], None], read: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "file")
        return read(Path(folder) / "file")


@given(st.text())
def test_checksummed_text_round_trip(text: str) -> None:
    expected = text if text.endswith("\n") else text + "\n"
    assert (
        through_a_file(lambda path: write_checksummed_text(path, text), read_checksummed_text)
        == expected
    )


def test_checksummed_text_may_contain_a_checksum_line(tmp_path: Path) -> None:
    write_checksummed_text(tmp_path / "one", "x = 1\n")
    twice = (tmp_path / "one").read_text(encoding="utf-8") + "y = 2\n"
    write_checksummed_text(tmp_path / "two", twice)
    assert read_checksummed_text(tmp_path / "two") == twice


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda key: key != "sha256"), plain))
def test_checksummed_json_round_trip(value: dict[str, Any]) -> None:
    assert (
        through_a_file(lambda path: write_checksummed_json(path, value), read_checksummed_json)
        == value
    )


def test_checksummed_json_turns_number_keys_into_text(tmp_path: Path) -> None:
    write_checksummed_json(tmp_path / "a.json", {"counts": {9: 1, 10: 2}})
    assert read_checksummed_json(tmp_path / "a.json") == {"counts": {"9": 1, "10": 2}}


def test_checksummed_json_reserves_its_field(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'sha256' is reserved for the checksum"):
        write_checksummed_json(tmp_path / "a.json", {"sha256": 1})


dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
dtypes += [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
shapes = st.lists(st.integers(0, 3), max_size=3)
a_tensor = st.builds(
    lambda shape, dtype: (torch.arange(27)[: torch.Size(shape).numel()].reshape(shape)).to(dtype),
    shapes,
    st.sampled_from(dtypes),
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=9), a_tensor, max_size=3),
    st.dictionaries(st.text(), plain, max_size=3),
)
def test_tensors_and_metadata_round_trip(tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    tensors.pop("__metadata__", None)
    got, notes = through_a_file(lambda path: write_tensors(path, tensors, facts), read_tensors)
    assert notes == facts
    assert got.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert got[name].dtype == tensor.dtype
        assert got[name].shape == tensor.shape
        assert torch.equal(got[name], tensor)


def test_tensors_with_strides_and_ties_round_trip(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3)
    layer = torch.nn.Linear(3, 2)
    odd = {
        "turned": table.T,
        "spread": torch.ones(1).expand(4),
        "tied": table,
        "tied too": table,
        "learned": layer.weight,
    }
    write_tensors(tmp_path / "w", odd, {})
    got, _ = read_tensors(tmp_path / "w")
    assert all(torch.equal(got[name], odd[name]) for name in odd)
    assert not got["learned"].requires_grad


def test_tensors_keep_the_bits_of_nan(tmp_path: Path) -> None:
    bits = torch.tensor([0x7FC00001, 0x7F800000], dtype=torch.int32)
    write_tensors(tmp_path / "w", {"x": bits.view(torch.float32)}, {})
    assert torch.equal(read_tensors(tmp_path / "w")[0]["x"].view(torch.int32), bits)


# --- damaged files --------------------------------------------------------------------------------


@each_kind
def test_checksum_detects_any_flipped_bit(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "file"
    kind.write(path)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(RunError, match="file is damaged"):
            pytest.fail(f"bit {bit} was missed: {kind.read(path)}")


@each_kind
def test_checksum_detects_any_truncation(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "file"
    kind.write(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match="file is damaged"):
            pytest.fail(f"a cut at {length} was missed: {kind.read(path)}")


@each_kind
@given(data=st.data())
def test_checksum_detects_any_other_change(kind: Kind, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        kind.write(path)
        whole = path.read_bytes()
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, len(whole)))
        changed = whole[:start] + data.draw(st.binary(max_size=6)) + whole[end:]
        path.write_bytes(changed)
        if changed == whole:
            kind.read(path)
        else:
            with pytest.raises(RunError, match="damaged"):
                kind.read(path)


@each_kind
@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[1]", b'{"sha256": 1}', b"[" * 200_000, b"\xff" * 99, b"\x80\x04K\x01."],
    ids=["empty", "null", "list", "short checksum", "deep", "not text", "pickle"],
)
def test_checksummed_readers_reject_other_files(kind: Kind, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"file is damaged: .*Copy it again .* or train again\."):
        kind.read(path)


@each_kind
def test_checksummed_readers_report_a_missing_file(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"gone is missing\. Is .* a finished run\?"):
        kind.read(tmp_path / "gone")


@each_kind
def test_checksummed_readers_report_a_folder(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"{tmp_path.name}: got a folder"):
        kind.read(tmp_path)


def test_checksum_detects_swapped_tensors(tmp_path: Path) -> None:
    # the same bytes and names, in another assignment
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    write_tensors(tmp_path / "w", {"a": one, "b": two}, {})
    raw = (tmp_path / "w").read_bytes()
    body = raw.index(b"}}") + 2
    swapped = raw[:body].replace(b'"a"', b'"?"').replace(b'"b"', b'"a"').replace(b'"?"', b'"b"')
    (tmp_path / "w").write_bytes(swapped + raw[body:])
    with pytest.raises(RunError, match="does not match its checksum"):
        read_tensors(tmp_path / "w")


# --- atomic writes --------------------------------------------------------------------------------


def full_disk(*args: object, **kwargs: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class HalfWritten:
    """A file on a disk with space for only half of the content."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> "HalfWritten":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        full_disk()


def fill_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode: HalfWritten(opened(self, mode)))


def fill_while_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic.os, "fsync", full_disk)


def fill_while_renaming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic.os, "replace", full_disk)


FULL = [fill_while_writing, fill_while_flushing, fill_while_renaming]


@pytest.mark.parametrize("fill", FULL, ids=lambda fill: fill.__name__)
@each_kind
def test_write_atomically_on_a_full_disk_keeps_the_old_file(
    kind: Kind,
    fill: Callable[[pytest.MonkeyPatch], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(RunError, match=r"file could not be written: No space left .*unchanged"):
            kind.write(path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_write_atomically_interrupted_keeps_the_old_file(
    stop: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(handle: int) -> None:
        raise stop

    path = tmp_path / "file"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", interrupt)
        with pytest.raises(stop):
            write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_write_atomically_flushes_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, order = tmp_path / "file", []
    flush, replace = os.fsync, os.replace
    monkeypatch.setattr(atomic.os, "fsync", lambda h: (order.append("flush"), flush(h)))
    monkeypatch.setattr(atomic.os, "replace", lambda a, b: (order.append("move"), replace(a, b)))
    write_atomically(path, b"new")
    assert order == ["flush", "move", "flush"]  # the file, the rename, the folder
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"new"


def test_write_atomically_ignores_a_folder_that_cannot_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "open", full_disk)  # only the folder is opened this way
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["missing/file", "a file/file", "x" * 300], ids=lambda p: p[:9])
def test_write_atomically_reports_an_impossible_path(path: str, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(RunError, match="could not be written: .* choose another folder"):
        write_atomically(tmp_path / path, b"new")


def test_checksummed_files_are_readable_by_other_tools(tmp_path: Path) -> None:
    KINDS["tensors"].write(tmp_path / "w.safetensors")
    loaded: Mapping[str, Tensor] = load_file(tmp_path / "w.safetensors")
    assert torch.equal(loaded["w"], TENSORS["w"])
    KINDS["json"].write(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["a"] == {"é": "x\n\udcff"}
