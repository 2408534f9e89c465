"""A text as word ids, and the benchmarks that word vectors are scored on."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.text.corpus import (
    SYNTHETIC_TEXTS,
    TextCorpus,
    open_text_corpus,
    plain_corpus,
    text_corpus_of,
)
from saccade.data.text.word_corpus import (
    WordCorpus,
    WordVocabulary,
    read_word_corpus,
)
from saccade.data.word_splitting import is_unspaced
from saccade.errors import ConfigError
from saccade.io.memmap import open_memmap
from saccade.io.text_files import read_lines
from saccade.metrics.word_similarity import WordVectorBenchmark, read_word_benchmark
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
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
        return _prepared(recipe, vocabulary, corpus, [], [])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    text, notes = _open_text(recipe.data, context.on_progress)
    counter = ProgressCounter(context.on_progress, "reading the text", text.size)
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | text.columns)
    data = recipe.data
    corpus = read_word_corpus(
        text.read_blocks(),
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
    prepared = _prepared(recipe, vocabulary, corpus, notes, role_choices(text.choices))
    if data.split == "words" and is_unspaced("".join(vocabulary.words)):
        prepared.choices.append(Choice("data.split", "words", "each character is a token"))
        notes.append(
            "There are no spaces between words, so each character is a token and gets a vector. "
            "For vectors of words, segment the text and set data.split=whitespace."
        )
    return prepared


def _prepared(
    recipe: VectorsRecipe,
    vocabulary: WordVocabulary,
    corpus: WordCorpus,
    notes: list[str],
    choices: list[Choice],
) -> PreparedWords:
    splits = {
        "train": WordSplit(corpus),
        "dev": WordSplit(corpus),
        "test": WordSplit(corpus, with_benchmarks=True),
    }
    return PreparedData(
        recipe, vocabulary, splits, lambda: fingerprint_arrays(corpus.ids), choices, notes
    )


def _open_text(data: WordsConfig, on_progress: Progress) -> tuple[TextCorpus, list[str]]:
    """Return the text, and notes."""
    source = resolve_source(data, SYNTHETIC_TEXTS, TEXT_DATASETS, what="text")
    if isinstance(source, SyntheticSource):
        return text_corpus_of(source.generate(), source.name), []
    if isinstance(source, DatasetSource):
        paths, notes = fetch_dataset(
            source.dataset, lambda done, total: on_progress("downloading", done, total)
        )
        return plain_corpus([paths[file.name] for file in source.dataset.files], source.name), notes
    corpus = open_text_corpus(source.path, data, "vectors")
    return corpus, corpus.notes


def load_benchmark(
    recipe: VectorsRecipe, vocabulary: WordVocabulary, data: str | Path | object
) -> WordSplit:
    """Read a file of word pairs with similarity scores, or of analogies."""
    if not isinstance(data, str | Path):
        raise ConfigError(
            f"got a {type(data).__name__} to evaluate word vectors on; expected a file of word "
            "pairs with similarity scores, or of analogies."
        )
    return WordSplit(None, benchmark=read_word_benchmark(Path(data), list(read_lines(data))))


def standard_benchmarks() -> list[WordVectorBenchmark]:
    """Return the benchmarks of $SACCADE_DATA/word-vector-eval, if it is there."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / BENCHMARKS_FOLDER
    files = sorted(folder.glob("*.t*")) if folder.is_dir() else []
    return [read_word_benchmark(path, list(read_lines(path))) for path in files]
