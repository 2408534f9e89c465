"""The documents of a run folder as plain values: read, and written with right checksums again."""

import json
import struct
import tomllib
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import tomli_w
from safetensors import safe_open

from fuzz.mutate import with_digits
from saccade.io.atomic import CHECKSUM_KEY, HEADER_KEY
from saccade.io.tensors import _checksum

MAX_DATA_BYTES = 1 << 20  # of tensors with changed shapes
ITEM_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I8": 1}
ITEM_BYTES |= {"U8": 1, "BOOL": 1, "I16": 2, "U32": 4, "U16": 2}


def documents_of(folder: Path) -> list[str]:
    """Return the documents of a folder that can be changed."""
    suffixes = (".toml", ".json", ".jsonl", ".safetensors", ".ids", ".txt")
    found = (path for path in folder.rglob("*") if path.suffix in suffixes)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def read_document(path: Path) -> Any:
    """Return the content of a document as plain values."""
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text(encoding="utf-8"))
    if path.suffix == ".safetensors":
        return read_tensor_file(path)[0]
    if path.suffix == ".ids":
        content = path.read_bytes()
        return list(struct.unpack(f"<{len(content) // 4}i", content[: len(content) // 4 * 4]))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        value = json.loads(text)
        value.pop(CHECKSUM_KEY, None)
        return value
    return text.splitlines()


def write_document(path: Path, value: Any, is_checksummed: bool = True) -> None:
    """Write values as the document at a path; what cannot be written as such is its JSON text."""
    path.unlink(missing_ok=True)
    try:
        if path.suffix == ".safetensors" and isinstance(value, dict):
            write_tensor_file(path, value, is_checksummed)
            return
        if path.suffix == ".ids" and isinstance(value, list):
            path.write_bytes(b"".join(map(_id_bytes, value)))
            return
        content = _text(path, value, is_checksummed)
    except RecursionError:
        content = b"[" * 5000
    if path.suffix == ".toml" and is_checksummed:
        content += f"# {CHECKSUM_KEY} {sha256(content).hexdigest()}\n".encode()
    path.write_bytes(content)


def _text(path: Path, value: Any, is_checksummed: bool) -> bytes:
    if path.suffix == ".toml":
        try:
            text = tomli_w.dumps(value) if isinstance(value, dict) else str(value)
        except (TypeError, ValueError):  # None has no form in TOML
            text = json.dumps(value)
        return (with_digits(text) + "\n").encode("utf-8", "surrogatepass")
    if path.suffix in (".jsonl", ".txt") and isinstance(value, list):
        lines = [line if isinstance(line, str) else json.dumps(line) for line in value]
        return with_digits("\n".join(lines)).encode("utf-8", "surrogatepass")
    if is_checksummed and isinstance(value, dict):
        body = json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        value = {**value, CHECKSUM_KEY: sha256(body).hexdigest()}
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    return with_digits(text).encode("utf-8", "replace")


def _id_bytes(value: Any) -> bytes:
    if isinstance(value, int) and -(2**31) <= value < 2**31:
        return struct.pack("<i", value)
    return str(value)[:1000].encode("utf-8", "surrogatepass")


# --- safetensors ----------------------------------------------------------------------------------


def read_tensor_file(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return {"tensors": header, "facts": metadata} of a file, and its data."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    facts: Any = metadata
    if HEADER_KEY in metadata:
        facts = json.loads(json.loads(metadata[HEADER_KEY])["facts"])
    return {"tensors": header, "facts": facts}, content[8 + length :]


def write_tensor_file(path: Path, value: dict[str, Any], is_checksummed: bool) -> None:
    """Write a file of tensors: zeros of the shapes in the header, or with its own offsets.

    A header whose tensors have no `data_offsets` gets those that fit; one that has them is written
    as it is.
    """
    header, data = _with_offsets(value.get("tensors"))
    facts = value.get("facts")
    if not is_checksummed:
        _write_tensors(path, header, facts if isinstance(facts, dict) else {}, data)
        return
    text = json.dumps(facts, sort_keys=True)
    _write_tensors(path, header, {HEADER_KEY: json.dumps({"facts": text, CHECKSUM_KEY: ""})}, data)
    try:
        with safe_open(path, framework="pt") as file:
            checksum = _checksum({name: file.get_tensor(name) for name in file.keys()}, text)  # noqa: SIM118
    except Exception:  # no tensors, so there is no checksum that fits
        return
    header_value = json.dumps({"facts": text, CHECKSUM_KEY: checksum})
    _write_tensors(path, header, {HEADER_KEY: header_value}, data)


def _with_offsets(header: Any) -> tuple[Any, bytes]:
    """Return a header in which every tensor has offsets, and zeros as the data."""
    if not isinstance(header, dict):
        return header, b""
    found, end = {}, 0
    for name, entry in header.items():
        if isinstance(entry, dict) and "data_offsets" not in entry:
            size = _bytes_of(entry)
            entry = {**entry, "data_offsets": [end, end + size]}
            end += size
        found[name] = entry
    ends = [
        entry["data_offsets"][1]
        for entry in found.values()
        if isinstance(entry, dict)
        and isinstance(entry.get("data_offsets"), list)
        and len(entry["data_offsets"]) == 2
        and isinstance(entry["data_offsets"][1], int)
    ]
    return found, bytes(max(0, min(MAX_DATA_BYTES, max([end, *ends]))))


def _bytes_of(entry: dict[str, Any]) -> int:
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        return 0
    return max(0, ITEM_BYTES.get(str(entry.get("dtype")), 1) * prod(shape))


def _write_tensors(path: Path, header: Any, metadata: dict[str, Any], data: bytes) -> None:
    if isinstance(header, dict):
        header = {"__metadata__": metadata, **header}
    try:
        text = with_digits(json.dumps(header)).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):
        text = b"{" * 5000
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
