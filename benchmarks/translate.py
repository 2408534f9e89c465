"""Does Saccade train a translator faster than its peers, on the same machine and the same data?

    SACCADE_DATA=folder make bench-translate

29,000 pairs of Multi30k, English to German, one byte-pair vocabulary of 8000, batches of 4096
tokens, float32, two threads. The Transformer has 3 + 3 layers, width 256, 4 heads, feed-forward
1024, tied embeddings, and dropout 0.1 on embeddings and residual branches; the recurrent
translator (`--model recurrent`) has embeddings and states of 256 and two layers. Everything of a
step is in the time: making the batch, loss, gradient, clipping, AdamW.

Every contestant is a process of its own with the same environment (two OpenMP threads, no other
tuning, freed memory kept by the same switch of the C library). One after the other is warmed up;
then they take turns, a window each, with the machine's own matrix product among them. Counted
are target tokens without padding; a window of which others took more than 6 % of the machine is
repeated. The ratio is that of the medians, its interval from drawing windows again.

A ratio whose interval reaches below 1.3 (recurrent: 1.5), or a peak above a peer's, is where to
look. `--profile` shows where our own time goes.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from peers.alternating import Contestant, ratio, say, summary
from peers.corpus import write_vocabulary
from peers.shares import show_profile
from timing import say_machine, spread, table

OURS, MACHINE = "saccade", "machine"
PEERS = {
    "transformer": {
        "torch.nn.Transformer": "train_torch",
        "Hugging Face Marian": "train_marian",
        "JoeyNMT": "train_joey",
        "Eole": "train_eole",
    },
    "recurrent": {"JoeyNMT": "train_joey", "d2l": "train_d2l"},
}
EQUAL = 1e-4  # between losses of the same weights


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=PEERS, default="transformer")
    parser.add_argument("--windows", type=int, default=9, help="of each contestant")
    parser.add_argument("--seconds", type=float, default=12, help="of a window")
    parser.add_argument("--warm", type=float, default=45, help="seconds before the first window")
    parser.add_argument("--only", help="peers whose name has one of these, comma-separated")
    parser.add_argument("--profile", action="store_true", help="where our own time goes, no race")
    parser.add_argument("--json", type=Path, help="where to keep all figures")
    return parser.parse_args()


def chosen(model: str, only: str | None) -> dict[str, str]:
    """The peers that take part, and their files."""
    peers = PEERS[model]
    if only is None:
        return peers
    words = [word.lower() for word in only.split(",")]
    found = {name: file for name, file in peers.items() if any(w in name.lower() for w in words)}
    if not found:
        raise SystemExit(f"No peer has {only!r} in its name. There are: {', '.join(peers)}.")
    return found


def rate(answer: dict[str, Any]) -> float:
    """Target tokens per second, or the machine's GFLOP/s."""
    return answer["rate"] if "rate" in answer else answer["tokens"] / answer["seconds"]


def check_losses(contestants: dict[str, Contestant]) -> None:
    """Those that were given our weights compute what we compute."""
    for name, contestant in contestants.items():
        if "loss" not in contestant.facts:
            continue
        theirs, ours = contestant.facts["loss"], contestant.facts["ours"]
        if abs(theirs - ours) > EQUAL:
            raise SystemExit(
                f"With the same weights and without dropout {name} has a loss of {theirs:.5f} "
                f"and saccade {ours:.5f}: they are not the same model, so the race says nothing."
            )
        say(f"{name} with our weights and without dropout: loss {theirs:.5f}, ours {ours:.5f}")


def race(contestants: dict[str, Contestant], windows: int, seconds: float, warm: float) -> None:
    """Warm all up, one at a time, then measure them in turns."""
    for name, contestant in contestants.items():
        window = contestant.measure(rate, do="window", seconds=warm)
        say(f"warmed up: {name}, {window.value:,.0f} ({window.others:.1%} taken by others)")
    for number in range(1, windows + 1):
        for name, contestant in contestants.items():
            window = contestant.turn(rate, do="window", seconds=seconds)
            noise = f"{window.others:.1%} taken by others, {contestant.repeated} repeated"
            say(f"window {number} of {windows}: {name}, {window.value:,.0f} ({noise})")


def show(contestants: dict[str, Contestant]) -> dict[str, Any]:
    """Print the table, and give what is in it."""
    machine = median(contestants[MACHINE].values)
    ours = contestants[OURS]
    kept, rows = {}, []
    for name, contestant in contestants.items():
        kept[name] = summary(contestant)
        if name == MACHINE:
            continue
        middle, low, high = ratio(ours.values, contestant.values)
        each = contestant.facts.get("operations")
        share = None if each is None else median(contestant.values) * each / 1e9 / machine
        kept[name] |= {"share": share, "ratio": [middle, low, high]}
        rows.append(
            [
                name,
                spread(contestant.values),
                "–" if share is None else f"{share:.0%}",
                "" if name == OURS else f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{contestant.peak:,.0f}",
                f"{contestant.facts['parameters'] / 1e6:.2f}",
                f"{max(window.others for window in contestant.windows):.1%}",
                contestant.facts["about"],
            ]
        )
    heads = ["", "target tokens/s", "of the machine", "saccade against it", "peak MB", "million"]
    print()
    table([*heads, "others", ""], rows)
    print(
        f"\nThe machine: {spread(contestants[MACHINE].values)} GFLOP/s (square product), measured "
        "in turns with the others. A rate is the median window (least to most); a ratio that of "
        "the medians, with its 95 % interval. Shares are of counted operations, padding included."
    )
    return kept


def main() -> None:
    """Measure, print, and keep."""
    asked = arguments()
    say_machine()
    peers = {} if asked.profile else chosen(asked.model, asked.only)
    files = {OURS: "train_saccade", **peers}
    if not asked.profile:
        files[MACHINE] = "train_machine"
    contestants: dict[str, Contestant] = {}
    with TemporaryDirectory() as folder:
        write_vocabulary(Path(folder))
        try:
            for name, file in files.items():
                say(f"starting {name}")
                contestants[name] = Contestant(name, file, folder, asked.model)
            if asked.profile:
                kept = show_profile(contestants[OURS], min(asked.warm, 10.0))
            else:
                check_losses(contestants)
                race(contestants, asked.windows, asked.seconds, asked.warm)
                kept = show(contestants)
        finally:
            for contestant in contestants.values():
                contestant.end()
    if asked.json:
        settings = {name: str(value) for name, value in vars(asked).items()}
        asked.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
