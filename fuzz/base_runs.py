"""Small runs, exports and files that cases are changes of; each is made at its first use."""

import io
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

TRANSLATE = {"data.max_new_tokens": 8, "train.batch_tokens": 128}
STEPS = {"train.steps": 3, "train.evaluate_every": 3, "train.checkpoint_seconds": 0}
STEPS["train.threads"] = 1  # with more, a step of a busy machine waits seconds for a thread
TINY = {**STEPS, "model.width": 8}


class Base(NamedTuple):
    """A run to make: the arguments of `saccade.train`, and an input."""

    task: str
    model: str
    data: str
    settings: dict[str, Any]
    input: Any


BASES: dict[str, Base] = {
    "bahdanau": Base("translate", "bahdanau", "pairs.tsv", {**TRANSLATE, **TINY}, "abc"),
    "transformer": Base(
        "translate",
        "transformer",
        "pairs.tsv",
        {**TRANSLATE, **TINY, "model.depth": 1, "model.heads": 2},
        "abc",
    ),
    "gpt2": Base(
        "language",
        "gpt2",
        "text.txt",
        {
            **TINY,
            "model.depth": 1,
            "model.heads": 2,
            "model.context_length": 16,
            "data.segment_length": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.size": 280,
        },
        "the cat",
    ),
    "gru": Base(
        "language",
        "gru",
        "text.txt",
        {**TINY, "model.depth": 1, "data.tokenizer.kind": "character"},
        "the cat",
    ),
    "ngram": Base("language", "ngram", "text.txt", {"data.tokenizer.kind": "word"}, "the cat"),
    "ngrams": Base("classify", "ngrams", "labels.csv", {}, "a good film"),
    "cnn": Base("classify", "cnn", "labels.csv", {**TINY, "model.filters": 4}, "a good film"),
    "bilstm_tagger": Base(
        "tag",
        "bilstm_tagger",
        "tags.conll",
        {**STEPS, "model.word_width": 8},
        "the cat sat",
    ),
    "mlp": Base(
        "table",
        "mlp",
        "table.csv",
        {**STEPS, "data.target": "price"},
        {"size": "3", "colour": "red"},
    ),
    "svm": Base(
        "table", "svm", "classes.csv", {"data.target": "kind"}, {"size": "3", "colour": "red"}
    ),
    "svr": Base(
        "table", "svr", "table.csv", {"data.target": "price"}, {"size": "3", "colour": "red"}
    ),
    "recurrent": Base("forecast", "recurrent", "series.csv", {**STEPS, "model.hidden": 4}, "1 2 3"),
    "kernel": Base("kernel-regression", "kernel", "points.csv", {}, "0.5"),
    "skipgram": Base(
        "vectors",
        "skipgram",
        "text.txt",
        {"model.width": 4, "model.epochs": 1, "data.min_count": 1, "train.threads": 1},
        "cat",
    ),
    "fasttext": Base(
        "vectors",
        "fasttext",
        "text.txt",
        {
            "model.width": 4,
            "model.epochs": 1,
            "data.min_count": 1,
            "train.threads": 1,
            "model.buckets": 50,
        },
        "cat",
    ),
    "attention_cnn": Base("image", "attention_cnn", "photos", TINY, np.zeros((9, 8, 3), np.uint8)),
    "resnet18": Base(
        "contrastive", "resnet18", "photos", {**STEPS, "model.width": 2}, np.zeros((9, 8), np.uint8)
    ),
    "captioner": Base(
        "caption",
        "recurrent",
        "captions.tsv",
        {**TINY, "data.min_count": 1, "model.encoder_depth": 1, "model.encoder_width": 2},
        np.zeros((8, 8), np.uint8),
    ),
}


@cache
def shelf() -> Path:
    """Return the folder of all bases, removed when the process ends."""
    import atexit

    folder = tempfile.TemporaryDirectory(prefix="saccade-bases-")
    atexit.register(folder.cleanup)
    return Path(os.path.realpath(folder.name))


@cache
def data_folder() -> Path:
    """Return the folder of the training files."""
    folder = shelf() / "data"
    folder.mkdir()
    for name, content in data_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def data_files() -> dict[str, bytes]:
    """Return small files for every task, by their paths."""
    return {name: text.encode() for name, text in _text_files().items()} | _photos()


def _photos() -> dict[str, bytes]:
    """Return images of two classes."""
    return {
        f"photos/{name}/{number}.png": _png(level + number)
        for name, level in (("dark", 20), ("light", 200))
        for number in range(10)
    }


def _png(level: int) -> bytes:
    content = io.BytesIO()
    pixels = (level + np.arange(8 * 8 * 3) % 30).reshape(8, 8, 3)
    Image.fromarray(pixels.astype(np.uint8)).save(content, format="PNG")
    return content.getvalue()


def _text_files() -> dict[str, str]:
    draw = random.Random(7)
    words = dict.fromkeys("".join(draw.choices("abcdef", k=draw.randint(1, 5))) for _ in range(80))
    lines = [
        f"the {one} sat on the {two} mat"
        for one in "cat dog cow hen".split()
        for two in "red old big wet new dry hot".split()
    ]
    opinions = {"good": ["good", "great", "fine"], "bad": ["bad", "poor", "dull"]}
    labels = [
        f"a {word} film number {n},{label}"
        for n in range(10)
        for label, known in opinions.items()
        for word in known
    ]
    rows = [(n % 9, draw.choice(["red", "blue"]), draw.random()) for n in range(60)]
    return {
        "pairs.tsv": "".join(f"{word}\t{word[::-1]}\n" for word in words),
        "text.txt": "\n".join(lines * 4) + "\n",
        "labels.csv": "\n".join(["text,label", *labels]) + "\n",
        "tags.conll": "\n\n".join(
            "\n".join(f"{word} {'B-x' if word < 'd' else 'O'}" for word in line.split())
            for line in lines * 4
        ),
        "table.csv": "size,colour,price\n"
        + "".join(f"{size},{colour},{2 * size + noise:.3f}\n" for size, colour, noise in rows),
        "classes.csv": "size,colour,kind\n"
        + "".join(f"{size},{colour},{'ab'[size > 4]}\n" for size, colour, noise in rows),
        "series.csv": "value\n" + "".join(f"{(n % 7) / 7:.3f}\n" for n in range(200)),
        "points.csv": "x,y\n" + "".join(f"{n / 40:.3f},{(n % 5) / 5:.3f}\n" for n in range(60)),
        "captions.tsv": "image\tcaption\n"
        + "".join(f"{name}\ta {name.split('/')[1]} image\n" for name in _photos()),
    }


@cache
def base_run(name: str) -> Path:
    """Return the folder of a trained run."""
    import saccade

    base = BASES[name]
    with without_report():
        saccade.train(
            base.task,
            data=str(data_folder() / base.data),
            model=base.model,
            set=base.settings,
            out=shelf() / name,
            progress=False,
        )
    return shelf() / name


@contextmanager
def without_report() -> Iterator[None]:
    """Train without drawing figures, which takes longer than the rest."""
    from saccade.runs import train

    report, train.write_report = train.write_report, lambda run, figures, log: None
    try:
        yield
    finally:
        train.write_report = report


@cache
def base_export(name: str) -> Path:
    """Return a file or a folder in the format of another tool."""
    from saccade.runs.run import load_run

    out = shelf() / "exports" / name
    out.parent.mkdir(exist_ok=True)
    if name == "gpt1":
        return _export_gpt1(out)
    if name == "gpt2":
        return load_run(base_run("gpt2")).export("huggingface", out)
    return load_run(base_run("skipgram")).export(name, out)


def _export_gpt1(out: Path) -> Path:
    """Write a GPT with its own tokenizer, which cannot be fitted, and random weights."""
    from saccade.data.tokenizers import LowercaseBPETokenizer
    from saccade.interop.huggingface_gpt2 import export_gpt2
    from saccade.models.config import GPTConfig
    from saccade.models.gpt import GPT

    letters = "acehnst"
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "th", "the</w>"]
    tokenizer = LowercaseBPETokenizer(tokens, [("t", "h"), ("th", "e</w>")])
    sizes = {"width": 8, "depth": 1, "heads": 2, "context_length": 16}
    config = GPTConfig(name="gpt1", vocab_size=tokenizer.vocab_size, missing_tokens=[0, 1], **sizes)
    export_gpt2(out, config, tokenizer, GPT(config).state_dict())
    return out
