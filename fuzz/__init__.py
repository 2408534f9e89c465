"""Fuzzing: targets that take bytes, a coverage-guided runner, and a corpus of minimal cases.

    python -m fuzz records --seconds 60 --seed 1    fuzz one target (needs atheris)
    python -m fuzz records --case FILE              run one case, with its traceback

A target (`fuzz.targets`) raises if an input breaks the contract of `fuzz.contract`. `make test`
runs the cases in `fuzz/corpus/TARGET/` without atheris; `make fuzz` starts from them.
"""
