"""Peak memory of training a language model on a long text and on a tenth of it.

    python benchmarks/long_text.py [--gigabytes 1]

The Python language reference, repeated to the given size, is used for a few training steps, an
evaluation and generation, in its own process; then the same with a tenth of it. Shown is the peak
of private memory, and the peak with the pages of the mapped file, which the operating system can
reclaim. The file is written to a temporary folder.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from timing import print_machine, table

from saccade.data.text.corpus import python_reference_text

CHILD = """
import json, sys, threading, time
from pathlib import Path
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.train import TrainOptions, train_recipe

peak = {"RssAnon": 0, "VmHWM": 0}

def watch():
    while True:
        lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
        for name in peak:
            peak[name] = max(peak[name], int(lines[name].split()[0]))
        time.sleep(0.05)

threading.Thread(target=watch, daemon=True).start()
changes = {"train.steps": 50, "train.evaluate_every": 50, "data.tokenizer.kind": sys.argv[3],
           "data.dev_share": 0.0001, "data.test_share": 0.0001}
start = time.perf_counter()
recipe = resolve_recipe("language", data=sys.argv[1], model="gpt2", changes=changes).recipe
run = train_recipe(recipe, Path(sys.argv[2]), TrainOptions()).run
run.predict("The ", max_new_tokens=20)
print(json.dumps({**peak, "seconds": time.perf_counter() - start,
                  "tokens": len(run.split("train").ids)}))
"""


def main() -> None:
    """Measure both sizes and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--tokens", default="bpe", choices=["character", "word", "bpe"])
    options = parser.parse_args()
    print_machine()
    piece = python_reference_text() + "\n"
    rows = []
    for share in (0.1, 1.0):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "text.txt"
            times = max(1, round(share * options.gigabytes * 1e9 / len(piece.encode())))
            with path.open("w", encoding="utf-8") as file:
                for _ in range(times):
                    file.write(piece)
            start = time.perf_counter()
            command = [sys.executable, "-c", CHILD, str(path), f"{folder}/run", options.tokens]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            found = json.loads(done.stdout.splitlines()[-1])
            rows.append(
                [
                    f"{path.stat().st_size / 1e6:,.0f} MB",
                    f"{found['tokens']:,}",
                    f"{found['RssAnon'] / 1024:,.0f}",
                    f"{found['VmHWM'] / 1024:,.0f}",
                    f"{time.perf_counter() - start:.0f}",
                ]
            )
    print()
    heads = ["text", "tokens", "peak private MB", "with mapped pages", "seconds"]
    table(heads, rows)


if __name__ == "__main__":
    main()
