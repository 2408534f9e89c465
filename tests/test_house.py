"""The house rules that a machine can keep.

Each rule is a function from a package's folder to a list of complaints. It is used twice: on
Saccade, which must give none, and on a small wrong package, which must give them.
"""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

import saccade.nn
from saccade.config import Config

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "saccade"

LAYERS = [
    {"errors"},
    {"registry"},
    {"config", "seeding", "types"},
    {"compiled", "io"},
    {"data", "decoding", "metrics", "nn", "optim"},
    {"estimators", "inspection", "models", "training"},
    {"inference", "plots"},
    {"tasks"},
    {"interop"},
    {"runs"},
    {"recipes", "serve"},
    {"studio", "workflows"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
WAIT_FOR_TORCH = {"__init__", "cli", "io", "runs", "seeding"}
HOMELESS = {"common", "helper", "helpers", "misc", "util", "utils"}

Import = ast.Import | ast.ImportFrom


def modules(package: Path) -> dict[str, ast.Module]:
    """Every module of a package by its path inside it, parsed."""
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def room_of(name: str) -> str:
    """`nn/masks.py` lives in `nn`, `run.py` in `run`, the front door in `__init__`."""
    return name.split("/")[0].removesuffix(".py")


def imports_in(tree: ast.AST) -> Iterator[Import]:
    return (node for node in ast.walk(tree) if isinstance(node, Import))


def wrong_forms(package: Path) -> list[str]:
    """There is one way to write an import of ours: `from saccade.room import name`."""
    wrong = []
    for name, tree in modules(package).items():
        for node in imports_in(tree):
            if isinstance(node, ast.Import):
                ours = [a.name for a in node.names if a.name.split(".")[0] == "saccade"]
                wrong += [f"{name}:{node.lineno} import {used}" for used in ours]
            elif node.level:
                wrong.append(f"{name}:{node.lineno} a relative import")
            elif node.module == "saccade" and [a.name for a in node.names] != ["__version__"]:
                wrong.append(f"{name}:{node.lineno} from saccade import …")
    return wrong


def imports_that_go_up(package: Path) -> list[str]:
    """A room may use the rooms of lower levels, and itself."""
    wrong = []
    for name, tree in modules(package).items():
        room = room_of(name)
        if room == "__init__":  # the front door opens on every room
            continue
        if room not in LEVEL:
            wrong.append(f"{name}: the room {room!r} has no level")
            continue
        for node in imports_in(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade."):
                used = (node.module or "").split(".")[1]
                if used != room and LEVEL.get(used, len(LAYERS)) >= LEVEL[room]:
                    wrong.append(f"{room} -> {used}   ({name}:{node.lineno})")
    return wrong


def import_circles(package: Path) -> list[str]:
    """Inside a room, too, no file may import itself by way of others."""
    trees = modules(package)
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        used = set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade."):
                inside = (node.module or "").removeprefix("saccade.").replace(".", "/")
                used |= {f for f in (f"{inside}.py", f"{inside}/__init__.py") if f in trees}
        graph[name] = used
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def core_packages() -> set[str]:
    """The import names of the packages that are always installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[<>=!~\[; ]", d)[0].replace("-", "_") for d in project["dependencies"]}


def hidden_imports(package: Path) -> list[str]:
    """Inside functions only extras are imported; but those who can do without torch wait for it."""
    always_there = core_packages() | set(sys.stdlib_module_names) | {"saccade"}
    wrong = set()
    for name, tree in modules(package).items():
        if room_of(name) in WAIT_FOR_TORCH:
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in imports_in(function):
                    names = [a.name for a in node.names]
                    used = names if isinstance(node, ast.Import) else [node.module or ""]
                    wrong |= {
                        f"{name}:{node.lineno} imports {u} inside {function.name}"
                        for u in used
                        if u.split(".")[0] in always_there
                    }
    return sorted(wrong)


def wrong_exports(package: Path) -> list[str]:
    """A room's `__all__` is sorted and holds exactly the public names that its door shows."""
    wrong = []
    for name, tree in modules(package).items():
        if not name.endswith("/__init__.py"):
            continue
        shown, listed = names_shown(tree), names_listed(tree)
        if listed is None:
            wrong += [f"{name}: shows names but has no __all__"] if shown else []
            continue
        if listed != sorted(set(listed)):
            wrong.append(f"{name}: __all__ is not sorted")
        wrong += [f"{name}: {n} is public but not in __all__" for n in shown - set(listed)]
        wrong += [f"{name}: {n} is in __all__ but not there" for n in set(listed) - shown]
    return wrong


def names_shown(tree: ast.Module) -> set[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, Import):
            names += [a.asname or a.name for a in node.names]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [t.id for t in targets if isinstance(t, ast.Name)]
    return {name for name in names if not name.startswith("_")}


def names_listed(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            return list(ast.literal_eval(node.value))  # type: ignore[union-attr]
    return None


def missing_docstrings(package: Path) -> list[str]:
    """Every module says what it is for."""
    return [name for name, tree in modules(package).items() if not ast.get_docstring(tree)]


def docstrings_not_raw(package: Path) -> list[str]:
    r"""A docstring with a backslash is raw, or `\frac` begins with a form feed."""
    wrong = []
    for name, tree in modules(package).items():
        source = (package / name).read_text(encoding="utf-8")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
                continue
            written = ast.get_source_segment(source, node.value) or ""
            if isinstance(node.value.value, str) and "\\" in written and written[0] not in "rR":
                wrong.append(f"{name}:{node.lineno}")
    return wrong


def homeless_modules(package: Path) -> list[str]:
    """There is no `utils`: a line without a home shows that a room is missing."""
    return [
        name for name in modules(package) if HOMELESS & set(name.removesuffix(".py").split("/"))
    ]


RULES: dict[Callable[[Path], list[str]], dict[str, str]] = {
    # each rule, with a package that breaks it in every way there is
    wrong_forms: {"nn/a.py": "import saccade.errors\nfrom . import b\nfrom saccade import open\n"},
    imports_that_go_up: {
        "nn/a.py": "from saccade.models import X\nfrom saccade.data.parallel.readers import Y\n",
        "attic/a.py": "",
    },
    import_circles: {
        "nn/a.py": "from saccade.nn.b import B\n",
        "nn/b.py": "from saccade.nn.a import A\n",
    },
    hidden_imports: {
        "nn/a.py": "def f():\n    import json\n    import saccade.runs.run\n    from torch import nn\n"
    },
    wrong_exports: {
        "nn/__init__.py": "from saccade.nn.a import A, B\n__all__ = ['C', 'A']\n",
        "data/__init__.py": "from saccade.data.a import A\n",
    },
    missing_docstrings: {"nn/a.py": "x = 1\n"},
    docstrings_not_raw: {"nn/a.py": 'def f():\n    """\\\\frac"""\n'},
    homeless_modules: {"nn/utils.py": "", "helpers/a.py": ""},
}
COMPLAINTS = {
    wrong_forms: 3,
    imports_that_go_up: 3,
    import_circles: 1,
    hidden_imports: 3,
    wrong_exports: 4,  # not sorted, B not listed, C not there, no list at all
    missing_docstrings: 1,
    docstrings_not_raw: 1,
    homeless_modules: 2,
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    wrong = rule(PACKAGE)
    assert not wrong, "\n".join([rule.__doc__ or "", *wrong])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_can_fail(rule: Callable[[Path], list[str]], tmp_path: Path) -> None:
    for name, source in RULES[rule].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    assert len(rule(tmp_path)) == COMPLAINTS[rule], rule(tmp_path)


def test_extras_may_be_imported_where_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve/a.py").write_text("def f():\n    import fastapi\n", encoding="utf-8")
    assert hidden_imports(tmp_path) == []


def in_a_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_saccade_loads_no_torch() -> None:
    loaded = in_a_new_process("import sys, saccade; print(*sys.modules)").split()
    assert "saccade" in loaded
    assert not {"torch", "numpy", "matplotlib"} & set(loaded)


def test_help_loads_no_torch() -> None:
    answer = in_a_new_process(
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', *sys.modules))\n"
        "sys.argv = ['saccade', '--help']\n"
        "from saccade.cli.main import main\n"
        "sys.exit(main())\n"
    )
    help_text, _, loaded = answer.partition("LOADED")
    assert "train" in help_text
    assert not {"torch", "numpy", "matplotlib"} & set(loaded.split())


def test_the_front_door_lists_what_it_has() -> None:
    assert saccade.__all__ == sorted(saccade.__all__)
    missing = [name for name in saccade.__all__ if not hasattr(saccade, name)]
    assert not missing


def test_the_newest_version_in_the_changelog_is_this_one() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", text, flags=re.MULTILINE)
    assert versions[:1] == [saccade.__version__]


def settings_classes(kind: type[Config] = Config) -> Iterator[type[Config]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("saccade."):
            yield child
        yield from settings_classes(child)


def test_a_setting_that_may_be_open_is_open_unless_given() -> None:
    # TOML has no null: an open setting is left out of a file, so it must come back as open
    for found in pkgutil.walk_packages(saccade.__path__, "saccade."):
        if found.name != "saccade.__main__":  # importing that one starts the command line
            importlib.import_module(found.name)
    wrong = [
        f"{kind.__name__}.{name}"
        for kind in settings_classes()
        for name, field in kind.model_fields.items()
        if type(None) in getattr(field.annotation, "__args__", ()) and field.default is not None
    ]
    assert not wrong, "these may be None but do not default to it: " + ", ".join(wrong)


NOT_OURS = {"runs", "data", "build", "dist", "__pycache__"}
# a folder of one developer's machine; an address on the web has a letter before its slash
MACHINE_PATH = re.compile(r"(?<![\w.~:-])/(?:work|opt|root|home|Users)/\w")


def our_files() -> Iterator[Path]:
    for top in ROOT.iterdir():
        if top.name in NOT_OURS or (top.name.startswith(".") and top.name != ".ci"):
            continue
        files = [top] if top.is_file() else top.rglob("*")
        yield from (f for f in files if f.is_file() and not NOT_OURS & set(f.parts[-2:-1]))


def test_no_file_names_a_place_on_one_machine() -> None:
    assert MACHINE_PATH.search("see " + "/".join(["", "home", "ada", "notes"]))
    wrong = []
    for path in our_files():
        if path.suffix in {".py", ".md", ".toml", ".txt", ""}:
            lines = path.read_text(encoding="utf-8").splitlines()
            wrong += [
                f"{path.relative_to(ROOT)}:{number} {line.strip()}"
                for number, line in enumerate(lines, 1)
                if MACHINE_PATH.search(line)
            ]
    assert not wrong, "\n".join(wrong)


def test_every_module_with_shapes_is_checked_while_the_tests_run(
    pytestconfig: pytest.Config,
) -> None:
    checked = str(pytestconfig.getoption("--jaxtyping-packages")).split(",")[:-1]
    with_shapes = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if "jaxtyping" in (text := path.read_text(encoding="utf-8"))
        or "saccade.types.shapes" in text
    ]
    assert len(with_shapes) > 40
    assert not [
        name
        for name in with_shapes
        if not any(name == room or name.startswith(f"{room}.") for room in checked)
    ]


def test_a_wrong_shape_is_refused_while_the_tests_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shape_probe.py").write_text(
        "from jaxtyping import Float\n"
        "from torch import Tensor\n"
        "def add(a: Float[Tensor, 'B T'], b: Float[Tensor, 'B T']) -> Float[Tensor, 'B T']:\n"
        "    return a + b\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(saccade.nn, "__path__", [*saccade.nn.__path__, str(tmp_path)])
    probe = importlib.import_module("saccade.nn.shape_probe")
    monkeypatch.delitem(sys.modules, "saccade.nn.shape_probe")
    assert probe.add(torch.ones(2, 3), torch.ones(2, 3)).shape == (2, 3)
    with pytest.raises(TypeCheckError, match=r"parameter 'b'\.\sActual value: f32\[1,3\]"):
        probe.add(torch.ones(2, 3), torch.ones(1, 3))  # torch alone would broadcast
