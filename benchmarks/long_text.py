"""Does memory stay the same when the text is larger than memory might be?

    python benchmarks/long_text.py [--gigabytes 1]

The reference that Python carries, again and again until there is so much of it, is learned from for
some steps, scored and gone on with, in a process of its own; then the same with a tenth of it. What
is shown is the most memory that each has held for itself: pages of the mapped file, which the
machine takes back when it needs them, are told apart. The file is made in a temporary folder.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from timing import say_machine, table

from saccade.data.text.corpus import python_reference_text

CHILD = """
import json, sys, threading, time
from pathlib import Path
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, train

most = {"RssAnon": 0, "VmHWM": 0}

def watch():
    while True:
        lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
        for name in most:
            most[name] = max(most[name], int(lines[name].split()[0]))
        time.sleep(0.05)

threading.Thread(target=watch, daemon=True).start()
changes = {"train.steps": 50, "train.evaluate_every": 50, "data.tokenizer.kind": sys.argv[3],
           "data.dev_share": 0.0001, "data.test_share": 0.0001}
began = time.perf_counter()
recipe = resolve_recipe("language", data=sys.argv[1], model="gpt2", changes=changes).recipe
run = train(recipe, Path(sys.argv[2]), TrainOptions()).run
run.predict("The ", tokens=20)
print(json.dumps({**most, "seconds": time.perf_counter() - began,
                  "tokens": len(run.task.corpora["train"].ids)}))
"""


def main() -> None:
    """Measure both, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--tokens", default="bpe", choices=["character", "word", "bpe"])
    asked = parser.parse_args()
    say_machine()
    piece = python_reference_text() + "\n"
    rows = []
    for share in (0.1, 1.0):
        with TemporaryDirectory() as place:
            path = Path(place) / "text.txt"
            times = max(1, round(share * asked.gigabytes * 1e9 / len(piece.encode())))
            with path.open("w", encoding="utf-8") as file:
                for _ in range(times):
                    file.write(piece)
            began = time.perf_counter()
            command = [sys.executable, "-c", CHILD, str(path), f"{place}/run", asked.tokens]
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
                    f"{time.perf_counter() - began:.0f}",
                ]
            )
    print()
    heads = ["text", "tokens", "most MB of its own", "with what is mapped", "seconds"]
    table(heads, rows)


if __name__ == "__main__":
    main()
