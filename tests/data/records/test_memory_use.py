"""Memory of reading: it does not grow with the file."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from saccade.data.records.open import open_records
from saccade.io import text_files

ROWS: dict[str, Callable[[int], str]] = {
    "a.csv": lambda n: f'{n},"a text, with {n}",0.5\n',
    "a.tsv": lambda n: f"{n}\ta text with {n}\t0.5\n",
    "a.jsonl": lambda n: json.dumps({"n": n, "text": f"a text with {n}", "x": 0.5}) + "\n",
    "a.txt": lambda n: f"a text with {n}\n",
}


def peak_bytes(path: Path) -> int:
    """Return the largest number of bytes allocated while a file is read."""
    tracemalloc.start()
    for _ in open_records(path).chunks():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", ROWS)
def test_memory_is_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", 1 << 16)
    path = tmp_path / name
    peaks = []
    for count in (20_000, 40_000):
        path.write_text("".join(map(ROWS[name], range(count))), encoding="utf-8")
        peaks.append(peak_bytes(path))
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 30 << 20
