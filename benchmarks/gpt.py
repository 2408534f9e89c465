"""Training and generation speed of a GPT against Hugging Face's GPT-2 with the same weights.

    SACCADE_DATA=folder make bench-gpt

Tiny Shakespeare by character; `laptop` is nanoGPT's laptop setting (4 layers, width 128, context
64, batches of 12), `small` has 6 layers, width 384 and context 256. Training: the same batches,
float32, two threads, eager against eager and compiled against compiled, each in its own process, in
alternation, after a warm-up (which includes compiling). Generation: greedy, one prompt and sixteen,
as many tokens as fit in the context.

Goals: ratios of 1.3 (laptop, eager), 1.2 (small, eager), 1 (compiled) and 2 (generation);
`--what profile` profiles our own step.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from peers.alternating import Contestant, log_progress, ratio, summary
from peers.letters import SIZES, language_objective
from peers.shares import show_profile
from timing import matrix_rate, print_machine, spread, table

from saccade.training.cpu import OMP_ENV

OURS, THEIRS, MACHINE = "saccade", "Hugging Face", "machine"
EQUAL = 1e-4  # between losses of the same weights
PROMPT = 16  # tokens


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument(
        "--what", choices=["eager", "compiled", "write", "profile"], default="eager"
    )
    parser.add_argument("--windows", type=int, default=7, help="windows per contestant")
    parser.add_argument("--seconds", type=float, default=8, help="length of a window")
    parser.add_argument("--warm", type=float, default=40, help="seconds before the first window")
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def rate(answer: dict[str, Any]) -> float:
    """Return tokens per second, or the machine's GFLOP/s."""
    return answer["rate"] if "rate" in answer else answer["tokens"] / answer["seconds"]


def shapes_rate(size: str) -> float:
    """Return the GFLOP/s of the model's own matrix products, weighted by their operations."""
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


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Measure training of both in alternation, with the machine's own rate."""
    files = {OURS: "gpt_saccade", THEIRS: "gpt_hugging_face"}
    contestants: dict[str, Contestant] = {}
    try:
        for name, file in files.items():
            log_progress(f"starting {name}")
            # as set by the command line
            tuning = OMP_ENV if name == OURS and options.what == "eager" else None
            contestants[name] = Contestant(name, file, options.what, options.size, tuning=tuning)
        contestants[MACHINE] = Contestant(MACHINE, "train_machine")
        theirs, ours = (contestants[THEIRS].facts[name] for name in ("loss", "ours"))
        if abs(theirs - ours) > EQUAL:
            raise SystemExit(f"With the same weights the losses are {theirs:.5f} and {ours:.5f}.")
        log_progress(f"the same weights, the same loss: {theirs:.5f} and {ours:.5f}")
        for contestant in contestants.values():
            contestant.measure(rate, do="window", seconds=options.warm)
        for number in range(1, options.windows + 1):
            for name, contestant in contestants.items():
                window = contestant.turn(rate, do="window", seconds=options.seconds)
                log_progress(
                    f"window {number}: {name}, {window.value:,.0f} ({window.others:.1%} others)"
                )
        return print_results(contestants, options.size)
    finally:
        for contestant in contestants.values():
            contestant.end()


def print_results(contestants: dict[str, Contestant], size: str) -> dict[str, Any]:
    """Print the table and return its contents."""
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
    heads = [
        "",
        "tokens/s",
        "share of the square product",
        "share of its own shapes",
        "ratio (saccade / peer)",
    ]
    table([*heads, "peak MB"], rows)
    print(f"\nThe machine: {spread(contestants[MACHINE].values)} GFLOP/s, {own_shapes:.0f} at the ")
    print("model's own shapes.")
    return kept


def profile(options: argparse.Namespace) -> dict[str, Any]:
    """Profile our own training step."""
    ours = Contestant(OURS, "gpt_saccade", "eager", options.size, tuning=OMP_ENV)
    try:
        return show_profile(ours, min(options.warm, 10.0))
    finally:
        ours.end()


def generate(options: argparse.Namespace) -> dict[str, Any]:
    """Measure generation for one prompt and sixteen, in alternation."""
    ids = language_objective(options.size).splits["test"].ids
    tokens = SIZES[options.size]["context"] - PROMPT
    kept: dict[str, Any] = {}
    rows = []
    contestants = {
        OURS: Contestant(OURS, "gpt_saccade", "write", options.size),
        THEIRS: Contestant(THEIRS, "gpt_hugging_face", "write", options.size),
    }
    try:
        for many in (1, 16):
            prompts = [ids[at * 50 : at * 50 + PROMPT].tolist() for at in range(many)]
            common = {"prompts": prompts, "tokens": tokens}
            answers = {n: c.ask(repeats=2, **common)["answers"] for n, c in contestants.items()}
            same = sum(a == b for a, b in zip(*answers.values(), strict=True))
            found: dict[str, list[float]] = {name: [] for name in contestants}
            for _ in range(options.windows):
                for name, contestant in contestants.items():
                    answer = contestant.ask(repeats=3 if many == 1 else 1, **common)
                    times = (3 if many == 1 else 1) * many * tokens
                    found[name].append(times / answer["seconds"])
            middle, low, high = ratio(found[OURS], found[THEIRS])
            kept[str(many)] = {"windows": found, "ratio": [middle, low, high], "same": same}
            for name, values in found.items():
                against = f"{middle:.2f} ({low:.2f} to {high:.2f})" if name == THEIRS else ""
                rows.append([f"batch {many}", name, spread(values), against])
            log_progress(f"{same} of {many} outputs are equal")
    finally:
        for contestant in contestants.values():
            contestant.end()
    print()
    table(["", "", "tokens/s", "ratio (saccade / peer)"], rows)
    return kept


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    kept = {"write": generate, "profile": profile}.get(options.what, train)(options)
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
