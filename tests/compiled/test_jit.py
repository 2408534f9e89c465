"""Compiled functions, and their behaviour without numba."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from saccade.compiled.jit import CACHE_LINE_BYTES, aligned_zeros
from saccade.data.text.word_corpus import remap_ids
from saccade.estimators.word_vectors.glove import word_positions

TESTS = Path(__file__).parents[1]

WITHOUT_NUMBA = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import importlib, pkgutil
import saccade.estimators
from saccade.errors import MissingPackageError

for module in pkgutil.walk_packages(saccade.estimators.__path__, "saccade.estimators."):
    importlib.import_module(module.name)
import saccade.recipes.resolve, saccade.tasks.tabular.spec

from saccade.compiled.jit import prefetch_row
from saccade.data.text.word_corpus import read_word_corpus

for call in (lambda: prefetch_row(None, 0), lambda: read_word_corpus([b"a b a b\\n"], min_count=1)):
    try:
        call()
    except MissingPackageError as error:
        assert "pip install 'saccade[vectors]'" in str(error), error
    else:
        raise AssertionError("a compiled function ran without numba")
print("imported")
"""


def test_jit_without_numba_imports_and_raises_at_the_first_call() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False
    )
    assert done.stdout == "imported\n", done.stderr


def test_aligned_zeros_start_at_a_cache_line() -> None:
    rows = aligned_zeros(5, 17)
    assert rows.shape == (5, 32) and rows.dtype == np.float32 and not rows.any()
    assert all(row.ctypes.data % CACHE_LINE_BYTES == 0 for row in rows)


def test_compiled_loops_check_their_indices_in_the_tests() -> None:
    if os.environ["NUMBA_BOUNDSCHECK"] != "1":
        pytest.skip("NUMBA_BOUNDSCHECK is 0")
    ids = np.array([0, 7], np.int32)
    with pytest.raises(IndexError):
        remap_ids(ids, np.zeros(3, np.int32))
    with pytest.raises(IndexError):
        word_positions(ids, 3)


def test_compiled_loops_without_checks_equal_the_same_references() -> None:
    """The code that users run: the suite itself runs the compiled loops with index checks."""
    files = [TESTS / "estimators" / f"test_{name}.py" for name in ("word2vec_kernels", "glove")]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "0"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
