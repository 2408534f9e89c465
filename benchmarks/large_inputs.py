"""Processor time and peak memory of commands on large and unusual files.

    python benchmarks/large_inputs.py

Each command runs in a process of its own, next to a file of a quarter of the size: time that is
linear in the input is at most four times as long. The last line is the time that the verification
of stored token ids takes (length, checksum and range), as a share of opening the run and its data.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SACCADE = [sys.executable, "-m", "saccade"]
SMALL = ["--set=train.steps=2", "--set=model.width=8", "--set=train.threads=1"]
Write = Callable[[Path, int], object]


def _quotes(path: Path, size: int) -> None:
    path.write_text("text\n" + '"' * size)


def _lines(path: Path, size: int) -> None:
    path.write_bytes(b"\n" * size)


def _marks(path: Path, size: int) -> None:
    path.write_text(("a" + "\u0301\u0323" * (size // 40)) * 10)


def _spaces(path: Path, size: int) -> None:
    path.write_text("text,label\n" + " " * size + ",a\n")


# the command, the writer of its input, and the size of the input
CASES: dict[str, tuple[str, Write, int]] = {
    "predict, 10,000,000 empty lines": ("predict run --file in --out out", _lines, 10_000_000),
    "predict, CSV with 10,000,000 quotes": ("predict run --file in --out out", _quotes, 10_000_000),
    "predict, 10 MB of combining marks": ("predict run --file in --out out", _marks, 10_000_000),
    "data, CSV with 10,000,000 quotes": ("data in", _quotes, 10_000_000),
    "data, a cell of 10,000,000 spaces": ("data in", _spaces, 10_000_000),
}


def used(folder: Path, command: str) -> tuple[float, int, int]:
    """Return processor seconds, peak memory in MB and the exit code of a command."""
    (folder / "out").unlink(missing_ok=True)
    process = subprocess.Popen(
        [*SACCADE, *command.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10, process.returncode


def verification(folder: Path) -> str:
    """Return how long the ids of a corpus of 10 MB are verified, and its share of opening."""
    import numpy as np

    import saccade
    from saccade.io import id_files

    words = np.random.default_rng(0).integers(0, 20_000, 1_750_000)
    (folder / "text.txt").write_text(" ".join(f"w{word}" for word in words))
    command = "train vectors text.txt --model skipgram --set model.width=8 --set model.epochs=1"
    subprocess.run([*SACCADE, *command.split(), "--out", "words"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    os.chdir(folder)
    start = time.process_time()
    run = saccade.load("words")
    run.data  # noqa: B018
    opening = time.process_time() - start
    start = time.process_time()
    valid = id_files.IdRange(-1, len(run.preprocessor.words) - 1)
    id_files.read_id_files(folder / "words" / "tokens", {"train": "words.ids"}, np.int32, valid)
    verifying = time.process_time() - start
    size = (folder / "words" / "tokens" / "words.ids").stat().st_size / 1e6
    return (
        f"ids of {size:.1f} MB: verified in {1000 * verifying:.1f} ms, "
        f"{verifying / opening:.1%} of opening the run and its data ({opening:.2f} s)"
    )


def main() -> None:
    """Measure each case at a quarter and at the whole size, and print a table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = "".join(f"{number}\t{number}\n" for number in range(200))
        (folder / "pairs.tsv").write_text(pairs)
        train = [*SACCADE, "train", "translate", "pairs.tsv", *SMALL, "--out", "run"]
        subprocess.run(train, cwd=folder, check=True, capture_output=True)
        print("| command and input | s, a quarter | s | ratio | MB | exit code |")
        print("|---|---|---|---|---|---|")
        for title, (command, write, size) in CASES.items():
            write(folder / "in", size // 4)
            quarter, _, _ = used(folder, command)
            write(folder / "in", size)
            seconds, memory, code = used(folder, command)
            ratio = seconds / quarter
            print(f"| {title} | {quarter:.1f} | {seconds:.1f} | {ratio:.1f} | {memory} | {code} |")
        print(f"\n{verification(folder)}")


if __name__ == "__main__":
    main()
