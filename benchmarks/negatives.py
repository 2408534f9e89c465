"""The power of the negatives' distribution by size of the corpus, for CBOW and skip-gram.

    SACCADE_DATA=folder python benchmarks/negatives.py --words 1000000 4000000 --epochs 3 5

Negatives are drawn in proportion to count^power (Mikolov et al. 2013: ¾; fastText: ½). The text is
every k-th paragraph of the corpus of `peers/words.py`, so that every size has the same mixture, or
the beginning of the Gutenberg books (`--gutenberg`). One thread; width, window, negatives and
subsampling as by default. Each line is the median over the seeds, with the smallest and largest.
"""

import argparse
import os
import shutil
import tarfile
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from peers.words import WORDS, corpus

from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import import_run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.word_vectors.data import WordSplit

PRINTED_BENCHMARKS = {"wordsim353": "WordSim-353", "simlex999": "SimLex-999", "EN-MEN-TR-3k": "MEN"}


def arguments() -> argparse.Namespace:
    """Parsed command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--words", nargs="+", type=int, default=[1_000_000, 4_000_000])
    parser.add_argument("--epochs", nargs="+", type=int, default=[3, 5])
    parser.add_argument("--models", nargs="+", default=["cbow", "skipgram"])
    parser.add_argument("--powers", nargs="+", type=float, default=[0.5, 0.75])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--gutenberg", action="store_true", help="books only")
    parser.add_argument("--gensim", action="store_true", help="gensim too, with its settings")
    parser.add_argument("--folder", type=Path, default=Path(".peers") / "negatives")
    return parser.parse_args()


def sample(folder: Path, words: int, gutenberg: bool) -> Path:
    """Write a text of about so many words, if it is not there, and return its path."""
    path = folder / f"{'gutenberg' if gutenberg else 'mixed'}-{words}.txt"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    if gutenberg:
        lines, step = gutenberg_lines(), 1
    else:
        whole = folder / "corpus.txt"
        step = max(1, corpus(whole) // words)
        lines = whole.read_text(encoding="utf-8").splitlines()
    left, kept = words, []
    for line in lines[::step]:
        kept.append(line)
        left -= len(line.split())
        if left <= 0:
            break
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path


def gutenberg_lines() -> list[str]:
    """Return the paragraphs of the books, lower-cased and tokenized."""
    lines = []
    root = Path(os.environ["SACCADE_DATA"])
    with tarfile.open(root / "gutenberg/gutenberg.tar.xz", "r:xz") as books:
        for member in books:
            if book := books.extractfile(member):
                text = book.read().decode("latin-1").replace("\r\n", "\n").lower()
                lines += [" ".join(WORDS.findall(part)) for part in text.split("\n\n")]
    return [line for line in lines if line]


def scores(path: Path, folder: Path, model: str, changes: dict[str, Any]) -> dict[str, float]:
    """Train with some settings and return the scores."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    changes = {"train.threads": 1, "data.split": "whitespace", **changes}
    recipe = resolve_recipe("vectors", data=str(path), model=model, changes=changes).recipe
    train_recipe(recipe, out, TrainOptions())
    return load_run(out).evaluator.evaluate(WordSplit(None, with_benchmarks=True)).metrics


def gensim_scores(path: Path, folder: Path, model: str, seed: int, epochs: int) -> dict[str, float]:
    """Train with gensim and return the scores, computed as for ours."""
    from peers.learn_words import with_gensim

    with_gensim(model, path, folder / "gensim.txt", seed, epochs)
    shutil.rmtree(folder / "gensim", ignore_errors=True)
    run = import_run("word2vec", folder / "gensim.txt", folder / "gensim")
    return run.evaluator.evaluate(WordSplit(None, with_benchmarks=True)).metrics


def main() -> None:
    """Train with each power, and print a line for each."""
    asked = arguments()
    powers: list[float | str] = [*asked.powers, *(["gensim"] if asked.gensim else [])]
    print(f"| model | words | epochs | power | {' | '.join(PRINTED_BENCHMARKS.values())} |")
    print("|---" * (4 + len(PRINTED_BENCHMARKS)) + "|")
    for words, epochs, model in product(asked.words, asked.epochs, asked.models):
        path = sample(asked.folder, words, asked.gutenberg)
        for power in powers:
            found = []
            for seed in range(1, asked.seeds + 1):
                if power == "gensim":
                    found.append(gensim_scores(path, asked.folder, model, seed, epochs))
                else:
                    changes = {"model.epochs": epochs, "model.power": power, "train.seed": seed}
                    found.append(scores(path, asked.folder, model, changes))
            cells = []
            for name in PRINTED_BENCHMARKS:
                values = [one[name] for one in found]
                spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
                cells.append(f"{median(values):.3f}{spread}")
            print(f"| {model} | {words:,} | {epochs} | {power} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
