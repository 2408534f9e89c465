"""Is a GPT of ours faster than Hugging Face's GPT-2 of the same weights, in training and writing?

    SACCADE_DATA=folder make bench-gpt

Tiny Shakespeare by the letter; `laptop` is nanoGPT's setting for one (4 layers, width 128, context
64, batches of 12), `small` has 6 layers, width 384 and context 256. Training: the same batches,
float32, two threads, eager against eager and compiled against compiled, each in a process of its
own and in turns, after a warm-up (compiling is in it). Writing: the likeliest token each time, one
prompt and sixteen, as many tokens as there is room for in the context.

A ratio below 1.3 (laptop, eager), 1.2 (small, eager), 1 (compiled) or 2 (writing) is where to look;
`--what profile` shows where our own time goes.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from peers.alternating import Contestant, ratio, say, summary
from peers.letters import SIZES, language_task
from peers.shares import show_profile
from timing import matrix_rate, say_machine, spread, table

from saccade.training.cpu import OMP_ENV

OURS, THEIRS, MACHINE = "saccade", "Hugging Face", "machine"
EQUAL = 1e-4  # between losses of the same weights
PROMPT = 16  # tokens


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument(
        "--what", choices=["eager", "compiled", "write", "profile"], default="eager"
    )
    parser.add_argument("--windows", type=int, default=7, help="of each contestant")
    parser.add_argument("--seconds", type=float, default=8, help="of a window")
    parser.add_argument("--warm", type=float, default=40, help="seconds before the first window")
    parser.add_argument("--json", type=Path, help="where to keep all figures")
    return parser.parse_args()


def rate(answer: dict[str, Any]) -> float:
    """Tokens per second, or the machine's GFLOP/s."""
    return answer["rate"] if "rate" in answer else answer["tokens"] / answer["seconds"]


def shapes_rate(size: str) -> float:
    """GFLOP/s of the model's own products, weighted by how many operations each takes."""
    sizes = SIZES[size]
    rows, width = sizes["rows"] * sizes["context"], sizes["width"]
    # query; keys and values; out; the two of the feed-forward
    shapes = [(width, width), (width, 2 * width), (width, width), (width, 4 * width)]
    shapes.append((4 * width, width))
    work = [2 * rows * inner * outer for inner, outer in shapes]
    times = [
        each / matrix_rate(rows, inner, outer).middle
        for each, (inner, outer) in zip(work, shapes, strict=True)
    ]
    return sum(work) / sum(times)


def train(asked: argparse.Namespace) -> dict[str, Any]:
    """Both in turns, with the machine's own rate among them."""
    files = {OURS: "gpt_saccade", THEIRS: "gpt_hugging_face"}
    contestants: dict[str, Contestant] = {}
    try:
        for name, file in files.items():
            say(f"starting {name}")
            tuning = (
                OMP_ENV if name == OURS and asked.what == "eager" else None
            )  # what the command line sets
            contestants[name] = Contestant(name, file, asked.what, asked.size, tuning=tuning)
        contestants[MACHINE] = Contestant(MACHINE, "train_machine")
        theirs, ours = (contestants[THEIRS].facts[name] for name in ("loss", "ours"))
        if abs(theirs - ours) > EQUAL:
            raise SystemExit(f"With the same weights the losses are {theirs:.5f} and {ours:.5f}.")
        say(f"the same weights, the same loss: {theirs:.5f} and {ours:.5f}")
        for contestant in contestants.values():
            contestant.measure(rate, do="window", seconds=asked.warm)
        for number in range(1, asked.windows + 1):
            for name, contestant in contestants.items():
                window = contestant.turn(rate, do="window", seconds=asked.seconds)
                say(f"window {number}: {name}, {window.value:,.0f} ({window.others:.1%} others)")
        return shown(contestants, asked.size)
    finally:
        for contestant in contestants.values():
            contestant.end()


def shown(contestants: dict[str, Contestant], size: str) -> dict[str, Any]:
    """Print the table, and give what is in it."""
    machine = median(contestants[MACHINE].values)
    own_shapes = shapes_rate(size)
    rows, kept = [], {}
    for name in (OURS, THEIRS):
        contestant = contestants[name]
        done = median(contestant.values) * contestant.facts["operations"] / 1e9
        middle, low, high = ratio(contestants[OURS].values, contestant.values)
        kept[name] = {**summary(contestant), "ratio": [middle, low, high], "gflops": done}
        rows.append(
            [
                name,
                spread(contestant.values),
                f"{done / machine:.0%}",
                f"{done / own_shapes:.0%}",
                "" if name == OURS else f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{contestant.peak:,.0f}",
            ]
        )
    print()
    heads = ["", "tokens/s", "of the square product", "of its own shapes", "saccade against it"]
    table([*heads, "peak MB"], rows)
    print(f"\nThe machine: {spread(contestants[MACHINE].values)} GFLOP/s, {own_shapes:.0f} at the ")
    print("model's own shapes.")
    return kept


def profile(asked: argparse.Namespace) -> dict[str, Any]:
    """Where our own time goes."""
    ours = Contestant(OURS, "gpt_saccade", "eager", asked.size, tuning=OMP_ENV)
    try:
        return show_profile(ours, min(asked.warm, 10.0))
    finally:
        ours.end()


def write(asked: argparse.Namespace) -> dict[str, Any]:
    """One prompt and sixteen, both in turns."""
    ids = language_task(asked.size).corpora["test"].ids
    tokens = SIZES[asked.size]["context"] - PROMPT
    kept: dict[str, Any] = {}
    rows = []
    contestants = {
        OURS: Contestant(OURS, "gpt_saccade", "write", asked.size),
        THEIRS: Contestant(THEIRS, "gpt_hugging_face", "write", asked.size),
    }
    try:
        for many in (1, 16):
            prompts = [ids[at * 50 : at * 50 + PROMPT].tolist() for at in range(many)]
            common = {"prompts": prompts, "tokens": tokens}
            answers = {n: c.ask(repeats=2, **common)["answers"] for n, c in contestants.items()}
            same = sum(a == b for a, b in zip(*answers.values(), strict=True))
            found: dict[str, list[float]] = {name: [] for name in contestants}
            for _ in range(asked.windows):
                for name, contestant in contestants.items():
                    answer = contestant.ask(repeats=3 if many == 1 else 1, **common)
                    times = (3 if many == 1 else 1) * many * tokens
                    found[name].append(times / answer["seconds"])
            middle, low, high = ratio(found[OURS], found[THEIRS])
            kept[str(many)] = {"windows": found, "ratio": [middle, low, high], "same": same}
            for name, values in found.items():
                against = f"{middle:.2f} ({low:.2f} to {high:.2f})" if name == THEIRS else ""
                rows.append([f"{many} at a time", name, spread(values), against])
            say(f"{same} of {many} answers are the same")
    finally:
        for contestant in contestants.values():
            contestant.end()
    print()
    table(["", "", "tokens/s", "saccade against it"], rows)
    return kept


def main() -> None:
    """Measure, print, and keep."""
    asked = arguments()
    say_machine()
    kept = {"write": write, "profile": profile}.get(asked.what, train)(asked)
    if asked.json:
        settings = {name: str(value) for name, value in vars(asked).items()}
        asked.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
