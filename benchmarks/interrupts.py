"""Seconds from Ctrl-C to the end of a command, at seeded moments.

    python benchmarks/interrupts.py                  # 19 commands, 3 moments each
    python benchmarks/interrupts.py --moments 10 --only svm

Data and runs are made in a temporary folder first. Each command then gets SIGINT after a random
time between its start and `--latest` seconds, in a process of its own. A command that ends before
its signal is tried again with an earlier one. The exit code must be 130.
"""

import argparse
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

SACCADE = [sys.executable, "-m", "saccade"]
INTERRUPTED = 130
TRIES = 5  # of a moment, each in half the time of the last one
RUNS = {
    "pairs": "train translate pairs.tsv --set train.steps=20 --set model.width=32",
    "labels": "train classify reviews.csv",
    "rows": "train table table.csv --target kind --set train.steps=20",
    "gpt": "train language small.txt --model gpt2 --set train.steps=20 --set model.width=32",
    "words": "train vectors small.txt --model skipgram --set model.width=16",
}
COMMANDS = {
    "train translate": "train translate pairs.tsv --out out",
    "train translate, bpe": "train translate pairs.tsv --set data.tokenizer.kind=bpe --out out",
    "train language, gpt2": "train language text.txt --model gpt2 --out out",
    "train language, ngram": "train language text.txt --model ngram --out out",
    "train vectors, skipgram": "train vectors text.txt --model skipgram --out out",
    "train vectors, glove": "train vectors text.txt --model glove --out out",
    "train vectors, svd": "train vectors text.txt --model svd --out out",
    "train table, mlp": "train table table.csv --target kind --out out",
    "train table, svm": "train table table.csv --target kind --model svm --out out",
    "train classify, ngrams": "train classify reviews.csv --out out",
    "train classify, fasttext": "train classify reviews.csv --model fasttext --out out",
    "train forecast": "train forecast series.csv --out out",
    "compare": "compare translate pairs.tsv --models bahdanau,transformer --minutes 1 --out out",
    "predict": "predict pairs --file sources.txt --out out",
    "predict, text": "predict gpt --file sources.txt --out out",
    "evaluate": "evaluate labels reviews.csv",
    "check": "check pairs",
    "data": "data table.csv",
    "export": "export gpt --to huggingface --out out",
}


def write_data(folder: Path) -> None:
    """Write pairs, texts, a table, reviews and a series of up to 20 MB."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))

    def text(length: int) -> str:
        return " ".join(draw.choices(words, cum_weights=weights, k=length))

    pairs = [text(draw.randint(3, 20)) for _ in range(40_000)]
    reversed_words = [" ".join(reversed(line.split())) for line in pairs]
    rows = zip(pairs, reversed_words, strict=True)
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    (folder / "sources.txt").write_text("\n".join(pairs) + "\n")
    (folder / "small.txt").write_text("\n".join(pairs[:2_000]) + "\n")
    (folder / "text.txt").write_text("\n".join(text(15) for _ in range(250_000)) + "\n")
    labels = "".join(f"{draw.choice('ab')},{line}\n" for line in pairs)
    (folder / "reviews.csv").write_text(f"label,text\n{labels}")
    cells = [[round(draw.gauss(0, 1), 4) for _ in range(20)] for _ in range(100_000)]
    lines = [",".join(map(str, row)) + f",{'yes' if sum(row) > 0 else 'no'}\n" for row in cells]
    names = ",".join(f"x{number}" for number in range(20))
    (folder / "table.csv").write_text(f"{names},kind\n{''.join(lines)}")
    values = "".join(f"{row[0]}\n" for row in cells)
    (folder / "series.csv").write_text(f"value\n{values}")


def make_runs(folder: Path) -> None:
    """Train the runs that the other commands open."""
    for name, command in RUNS.items():
        print(f"training {name} …", file=sys.stderr)
        arguments = [*SACCADE, *command.split(), "--out", name]
        subprocess.run(arguments, cwd=folder, check=True, capture_output=True)


def seconds_to_end(folder: Path, command: str, wait: float) -> tuple[float, int] | None:
    """Return the seconds from SIGINT to the end, and the exit code; None: it ended before."""
    process = subprocess.Popen(
        [*SACCADE, *command.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(wait)
        return None
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        code = process.wait()
        return time.perf_counter() - start, code
    finally:
        out = folder / "out"
        if out.is_dir():
            shutil.rmtree(out)
        out.unlink(missing_ok=True)


def measure(folder: Path, command: str, latest: float, draw: random.Random) -> tuple[float, float]:
    """Return a moment and the seconds from it to the end of the command."""
    for _ in range(TRIES):
        wait = draw.uniform(0.3, latest)
        found = seconds_to_end(folder, command, wait)
        if found is not None:
            seconds, code = found
            if code not in (0, INTERRUPTED):
                raise SystemExit(f"{command}: got the exit code {code}; expected {INTERRUPTED}")
            return wait, seconds
        latest = max(0.5, latest / 2)
    raise SystemExit(f"{command}: ended before its signal {TRIES} times; expected a longer command")


def main() -> None:
    """Measure each command and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--latest", type=float, default=12, help="seconds after the start")
    parser.add_argument("--only", default="", help="part of a command's name")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    everything: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        make_runs(folder)
        print("| command | signal after, s | to the end, s |\n|---|---|---|")
        for title, command in COMMANDS.items():
            if options.only not in title:
                continue
            measured = [
                measure(folder, command, options.latest, draw) for _ in range(options.moments)
            ]
            everything += [seconds for _, seconds in measured]
            waits = ", ".join(f"{wait:.1f}" for wait, _ in measured)
            ends = ", ".join(f"{seconds:.2f}" for _, seconds in measured)
            print(f"| `{title}` | {waits} | {ends} |", flush=True)
    within = sum(seconds <= 2 for seconds in everything)
    print(
        f"\n{len(everything)} signals: median {statistics.median(everything):.2f} s, "
        f"longest {max(everything):.2f} s, {within} within 2 s"
    )


if __name__ == "__main__":
    main()
