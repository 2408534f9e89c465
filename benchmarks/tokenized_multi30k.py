r"""Multi30k in the form of published figures: lower case, tokenized by Moses, BLEU of the tokens.

    pip install -c benchmarks/peers/requirements.txt sacremoses
    SACCADE_DATA=folder python benchmarks/tokenized_multi30k.py prepare FOLDER [--direction de-en]
    saccade train multi30k-transformer --data FOLDER/train.tsv \
        --set data.dev=FOLDER/dev.tsv --set data.test=FOLDER/test.tsv --out RUN
    python benchmarks/tokenized_multi30k.py score FOLDER RUN [RUN ...]

`prepare` applies Moses' punctuation normalisation, its tokenizer and lower-casing, as Li et al.
2022 ("On Vision Features in Multimodal Machine Translation") and Wu et al. 2021 do, and writes
pairs of tokenized sentences. `score` searches with a beam of 5, with the length penalty 1 of the
published figures and with that of the best dev BLEU, and computes the BLEU of the test set on the
tokens as they are (sacreBLEU with tokenize=none, which is multi-bleu.perl without its smoothing of
zero counts). The references of the test set have 12,103 tokens, as in the evaluation of Wu et al.
"""

import argparse
import gzip
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from saccade.errors import SaccadeError
from saccade.runs.run import Run, load_run
from saccade.training.device import set_num_threads

BEAM = 5
PUBLISHED_PENALTY = 1.0
LENGTH_PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0)
FILES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def prepare(folder: Path, direction: str) -> None:
    """Write train.tsv, dev.tsv and test.tsv: source, tab, target."""
    source, target = direction.split("-")
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in FILES.items():
        columns = [_tokenized(name, language) for language in (source, target)]
        rows = zip(*columns, strict=True)
        text = "".join(f"{left}\t{right}\n" for left, right in [("source", "target"), *rows])
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
        print(f"{folder / split}.tsv: {len(columns[0]):,} pairs")


def _tokenized(name: str, language: str) -> list[str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    path = Path(os.environ["SACCADE_DATA"]) / "multi30k" / f"{name}.{language}.gz"
    normaliser, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [
            tokenizer.tokenize(
                normaliser.normalize(line.strip().lower()), return_str=True, escape=False
            )
            for line in lines
        ]


def score(folder: Path, runs: Sequence[str]) -> None:
    """Print a Markdown table of the BLEU of dev and test."""
    set_num_threads(None)
    metric = BLEU(tokenize="none", force=True)  # no warning about tokenized text
    print("| run | seed | steps | test BLEU, greedy | beam | best penalty on dev | beam with it |")
    print("|---|---|---|---|---|---|---|")
    for name in runs:
        run = load_run(Path(name))
        dev = {penalty: _bleu(run, folder, "dev", penalty, metric) for penalty in LENGTH_PENALTIES}
        best = max(dev, key=dev.__getitem__)
        greedy, published, tuned = (
            _bleu(run, folder, "test", penalty, metric)
            for penalty in (None, PUBLISHED_PENALTY, best)
        )
        print(
            f"| {name} | {run.recipe.train.seed} | {run.recipe.train.max_steps:,} | {greedy:.2f} "
            f"| {published:.2f} | {best} | {tuned:.2f} |",
            flush=True,
        )
    print(f"\nBLEU: `{metric.get_signature()}`, beam {BEAM}.")


def _bleu(run: Run, folder: Path, split: str, penalty: float | None, metric: BLEU) -> float:
    lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    options = {} if penalty is None else {"beam": BEAM, "length_penalty": penalty}
    texts = [prediction.text for prediction in run.predict(list(sources), **options)]
    return float(metric.corpus_score(texts, [list(targets)]).score)


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("folder", type=Path)
    preparing.add_argument("--direction", default="en-de", choices=["en-de", "de-en"])
    scoring = commands.add_parser("score")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("runs", nargs="+")
    options = parser.parse_args()
    try:
        if options.command == "prepare":
            prepare(options.folder, options.direction)
        else:
            score(options.folder, options.runs)
    except SaccadeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
