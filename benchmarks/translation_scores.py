"""Table of BLEU and chrF for translation runs.

    SACCADE_DATA=folder python benchmarks/translation_scores.py RUN [RUN ...]

Each run translates the whole test set of its own data twice, greedily and with a beam of 5, and is
scored by sacreBLEU, cased and lower-cased. The rest is read from its folder: parameters, seed,
steps, minutes of training (all sessions together) and the median of target tokens per second
(without padding) in training. The table is Markdown, for docs/benchmarks.md; the last column has
published figures for such models on Multi30k. Those were computed on lower-cased text with other
tokenizers, so compare them with the lower-cased ones, and not to less than a point.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from saccade.errors import RunError, SaccadeError
from saccade.runs.run import Run, load_run
from saccade.training.device import set_num_threads
from saccade.types.results import Evaluation

BEAM = 5
FIGURES = {"BLEU": "bleu", "BLEU lower": "bleu_lower", "chrF": "chrf", "chrF lower": "chrf_lower"}
# by set, direction and model
PUBLISHED = {
    ("multi30k", "de-en", "seq2seq"): "13.8 (LSTM), 20.6 (GRU, context)",
    ("multi30k", "de-en", "bahdanau"): "28.3",
    ("multi30k", "de-en", "transformer"): "36.5",
    ("multi30k", "en-de", "transformer"): "41.02 (tiny, 10 checkpoints averaged, beam 5)",
}


class Row(NamedTuple):
    """Results of one run."""

    model: str
    data: str
    parameters: int
    seed: int
    steps: int
    minutes: float
    tokens_per_second: float
    greedy: Evaluation
    beam: Evaluation
    published: str


def row_of(run: Run) -> Row:
    """Evaluate a run and read its log."""
    if run.recipe.task != "translate":
        raise RunError(f"{run.folder}: got a run of {run.recipe.task}; expected translate.")
    lines = run.metrics()
    if not any("rate" in line for line in lines):
        raise RunError(f"{run.folder} has no report in metrics.jsonl; train it for a few steps.")
    data, model = run.recipe.data, run.recipe.model.name
    name = data.dataset or data.synthetic or data.path
    return Row(
        model=model,
        data=f"{name} {data.direction}" if data.direction else str(name),
        parameters=run.parameters,
        seed=run.recipe.train.seed,
        steps=max(line["step"] for line in lines),
        minutes=max(line.get("seconds", 0.0) for line in lines) / 60,
        tokens_per_second=median(line["rate"] for line in lines if "rate" in line),
        greedy=run.evaluate(),
        beam=run.evaluate(beam=BEAM),
        published=PUBLISHED.get((data.dataset, data.direction, model), ""),
    )


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table, greedy / beam in one cell, followed by the metrics' conventions."""
    heads = ["model", "data", "parameters", "seed", "steps", "minutes", "tokens/s"]
    heads += [*FIGURES, "published"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        facts = [f"`{row.model}`", row.data, f"{row.parameters:,}", str(row.seed)]
        facts += [f"{row.steps:,}", f"{row.minutes:.1f}", f"{row.tokens_per_second:,.0f}"]
        scores = [_both(row.greedy, row.beam, name) for name in FIGURES.values()]
        lines.append([*facts, *scores, row.published])
    markdown = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([*markdown, "", *_conventions(rows)])


def _both(greedy: Evaluation, beam: Evaluation, name: str) -> str:
    """Return a score of both searches; a dash where it has no meaning for the data."""
    if name not in greedy:
        return "–"
    return f"{greedy[name]:.2f} / {beam[name]:.2f}"


def _conventions(rows: Sequence[Row]) -> list[str]:
    """Return the convention of each metric, once where the runs agree, else by data set."""
    lines = [f"Scores: greedy / beam {BEAM}."]
    for title, name in FIGURES.items():
        counted: dict[str, list[str]] = {}
        for row in rows:
            if name not in row.greedy:
                continue
            where = counted.setdefault(row.greedy.conventions[name], [])
            where += [row.data] if row.data not in where else []
        for signature, where in counted.items():
            data_sets = f" ({', '.join(where)})" if len(counted) > 1 else ""
            lines.append(f"{title}{data_sets}: `{signature}`.")
    sizes = {f"{row.data}: {row.greedy['examples']:,.0f} pairs" for row in rows}
    return [*lines, f"Test sets: {'; '.join(sorted(sizes))}."]


def main(folders: Sequence[str]) -> int:
    """Evaluate the runs and print the table."""
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    set_num_threads(None)
    rows = []
    try:
        for number, folder in enumerate(folders, start=1):
            print(f"{number} of {len(folders)}: {folder} …", file=sys.stderr)
            rows.append(row_of(load_run(Path(folder))))
    except SaccadeError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
