"""Sampling of synthetic sentence pairs, the same for every set.

- The same arguments give the same pairs on every machine.
- No source occurs twice, in any split.
- The split of an example (train, dev, test) is a hash of the example itself, independent of the
  seed and the size.
- A source that is drawn with two targets is removed from all splits, and counted in the notes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from saccade.data.splits import SPLIT_NAMES
from saccade.errors import ConfigError
from saccade.seeding import generator
from saccade.types.progress import ProgressCallback

TextPair = tuple[str, str]
PairSampler = Callable[[int], TextPair | None]  # index of the draw → pair, or None: draw again

_MAX_FAILED_DRAWS = 2_000  # in a row, after which a split is considered exhausted
_PROGRESS_EVERY = 2_000  # pairs


@dataclass(frozen=True)
class SyntheticPairs:
    """Pairs of (source, target) for each split, and notes for the user."""

    name: str
    pairs: dict[str, list[TextPair]]
    description: str
    notes: list[str]


def uniform_stream(seed: int, purpose: str) -> Iterator[float]:
    """Yield numbers from [0, 1) without end, a function of the seed and the purpose."""
    source = generator(seed, purpose)
    while True:
        # in blocks: a call of numpy for one number costs as much as a hundred numbers
        yield from source.random(4096).tolist()


def generate_pairs(
    name: str,
    description: str,
    draws: Mapping[str, PairSampler],
    size: int,
    held_out: int,
    notes: list[str],
    on_progress: ProgressCallback | None = None,
) -> SyntheticPairs:
    """Draw `size` training pairs, and up to `held_out` pairs each for dev and test."""
    if size < 1:
        raise ConfigError(f"{name}: got size={size}; expected at least 1 training pair.")
    counts = {split: size if split == "train" else held_out for split in SPLIT_NAMES}
    total, done = sum(counts.values()), 0
    pairs: dict[str, list[TextPair]] = {}
    for split in SPLIT_NAMES:
        before = done

        def report(count: int, before: int = before) -> None:
            if on_progress is not None:
                on_progress(before + count, total)

        pairs[split] = _draw_distinct(draws[split], counts[split], report)
        done += counts[split]
        _check_count(name, split, len(pairs[split]), counts[split])
    pairs, removed = drop_ambiguous_sources(pairs)
    removal = [f"{removed} ambiguous sources (two targets) were removed."] if removed else []
    return SyntheticPairs(name, pairs, description, [*notes, *removal])


def _draw_distinct(draw: PairSampler, size: int, report: Callable[[int], None]) -> list[TextPair]:
    """Draw distinct pairs, one for each index, until there are `size` or no new ones are found."""
    found: dict[TextPair, None] = {}  # an ordered set
    for index in range(size):
        for _ in range(_MAX_FAILED_DRAWS):
            pair = draw(index)
            if pair is not None and pair not in found:
                found[pair] = None
                break
        else:
            break
        if len(found) % _PROGRESS_EVERY == 0:
            report(len(found))
    report(size)
    return list(found)


def _check_count(name: str, split: str, found: int, expected: int) -> None:
    if split == "train" and found < expected:
        raise ConfigError(
            f"{name}: got size={expected}, but only {found} different training pairs exist; "
            f"try size={found} or less."
        )
    if found == 0:
        raise ConfigError(
            f"{name}: got so small a set of sequences that none falls into {split!r}; "
            "try more symbols or a greater length."
        )


def drop_ambiguous_sources(
    pairs: dict[str, list[TextPair]],
) -> tuple[dict[str, list[TextPair]], int]:
    """Return the pairs whose source has one target over all splits, and the number of others."""
    target_of: dict[str, str] = {}
    ambiguous: set[str] = set()
    for split in pairs.values():
        for source, target in split:
            if target_of.setdefault(source, target) != target:
                ambiguous.add(source)
    if not ambiguous:
        return pairs, 0
    kept = {
        split: [pair for pair in split_pairs if pair[0] not in ambiguous]
        for split, split_pairs in pairs.items()
    }
    return kept, len(ambiguous)
