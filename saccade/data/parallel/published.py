"""Published datasets of sentence pairs: the publisher's splits, or splits by hash."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from saccade.data.datasets import DatasetInfo, fetch_dataset
from saccade.data.parallel.config import PairsConfig
from saccade.data.parallel.pairs import SentencePairs, excerpt, split_indices
from saccade.data.parallel.readers import read_pairs
from saccade.data.records.roles import RoleChoice
from saccade.data.splits import SPLIT_NAMES
from saccade.data.tokenizers import normalise
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import read_lines
from saccade.registry import lookup
from saccade.types.arrays import IntArray
from saccade.types.progress import ProgressCallback

MAX_HELD_OUT_PAIRS = 2500  # in each of dev and test


@dataclass(frozen=True)
class PairSplits:
    """The pairs of each split, notes for the user, and the columns of a file by role."""

    pairs: dict[str, SentencePairs]
    notes: list[str]
    columns: dict[str, str] = field(default_factory=dict)
    choices: list[RoleChoice] = field(default_factory=list)  # that the settings left open


def load_published_pairs(
    dataset: DatasetInfo, config: PairsConfig, on_progress: ProgressCallback
) -> PairSplits:
    """Return the publisher's splits or, for a dataset of one table, splits by hash."""
    direction = config.direction or "-".join(dataset.languages)
    directions = {"-".join(order): order for order in (dataset.languages, dataset.languages[::-1])}
    source, target = lookup(directions, direction, f"direction of {dataset.name}")
    paths, fetched = fetch_dataset(dataset, on_progress)
    if dataset.splits:
        pairs = {
            split: read_pairs([paths[f"{published}.{source}"], paths[f"{published}.{target}"]])
            for split, published in dataset.splits.items()
        }
        notes = [note for part in pairs.values() for note in part.notes]
        how = "split by the publisher"
    else:
        [path] = paths.values()
        pairs, left_out = _split_table(_read_table(str(path), dataset), config)
        how = (
            f"split by a hash of the {dataset.languages[0]} side without case and punctuation; "
            f"{left_out:,} held-out pairs with a sentence of another split were left out"
        )
        if source != dataset.languages[0]:
            pairs = {split: _reverse_direction(part) for split, part in pairs.items()}
        notes = []
    counts = ", ".join(f"{len(part):,} for {split}" for split, part in pairs.items())
    return PairSplits(pairs, [*fetched, *notes, f"{dataset.name}, {direction}: {counts}, {how}."])


def _reverse_direction(pairs: SentencePairs) -> SentencePairs:
    """Swap source and target."""
    return replace(pairs, source=pairs.target, target=pairs.source)


def _read_table(path: str, dataset: DatasetInfo) -> SentencePairs:
    """Read the first two columns; a third one (attribution) is ignored."""

    def rows() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read_lines(path), start=1):
            first, *others = line.split("\t")
            if len(others) not in (1, 2) or not first.strip() or not others[0].strip():
                raise DataError(
                    f"{path}, line {number}: got {excerpt(line)}; expected "
                    f"{' TAB '.join(dataset.languages)}, with or without a third column; try to "
                    f"download it again from {dataset.homepage}."
                )
            yield first, others[0]

    return SentencePairs.from_strings(rows(), path)


def _split_table(pairs: SentencePairs, config: PairsConfig) -> tuple[dict[str, SentencePairs], int]:
    """Return splits that share no sentence of either side, and the number of pairs left out.

    The split of a pair is a hash of its first side without case, punctuation and spaces
    (`assign_split`), the same for both directions. Held-out pairs whose second side is also in an
    earlier split (train, test, dev) are left out.
    """
    first, second = (
        list(map(_comparison_key, side)) for side in (pairs.sources(), pairs.targets())
    )
    shares = [
        min(share, MAX_HELD_OUT_PAIRS / len(pairs))
        for share in (config.dev_share, config.test_share)
    ]
    rows = split_indices(
        SentencePairs.from_strings(((key, "") for key in first), pairs.name), *shares
    )
    known = {second[row] for row in rows["train"].tolist()}
    left_out = 0
    for name in ("test", "dev"):
        kept = [row for row in rows[name].tolist() if second[row] not in known]
        left_out += len(rows[name]) - len(kept)
        known.update(second[row] for row in kept)
        rows[name] = np.array(kept, dtype=np.int64)
    _check_not_empty(pairs, rows)
    return {name: pairs.take(rows[name]) for name in SPLIT_NAMES}, left_out


def _comparison_key(text: str) -> str:
    """Return a sentence without case and punctuation; the sentence itself if nothing is left."""
    return " ".join(re.findall(r"\w+", normalise(text).casefold())) or text


def _check_not_empty(pairs: SentencePairs, rows: dict[str, IntArray]) -> None:
    if empty := [name for name, chosen in rows.items() if not len(chosen)]:
        raise ConfigError(
            f"{pairs.name}: got no pair for {' and '.join(empty)}; expected at least one in each "
            "split; try other values of data.dev_share and data.test_share."
        )
