"""Train word vectors or a classifier with one tool: seconds, peak memory, and the result.

    python -m peers.learn_words TOOL KIND CORPUS OUT SEED EPOCHS

The time includes reading the file, but not starting Python, importing the tool or compiling
kernels.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

THREADS = 2
WIDTH, WINDOW, NEGATIVES, MIN_COUNT, SUBSAMPLE = 100, 5, 5, 5, 1e-3


def with_gensim(kind: str, corpus: Path, out: Path, seed: int, epochs: int) -> float:
    """Train with gensim, from its fastest kind of input."""
    from gensim.models import Word2Vec

    tree = kind.endswith("-tree")
    start = time.perf_counter()
    model = Word2Vec(
        corpus_file=str(corpus),
        vector_size=WIDTH,
        window=WINDOW,
        min_count=MIN_COUNT,
        sample=SUBSAMPLE,
        sg=int(kind.startswith("skipgram")),
        hs=int(tree),
        negative=0 if tree else NEGATIVES,
        workers=THREADS,
        seed=seed,
        epochs=epochs,
    )
    took = time.perf_counter() - start
    model.wv.save_word2vec_format(str(out))
    return took


def with_fasttext(kind: str, corpus: Path, out: Path, seed: int, epochs: int) -> float:
    """Train with fastText, without character n-grams unless `kind` is fasttext.

    It takes no seed for vectors: two runs with two threads differ.
    """
    import fasttext

    if kind.startswith("classify"):
        return _labels_with_fasttext(corpus, out, seed)
    grams = {"minn": 3, "maxn": 6} if kind == "fasttext" else {"minn": 0, "maxn": 0}
    start = time.perf_counter()
    model = fasttext.train_unsupervised(
        str(corpus),
        model="cbow" if kind == "cbow" else "skipgram",
        dim=WIDTH,
        ws=WINDOW,
        neg=NEGATIVES,
        minCount=MIN_COUNT,
        t=SUBSAMPLE,
        epoch=epochs,
        thread=THREADS,
        verbose=0,
        **grams,
    )
    took = time.perf_counter() - start
    with out.open("w", encoding="utf-8") as file:
        words = model.get_words()
        file.write(f"{len(words)} {WIDTH}\n")
        for word in words:
            numbers = " ".join(format(x, ".9g") for x in model.get_word_vector(word))
            file.write(f"{word} {numbers}\n")
    return took


def _labels_with_fasttext(corpus: Path, out: Path, seed: int) -> float:
    import fasttext

    start = time.perf_counter()
    model = fasttext.train_supervised(str(corpus), thread=THREADS, seed=seed, verbose=0)
    took = time.perf_counter() - start
    lines = (corpus.parent / "news-test.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.split(" ", 1)[1] for line in lines]
    found, _ = model.predict(texts)
    out.write_text("\n".join(label[0] for label in found), encoding="utf-8")
    return took


def with_saccade(kind: str, corpus: Path, out: Path, seed: int, epochs: int) -> float:
    """Train a run as `saccade train` does."""
    import shutil

    from saccade.recipes.resolve import resolve_recipe
    from saccade.runs.run import load_run
    from saccade.runs.train import TrainOptions, train_recipe

    def run(data: Path, folder: Path, **more: Any) -> float:
        shutil.rmtree(folder, ignore_errors=True)
        changes = {"train.seed": seed, "train.threads": THREADS, "data.split": "whitespace", **more}
        recipe = resolve_recipe(what, data=str(data), model=model, changes=changes).recipe
        start = time.perf_counter()
        train_recipe(recipe, folder, TrainOptions())
        return time.perf_counter() - start

    what = "classify" if kind.startswith("classify") else "vectors"
    model = "fasttext" if what == "classify" else kind.removesuffix("-tree")
    more: dict[str, Any] = {"model.negatives": 0} if kind.endswith("-tree") else {}
    if kind in ("cbow", "fasttext", "skipgram", "skipgram-tree"):
        more["model.epochs"] = epochs
    if what == "classify":
        more = {"data.dev_share": 0, "data.test_share": 0}
    warm = corpus.with_name(f"warm-{what}.txt")  # kernels are compiled once and kept
    with corpus.open(encoding="utf-8") as file:
        warm.write_text("".join(line for line, _ in zip(file, range(2000), strict=False)))
    folder = out.with_suffix(".run")
    run(warm, folder, **more)
    took = run(corpus, folder, **more)
    if what == "classify":
        lines = (corpus.parent / "news-test.txt").read_text(encoding="utf-8").splitlines()
        answers = load_run(folder).predict([line.split(" ", 1)[1] for line in lines])
        out.write_text("\n".join(f"__label__{answer.text}" for answer in answers))
    else:
        load_run(folder).export("word2vec", out)
    return took


def main() -> None:
    """Train with the tool and model given on the command line."""
    tool, kind, corpus, out, seed, epochs = sys.argv[1:]
    learn = {"gensim": with_gensim, "fastText": with_fasttext, "saccade": with_saccade}[tool]
    took = learn(kind, Path(corpus), Path(out), int(seed), int(epochs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": took, "peak": peak, "torch": "torch" in sys.modules}
    if kind == "glove":
        found["counting"] = counting(Path(out).with_suffix(".run"))
    print(json.dumps(found))


def counting(folder: Path) -> float:
    """Return the seconds before GloVe's first epoch: its end minus the mean of the others."""
    from saccade.io.run_folder import read_metrics

    ends = [line["seconds"] for line in read_metrics(folder / "metrics.jsonl") if "loss" in line]
    return float(ends[0] - (ends[-1] - ends[0]) / (len(ends) - 1))


if __name__ == "__main__":
    main()
