"""Table of language models on the same corpus and evaluation.

    SACCADE_DATA=folder python benchmarks/language_scores.py RUN RUN …

Each run is scored on its own test split: perplexity per token and per word, bits per character, and
the number of tokens. Train them with e.g. `saccade train ptb --model lstm --out runs/ptb-lstm`.
"""

import argparse
from pathlib import Path

from timing import print_machine, table

from saccade.runs.run import load_run


def main() -> None:
    """Evaluate the runs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    print_machine()
    rows = []
    for folder in options.runs:
        run = load_run(folder)
        figures = run.evaluate()
        lines = run.metrics()
        last = lines[-1]
        trained = [line for line in lines if "rate" in line]
        rate = sorted(line["rate"] for line in trained)[len(trained) // 2] if trained else None
        rows.append(
            [
                run.recipe.model.name,
                f"{run.parameters:,}",
                f"{last['step']:,}",
                f"{last['seconds'] / 60:.1f}",
                "–" if rate is None else f"{rate:,.0f}",
                f"{figures['perplexity']:.1f}",
                f"{figures['word_perplexity']:.1f}",
                f"{figures['bits_per_character']:.3f}",
                f"{figures['tokens']:,.0f}",
                run.recipe.train.seed,
            ]
        )
    heads = ["model", "parameters", "steps", "minutes", "tokens/s", "perplexity", "per word"]
    print()
    table([*heads, "bits per character", "tokens", "seed"], rows)


if __name__ == "__main__":
    main()
