r"""Division of examples into train, dev and test, in one way for all tasks.

    given     files of their own (`data.dev`, `data.test`), or a column with the name of the split
              (`data.split_column`)
    by hash   h(x) in [0, 1) is a hash of the input, or of some columns (`data.group_by`):
              test if h < test_share, dev if h ≥ 1 − dev_share. An example is in the same split in
              any file and any order, and raising one share takes from train only
    by order  examples sorted by a key; the first test_share · n are test, the next dev_share · n
              dev; equal keys stay together. The key is a hash (tables and documents, whose shares
              are exact), or the time, latest first (`data.time`). A long text and a time series
              are one example in this sense: its end is held out
    by class  by order of the hash among the examples of each class (`data.stratify`): each class
              has exactly its share

However it is divided, no input is on two sides: training examples whose input is also held out are
left out, and so are dev examples whose input is also in test.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from saccade.config import Config
from saccade.data.hashing import HashArray, hash_bytes
from saccade.data.records.role_names import SPLIT_ALIASES
from saccade.data.tokenizers import normalise
from saccade.errors import ConfigError, DataError
from saccade.types.arrays import FloatArray, IntArray

SplitArray = NDArray[np.int8]  # an index into SPLIT_NAMES for each example, or LEFT_OUT

SPLIT_NAMES = ("train", "dev", "test")
TRAIN, DEV, TEST, LEFT_OUT = 0, 1, 2, -1


class SplitConfig(Config):
    """Settings of the division into train, dev and test."""

    WAYS: ClassVar[tuple[str, ...]] = ("split_column", "group_by", "time", "stratify")
    REFUSED: ClassVar[Mapping[str, str]] = {}  # settings without a meaning for the data: why

    dev: str | None = None
    "File with the dev split; None: a part of the data."
    test: str | None = None
    "File with the test split; None: a part of the data."
    split_column: str | None = None
    "Column with the split of each row: train, dev (or validation) or test."
    group_by: tuple[str, ...] = ()
    "Columns, such as a user or a document, of which no value is in two splits."
    time: str | None = None
    "Column with the time of each row: the last rows are test, those before them dev."
    stratify: bool = False
    "Hold out exactly the same share of every class."
    dev_share: float = Field(0.05, ge=0, lt=1)
    "Share of the data in the dev split."
    test_share: float = Field(0.05, ge=0, lt=1)
    "Share of the data in the test split."

    @field_validator("group_by", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """Accept one name, or several with commas between, as they are typed."""
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> "SplitConfig":
        for name, reason in self.REFUSED.items():
            if getattr(self, name):
                raise ValueError(f"got data.{name}; {reason}")
        given = [f"data.{name}" for name in self.WAYS if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"got {' and '.join(given)}; expected one of them")
        files = [f"data.{name}" for name in ("dev", "test") if getattr(self, name)]
        if self.split_column and files:
            raise ValueError(f"got data.split_column and {files[0]}; expected one of them")
        return self


@dataclass(frozen=True)
class SplitKeys:
    """The values of each example by which it is divided; those that are not used are None."""

    inputs: HashArray  # hash of the input
    splits: Sequence[str | None] | None = None  # cells of `data.split_column`
    groups: HashArray | None = None  # hash of the cells of `data.group_by`
    times: FloatArray | None = None  # of `data.time`; NaN: unknown
    classes: Sequence[str] | None = None  # for `data.stratify`

    def __len__(self) -> int:
        return len(self.inputs)


def divide_examples(
    keys: SplitKeys, dev_share: float, test_share: float, is_exact: bool = False
) -> SplitArray:
    """Return the split of each example: an index into SPLIT_NAMES, or LEFT_OUT.

    Args:
        keys: the values by which examples are divided.
        dev_share: share of the dev split; 0: none, or given as a file.
        test_share: share of the test split; 0: none, or given as a file.
        is_exact: divide by order of the hash and not by its value.
    """
    check_shares(dev_share, test_share)
    if keys.classes is not None:
        return split_by_class(keys.inputs, keys.classes, dev_share, test_share)
    split = split_by_order if is_exact else split_by_hash
    if keys.splits is not None:
        splits = split_by_column(keys.splits)
        # a split that the column does not have is held out from its training examples
        shares = [
            0.0 if (splits == number).any() else share
            for number, share in ((DEV, dev_share), (TEST, test_share))
        ]
        train = np.flatnonzero(splits == TRAIN)
        splits[train] = split(keys.inputs[train], *shares)
    elif keys.times is not None:
        splits = split_by_order(-keys.times, dev_share, test_share)
    elif keys.groups is not None:
        splits = split(keys.groups, dev_share, test_share)
    else:  # equal inputs have equal hashes
        return split(keys.inputs, dev_share, test_share)
    return leave_out_repeated(splits, keys.inputs)


def check_shares(dev: float, test: float) -> None:
    """Raise a ConfigError unless the shares are parts of a whole."""
    if not (0 <= dev <= 1 and 0 <= test <= 1 and dev + test <= 1):
        raise ConfigError(
            f"got shares of {dev} for dev and {test} for test; expected numbers from 0 to 1 with a "
            "sum of at most 1; try 0.05 each."
        )


# --- hashes ---------------------------------------------------------------------------------------


def hash_texts(texts: Iterable[bytes]) -> HashArray:
    """Return the hash of each text in UTF-8; texts that differ in composition (NFC) are equal."""
    return hash_bytes(
        text if text.isascii() else normalise(text.decode()).encode() for text in texts
    )


def hash_cells(columns: Sequence[Sequence[str | None]]) -> HashArray:
    """Return the hash of each row of some columns."""
    rows = zip(*columns, strict=True)
    return hash_texts("\x1f".join(cell or "" for cell in row).encode() for row in rows)


def hash_split(example: str) -> str:
    """Return the split of an example by its blake2b hash: 90 % train, 5 % dev, 5 % test."""
    share = int.from_bytes(blake2b(example.encode(), digest_size=8).digest(), "big") / 2**64
    if share < 0.90:
        return "train"
    return "dev" if share < 0.95 else "test"


# --- ways to divide -------------------------------------------------------------------------------


def split_by_hash(hashes: HashArray, dev: float, test: float) -> SplitArray:
    """Return the split of each example by its hash alone, so that the shares are approximate."""
    share = hashes / 2.0**64
    return np.where(share < test, TEST, np.where(share >= 1 - dev, DEV, TRAIN)).astype(np.int8)


def split_by_order(keys: NDArray[Any], dev: float, test: float) -> SplitArray:
    """Return the split of each example by its rank: the smallest keys are test, the next dev.

    A split has its share of the examples, rounded but not to 0, and more only where equal keys are
    kept together. NaN is the largest key.
    """
    count = len(keys)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    sizes = [max(1, round(share * count)) if share else 0 for share in (test, dev)]
    first = _end_of_equal(ordered, sizes[0])
    second = _end_of_equal(ordered, first + sizes[1])
    splits = np.full(count, TRAIN, np.int8)
    splits[order[:first]] = TEST
    splits[order[first:second]] = DEV
    return splits


def _end_of_equal(ordered: NDArray[Any], cut: int) -> int:
    """Return the first cut from `cut` on that does not divide equal keys."""
    while 0 < cut < len(ordered) and ordered[cut] == ordered[cut - 1]:
        cut += 1
    return min(cut, len(ordered))


def split_by_class(
    hashes: HashArray, classes: Sequence[str], dev: float, test: float
) -> SplitArray:
    """Return the split of each example by the order of its hash within its class.

    Each class has its exact share in each split, if its inputs differ. Examples with the same input
    stay together; if their classes differ, they count for the most frequent of them.
    """
    inputs, index, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    names, numbers = np.unique(np.asarray(classes, dtype=object).astype(str), return_inverse=True)
    class_of = _frequent_class(index, numbers, len(inputs))
    splits = np.full(len(inputs), TRAIN, np.int8)
    for number in range(len(names)):
        members = np.flatnonzero(class_of == number)  # in the order of their hashes
        ends = np.cumsum(counts[members])
        total = int(ends[-1]) if len(ends) else 0
        first = _prefix(ends, round(test * total))
        before = int(ends[first - 1]) if first else 0
        second = _prefix(ends, before + round(dev * total))
        splits[members[:first]] = TEST
        splits[members[first:second]] = DEV
    return splits[index]


def _frequent_class(index: IntArray, numbers: IntArray, inputs: int) -> IntArray:
    """Return the most frequent class of each input; of equally frequent ones the first."""
    pairs, counts = np.unique(np.stack([index, numbers]), axis=1, return_counts=True)
    order = np.lexsort((-pairs[1], counts))  # the best pair of each input is written last
    found = np.zeros(inputs, np.int64)
    found[pairs[0][order]] = pairs[1][order]
    return found


def _prefix(ends: IntArray, size: int) -> int:
    """Return the number of leading parts that have `size` examples together, or a few more."""
    return int(np.searchsorted(ends, size)) + 1 if size > 0 and len(ends) else 0


def split_by_column(cells: Sequence[str | None]) -> SplitArray:
    """Return the split that a cell of each example names; an empty cell is train."""
    by_value = {}
    for cell in set(cells):
        name = SPLIT_ALIASES.get((cell or "train").strip().casefold())
        by_value[cell] = LEFT_OUT if name is None else SPLIT_NAMES.index(name)
    if unknown := sorted(cell or "" for cell, split in by_value.items() if split == LEFT_OUT):
        listed = ", ".join(map(repr, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        raise DataError(
            f"got {listed} in the column of splits; expected train, dev (or validation) or test; "
            "try another data.split_column."
        )
    return np.array([by_value[cell] for cell in cells], np.int8)


def leave_out_repeated(splits: SplitArray, inputs: HashArray) -> SplitArray:
    """Return the splits without examples whose input is in a later split: train, dev, test."""
    for split in (TEST, DEV):
        splits = leave_out_inputs(splits, inputs, inputs[splits == split], range(split))
    return splits


def leave_out_inputs(
    splits: SplitArray, inputs: HashArray, held_out: HashArray, of: Iterable[int] = (TRAIN,)
) -> SplitArray:
    """Return the splits without the examples of some of them whose input is held out elsewhere."""
    repeated = np.isin(splits, list(of)) & np.isin(inputs, held_out)
    return np.where(repeated, LEFT_OUT, splits).astype(np.int8)
