"""Print lines per package, and the longest files and functions; sizes are not enforced."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_ROWS = 8


def main() -> None:
    """Count the lines of the package and the tests, and print the largest."""
    packages: Counter[str] = Counter()
    files: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for path in sorted([*ROOT.glob("saccade/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        files[name] = text.count("\n")
        packages[package_of(path.relative_to(ROOT))] += files[name]
        functions.update({f"{name}:{where}": lines for where, lines in functions_of(text)})
    print_list("lines per package", packages.most_common())
    print_list("longest files (guideline: 400)", files.most_common(MAX_ROWS))
    print_list("longest functions (guideline: 50)", functions.most_common(MAX_ROWS))


def package_of(path: Path) -> str:
    """Return `nn` for `saccade/nn/masks.py`, and `tests` for all tests."""
    return "tests" if path.parts[0] == "tests" else path.parts[1].removesuffix(".py")


def functions_of(text: str) -> list[tuple[str, int]]:
    """Return the functions of a file as `line name`, with their number of lines."""
    return [
        (f"{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def print_list(title: str, rows: list[tuple[str, int]]) -> None:
    """Print one list with a heading."""
    print(f"\n{title}")
    for name, lines in rows:
        print(f"{lines:7,}  {name}")


if __name__ == "__main__":
    main()
