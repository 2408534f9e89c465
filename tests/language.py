"""The vocabulary rule: find words that the field does not use, in code and in what users read.

`python -m tests.language saccade/nn` prints the complaints about some files or folders.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# everyday words that stand for a term of the field, and the term
REFUSED = {
    r"fore(tell|tells|told|telling)": "predict",
    r"luck|lucky": "generator, seed, random",
    r"whoever|nobody|somebody": "name the actor: the user, the caller",
    r"tell|tells|told|telling": "report, log, callback, on_progress",
    r"said|say|says|saying": "print, report, predict, set",
    r"begun|began|begin|begins|beginning": "start, initialise",
    r"go(es)? on|going on|went on|gone on": "resume, continue, fine-tune",
    r"standing|stood": "state",
    r"sitting|sittings": "session",
    r"apart|beside": "isolated, parallel, separately, next to",
    r"foremost|otherwise than": "differently from",
    r"wanted|wants|was asked for|were asked for": "expected",
    r"by chance": "at random",
    r"seal|seals|sealed": "checksum",
    r"laws?": "invariant",
    r"strange|stranger|strangers": "unknown, incompatible",
    r"thinks?|speaks?|speaking": "computes, generates",
    r"likeliest": "most probable",
    r"at once": "at a time, together",
}
REFUSED_IDENTIFIERS = {
    r"places?": "position, folder",
    r"marks?": "special_tokens, delimiter",
    r"most|fewest|least": "limit, max_…, min_…",
    r"at_once|few|shown|each_apart|enough|farthest": "a constant that says of what it is the limit",
    r"wishes|nothing|strange": "a noun of the field",
}
# Python 3.12 splits f-strings into tokens
PROSE_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
OPENINGS = re.compile(r"^(What|How|Whether|Who|Of|As)\b")  # of a docstring
ALLOWED_PHRASES = re.compile(
    r"tell apart|in place|take place|takes place|place-?holder|law of|Zipf's law|power law"
    r"|Moore's law|least squares|at least|at most|tell tale",
    re.IGNORECASE,
)
# literals that cannot change: (file in saccade/, literal, reason)
EXCEPTIONS = [
    ("io/atomic.py", '"sealed"', "key of the checksum in saved files"),
    ("metrics/two_samples.py", '"told apart"', "generator purpose: decides the random numbers"),
    ("tasks/tabular/objective.py", '"said"', "key of the predictions in checkpoints"),
    ("training/checkpoint.py", '"standing"', "key of the state in run formats 1 and 2"),
]
_WORDS = [
    (re.compile(rf"\b({pattern})\b", re.IGNORECASE), term) for pattern, term in REFUSED.items()
]
_NAMES = [
    (re.compile(rf"(?:^|_)({pattern})(?=_|$)", re.IGNORECASE), term)
    for pattern, term in {**REFUSED_IDENTIFIERS, **REFUSED}.items()
]


def prose_complaints(text: str) -> Iterator[str]:
    """Yield a complaint for each refused word of a text."""
    text = ALLOWED_PHRASES.sub(" ", text)
    for pattern, term in _WORDS:
        for match in pattern.finditer(text):
            yield f"{match[0]!r} in {_around(text, match.start())!r}: use {term}"


def name_complaints(name: str) -> Iterator[str]:
    """Yield a complaint for each refused part of an identifier."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    for pattern, term in _NAMES:
        if match := pattern.search(parts):
            yield f"identifier {name!r} has {match[1]!r}: use {term}"


def _around(text: str, at: int) -> str:
    return " ".join(text[max(0, at - 25) : at + 30].split())


def file_complaints(path: Path) -> Iterator[str]:
    """Yield `file:line complaint` for the names, docstrings, comments and strings of a module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for line, name in sorted(defined_names(tree)):
        yield from (f"{path}:{line} {found}" for found in name_complaints(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node) or ""
            if OPENINGS.match(docstring):
                line = getattr(node, "lineno", 1)
                opening = docstring.split("\n")[0][:60]
                yield f"{path}:{line} docstring {opening!r}: start with an imperative or a noun"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in PROSE_TOKENS:
            text = token.string
            for name, literal, _ in EXCEPTIONS:
                if path.as_posix().endswith(f"saccade/{name}"):
                    text = text.replace(literal, "")
            for found in prose_complaints(text):
                yield f"{path}:{token.start[0]} {found}"


def defined_names(tree: ast.AST) -> set[tuple[int, str]]:
    """Return every name that a module defines: functions, classes, parameters, variables."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            found.add((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add((node.lineno, node.attr))
    return found


def complaints(paths: list[Path]) -> list[str]:
    """Return the complaints about files, or all Python files below folders."""
    files = [f for path in paths for f in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [found for file in files for found in file_complaints(file)]


if __name__ == "__main__":
    found = complaints([Path(argument) for argument in sys.argv[1:]])
    print("\n".join(found))
    print(f"{len(found)} complaints", file=sys.stderr)
