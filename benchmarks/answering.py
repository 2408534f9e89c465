"""Does Saccade answer as fast as others do with the same weights?

    SACCADE_DATA=folder make bench-answer RUN=runs/mine

RUN is a Transformer of a Saccade run with one shared vocabulary, trained long enough that its
sentences end by themselves. Its weights are copied into Hugging Face's Marian (Pegasus, if its
norms come first) and exported to CTranslate2 in float32. The first sentences of Multi30k's
test_2016_flickr, as numbers, are answered greedily and with a beam of 5 without length penalty,
one at a time and in batches of 64 of like length, 60 tokens at most. Each has a process of its
own with the same environment; they take turns, and the ratio is that of the medians.

That all did the same work is checked with our model: greedy tokens are equal but where the two
likeliest differ by less than 1e-4, and no other's beam found a likelier answer than ours.
A ratio below 3 (batch 1) or 1.6 (batch 64) to Hugging Face, or below 0.6 to CTranslate2, is
where to look.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from peers.alternating import Contestant, Window, ratio, say
from peers.corpus import multi30k
from timing import say_machine, spread, table

from saccade.runs.run import load_run

OURS = "saccade"
NEAR = 1e-4  # log-probabilities as near as this are taken as equal
Ids = list[list[int]]


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each in each setting")
    parser.add_argument("--seconds", type=float, default=5, help="of a turn, about")
    parser.add_argument("--one", type=int, default=64, help="sentences that come alone")
    parser.add_argument("--many", type=int, default=512, help="sentences in batches of 64")
    parser.add_argument("--only", help="peers whose name has one of these, comma-separated")
    parser.add_argument("--json", type=Path, help="where to keep all figures")
    return parser.parse_args()


def batches_of(sources: Ids, size: int) -> list[Ids]:
    """Sentences of like length together."""
    rows = sorted(sources, key=len) if size > 1 else sources
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def measure(
    contestants: dict[str, Contestant], batches: list[Ids], beam: int, repeats: int, seconds: float
) -> dict[str, list[Window]]:
    """Turns of all of them in one setting, after one that tells how many times fill a turn."""
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
    """How many tokens were written, end marks included."""
    return sum(len(answer) + 1 for answer in window.answer["answers"])


def check(judge: Contestant, sources: Ids, ours: Ids, theirs: Ids, beam: int) -> dict[str, Any]:
    """Whether the others found what we found, by our own model's word."""
    if beam == 1:
        asked = {"sources": sources, "answers": ours, "others": theirs}
        gaps = [gap for gap in judge.ask(do="part", **asked)["gaps"] if gap is not None]
        wrong = sum(gap >= NEAR for gap in gaps)
        return {"differ": len(gaps), "wrong": wrong, "largest": max(gaps, default=0.0)}
    mine, other = (
        judge.ask(do="score", sources=sources, answers=answers)["scores"]
        for answers in (ours, theirs)
    )
    lower = [theirs - ours for ours, theirs in zip(mine, other, strict=True)]
    return {
        "differ": sum(a != b for a, b in zip(ours, theirs, strict=True)),
        "wrong": sum(gap > NEAR for gap in lower),
        "largest": max(0.0, *lower),
        "higher": sum(gap < -NEAR for gap in lower),
    }


def setting(
    contestants: dict[str, Contestant], sources: Ids, size: int, beam: int, asked: Any
) -> dict[str, Any]:
    """Measure and check one setting."""
    batches = batches_of(sources, size)
    windows = measure(contestants, batches, beam, asked.repeats, asked.seconds)
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
        say(f"batch {size}, beam {beam}: {name}, {median(values):,.1f} sentences/s")
    return kept


def show(name: str, size: int, beam: int, one: dict[str, Any]) -> list[object]:
    """A row of the table."""
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
    """Measure, print, and keep."""
    asked = arguments()
    say_machine()
    run = load_run(asked.run)
    pairs = multi30k("test_2016_flickr")
    sources = [ids for ids in run.task.tokenizers.source.encode_many(list(pairs.sources())) if ids]
    kept: dict[str, Any] = {}
    rows = []
    contestants: dict[str, Contestant] = {}
    with TemporaryDirectory() as folder:
        exported = str(run.export("ctranslate2", Path(folder) / "exported"))
        peers = {
            "Hugging Face": ("answer_marian", str(asked.run)),
            "CTranslate2": ("answer_ctranslate2", exported),
        }
        words = [word.lower() for word in (asked.only or "").split(",")]
        files = {OURS: ("answer_saccade", str(asked.run))}
        files |= {k: v for k, v in peers.items() if any(word in k.lower() for word in words)}
        try:
            for name, given in files.items():
                say(f"starting {name}")
                contestants[name] = Contestant(name, *given)
            for size, count in ((1, asked.one), (64, asked.many)):
                for beam in (1, 5):
                    found = setting(contestants, sources[:count], size, beam, asked)
                    kept[f"batch {size}, beam {beam}"] = found
                    rows += [show(name, size, beam, one) for name, one in found.items()]
            peaks = {name: round(contestant.peak) for name, contestant in contestants.items()}
        finally:
            for contestant in contestants.values():
                contestant.end()
    heads = ["", "", "sentences/s", "ms each", "tokens", "saccade against it"]
    print()
    table([*heads, "other answers", "wrong"], rows)
    print(
        "\nTokens include end marks. Wrong: greedy, answers that part where the two likeliest "
        f"tokens differ by {NEAR} or more; beam, theirs that are likelier than ours by more."
    )
    print(f"Peak memory, MB: {', '.join(f'{name} {peak:,}' for name, peak in peaks.items())}.")
    if asked.json:
        settings = {name: str(value) for name, value in vars(asked).items()}
        asked.json.write_text(json.dumps({"asked": settings, "peak_mb": peaks, **kept}) + "\n")


if __name__ == "__main__":
    main()
