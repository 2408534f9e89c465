"""TensorBoard event files, read back by a parser of the two formats, and by TensorBoard itself."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training.loop import EvalEvent, ReportEvent
from saccade.training.state import TrainState
from saccade.training.tensorboard import TensorBoardLog, crc32c


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message by number."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            [value] = struct.unpack(form, data[at : at + size])
            at += size
        found.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return found


def masked(data: bytes) -> int:
    """Return the masked CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> Iterator[dict[int, list[Any]]]:
    data = path.read_bytes()
    while data:
        [length] = struct.unpack("<Q", data[:8])
        event = data[12 : 12 + length]
        for content, crc in ((data[:8], data[8:12]), (event, data[12 + length : 16 + length])):
            assert struct.unpack("<I", crc)[0] == masked(content)
        yield fields(event)
        data = data[16 + length :]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.iterdir()):
        for event in records(path):
            for summary in event.get(5, []):
                for value in map(fields, fields(summary).get(1, [])):
                    tag = value[1][0].decode()
                    found.setdefault(tag, []).append((event[2][0], value[2][0]))
    return found


def test_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720
    assert crc32c(bytes(32)) == 0x8A9136AA  # its appendix B.4


def test_file_starts_as_those_of_tensorflow(tmp_path: Path) -> None:
    with TensorBoardLog(tmp_path / "events", TrainState(), clock=lambda: 7.5) as log:
        log(EvalEvent(300, {"loss": 0.25, "bleu": float("nan")}, True))
        log(ReportEvent(301, 2.0, None, 0.001, 1.5, 64))
    [path] = (tmp_path / "events").iterdir()
    assert path.name.startswith("events.out.tfevents.8.")
    assert path.read_bytes()[:13] == b'\x18\0\0\0\0\0\0\0\xa3\x7fK"\t'
    first, *rest = records(path)
    assert first == {1: [7.5], 3: [b"brain.Event:2"]}
    assert [event[2] for event in rest] == [[300], [301]]
    found = scalars(tmp_path / "events")
    assert found["dev/loss"] == [(300, 0.25)] and "dev/bleu" not in found
    assert found["train/loss"] == [(301, 2.0)] and "train/accuracy" not in found


def test_run_writes_events_and_marks_where_it_resumed(
    smallest: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = smallest("seq2seq", {"train.tensorboard": True})
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    found = scalars(tmp_path / "run" / "tensorboard")
    logged = [(line["step"], line["dev_loss"]) for line in run.metrics() if "dev_loss" in line]
    assert [step for step, _ in found["dev/loss"]] == [step for step, _ in logged]
    assert [value for _, value in found["dev/loss"]] == pytest.approx([v for _, v in logged])
    assert {"train/loss", "train/learning_rate", "train/gradient_norm"} <= found.keys()
    [first] = (tmp_path / "run" / "tensorboard").iterdir()
    first.rename(first.with_name("events.out.tfevents.0"))  # of the session before
    resume(tmp_path / "run", {}, TrainOptions())
    second = max((tmp_path / "run" / "tensorboard").iterdir())
    start = list(records(second))[1]
    assert start[2] == [recipe.train.steps + 1] and fields(start[7][0]) == {1: [1]}


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoardLog(tmp_path, TrainState()) as log:
        log.add_scalars(3, {"dev/loss": 0.5})
    accumulator = reader.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    [found] = accumulator.Scalars("dev/loss")
    assert (found.step, found.value) == (3, 0.5)
