"""Inference speed of Saccade, Hugging Face and CTranslate2 with the same weights.

    SACCADE_DATA=folder make bench-answer RUN=runs/mine

RUN is a Transformer of a Saccade run with one shared vocabulary, trained long enough that its
sentences end by themselves. Its weights are copied into Hugging Face's Marian (Pegasus, if its
pre-norm) and exported to CTranslate2 in float32. The first sentences of Multi30k's
test_2016_flickr, as numbers, are translated greedily and with a beam of 5 without length penalty,
one at a time and in batches of 64 of similar length, 60 tokens at most. Each tool runs in its own
process with the same environment; they alternate, and the ratio is that of the medians.

Our model verifies that all did the same work: greedy tokens are equal except where the two most
probable ones differ by less than 1e-4, and no peer's beam found a more probable output than ours.
Goals: a ratio of 3 (batch 1) and 1.6 (batch 64) to Hugging Face, and 0.6 to CTranslate2.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from peers.alternating import Contestant, Window, log_progress, ratio
from peers.corpus import multi30k
from timing import print_machine, spread, table

from saccade.runs.run import load_run

OURS = "saccade"
LOG_PROB_TOLERANCE = 1e-4  # log-probabilities closer than this count as equal
Ids = list[list[int]]


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument(
        "--repeats", type=int, default=9, help="windows of each tool in each setting"
    )
    parser.add_argument("--seconds", type=float, default=5, help="approximate length of a window")
    parser.add_argument("--one", type=int, default=64, help="sentences translated one at a time")
    parser.add_argument("--many", type=int, default=512, help="sentences in batches of 64")
    parser.add_argument("--only", help="peers whose name has one of these, comma-separated")
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def batches_of(sources: Ids, size: int) -> list[Ids]:
    """Split the sources into batches of similar length."""
    rows = sorted(sources, key=len) if size > 1 else sources
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def measure(
    contestants: dict[str, Contestant], batches: list[Ids], beam: int, repeats: int, seconds: float
) -> dict[str, list[Window]]:
    """Measure all tools in one setting; a first call sets the repeats that fill a window."""
    count = sum(map(len, batches))
    command: dict[str, Any] = {"do": "answer", "batches": batches, "beam": beam}
    times, found = {}, {}
    for name, contestant in contestants.items():
        first = contestant.ask(**command, repeats=1)
        times[name] = max(1, round(seconds / contestant.ask(**command, repeats=1)["seconds"]))
        found[name] = [len(first["answers"])]
    windows: dict[str, list[Window]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, contestant in contestants.items():

            def rate(answer: dict[str, Any], name: str = name) -> float:
                return count * times[name] / answer["seconds"]

            windows[name].append(contestant.turn(rate, **command, repeats=times[name]))
    return windows


def written(window: Window) -> int:
    """Return the number of generated tokens, end-of-sequence tokens included."""
    return sum(len(answer) + 1 for answer in window.answer["answers"])


def check(judge: Contestant, sources: Ids, ours: Ids, theirs: Ids, beam: int) -> dict[str, Any]:
    """Compare a peer's outputs with ours, scored by our own model."""
    if beam == 1:
        options = {"sources": sources, "answers": ours, "others": theirs}
        gaps = [gap for gap in judge.ask(do="part", **options)["gaps"] if gap is not None]
        wrong = sum(gap >= LOG_PROB_TOLERANCE for gap in gaps)
        return {"differ": len(gaps), "wrong": wrong, "largest": max(gaps, default=0.0)}
    mine, other = (
        judge.ask(do="score", sources=sources, answers=answers)["scores"]
        for answers in (ours, theirs)
    )
    lower = [theirs - ours for ours, theirs in zip(mine, other, strict=True)]
    return {
        "differ": sum(a != b for a, b in zip(ours, theirs, strict=True)),
        "wrong": sum(gap > LOG_PROB_TOLERANCE for gap in lower),
        "largest": max(0.0, *lower),
        "higher": sum(gap < -LOG_PROB_TOLERANCE for gap in lower),
    }


def setting(
    contestants: dict[str, Contestant], sources: Ids, size: int, beam: int, options: Any
) -> dict[str, Any]:
    """Measure and check one setting."""
    batches = batches_of(sources, size)
    windows = measure(contestants, batches, beam, options.repeats, options.seconds)
    ordered = [source for batch in batches for source in batch]
    ours = [window.value for window in windows[OURS]]
    answers = windows[OURS][0].answer["answers"]
    kept = {}
    for name, several in windows.items():
        values = [window.value for window in several]
        kept[name] = {
            "median": median(values),
            "windows": values,
            "ms": 1000 / median(values),
            "tokens": written(several[0]),
            "others": [round(window.others, 4) for window in several],
        }
        if name != OURS:
            theirs = several[0].answer["answers"]
            kept[name] |= {"ratio": ratio(ours, values)}
            kept[name] |= {"check": check(contestants[OURS], ordered, answers, theirs, beam)}
        log_progress(f"batch {size}, beam {beam}: {name}, {median(values):,.1f} sentences/s")
    return kept


def show(name: str, size: int, beam: int, one: dict[str, Any]) -> list[object]:
    """Return a row of the table."""
    search = "greedy" if beam == 1 else f"beam {beam}"
    start = [f"batch {size}, {search}", name, spread(one["windows"]), f"{one['ms']:.1f}"]
    if name == OURS:
        return [*start, one["tokens"], "", "", ""]
    middle, low, high = one["ratio"]
    found = one["check"]
    verdict = f"{found['wrong']} (by {found['largest']:.1g})" if found["wrong"] else "0"
    against = f"{middle:.2f} ({low:.2f} to {high:.2f})"
    return [*start, one["tokens"], against, found["differ"], verdict]


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    run = load_run(options.run)
    pairs = multi30k("test_2016_flickr")
    sources = [ids for ids in run.preprocessor.source.encode_many(list(pairs.sources())) if ids]
    kept: dict[str, Any] = {}
    rows = []
    contestants: dict[str, Contestant] = {}
    with TemporaryDirectory() as folder:
        exported = str(run.export("ctranslate2", Path(folder) / "exported"))
        peers = {
            "Hugging Face": ("answer_marian", str(options.run)),
            "CTranslate2": ("answer_ctranslate2", exported),
        }
        words = [word.lower() for word in (options.only or "").split(",")]
        files = {OURS: ("answer_saccade", str(options.run))}
        files |= {k: v for k, v in peers.items() if any(word in k.lower() for word in words)}
        try:
            for name, given in files.items():
                log_progress(f"starting {name}")
                contestants[name] = Contestant(name, *given)
            for size, count in ((1, options.one), (64, options.many)):
                for beam in (1, 5):
                    found = setting(contestants, sources[:count], size, beam, options)
                    kept[f"batch {size}, beam {beam}"] = found
                    rows += [show(name, size, beam, one) for name, one in found.items()]
            peaks = {name: round(contestant.peak) for name, contestant in contestants.items()}
        finally:
            for contestant in contestants.values():
                contestant.end()
    heads = ["", "", "sentences/s", "ms each", "tokens", "ratio (saccade / peer)"]
    print()
    table([*heads, "different outputs", "wrong"], rows)
    print(
        "\nTokens include end-of-sequence. Wrong: greedy outputs that diverge where the two most "
        f"probable tokens differ by {LOG_PROB_TOLERANCE} or more; beam outputs that are more "
        "probable than ours by more."
    )
    print(f"Peak memory, MB: {', '.join(f'{name} {peak:,}' for name, peak in peaks.items())}.")
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, "peak_mb": peaks, **kept}) + "\n")


if __name__ == "__main__":
    main()
