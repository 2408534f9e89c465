"""House rules that a machine can check; `python -m tests.test_house --write` updates the docs.

A rule is a function from a package's folder to a list of complaints. It is used twice: on Saccade,
where it must find none, and on a small wrong package, where it must find them.
"""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

import saccade.nn
from saccade.config import Config
from tests.hanging import HANG_SECONDS
from tests.language import EXCEPTIONS, complaints

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "saccade"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

# the table of packages, lowest level first: imports go to lower levels only
LAYERS: list[dict[str, str]] = [
    {"errors": "exception tree"},
    {"registry": 'name → object, with "did you mean"'},
    {
        "config": "frozen settings",
        "seeding": "every random choice as a function of (seed, purpose, step)",
        "types": "shape legend and values that travel (`Batch`, `Prediction`, `Evaluation`)",
    },
    {
        "compiled": "decorators for compiled loops (numba, optional)",
        "io": "atomic checksummed files, safetensors, locks, text files of any encoding or "
        "compression, downloads",
    },
    {
        "data": "files in, batches out: readers by kind of data, synthetic data, the catalogue of "
        "datasets, splits, batching, tokenizers",
        "decoding": "`generate`, greedy, beam, sampling, constraints",
        "metrics": "predictions and references in, metrics with conventions out",
        "nn": "layers and losses: tensors in, tensors out; `functional.py` (the equations), "
        "`kernels/` (each fast path next to its reference)",
        "optim": "updates and learning-rate schedules",
    },
    {
        "estimators": "models with their own `fit`: n-grams, word vectors, SVM, kernel regression",
        "inspection": "what a model does, as data: attention capture, gradient norms, signal "
        "propagation, invariance checks",
        "models": "one file per family, built from `nn`; their settings in `config.py`, without "
        "torch",
        "training": "loop, session, checkpoint, callbacks, device, signals, parallelism",
    },
    {
        "inference": 'fused decoders for trained models, chosen by name (`engine="fused"`)',
        "plots": "what `inspection` returns, as pictures: matplotlib, terminal, JSON",
    },
    {"interop": "formats of other tools: Hugging Face, CTranslate2, word2vec, fastText"},
    {
        "tasks": "one folder per task, the same file names in each: `config data objective predict "
        "evaluate inspect spec`",
    },
    {"runs": "the run folder: `Run`, train, resume, report"},
    {
        "recipes": "functions that return settings",
        "serve": "HTTP",
    },
    {
        "studio": "the browser window",
        "workflows": "several runs: compare, prune, doctor, fine-tune",
    },
    {"cli": "one file per command, named like it; `list` is generated from the registries"},
    {"__main__": "`python -m saccade`"},
]
LEVEL = {name: level for level, packages in enumerate(LAYERS) for name in packages}
ROOT_MODULES = {"__init__", "__main__", "config", "errors", "registry", "seeding"}
NEVER_DRAW = {"tasks", "serve"}  # packages that a server needs, without matplotlib
WAIT_FOR_TORCH = {"__init__", "__main__", "cli", "io", "runs", "seeding"}
CATCH_ALL_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}

Import = ast.Import | ast.ImportFrom


def modules(package: Path) -> dict[str, ast.Module]:
    """Return every module of a package, parsed, by its path inside it."""
    return own_modules() if package == PACKAGE else parse_modules(package)


@cache
def own_modules() -> dict[str, ast.Module]:
    """Return the modules of Saccade, which no rule changes."""
    return parse_modules(PACKAGE)


def parse_modules(package: Path) -> dict[str, ast.Module]:
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def package_of(name: str) -> str:
    """Return `nn` for `nn/masks.py`, `config` for `config.py`."""
    return name.split("/")[0].removesuffix(".py")


def imports_in(tree: ast.AST) -> Iterator[Import]:
    return (node for node in ast.walk(tree) if isinstance(node, Import))


def wrong_forms(package: Path) -> list[str]:
    """Imports of our own modules are written `from saccade.package import name`."""
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
    """A package imports from lower levels and from itself only."""
    wrong = []
    for name, tree in modules(package).items():
        package_name = package_of(name)
        if package_name == "__init__":  # imports from everywhere
            continue
        if package_name not in LEVEL:
            wrong.append(f"{name}: the package {package_name!r} has no level")
            continue
        for node in imports_in(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade."):
                used = (node.module or "").split(".")[1]
                if used == package_name:
                    continue
                if LEVEL.get(used, len(LAYERS)) >= LEVEL[package_name]:
                    wrong.append(f"{package_name} -> {used}   ({name}:{node.lineno})")
    return wrong


def import_cycles(package: Path) -> list[str]:
    """No module imports itself by way of others, inside a package either."""
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
    """Return the import names of the packages that are always installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[<>=!~\[; ]", d)[0].replace("-", "_") for d in project["dependencies"]}


def hidden_imports(package: Path) -> list[str]:
    """Functions import extras only, except in packages that work without torch."""
    installed = core_packages() | set(sys.stdlib_module_names) | {"saccade"}
    wrong = set()
    for name, tree in modules(package).items():
        if package_of(name) in WAIT_FOR_TORCH:
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in imports_in(function):
                    names = [a.name for a in node.names]
                    used = names if isinstance(node, ast.Import) else [node.module or ""]
                    wrong |= {
                        f"{name}:{node.lineno} imports {u} inside {function.name}"
                        for u in used
                        if u.split(".")[0] in installed
                    }
    return sorted(wrong)


def wrong_exports(package: Path) -> list[str]:
    """`__all__` of a package is sorted and lists exactly the public names of `__init__`."""
    wrong = []
    for name, tree in modules(package).items():
        if not name.endswith("/__init__.py"):
            continue
        public, listed = public_names(tree), listed_names(tree)
        if listed is None:
            wrong += [f"{name}: has public names but no __all__"] if public else []
            continue
        if listed != sorted(set(listed)):
            wrong.append(f"{name}: __all__ is not sorted")
        wrong += [f"{name}: {n} is public but not in __all__" for n in public - set(listed)]
        wrong += [f"{name}: {n} is in __all__ but not there" for n in set(listed) - public]
    return wrong


def public_names(tree: ast.Module) -> set[str]:
    """Return the names that a module defines or imports, those for type checkers included."""
    names: list[str] = []
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            continue
        if isinstance(node, Import):
            names += [a.asname or a.name for a in node.names]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [t.id for t in targets if isinstance(t, ast.Name)]
    return {name for name in names if not name.startswith("_")}


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, and those inside `if TYPE_CHECKING:`."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body
        else:
            yield node


def listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            return list(ast.literal_eval(node.value))  # type: ignore[union-attr]
    return None


def missing_docstrings(package: Path) -> list[str]:
    """Every module has a docstring."""
    return [name for name, tree in modules(package).items() if not ast.get_docstring(tree)]


def docstrings_not_raw(package: Path) -> list[str]:
    r"""A docstring with a backslash is raw, or `\frac` starts with a form feed."""
    wrong = []
    for name, tree in modules(package).items():
        source = (package / name).read_text(encoding="utf-8")
        lines = source.split("\n")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
                continue
            if not any("\\" in line for line in lines[node.lineno - 1 : node.end_lineno]):
                continue
            written = ast.get_source_segment(source, node.value) or ""
            if isinstance(node.value.value, str) and "\\" in written and written[0] not in "rR":
                wrong.append(f"{name}:{node.lineno}")
    return wrong


def catch_all_modules(package: Path) -> list[str]:
    """There is no `utils`: code that fits nowhere shows that a package is missing."""
    return [
        name
        for name in modules(package)
        if CATCH_ALL_NAMES & set(name.removesuffix(".py").split("/"))
    ]


def unexpected_root_modules(package: Path) -> list[str]:
    """The root has a few modules and the packages of the table, nothing else."""
    files = {path.stem for path in package.glob("*.py")} - ROOT_MODULES
    folders = {path.parent.name for path in package.glob("*/*.py")} - (LEVEL.keys() - ROOT_MODULES)
    return [*sorted(files), *sorted(folders)]


def drawing_imports(package: Path) -> list[str]:
    """Tasks and servers return data; they import neither matplotlib nor `saccade.plots`."""
    wrong = []
    for name, tree in modules(package).items():
        if package_of(name) in NEVER_DRAW:
            for node in imports_in(tree):
                names = [a.name for a in node.names]
                used = names if isinstance(node, ast.Import) else [node.module or ""]
                wrong += [
                    f"{name}:{node.lineno} imports {u}"
                    for u in used
                    if u.split(".")[0] == "matplotlib" or u.startswith("saccade.plots")
                ]
    return wrong


# modules that run code or read objects that do, and the files that may use them
RUNS_CODE = {
    "ctypes": {"training/device.py"},
    "subprocess": {"interop/ctranslate2/subprocess.py"},
    **dict.fromkeys(("code", "dill", "marshal", "pickle", "runpy", "shelve", "yaml"), set()),
}
# the checksum of the file is compared before, and it is read as tensors only
READS_TENSORS = {"interop/efficientnet_lite.py": "torch.load"}
RUNS_CODE_CALLS = ("eval", "exec", "compile", "torch.load", "os.system", "os.popen")


def code_from_data(package: Path) -> list[str]:
    """Opening a file executes nothing: no pickle, no eval, no other process but the named ones."""
    wrong = []
    for name, tree in modules(package).items():
        for node in imports_in(tree):
            module = node.names[0].name if isinstance(node, ast.Import) else node.module or ""
            if name not in RUNS_CODE.get(module.split(".")[0], {name}):
                wrong.append(f"{name}:{node.lineno} imports {module}")
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in RUNS_CODE_CALLS:
                is_tensors = "weights_only=True" in map(ast.unparse, call.keywords)
                if is_tensors and READS_TENSORS.get(name) == ast.unparse(call.func):
                    continue
                wrong.append(f"{name}:{call.lineno} calls {ast.unparse(call.func)}")
    return wrong


def repeated_names(package: Path) -> list[str]:
    """A public class, function or constant is defined in one module only."""
    defined = defaultdict(list)
    for name, tree in modules(package).items():
        for found in defined_names(tree):
            defined[found].append(name)
    return [f"{name}: {', '.join(files)}" for name, files in defined.items() if len(files) > 1]


def refused_words(package: Path) -> list[str]:
    """Names, docstrings, comments and messages use the terms of the field."""
    return complaints([package])


def defined_names(tree: ast.Module) -> set[str]:
    """Return the public names that a module defines itself; imports are not definitions."""
    imported = {
        a.asname or a.name
        for node in statements(tree)
        if isinstance(node, Import)
        for a in node.names
    }
    return public_names(tree) - imported


RULES: dict[Callable[[Path], list[str]], dict[str, str]] = {
    # each rule, with a package that breaks it in every way
    wrong_forms: {"nn/a.py": "import saccade.errors\nfrom . import b\nfrom saccade import open\n"},
    imports_that_go_up: {
        "nn/a.py": "from saccade.models import X\nfrom saccade.data.parallel.readers import Y\n",
        "attic/a.py": "",
    },
    import_cycles: {
        "nn/a.py": "from saccade.nn.b import B\n",
        "nn/b.py": "from saccade.nn.a import A\n",
    },
    hidden_imports: {
        "nn/a.py": "def f():\n    import json\n    import saccade.runs\n    from torch import nn\n"
    },
    wrong_exports: {
        "nn/__init__.py": "from saccade.nn.a import A, B\n__all__ = ['C', 'A']\n",
        "data/__init__.py": "from saccade.data.a import A\n",
    },
    missing_docstrings: {"nn/a.py": "x = 1\n"},
    docstrings_not_raw: {"nn/a.py": 'def f():\n    """\\\\frac"""\n'},
    catch_all_modules: {"nn/utils.py": "", "helpers/a.py": ""},
    unexpected_root_modules: {"storage.py": "", "config.py": "", "attic/a.py": "", "nn/a.py": ""},
    code_from_data: {
        "io/a.py": "import pickle\nfrom subprocess import run\nimport torch\n"
        "def f(x):\n    eval(x)\n    return torch.load(x)\n"
    },
    drawing_imports: {
        "tasks/a.py": "import matplotlib.pyplot\nfrom saccade.plots.render import save_figure\n",
        "serve/a.py": "def f():\n    from matplotlib import colors\n",
        "runs/a.py": "from saccade.plots.render import save_figure\n",
    },
    repeated_names: {
        "nn/a.py": "class A: ...\ndef f(): ...\nLIMIT = 1\n_x = 1\n",
        "nn/b.py": "from saccade.nn.a import f\nclass A: ...\nLIMIT: int = 1\n_x = 1\n",
    },
    refused_words: {
        # the hyphens keep the rule for this file
        "nn/a.py": 'def f(lu-ck):\n    """How."""\n    return "no-body"  # go-es on\n'.replace(
            "-", ""
        ),
    },
}
COMPLAINTS = {
    wrong_forms: 3,
    imports_that_go_up: 3,
    import_cycles: 1,
    hidden_imports: 3,
    wrong_exports: 4,  # not sorted, B not listed, C not there, no list
    missing_docstrings: 1,
    docstrings_not_raw: 1,
    catch_all_modules: 2,
    unexpected_root_modules: 2,
    code_from_data: 4,
    drawing_imports: 3,
    repeated_names: 2,
    refused_words: 4,
}


def test_tests_call_commands_by_run() -> None:
    """`main` starts a thread that ends the process of all tests after later signals."""
    tests = Path(__file__).parent.rglob("test_*.py")
    calls = [
        path.name for path in tests if "\nfrom saccade.cli.main import main" in path.read_text()
    ]
    assert not calls


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    wrong = rule(PACKAGE)
    assert not wrong, "\n".join([rule.__doc__ or "", *wrong])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_finds_violations(rule: Callable[[Path], list[str]], tmp_path: Path) -> None:
    for name, source in RULES[rule].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    assert len(rule(tmp_path)) == COMPLAINTS[rule], rule(tmp_path)


def test_hidden_imports_allows_extras(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve/a.py").write_text("def f():\n    import fastapi\n", encoding="utf-8")
    assert hidden_imports(tmp_path) == []


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_language_exceptions_are_in_use() -> None:
    for name, literal, reason in EXCEPTIONS:
        assert literal in (PACKAGE / name).read_text(encoding="utf-8"), f"{name}: {literal}"
        assert reason


def test_tasks_load_no_matplotlib() -> None:
    loaded = run_python(
        "import importlib.util, pkgutil, sys\n"
        "from saccade.tasks.registry import TASKS\n"
        "names = [TASKS[name].name for name in TASKS]\n"
        "if importlib.util.find_spec('saccade.serve'):\n"
        "    import saccade.serve\n"
        "    for found in pkgutil.walk_packages(saccade.serve.__path__, 'saccade.serve.'):\n"
        "        importlib.import_module(found.name)\n"
        "print(*sys.modules)\n"
    ).split()
    assert "saccade.tasks.translation.spec" in loaded
    assert not [name for name in loaded if name.startswith(("matplotlib", "saccade.plots"))]


TABLE = re.compile(r"(?<=\n)\| level \| package \| contents \|\n(?:\|[^\n]*\n)+")


def package_table() -> str:
    """Return the Markdown table of the packages that exist, with their levels."""
    lines = ["| level | package | contents |", "|---|---|---|"]
    for level, packages in enumerate(LAYERS):
        for name, contents in packages.items():
            if (PACKAGE / name).is_dir():
                lines.append(f"| {level} | `{name}/` | {contents} |")
            elif (PACKAGE / f"{name}.py").exists():
                lines.append(f"| {level} | `{name}.py` | {contents} |")
    return "\n".join(lines) + "\n"


def test_contributing_has_the_package_table() -> None:
    found = TABLE.findall(CONTRIBUTING.read_text(encoding="utf-8"))
    assert found == [package_table()], "run: python -m tests.test_house --write"


def write_package_table() -> None:
    """Replace the table in CONTRIBUTING.md."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    new, count = TABLE.subn(lambda match: package_table(), text)
    assert count == 1
    CONTRIBUTING.write_text(new, encoding="utf-8")


def test_import_saccade_loads_no_torch() -> None:
    loaded = run_python("import sys, saccade; print(*sys.modules)").split()
    assert "saccade" in loaded
    assert not {"torch", "numpy", "matplotlib"} & set(loaded)


def test_help_loads_no_torch() -> None:
    answer = run_python(
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', *sys.modules))\n"
        "sys.argv = ['saccade', '--help']\n"
        "from saccade.cli.main import main\n"
        "sys.exit(main())\n"
    )
    help_text, _, loaded = answer.partition("LOADED")
    assert "train" in help_text
    assert not {"torch", "numpy", "matplotlib"} & set(loaded.split())


def test_saccade_all_is_sorted_and_complete() -> None:
    assert saccade.__all__ == sorted(saccade.__all__)
    missing = [name for name in saccade.__all__ if not hasattr(saccade, name)]
    assert not missing


def test_changelog_starts_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", text, flags=re.MULTILINE)
    assert versions[:1] == [saccade.__version__]


def settings_classes(kind: type[Config] = Config) -> Iterator[type[Config]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("saccade."):
            yield child
        yield from settings_classes(child)


def test_optional_settings_default_to_none() -> None:
    # TOML has no null: a setting that is None is left out of a file, and must be read as None
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


GENERATED_FOLDERS = {"runs", "data", "build", "dist", "__pycache__"}
# a folder of one machine; in a web address a letter precedes the slash
MACHINE_PATH = re.compile(r"(?<![\w.~:-])/(?:work|opt|root|home|Users)/\w")


def source_files() -> Iterator[Path]:
    for top in ROOT.iterdir():
        if top.name in GENERATED_FOLDERS or (top.name.startswith(".") and top.name != ".ci"):
            continue
        files = [top] if top.is_file() else top.rglob("*")
        yield from (f for f in files if f.is_file() and not GENERATED_FOLDERS & set(f.parts[-2:-1]))


def test_files_contain_no_machine_paths() -> None:
    assert MACHINE_PATH.search("see " + "/".join(["", "home", "ada", "notes"]))
    wrong = []
    for path in source_files():
        if path.suffix in {".py", ".md", ".toml", ".txt", ""}:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            wrong += [
                f"{path.relative_to(ROOT)}:{number} {line.strip()}"
                for number, line in enumerate(lines, 1)
                if MACHINE_PATH.search(line)
            ]
    assert not wrong, "\n".join(wrong)


def test_jaxtyping_checks_every_module_with_shapes(
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
        if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in checked)
    ]


def test_jaxtyping_refuses_a_wrong_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.test_house --write")
    write_package_table()
