"""The library's own regular expressions take linear time, whatever the data."""

import ast
import itertools
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saccade.data.records.header import _NUMBER
from saccade.data.word_splitting import _word_pattern

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from re import _parser as parser  # type: ignore[attr-defined]

ROOT = Path(__file__).parent.parent / "saccade"
FUNCTIONS = {"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub"}
REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def written_patterns() -> Iterator[str]:
    """Yield the patterns that the modules pass to `re`; inserted values are replaced by "x"."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func.value) != "re" or node.func.attr not in FUNCTIONS:
                continue
            pattern = node.args[0]
            if isinstance(pattern, ast.Constant):
                value = pattern.value
                yield value.decode("latin-1") if isinstance(value, bytes) else value
            elif isinstance(pattern, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "x" for p in pattern.values]
                yield "".join(map(str, parts))


def ambiguous_repeats(parsed: Any) -> Iterator[Any]:
    """Yield unbounded repeats of nothing but one unbounded repeat and optional parts: `(a+)+`.

    A part that must be there once in each round, such as the point in `(\\.\\d+)+`, separates them.
    """
    for kind, value in parsed:
        name = str(kind)
        if name in REPEATS:
            _, largest, body = value
            if largest == parser.MAXREPEAT and _is_open(body):
                yield value
            yield from ambiguous_repeats(body)
        elif name == "SUBPATTERN":
            yield from ambiguous_repeats(value[-1])
        elif name == "BRANCH":
            for branch in value[1]:
                yield from ambiguous_repeats(branch)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from ambiguous_repeats(value[1])


def _is_open(body: Any) -> bool:
    """Return True if a body has an unbounded repeat and no part of a fixed length."""
    has_repeat = False
    for kind, value in body:
        name = str(kind)
        if name in REPEATS:
            has_repeat = has_repeat or value[1] == parser.MAXREPEAT
        elif name == "SUBPATTERN":
            if not _is_open(value[-1]):
                return False
            has_repeat = True
        elif name == "BRANCH":
            return any(_is_open(branch) for branch in value[1])
        elif name != "AT":
            return False
    return has_repeat


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a*)*b", "((a+))+", "(?:a+|b)*c", "(a+b?)+"])
def test_catastrophic_patterns_are_found(pattern: str) -> None:
    assert list(ambiguous_repeats(parser.parse(pattern)))


def test_no_pattern_of_the_library_is_catastrophic() -> None:
    patterns = [*written_patterns(), _word_pattern().pattern]
    assert len(patterns) > 40
    found = [pattern for pattern in patterns if [*ambiguous_repeats(parser.parse(pattern))]]
    assert not found, found


@pytest.mark.parametrize("unit", ["1", " ", "1 ", "1,", ".", "a", "\u0301", "'a", "年"])
def test_long_cells_and_words_end(unit: str) -> None:
    """With quadratic time, a million characters would take hours."""
    text = unit * (1_000_000 // len(unit)) + "x"
    assert _NUMBER.fullmatch(text) is None
    assert "".join(_word_pattern().findall(text)) == text.replace(" ", "")


def test_number_pattern_matches_what_it_did() -> None:
    """The pattern before, in quadratic time, on every short text."""
    before = re.compile(r"[+-]?[$€£¥]?\s?[\d.,\s]*\d[\d.,]*\s?[%€$£¥]?")
    for length in range(6):
        for letters in itertools.product("1., +€%", repeat=length):
            text = "".join(letters)
            assert bool(_NUMBER.fullmatch(text)) == bool(before.fullmatch(text)), text
