"""Word vectors compared with gensim's and fastText's: how fast, how good, how much memory.

    SACCADE_DATA=folder make bench-vectors

One text for all (see `peers/words.py`), width 100, window 5, 5 negatives, words that are there 5
times or more, subsampling 1e-3, 5 epochs, each tool's own rate, two threads. The tools take turns,
seed by seed; a word is a token of the file, read once an epoch. Reading the file is in the time of
each. The result of each is scored in the same way: similarity by Spearman's ρ, analogies by the
nearest word. Labels are those of AG News, judged on its official test; `classify-20` has every row
twenty times, so that it is not starting that is measured.

What was measured stays in `--folder`, and the same command resumes from there; after a change of
the code start with an empty folder.

A ratio below 2 (skip-gram, CBOW), 1.5 (tree, subwords) or 1 (labels), or a score below the spread
of the others', is where to look.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers.alternating import environment, log_progress
from peers.words import corpus, labelled
from timing import print_machine, spread, table

from saccade.runs.run import import_run
from saccade.tasks.word_vectors.data import WordSplit

KINDS = {
    "skipgram": ("gensim", "fastText"),
    "cbow": ("gensim", "fastText"),
    "skipgram-tree": ("gensim",),
    "fasttext": ("fastText",),
    "glove": (),
    "classify": ("fastText",),
    "classify-20": ("fastText",),
}
PRINTED_BENCHMARKS = ("wordsim353", "simlex999", "EN-MEN-TR-3k", "questions-words")
EPOCHS = {"glove": 15}
TRIES = 5  # this build of fastText now and then starts from memory that was never written


def arguments() -> argparse.Namespace:
    """Parsed command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fasttext", type=int, default=3, help="runs of fastText, the slowest")
    parser.add_argument("--epochs", type=int, default=5, help="of all but GloVe, which has 15")
    parser.add_argument("--folder", type=Path, default=Path(".peers") / "words")
    parser.add_argument("--json", type=Path, help="where to keep all figures")
    return parser.parse_args()


def measured(
    tool: str, kind: str, text: Path, folder: Path, seed: int, epochs: int
) -> dict[str, Any]:
    """One tool's run and what its result is worth, unless that is known."""
    kept = folder / f"{kind}-{tool}-{seed}-{epochs}.json"
    if not kept.exists():
        found = learned(tool, kind, text, folder, seed, epochs)
        found["scores"] = scores(kind, found, folder)
        kept.write_text(json.dumps({**found, "out": str(found["out"])}) + "\n")
    return dict(json.loads(kept.read_text()))


def learned(
    tool: str, kind: str, text: Path, folder: Path, seed: int, epochs: int
) -> dict[str, Any]:
    """One tool's run, in a process of its own."""
    out = folder / f"{kind}-{tool}-{seed}.txt"
    command = [sys.executable, "-m", "peers.learn_words", tool, kind, text, out, seed, epochs]
    for _ in range(TRIES):
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, env=environment()
        )
        if "Encountered NaN" not in done.stderr:
            break
    if done.returncode:
        raise SystemExit(f"{tool} {kind} failed:\n{done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "out": out}


def scores(kind: str, found: dict[str, Any], folder: Path) -> dict[str, float]:
    """The same for all: vectors come in as a run, labels are counted."""
    if kind.startswith("classify"):
        expected = (folder / "news-test.txt").read_text(encoding="utf-8").splitlines()
        predicted = found["out"].read_text(encoding="utf-8").splitlines()
        pairs = zip(expected, predicted, strict=True)
        right = sum(line.split(" ", 1)[0] == label for line, label in pairs)
        return {"accuracy": right / len(expected)}
    imported = found["out"].with_suffix(".in")
    subprocess.run(["rm", "-rf", str(imported)], check=True)
    run = import_run("word2vec", found["out"], imported)
    figures = run.evaluator.evaluate(WordSplit(None, with_benchmarks=True)).metrics
    return {name: figures[name] for name in PRINTED_BENCHMARKS}


def main() -> None:
    """Learn, score, and print a table for each kind."""
    asked = arguments()
    print_machine()
    text = asked.folder / "corpus.txt"
    words = corpus(text)
    news = {"classify": labelled(asked.folder, 1), "classify-20": labelled(asked.folder, 20)}
    kept: dict[str, Any] = {"words": words}
    for kind in asked.kinds:
        source = news.get(kind, text)
        found: dict[str, list[dict[str, Any]]] = {"saccade": []}
        found |= {tool: [] for tool in KINDS[kind]}
        for seed in range(1, asked.seeds + 1):
            for tool, runs in found.items():
                if tool == "fastText" and seed > asked.fasttext:
                    continue
                one = measured(tool, kind, source, asked.folder, seed, asked.epochs)
                runs.append(one)
                counting = f" ({one['counting']:.0f} s of counting)" if "counting" in one else ""
                log_progress(
                    f"{kind}, {tool}, seed {seed}: {one['seconds']:.0f} s{counting}, "
                    f"{one['scores']}"
                )
        rows = []
        ours = [one["seconds"] for one in found["saccade"]]
        total = words * EPOCHS.get(kind, asked.epochs)
        for tool, runs in found.items():
            if not runs:  # --fasttext 0
                continue
            ratios = [one["seconds"] / own for one, own in zip(runs, ours, strict=False)]
            names = list(runs[0]["scores"])
            rows.append(
                [
                    tool,
                    str(spread([one["seconds"] for one in runs])),
                    "–" if kind in news else f"{total / min(one['seconds'] for one in runs):,.0f}",
                    "" if tool == "saccade" else str(spread(ratios)),
                    f"{max(one['peak'] for one in runs):,.0f}",
                    *(str(spread([one["scores"][name] for one in runs])) for name in names),
                ]
            )
        heads = [kind, "seconds", "words/s", "times saccade's", "peak MB"]
        print()
        table([*heads, *names], rows)
        kept[kind] = found
    if asked.json:
        asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
