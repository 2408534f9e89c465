"""How made data is drawn: the same for every kind, so that every kind keeps the same promises.

- Same arguments, same pairs, on every machine.
- No source occurs twice, in any split.
- The side a thing falls on (train, dev, test) is a hash of the thing itself: it does not move
  with the seed or the size.
- A source that turns up with two targets is taken out of all splits, and counted in the notes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from saccade.errors import ConfigError
from saccade.seeding import generator

TextPair = tuple[str, str]
PairSampler = Callable[
    [int], TextPair | None
]  # the turn's number in; None: this turn drew nothing of use
ProgressCallback = Callable[[int, int], None]  # pairs done, pairs in all

SPLIT_NAMES = ("train", "dev", "test")
_PATIENCE = 2_000  # useless draws in a row after which a split is taken to be used up
_REPORT_EVERY = 2_000


@dataclass(frozen=True)
class SyntheticPairs:
    """Pairs of (source, target) for each split, and what a reader should know about them."""

    name: str
    pairs: dict[str, list[TextPair]]
    description: str
    notes: list[str]


def hash_split(thing: str) -> str:
    """The split a thing belongs to, from its blake2b hash alone: 90 % train, 5 % dev, 5 % test."""
    share = int.from_bytes(blake2b(thing.encode(), digest_size=8).digest(), "big") / 2**64
    if share < 0.90:
        return "train"
    return "dev" if share < 0.95 else "test"


def uniform_stream(seed: int, purpose: str) -> Iterator[float]:
    """Numbers from [0, 1) without end, the same for the same seed and purpose."""
    source = generator(seed, purpose)
    while True:
        # a block at a time: asking numpy for one number costs as much as making a hundred
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
    """Draw `size` pairs for training; `held_out` each for dev and test, as far as they last."""
    if size < 1:
        raise ConfigError(f"{name}: size is {size}, but there must be at least 1 training pair.")
    wanted = {split: size if split == "train" else held_out for split in SPLIT_NAMES}
    total, done = sum(wanted.values()), 0
    pairs: dict[str, list[TextPair]] = {}
    for split in SPLIT_NAMES:
        before = done

        def report(count: int, before: int = before) -> None:
            if on_progress is not None:
                on_progress(before + count, total)

        pairs[split] = _gather(draws[split], wanted[split], report)
        done += wanted[split]
        _check_enough(name, split, len(pairs[split]), wanted[split])
    pairs, removed = drop_ambiguous_sources(pairs)
    readings = f"{removed} sources with two readings were taken out."
    return SyntheticPairs(name, pairs, description, [*notes, readings])


def _gather(draw: PairSampler, size: int, report: Callable[[int], None]) -> list[TextPair]:
    """Pairs that all differ, one for each turn, until there are enough or no new ones come."""
    found: dict[TextPair, None] = {}  # a set that keeps its order
    for turn in range(size):
        for _ in range(_PATIENCE):
            pair = draw(turn)
            if pair is not None and pair not in found:
                found[pair] = None
                break
        else:
            break
        if len(found) % _REPORT_EVERY == 0:
            report(len(found))
    report(size)
    return list(found)


def _check_enough(name: str, split: str, found: int, wanted: int) -> None:
    if split == "train" and found < wanted:
        raise ConfigError(
            f"{name}: {wanted} different training pairs were asked for, but only {found} could "
            f"be found. Ask for fewer: size={found} or less."
        )
    if found == 0:
        raise ConfigError(
            f"{name}: there are so few sequences that none falls into {split!r}. "
            f"Use more symbols or a greater length."
        )


def drop_ambiguous_sources(
    pairs: dict[str, list[TextPair]],
) -> tuple[dict[str, list[TextPair]], int]:
    """The pairs whose source has one target over all splits, and how many sources had two."""
    reading: dict[str, str] = {}
    doubtful: set[str] = set()
    for split in pairs.values():
        for source, target in split:
            if reading.setdefault(source, target) != target:
                doubtful.add(source)
    if not doubtful:
        return pairs, 0
    kept = {
        split: [pair for pair in several if pair[0] not in doubtful]
        for split, several in pairs.items()
    }
    return kept, len(doubtful)
