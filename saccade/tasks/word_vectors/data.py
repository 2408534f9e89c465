"""A text as word ids, and the benchmarks that word vectors are scored on."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.config import override_settings
from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.split_keys import refuse_division
from saccade.data.splits import SPLIT_NAMES
from saccade.data.text.corpus import (
    SYNTHETIC_TEXTS,
    TextCorpus,
    join_text_lines,
    open_text_corpus,
    plain_corpus,
    synthetic_corpus,
)
from saccade.data.text.text_splits import divide_text
from saccade.data.text.token_store import LineRange
from saccade.data.text.word_corpus import (
    LINE_END,
    WordCorpus,
    WordIndex,
    WordVocabulary,
    read_word_corpus,
)
from saccade.data.word_splitting import is_unspaced
from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors.config import GloVeConfig, WindowsConfig
from saccade.estimators.word_vectors.word2vec import MAX_HELD_OUT_WORDS, default_power
from saccade.io.atomic import write_atomically
from saccade.io.id_files import IdRange, read_id_files, stored_or_none, write_id_index
from saccade.io.text_files import read_lines
from saccade.metrics.word_similarity import WordVectorBenchmark, read_word_benchmark
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.word_vectors.config import (
    HELD_OUT_SHARE,
    VectorsRecipe,
    WordsConfig,
    holds_out_by_settings,
)
from saccade.types.arrays import Int32Array
from saccade.types.progress import Progress, ProgressCounter

BENCHMARKS_FOLDER = "word-vector-eval"  # in SACCADE_DATA: similarity and analogy sets
WORDS_FILE = "words.ids"
ID_FILES = {"train": WORDS_FILE, "dev": "dev.ids", "test": "test.ids"}


class WordSplit(NamedTuple):
    """The corpus (its held-out lines are scored), and benchmarks of similarity and analogies."""

    corpus: WordCorpus | None
    with_benchmarks: bool = False  # those of SACCADE_DATA
    benchmark: WordVectorBenchmark | None = None  # one from a file


PreparedWords = PreparedData[VectorsRecipe, WordVocabulary, WordSplit]


def prepare_words(recipe: VectorsRecipe, context: PrepareContext[WordVocabulary]) -> PreparedWords:
    """Encode the text as word ids, in a file of the scratch folder if there is one."""
    folder, vocabulary = context.scratch_dir, context.preprocessor
    if folder is not None and (folder / WORDS_FILE).exists() and vocabulary is not None:
        valid = IdRange(LINE_END, len(vocabulary.words) - 1)
        stored = stored_or_none(lambda: read_id_files(folder, ID_FILES, np.int32, valid))
        if stored is not None:
            ids = stored.pop("train")
            corpus = WordCorpus(vocabulary.words, vocabulary.counts, ids, vocabulary.read)
            return _prepared(recipe, vocabulary, corpus, stored)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    corpora, notes = _open_texts(recipe.data, context.on_progress)
    text = corpora["train"]
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | text.columns)
    data = recipe.data
    blocks, size = text.read_blocks(), text.size
    others: dict[str, LineRange] = {}
    if holds_out_by_settings(data):
        _check_held_out(recipe)
        divided = divide_text(corpora, data)
        others = {
            split: divided.lines[split] for split in SPLIT_NAMES[1:] if split in divided.lines
        }
        blocks, size = join_text_lines(divided.lines["train"]), None
        notes += divided.notes
    counter = ProgressCounter(context.on_progress, "reading the text", size)
    corpus = read_word_corpus(
        blocks,
        min_count=data.min_count,
        split=data.split,
        ids_path=None if folder is None else folder / WORDS_FILE,
        on_progress=counter.advance,
    )
    if vocabulary is not None and vocabulary.words != corpus.words:
        raise DataError(
            f"got a text with {len(corpus.words):,} words that are not the "
            f"{len(vocabulary.words):,} of the run; expected the text it was trained on, and its "
            "vocabulary as it was written; try the original files, or train again."
        )
    vocabulary = WordVocabulary(corpus.words, corpus.counts, corpus.read)
    notes.append(
        f"{corpus.read:,} words; {len(vocabulary.words):,} different ones occur "
        f"{data.min_count} times or more."
    )
    held_out = _encode_held_out(others, corpus.words, data.split, folder)
    if folder is not None:
        files = {"train": corpus.ids, **held_out}
        write_id_index(folder, {ID_FILES[split]: ids for split, ids in files.items()})
    prepared = _prepared(recipe, vocabulary, corpus, held_out)
    prepared.notes.extend(notes)
    prepared.choices.extend(role_choices(text.choices))
    if data.split == "words" and is_unspaced("".join(vocabulary.words)):
        prepared.choices.append(Choice("data.split", "words", "each character is a token"))
        prepared.notes.append(
            "There are no spaces between words, so each character is a token and gets a vector. "
            "For vectors of Chinese words try data.split=jieba; for other segmented text "
            "data.split=whitespace."
        )
    return prepared


def _prepared(
    recipe: VectorsRecipe,
    vocabulary: WordVocabulary,
    corpus: WordCorpus,
    held_out: Mapping[str, Int32Array],
) -> PreparedWords:
    """Return the splits; without held-out ids, the last lines of the corpus are scored."""
    recipe, choices = _choose_settings(recipe, corpus.read)
    dev = held_out.get("dev")
    train = corpus._replace(held_out=None if dev is None else dev[:MAX_HELD_OUT_WORDS])
    test = train._replace(held_out=held_out.get("test", dev))
    splits = {
        "train": WordSplit(train),
        "dev": WordSplit(train),
        "test": WordSplit(test, with_benchmarks=True),
    }
    return PreparedData(
        recipe, vocabulary, splits, lambda: fingerprint_arrays(corpus.ids), choices, []
    )


def _choose_settings(recipe: VectorsRecipe, words: int) -> tuple[VectorsRecipe, list[Choice]]:
    """Choose the settings of the model that are left open and not set."""
    config = recipe.model
    choices = []
    if isinstance(config, WindowsConfig) and config.power is None and config.negatives:
        choices.append(Choice("model.power", default_power(words), f"{words:,} words"))
    if isinstance(config, GloVeConfig) and config.dev_share is None:
        reason = "held-out pairs, on which the loss is measured"
        choices.append(Choice("model.dev_share", HELD_OUT_SHARE, reason))
    return override_settings(recipe, {choice.path: choice.value for choice in choices}), choices


# --- held-out text --------------------------------------------------------------------------------


def _check_held_out(recipe: VectorsRecipe) -> None:
    """Raise a ConfigError if the model has no loss on held-out text."""
    if not isinstance(recipe.model, WindowsConfig):
        raise ConfigError(
            f"got settings that hold out text for {recipe.model_name}, which is fitted to "
            "co-occurrence counts and has no loss on other text; try without them (data.dev, "
            "data.test, data.split_column, data.group_by, data.time and the shares), or "
            "--model skipgram, cbow or fasttext."
        )


def _encode_held_out(
    lines: Mapping[str, LineRange], words: list[str], split: str, folder: Path | None
) -> dict[str, Int32Array]:
    """Return the ids of held-out lines, and write them to the folder, if there is one."""
    index = WordIndex(words) if lines else None
    found = {}
    for name, some in lines.items():
        assert index is not None
        ids = found[name] = index.ids(join_text_lines(some), split)
        if not (ids != LINE_END).any():
            raise DataError(
                f"got no known word in the text of {name}; expected text like that of the "
                "training; try more of it, or --set data.min_count=1."
            )
        if folder is not None:
            write_atomically(folder / ID_FILES[name], ids.tobytes())
    return found


def _open_texts(
    data: WordsConfig, on_progress: Progress
) -> tuple[dict[str, TextCorpus], list[str]]:
    """Return the text and the held-out texts that are given, and notes."""
    source = resolve_source(data, SYNTHETIC_TEXTS, TEXT_DATASETS, what="text")
    notes: list[str] = []
    if isinstance(source, SyntheticSource):
        whole = synthetic_corpus(source, data, "vectors")
    elif isinstance(source, DatasetSource):
        refuse_division(data, source.name)
        paths, notes = fetch_dataset(
            source.dataset, lambda done, total: on_progress("downloading", done, total)
        )
        whole = plain_corpus([paths[file.name] for file in source.dataset.files], source.name)
    else:
        whole = open_text_corpus(source.path, data, "vectors")
        notes = [*whole.notes]
    given = {
        split: open_text_corpus(path, data, "vectors", is_other=True)
        for split in SPLIT_NAMES[1:]
        if (path := getattr(data, split)) is not None
    }
    return {"train": whole, **given}, notes


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
