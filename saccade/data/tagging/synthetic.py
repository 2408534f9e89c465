"""Generated sentences with tagged people, locations, dates and amounts. Does not import torch.

The names are built from syllables, so that most names of the held-out sentences are new: they can
be found by their context, their spelling and their form, not by a list.
"""

from collections.abc import Callable, Sequence

import numpy as np

from saccade.data.tagging.schemes import OUTSIDE, TaggedSentence
from saccade.data.word_splitting import split_words
from saccade.seeding import generator

SENTENCES = 600
TEMPLATES = (
    "{person} was born in {location} on {date} .",
    "The train from {location} to {location} leaves at {time} .",
    "{person} paid {amount} for a ticket to {location} .",
    "On {date} , {person} and {person} moved to {location} .",
    "The bridge in {location} cost {amount} .",
    "Call {person} before {time} on {date} .",
    "In {location} it rained until {date} .",
    "{person} of {location} won {amount} last week .",
    "We met {person} near {location} at {time} .",
    "The mill , sold for {amount} , closed on {date} .",
    "May I pay {amount} in {location} ?",
    "Will {person} march to {location} in the morning ?",
)
_FIRST = "Ada Ben Cleo Dario Elin Femi Greta Hugo Ines Jonas Kira Leo Mira Nils Olga Pia".split()
_STARTS = "Ash Bren Cal Dun Elm Fair Glen Hart King Lin Mor Nor Oak Pen Red Stan Thorn Wes".split()
_TOWN_ENDS = "bury ford ham ley mouth stead ton wick worth".split()
_NAME_ENDS = "berg er ings ly man ner sen son wood".split()
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_CURRENCIES = "dollars euros francs pounds yen".split()


def generate_tagged_sentences() -> list[TaggedSentence]:
    """Return sentences with BIO tags, the same on every machine."""
    random = generator(0, "tagged sentences")
    found: dict[tuple[str, ...], TaggedSentence] = {}
    while len(found) < SENTENCES:
        sentence = _sentence(random)
        found[sentence.tokens] = sentence
    return list(found.values())


def _sentence(random: np.random.Generator) -> TaggedSentence:
    tokens: list[str] = []
    tags: list[str] = []
    for part in _pick(random, TEMPLATES).split():
        name = part.strip("{}")
        is_span = part != name
        words = split_words(SPAN_GENERATORS[name](random)) if is_span else [part]
        tokens += words
        tags += [f"{'I' if n else 'B'}-{name}" if is_span else OUTSIDE for n in range(len(words))]
    return TaggedSentence(tuple(tokens), tuple(tags), (0,) * len(tokens))


def _pick(random: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(random.integers(len(choices)))]


def _person(random: np.random.Generator) -> str:
    last = _pick(random, _STARTS) + _pick(random, _NAME_ENDS)
    return last if random.random() < 0.3 else f"{_pick(random, _FIRST)} {last}"


def _town(random: np.random.Generator) -> str:
    name = _pick(random, _STARTS) + _pick(random, _TOWN_ENDS)
    return f"{_pick(random, ('New', 'Upper', 'West'))} {name}" if random.random() < 0.3 else name


def _date(random: np.random.Generator) -> str:
    day, month, year = random.integers(1, 29), _pick(random, _MONTHS), random.integers(1900, 2030)
    return _pick(random, (f"{day} {month} {year}", f"{month} {day}", f"{day} {month}"))


def _time(random: np.random.Generator) -> str:
    return f"{random.integers(1, 13)}:{random.integers(60):02}" + _pick(random, ("", " pm", " am"))


def _amount(random: np.random.Generator) -> str:
    return f"{random.integers(2, 10_000):,} {_pick(random, _CURRENCIES)}"


SPAN_GENERATORS: dict[str, Callable[[np.random.Generator], str]] = {
    "amount": _amount,
    "date": _date,
    "location": _town,
    "person": _person,
    "time": _time,
}
