"""Fuzz targets within a time budget, or run one case: `python -m fuzz --help`."""

import argparse
import hashlib
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORPUS = Path(__file__).parent / "corpus"
FINDINGS = ROOT / ".fuzz"  # ignored by git: findings, and inputs with new coverage
# of one input; processor time is limited by `contract.interrupted`, whatever else the machine does
INPUT_SECONDS = 60
MEMORY_MB = 4000  # resident
ADDRESS_BYTES = 24 << 30  # of virtual memory


def main() -> int:
    """Parse the command line, and fuzz or run a case."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", default="all", help="a target, or all of them")
    parser.add_argument("--seconds", type=float, default=60, help="time of all targets together")
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--case", type=Path, help="run this input only, with its traceback")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MPLBACKEND", "Agg")
    if options.case is not None:
        return _run_case(options.target, options.case)
    if options.worker:
        _fuzz(options.target, int(options.seconds), options.seed)
    return _run_targets(options.target, options.seconds, options.seed)


def _run_case(target: str, path: Path) -> int:
    from fuzz.targets import TARGETS

    TARGETS[target].run(path.read_bytes())
    print(f"{path}: the contract holds")
    return 0


# --- all targets ----------------------------------------------------------------------------------


def _run_targets(chosen: str, seconds: float, seed: int | None) -> int:
    """Fuzz each target for its share of the time; return 1 if anything was found."""
    names = [path.name for path in sorted(CORPUS.iterdir()) if path.is_dir()]
    if chosen != "all" and chosen not in names:
        print(f"got the target {chosen!r}; expected all or one of: {', '.join(names)}")
        return 2
    if chosen != "all":
        names = [chosen]
    seed = random.randrange(1, 2**31) if seed is None else seed
    before = _findings()
    for position, name in enumerate(names):
        share = seconds / len(names)
        print(f"{name}: seed {seed + position}, {share:.0f} s", flush=True)
        _run_target(name, share, seed + position)
    found = [path for path in _findings() if path not in before]
    for path in found:
        print(f"found: .venv/bin/python -m fuzz {path.parent.name} --case {path}")
    print(f"{len(found)} findings; seed {seed}")
    return int(bool(found))


def _findings() -> list[Path]:
    return sorted((FINDINGS / "findings").glob("*/*.case"))


def _run_target(name: str, seconds: float, seed: int) -> None:
    """Run workers until the time is over: one that crashed or hung is followed by another."""
    log = FINDINGS / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    folder = FINDINGS / "findings" / name
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with log.open("a") as output:
        while (rest := end - time.monotonic()) > 1:
            command = [sys.executable, "-m", "fuzz", name, "--worker", "--seconds", f"{rest:.0f}"]
            command += ["--seed", str(seed)]
            print(f"--- {' '.join(command)}", file=output, flush=True)
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output).returncode
            for path in folder.iterdir():  # what libFuzzer wrote: crash-…, timeout-…, oom-…
                if path.suffix != ".case" and path.suffix != ".txt":
                    path.rename(path.with_name(path.name[:24] + ".case"))
            seed += 1000
            if code == 0:
                break
    lines = [line for line in log.read_text(errors="replace").splitlines() if "DONE" in line]
    print(f"  {lines[-1] if lines else 'ended early, see ' + str(log)}", flush=True)


# --- one worker -----------------------------------------------------------------------------------


def _fuzz(name: str, seconds: int, seed: int) -> None:
    """Fuzz a target in this process, which ends at the end of the time."""
    import atheris

    # numba compiles loops from their bytecode, which must stay as it is
    compiled = [module for module, path in _modules().items() if "compiled" in path.read_text()]
    with atheris.instrument_imports(include=["saccade", "tomllib", "fuzz"], exclude=compiled):
        _import_all()
        from fuzz.targets import TARGETS
    import faulthandler

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    target = TARGETS[name]
    findings = FINDINGS / "findings" / name

    def run(content: bytes) -> None:
        faulthandler.dump_traceback_later(INPUT_SECONDS - 2)
        try:
            target.run(content)
        except Exception as error:
            _keep(findings, content, error)
        finally:
            faulthandler.cancel_dump_traceback_later()

    own = FINDINGS / "corpus" / name
    own.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        str(own),
        str(CORPUS / name),
        f"-seed={seed}",
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-max_len={target.max_bytes}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
        "-report_slow_units=1000",
        "-handle_int=0",
        "-handle_term=0",
    ]
    how = {} if target.mutate is None else {"custom_mutator": target.mutate}
    atheris.Setup(arguments, run, **how)
    atheris.Fuzz()


def _import_all() -> None:
    """Import every module of the package, so that all of them are instrumented."""
    for name in _modules():
        if name != "saccade.__main__":
            import_module(name)


def _modules() -> dict[str, Path]:
    """Return the modules of the package and their files."""
    found = {}
    for path in sorted((ROOT / "saccade").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _keep(folder: Path, content: bytes, error: Exception) -> None:
    """Write an input that broke the contract, the shortest for each place in the code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}saccade{os.sep}" in frame.filename] or frames
    where = f"{type(error).__name__} {Path(ours[-1].filename).name}:{ours[-1].name}"
    if type(error).__name__ == "Violation":
        where += str(error)[:25]
    path = folder / f"{hashlib.sha256(where.encode()).hexdigest()[:12]}.case"
    if path.exists() and path.stat().st_size <= len(content):
        return
    path.write_bytes(content)
    text = "".join(traceback.format_exception(error))
    path.with_suffix(".txt").write_text(text, errors="backslashreplace")
    print(f"found {path}: {where}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
