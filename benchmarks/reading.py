"""Reading speed and peak memory of `open_records`, next to pandas and polars.

    python -m benchmarks.reading                     # 50 MB of CSV, JSON lines and Parquet
    python -m benchmarks.reading --gigabytes 5       # CSV and Parquet, by open_records alone

Each reader runs in a process of its own; speed is megabytes per second of process time, memory the
peak of the process. pandas and polars hold the whole file and infer types; `open_records` reads it
in chunks of text.
"""

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

WORDS = 'the quick brown fox jumps over a lazy dog, and runs home été 你好 "so" they write'.split()
READERS = ("open_records", "pandas", "polars")


def write_csv(path: Path, size: int) -> None:
    """Write a CSV file of texts, labels and numbers of at least `size` bytes."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "label", "score"])
        rows = [
            [" ".join(draw.choices(WORDS, k=draw.randint(5, 40))), draw.choice(["pos", "neg"])]
            for _ in range(10_000)
        ]
        number = 0
        while file.tell() < size:
            writer.writerows(
                [number + n, *row, round(draw.random(), 4)] for n, row in enumerate(rows)
            )
            number += len(rows)


def convert(path: Path) -> None:
    """Write the file in the other formats next to it."""
    import polars

    frame = polars.read_csv(path)
    frame.write_ndjson(path.with_suffix(".jsonl"))
    frame.write_parquet(path.with_suffix(".parquet"))


def convert_large(path: Path) -> None:
    """Write a large file as Parquet, uncompressed and with different texts, in constant memory."""
    import polars

    text = polars.concat_str(["id", "review"], separator=" ").alias("review")
    frame = polars.scan_csv(path).with_columns(text)
    frame.sink_parquet(path.with_suffix(".parquet"), compression="uncompressed")


def read(reader: str, path: Path) -> int:
    """Read a file and return its number of rows."""
    if reader == "open_records":
        from saccade.data.records.open import open_records

        return sum(len(chunk) for chunk in open_records(path).chunks())
    kind = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}[path.suffix]
    if reader == "pandas":
        import pandas

        if kind == "jsonl":
            return len(pandas.read_json(path, lines=True))
        return len(getattr(pandas, f"read_{kind}")(path))
    import polars

    return int(getattr(polars, "read_ndjson" if kind == "jsonl" else f"read_{kind}")(path).height)


def measure(reader: str, path: Path) -> None:
    """Print what one process measured, as JSON."""
    import_module("saccade.data.records.open" if reader == "open_records" else reader)
    start = time.process_time()
    rows = read(reader, path)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "seconds": seconds, "peak": peak}))


def report(reader: str, path: Path) -> None:
    """Measure a reader in a process of its own and print a line."""
    command = [sys.executable, "-m", "benchmarks.reading", "--measure", reader, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{path.suffix[1:]:8} {reader:14} {done.stderr.strip().splitlines()[-1][:60]}")
        return
    found = json.loads(done.stdout)
    size = os.path.getsize(path) / 1e6
    print(
        f"{path.suffix[1:]:8} {reader:14} {size:7.0f} MB {found['rows']:>11,} rows "
        f"{size / found['seconds']:7.0f} MB/s of process time  {found['peak']:6.0f} MB at most"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--gigabytes", type=float)
    parser.add_argument("--measure", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--convert", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--convert-large", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.convert:
        convert(Path(options.convert))
        return
    if options.convert_large:
        convert_large(Path(options.convert_large))
        return
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        if options.gigabytes:
            write_csv(path, int(options.gigabytes * 1e9))
            report("open_records", path)
            command = [sys.executable, "-m", "benchmarks.reading", "--convert-large", str(path)]
            subprocess.run(command, check=True)
            path.unlink()
            report("open_records", path.with_suffix(".parquet"))
            return
        write_csv(path, options.megabytes * 1_000_000)
        # a process inherits the peak memory of the one that starts it: this one stays small
        command = [sys.executable, "-m", "benchmarks.reading", "--convert", str(path)]
        subprocess.run(command, check=True)
        for suffix in (".csv", ".jsonl", ".parquet"):
            for reader in READERS:
                report(reader, path.with_suffix(suffix))


if __name__ == "__main__":
    main()
