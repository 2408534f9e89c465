"""TensorBoard event files, written without TensorBoard: `tensorboard --logdir RUN/tensorboard`.

An event file is a sequence of TFRecords, each

    length (uint64), masked CRC-32C of the length, bytes, masked CRC-32C of the bytes,

whose bytes are an `Event` of protocol buffers. A message is its fields one after the other, a field
is the key (number << 3 | wire type) and the value: wire type 0 is a variable-length integer, 1 are
eight bytes, 2 are bytes with their length before them, 5 are four bytes.

    Event     1 wall_time (double)  2 step  3 file_version (text)  5 summary  7 session_log
    Summary   1 value (repeated)
    Value     1 tag (text)  2 simple_value (float)
    SessionLog 1 status (1: start)
"""

import math
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from saccade.training.loop import EvalEvent, Event, ReportEvent
from saccade.training.state import TrainState

CRC32C_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
MASK_DELTA = 0xA282EAD8
FILE_VERSION = b"brain.Event:2"


class TensorBoardLog:
    """Training callback that writes reports and evaluations as scalars."""

    def __init__(self, folder: Path, state: TrainState, clock: Callable[[], float] = time.time):
        """Start a file; TensorBoard drops what an interrupted session left after `state`."""
        self.clock = clock
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{clock():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._file: BinaryIO = (folder / name).open("ab")
        self._write(_bytes(3, FILE_VERSION))
        if state.step:
            self._write(_integer(2, state.step + 1) + _bytes(7, _integer(1, 1)))

    def __call__(self, event: Event) -> None:
        """Write the values of a report or an evaluation."""
        if isinstance(event, ReportEvent):
            values = {
                "train/loss": event.loss,
                "train/accuracy": event.accuracy,
                "train/learning_rate": event.learning_rate,
                "train/gradient_norm": event.norm,
                "train/update_ratio": event.ratio,
            }
            self.add_scalars(event.step, {n: v for n, v in values.items() if v is not None})
        elif isinstance(event, EvalEvent):
            self.add_scalars(event.step, {f"dev/{n}": v for n, v in event.scores.items()})

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write some values of a step; those that are not finite are left out."""
        finite = {tag: value for tag, value in values.items() if math.isfinite(value)}
        summary = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))
            for tag, value in finite.items()
        )
        self._write(_integer(2, step) + _bytes(5, summary))

    def _write(self, fields: bytes) -> None:
        event = struct.pack("<Bd", 1 << 3 | 1, self.clock()) + fields
        length = struct.pack("<Q", len(event))
        record = length + _checksum(length) + event + _checksum(event)
        self._file.write(record)
        self._file.flush()

    def __enter__(self) -> "TensorBoardLog":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (CRC32C_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(content: bytes) -> int:
    """Return the CRC-32C (Castagnoli) checksum; of b"123456789" it is 0xE3069283."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _checksum(content: bytes) -> bytes:
    """Return the masked checksum: rotated and shifted, so that CRCs of CRCs stay distinct."""
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF)
