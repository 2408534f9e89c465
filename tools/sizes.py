"""Print lines per room, and the longest files and functions: sizes are looked at, not enforced."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHOWN = 8


def main() -> None:
    """Count the package and the tests, then show the tops of the lists."""
    rooms: Counter[str] = Counter()
    files: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for path in sorted([*ROOT.glob("saccade/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        files[name] = text.count("\n")
        rooms[room_of(path.relative_to(ROOT))] += files[name]
        functions.update({f"{name}:{where}": lines for where, lines in functions_of(text)})
    show("lines per room", rooms.most_common())
    show("longest files (look at 400)", files.most_common(SHOWN))
    show("longest functions (look at 50)", functions.most_common(SHOWN))


def room_of(path: Path) -> str:
    """`saccade/nn/masks.py` is in `nn`; all tests are in `tests`."""
    return "tests" if path.parts[0] == "tests" else path.parts[1].removesuffix(".py")


def functions_of(text: str) -> list[tuple[str, int]]:
    """The functions of a file as `line name`, with how many lines each takes."""
    return [
        (f"{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def show(title: str, rows: list[tuple[str, int]]) -> None:
    """One list, with a heading."""
    print(f"\n{title}")
    for name, lines in rows:
        print(f"{lines:7,}  {name}")


if __name__ == "__main__":
    main()
