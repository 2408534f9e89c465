"""A text as word ids, and the benchmarks that word vectors are scored on."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.text.corpus import SYNTHETIC_TEXTS, list_text_files
from saccade.data.text.word_corpus import (
    WordCorpus,
    WordVocabulary,
    read_word_corpus,
)
from saccade.data.word_splitting import is_unspaced
from saccade.io.memmap import open_memmap
from saccade.io.text_files import read_blocks, read_lines
from saccade.metrics.word_similarity import WordVectorBenchmark, read_word_benchmark
from saccade.tasks.base import Choice, PrepareContext, PreparedData, fingerprint_arrays
from saccade.tasks.word_vectors.config import VectorsRecipe, WordsConfig
from saccade.types.progress import Progress, ProgressCounter

BENCHMARKS_FOLDER = "word-vector-eval"  # in SACCADE_DATA: similarity and analogy sets


class WordSplit(NamedTuple):
    """The corpus (its held-out lines are scored), and benchmarks of similarity and analogies."""

    corpus: WordCorpus | None
    with_benchmarks: bool = False  # those of SACCADE_DATA
    benchmark: WordVectorBenchmark | None = None  # one from a file


PreparedWords = PreparedData[VectorsRecipe, WordVocabulary, WordSplit]


def prepare_words(recipe: VectorsRecipe, context: PrepareContext[WordVocabulary]) -> PreparedWords:
    """Encode the text as word ids, in a file of the scratch folder if there is one."""
    folder = context.scratch_dir
    ids_path = None if folder is None else folder / "words.ids"
    vocabulary = context.preprocessor
    if ids_path is not None and ids_path.exists() and vocabulary is not None:
        corpus = WordCorpus(
            vocabulary.words, vocabulary.counts, open_memmap(ids_path, np.int32), vocabulary.read
        )
        return _prepared(recipe, vocabulary, corpus, [])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    blocks, total, notes = _read_blocks(recipe.data, context.on_progress)
    counter = ProgressCounter(context.on_progress, "reading the text", total or None)
    data = recipe.data
    corpus = read_word_corpus(
        blocks,
        min_count=data.min_count,
        split=data.split,
        ids_path=ids_path,
        on_progress=counter.advance,
    )
    vocabulary = WordVocabulary(corpus.words, corpus.counts, corpus.read)
    notes.append(
        f"{corpus.read:,} words; {len(vocabulary.words):,} different ones occur "
        f"{data.min_count} times or more."
    )
    prepared = _prepared(recipe, vocabulary, corpus, notes)
    if data.split == "words" and is_unspaced("".join(vocabulary.words)):
        prepared.choices.append(Choice("data.split", "words", "each character is a token"))
        notes.append(
            "There are no spaces between words, so each character is a token and gets a vector. "
            "For vectors of words, segment the text and set data.split=whitespace."
        )
    return prepared


def _prepared(
    recipe: VectorsRecipe, vocabulary: WordVocabulary, corpus: WordCorpus, notes: list[str]
) -> PreparedWords:
    splits = {
        "train": WordSplit(corpus),
        "dev": WordSplit(corpus),
        "test": WordSplit(corpus, with_benchmarks=True),
    }
    return PreparedData(
        recipe, vocabulary, splits, lambda: fingerprint_arrays(corpus.ids), notes=notes
    )


def _read_blocks(
    data: WordsConfig, on_progress: Progress
) -> tuple[Iterator[bytes], int, list[str]]:
    """Return the text in blocks of whole lines, its size in bytes (0: unknown), and notes."""
    source = resolve_source(data, SYNTHETIC_TEXTS, TEXT_DATASETS, what="text")
    if isinstance(source, SyntheticSource):
        text = source.generate().encode() + b"\n"
        return iter([text]), len(text), []
    notes: list[str] = []
    if isinstance(source, DatasetSource):
        paths, notes = fetch_dataset(
            source.dataset, lambda done, total: on_progress("downloading", done, total)
        )
        files = [paths[file.name] for file in source.dataset.files]
    else:
        files = list_text_files(source.path)
    compressed = any(file.suffix in (".gz", ".xz") for file in files)
    total = 0 if compressed else sum(file.stat().st_size for file in files if file.exists())
    blocks = (block.content for file in files for block in read_blocks(file))
    return blocks, total, notes


def load_benchmark(
    recipe: VectorsRecipe, vocabulary: WordVocabulary, path: str | Path
) -> WordSplit:
    """Read a file of word pairs with similarity scores, or of analogies."""
    return WordSplit(None, benchmark=read_word_benchmark(Path(path), list(read_lines(path))))


def standard_benchmarks() -> list[WordVectorBenchmark]:
    """Return the benchmarks of $SACCADE_DATA/word-vector-eval, if it is there."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / BENCHMARKS_FOLDER
    files = sorted(folder.glob("*.t*")) if folder.is_dir() else []
    return [read_word_benchmark(path, list(read_lines(path))) for path in files]
