"""`import` and `export` killed at every change of a file: the same command typed again succeeds."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.data.tokenizers import train_tokenizer
from saccade.interop.huggingface_gpt2 import export_gpt2
from saccade.interop.word_vectors import write_text_vectors
from saccade.models.config import GPTConfig
from saccade.models.gpt import GPT
from saccade.runs.run import import_run
from tests.hanging import HANG_SECONDS

# A process that loads torch once. It forks a child for each moment: the child is ended by os._exit,
# as by SIGKILL, at its nth change of a file under the folder; then the command is run again.
PROGRAM = """
import json, os, shutil, sys
import torch
torch.set_num_threads(1)
from saccade.cli.main import run
from saccade.interop import gpt2_import, huggingface_gpt2, word_vectors
from saccade.interop.ctranslate2 import export
from saccade.runs import run as runs

KILLED = 99
CHANGES = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link")

def in_child(arguments, moment, root):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seen = 0
    def watch(event, values):
        nonlocal seen
        is_write = event == "open" and isinstance(values[2], int) and values[2] & (
            os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        in_tree = event in ("os.remove", "os.rmdir") and values[1] != -1  # of shutil.rmtree
        if in_tree or (event in CHANGES or is_write) and root in str(values[0]):
            if seen == moment:
                os._exit(KILLED)
            seen += 1
    sys.stdout = sys.stderr
    if moment is not None:
        sys.addaudithook(watch)
    try:
        code = run(arguments)
    finally:
        sys.stderr.flush()
    os._exit(code)

def contents(folder):
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            found[os.path.relpath(path, folder)] = open(path, "rb").read().hex()
    return found

def kill(before, work, arguments):
    arguments = [argument.replace("WORK", work) for argument in arguments]
    def fresh():
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(before, work)
    fresh()
    assert in_child(arguments, None, work) == 0, arguments
    whole, code, moment = contents(work), KILLED, 0
    while code == KILLED:
        fresh()
        code = in_child(arguments, moment, work)
        where = f"{arguments} at moment {moment}"
        assert code in (0, KILLED), f"{where}: exit code {code}"
        again = in_child(arguments, None, work)
        assert again == 0, f"{where}: typed again, the command ends with {again}"
        found = contents(work)
        assert found == whole, f"{where}: {sorted(found)} instead of {sorted(whole)}"
        moment += 1
    return moment - 1

work = sys.argv[1]
print(json.dumps([kill(before, work, arguments) for before, arguments in json.loads(sys.argv[2])]))
"""


def write_gpt2(folder: Path) -> None:
    tokenizer = train_tokenizer("character", ["the cat sat on the mat"])
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=tokenizer.vocab_size, width=8, depth=1, heads=2, context_length=6)
    export_gpt2(folder, config, tokenizer, GPT(config).state_dict())


def write_vectors(path: Path) -> None:
    write_text_vectors(path, ["a", "b"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]).numpy())


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a GPT-2, word vectors, and a run of each."""
    folder = tmp_path_factory.mktemp("killed") / "before"
    write_gpt2(folder / "gpt2")
    write_vectors(folder / "vectors.txt")
    import_run("gpt2", folder / "gpt2", folder / "runs" / "gpt2")
    import_run("word2vec", folder / "vectors.txt", folder / "runs" / "vectors")
    return folder


@pytest.fixture(scope="module")
def exported(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a Transformer run and a previous export of other weights."""
    from saccade.runs.train import TrainOptions, train_recipe

    folder = tmp_path_factory.mktemp("export") / "before"
    recipe = smallest("transformer", {"train.steps": 1})
    run = train_recipe(recipe, folder / "run", TrainOptions()).run
    run.export("ctranslate2", folder / "export")
    weights = {name: 2 * weight for name, weight in run.model.state_dict().items()}
    run.save_weights(weights, {"ended": "steps"})
    return folder


def test_killed_command_can_be_typed_again(imported: Path, exported: Path, tmp_path: Path) -> None:
    """Nothing refuses it, its result is whole, and no temporary file is left."""
    commands: list[tuple[Path, str]] = [
        (imported, "import gpt2 WORK/gpt2 --out WORK/out/new"),
        (imported, "import word2vec WORK/vectors.txt --out WORK/new"),
        (imported, "export WORK/runs/gpt2 --to huggingface"),
        (imported, "export WORK/runs/vectors --to word2vec --out WORK/out/new.txt"),
        (exported, "export WORK/run --to ctranslate2 --out WORK/export"),
    ]
    cases = [[str(before), command.split()] for before, command in commands]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "work"), json.dumps(cases)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    moments = json.loads(done.stdout)
    assert min(moments) >= 3, moments
    assert moments[-1] >= 12, "removal of the previous export is among the moments"
