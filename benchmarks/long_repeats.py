"""Effect of Transformer-XL's memory length on a text with long-range repetitions.

    python benchmarks/long_repeats.py

Lines of 24 random letters, each repeated after three other lines, 100 tokens later. Segments have
32 tokens, so without a memory no token of a segment can attend to the first occurrence; with a
memory of 96 all of it is within reach. The same model, steps and seed. A random letter costs
log2 26 = 4.70 bits; half of them could cost nothing.
"""

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from timing import print_machine, table

from saccade.recipes.resolve import resolve_recipe
from saccade.runs.train import TrainOptions, train_recipe

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LINE_LENGTH, GROUP_LINES, PAIRS = 24, 4, 6000


def text() -> str:
    """Return groups of four random lines, each group followed by its repetition."""
    generator = random.Random(1)
    lines = []
    for _ in range(PAIRS // GROUP_LINES):
        new = ["".join(generator.choices(LETTERS, k=LINE_LENGTH)) for _ in range(GROUP_LINES)]
        lines += new + new
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train with several memory lengths and print the results."""
    print_machine()
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repeats.txt"
        path.write_text(text())
        for memory in (0, 32, 96, 128):
            changes = {
                "model.width": 64,
                "model.depth": 2,
                "model.dropout": 0.0,
                "model.memory_length": memory,
                "data.segment_length": 32,
                "train.steps": 2500,
                "train.batch_tokens": 1024,
                "train.learning_rate": 3e-3,
                "train.evaluate_every": 500,
                "train.patience": 100,
            }
            recipe = resolve_recipe(
                "language", data=str(path), model="transformer_xl", changes=changes
            )
            start = time.perf_counter()
            run = train_recipe(recipe.recipe, Path(folder) / f"run{memory}", TrainOptions()).run
            seconds = time.perf_counter() - start
            figures = run.evaluate()
            rows.append(
                [
                    memory,
                    f"{figures['perplexity']:.2f}",
                    f"{figures['bits_per_character']:.2f}",
                    f"{seconds:.0f}",
                ]
            )
    print()
    table(["memory length", "perplexity", "bits per character", "seconds"], rows)


if __name__ == "__main__":
    main()
