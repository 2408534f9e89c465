"""Training speed of translation models against other tools on the same machine and data.

    SACCADE_DATA=folder make bench-translate

29,000 pairs of Multi30k, English to German, one BPE vocabulary of 8000, batches of 4096
tokens, float32, two threads. The Transformer has 3 + 3 layers, width 256, 4 heads, feed-forward
1024, tied embeddings, and dropout 0.1 on embeddings and residual branches; the recurrent
translator (`--model recurrent`) has embeddings and states of 256 and two layers. The time
includes batching, loss, gradient, clipping and AdamW.

Every contestant is a separate process with the same environment (two OpenMP threads, no other
tuning, freed memory kept by the same setting of the C library). All are warmed up one by one; then
they alternate, one window each, together with the machine's own matrix product. Counted are target
tokens without padding; a window in which other processes took more than 6 % of the machine is
repeated. The ratio is that of the medians, with a bootstrap interval over windows.

Goals: a ratio whose interval is above 1.3 (recurrent: 1.5), and no more memory than a peer.
`--profile` profiles our own step.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from peers.alternating import Contestant, log_progress, ratio, summary
from peers.corpus import write_vocabulary
from peers.shares import show_profile
from timing import print_machine, spread, table

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


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=PEERS, default="transformer")
    parser.add_argument("--windows", type=int, default=9, help="windows per contestant")
    parser.add_argument("--seconds", type=float, default=12, help="length of a window")
    parser.add_argument("--warm", type=float, default=45, help="seconds before the first window")
    parser.add_argument("--only", help="peers whose name has one of these, comma-separated")
    parser.add_argument(
        "--profile", action="store_true", help="profile our own step, no comparison"
    )
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def chosen(model: str, only: str | None) -> dict[str, str]:
    """Return the selected peers and their modules."""
    peers = PEERS[model]
    if only is None:
        return peers
    words = [word.lower() for word in only.split(",")]
    found = {name: file for name, file in peers.items() if any(w in name.lower() for w in words)}
    if not found:
        raise SystemExit(f"No peer has {only!r} in its name. There are: {', '.join(peers)}.")
    return found


def rate(answer: dict[str, Any]) -> float:
    """Return target tokens per second, or the machine's GFLOP/s."""
    return answer["rate"] if "rate" in answer else answer["tokens"] / answer["seconds"]


def check_losses(contestants: dict[str, Contestant]) -> None:
    """Exit if a peer with our weights does not compute our loss."""
    for name, contestant in contestants.items():
        if "loss" not in contestant.facts:
            continue
        theirs, ours = contestant.facts["loss"], contestant.facts["ours"]
        if abs(theirs - ours) > EQUAL:
            raise SystemExit(
                f"With the same weights and without dropout {name} has a loss of {theirs:.5f} "
                f"and saccade {ours:.5f}: they are not the same model, and their speeds "
                "are not comparable."
            )
        log_progress(
            f"{name} with our weights and without dropout: loss {theirs:.5f}, ours {ours:.5f}"
        )


def alternate_windows(
    contestants: dict[str, Contestant], windows: int, seconds: float, warm: float
) -> None:
    """Warm up all contestants one by one, then measure them in alternation."""
    for name, contestant in contestants.items():
        window = contestant.measure(rate, do="window", seconds=warm)
        log_progress(
            f"warmed up: {name}, {window.value:,.0f} ({window.others:.1%} taken by others)"
        )
    for number in range(1, windows + 1):
        for name, contestant in contestants.items():
            window = contestant.turn(rate, do="window", seconds=seconds)
            noise = f"{window.others:.1%} taken by others, {contestant.repeated} repeated"
            log_progress(f"window {number} of {windows}: {name}, {window.value:,.0f} ({noise})")


def show(contestants: dict[str, Contestant]) -> dict[str, Any]:
    """Print the table and return its contents."""
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
    heads = [
        "",
        "target tokens/s",
        "share of machine peak",
        "ratio (saccade / peer)",
        "peak MB",
        "million",
    ]
    print()
    table([*heads, "others", ""], rows)
    print(
        f"\nThe machine: {spread(contestants[MACHINE].values)} GFLOP/s (square product), measured "
        "in alternation with the others. A rate is the median window (minimum to maximum); a ratio "
        "is that of the medians, with its 95 % interval. Shares are of counted operations, padding "
        "included."
    )
    return kept


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    peers = {} if options.profile else chosen(options.model, options.only)
    files = {OURS: "train_saccade", **peers}
    if not options.profile:
        files[MACHINE] = "train_machine"
    contestants: dict[str, Contestant] = {}
    with TemporaryDirectory() as folder:
        write_vocabulary(Path(folder))
        try:
            for name, file in files.items():
                log_progress(f"starting {name}")
                contestants[name] = Contestant(name, file, folder, options.model)
            if options.profile:
                kept = show_profile(contestants[OURS], min(options.warm, 10.0))
            else:
                check_losses(contestants)
                alternate_windows(contestants, options.windows, options.seconds, options.warm)
                kept = show(contestants)
        finally:
            for contestant in contestants.values():
                contestant.end()
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
