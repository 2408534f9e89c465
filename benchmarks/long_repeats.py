"""What does the memory of Transformer-XL buy? A text of which half can only be known from far back.

    python benchmarks/long_repeats.py

Lines of 24 random letters, each said twice with three other lines between: what is said again
stands 100 tokens back. Segments have 32 tokens, so that without a memory no token of a segment can
see it, whatever is learned; with one of 96 the whole of it can be seen. The same model, the same
steps, the same seed. By chance a letter costs log2 26 = 4.70 bits; half of them could cost nothing.
"""

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from timing import say_machine, table

from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, train_recipe

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTH, APART, PAIRS = 24, 4, 6000


def text() -> str:
    """Four new lines, then the same four again, and so on."""
    luck = random.Random(1)
    lines = []
    for _ in range(PAIRS // APART):
        new = ["".join(luck.choices(LETTERS, k=LENGTH)) for _ in range(APART)]
        lines += new + new
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train with and without, and print."""
    say_machine()
    rows = []
    with TemporaryDirectory() as place:
        path = Path(place) / "repeats.txt"
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
            began = time.perf_counter()
            run = train_recipe(recipe.recipe, Path(place) / f"run{memory}", TrainOptions()).run
            seconds = time.perf_counter() - began
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
    table(["memory", "perplexity", "bits a letter", "seconds"], rows)


if __name__ == "__main__":
    main()
