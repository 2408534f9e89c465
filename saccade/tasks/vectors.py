"""Word vectors: what is fitted, asked and judged. Nothing here loads torch."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.text.corpus import list_text_files, python_reference_text
from saccade.data.text.word_corpus import (
    WordCorpus,
    WordVocabulary,
    open_id_memmap,
    read_word_corpus,
)
from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors.baselines import OneHotConfig, SVDConfig
from saccade.estimators.word_vectors.fasttext import FastTextConfig
from saccade.estimators.word_vectors.glove import GloVeConfig
from saccade.estimators.word_vectors.neighbors import (
    Float32Array,
    nearest_neighbors,
    normalize_rows,
    parse_analogy,
)
from saccade.estimators.word_vectors.word2vec import Word2VecConfig
from saccade.inspection.checks import CheckResult
from saccade.io.text_files import read_blocks, read_lines
from saccade.metrics.word_similarity import WordVectorBenchmark, read_word_benchmark, spearman
from saccade.plots.word_map import save_word_map
from saccade.registry import did_you_mean, lookup
from saccade.tasks.task import (
    Choice,
    Evaluation,
    FitConfig,
    FitContext,
    FittedTask,
    Progress,
    TaskSpec,
    fingerprint_arrays,
)
from saccade.tasks.word_models import WORD_MODELS

SYNTHETIC_CORPORA: dict[str, Callable[[], str]] = {"python": python_reference_text}
DEFAULT_NEIGHBORS = 10  # words that an answer has
EVAL_SETS_FOLDER = "word-vector-eval"  # the folder of SACCADE_DATA with sets of pairs and analogies


class WordsConfig(Config):
    """Where the text comes from, and which of its words count."""

    synthetic: str | None = None  # python: the language reference that every interpreter carries
    dataset: str | None = None
    path: str | None = None  # a file or a folder of them
    split: Literal["words", "whitespace"] = "words"  # plain text, or text that has been prepared
    min_count: int = Field(5, ge=1)  # a word that is rarer has no vector


class VectorsRecipe(Config):
    """A text in, a vector for each of its words out."""

    task: Literal["vectors"] = "vectors"
    data: WordsConfig = WordsConfig()
    model: Annotated[
        Word2VecConfig | FastTextConfig | GloVeConfig | SVDConfig | OneHotConfig,
        Field(discriminator="name"),
    ] = Word2VecConfig()
    train: FitConfig = FitConfig()


class NeighborPrediction(NamedTuple):
    """A word near what was asked for, its cosine, and those that are less near."""

    text: str
    score: float
    alternatives: tuple["NeighborPrediction", ...] = ()


def _together(found: list[NeighborPrediction]) -> NeighborPrediction:
    """All in one line."""
    return NeighborPrediction(
        ", ".join(f"{one.text} {one.score:.3f}" for one in found), found[0].score
    )


@dataclass
class PreparedWords:
    """A text as numbers of words."""

    recipe: VectorsRecipe
    vocabulary: WordVocabulary
    sentences: WordCorpus
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the text."""
        return fingerprint_arrays(self.sentences.ids)


def prepare_word_corpus(
    recipe: VectorsRecipe,
    on_progress: Progress,
    vocabulary: WordVocabulary | None = None,
    auto_model: bool = False,
    scratch_dir: Path | None = None,
) -> PreparedWords:
    """Number the words of the text; the numbers go into a file in `place`, or are there already."""
    ids = None if scratch_dir is None else scratch_dir / "words.ids"
    notes: list[str] = []
    if ids is not None and ids.exists() and vocabulary is not None:
        known = WordCorpus(
            vocabulary.words, vocabulary.counts, open_id_memmap(ids), vocabulary.read
        )
        return PreparedWords(recipe, vocabulary, known)
    if scratch_dir is not None:
        scratch_dir.mkdir(parents=True, exist_ok=True)
    done, total = 0, 0

    def more(size: int) -> None:
        nonlocal done
        done += size
        on_progress("reading the text", done, total)

    contents, total, notes = _contents(recipe.data, on_progress)
    data = recipe.data
    sentences = read_word_corpus(
        contents, min_count=data.min_count, split=data.split, ids_path=ids, on_progress=more
    )
    lexicon = WordVocabulary(sentences.words, sentences.counts, sentences.read)
    notes.append(
        f"{sentences.read:,} words; {len(lexicon.words):,} different ones are there "
        f"{data.min_count} times or more."
    )
    return PreparedWords(recipe, lexicon, sentences, notes=notes)


def _contents(data: WordsConfig, on_progress: Progress) -> tuple[Iterator[bytes], int, list[str]]:
    """The text in blocks of whole lines, how many bytes it has (0: nobody knows), and notes."""
    sources = [data.synthetic, data.dataset, data.path]
    if sum(source is not None for source in sources) != 1:
        raise ConfigError(
            "a text is wanted, and one only: name it with --data, or set one of data.synthetic, "
            "data.dataset and data.path."
        )
    if data.synthetic is not None:
        text = lookup(SYNTHETIC_CORPORA, data.synthetic, "made text")().encode() + b"\n"
        return iter([text]), len(text), []
    notes: list[str] = []
    files = list_text_files(data.path or "")
    if data.dataset is not None:
        dataset = lookup(TEXT_DATASETS, data.dataset, "published text")
        paths, notes = fetch_dataset(dataset, lambda done, of: on_progress("fetching", done, of))
        files = [paths[file.name] for file in dataset.files]
    packed = any(file.suffix in (".gz", ".xz") for file in files)
    total = 0 if packed else sum(file.stat().st_size for file in files if file.exists())
    blocks = (block.content for file in files for block in read_blocks(file))
    return blocks, total, notes


class WordVectorsTask(FittedTask):
    """Vectors for the words of a text."""

    is_resumable = True

    def __init__(self, recipe: VectorsRecipe, lexicon: WordVocabulary):
        super().__init__(recipe)
        self.lexicon = lexicon
        self.numbers = {word: number for number, word in enumerate(lexicon.words)}
        model = recipe.model
        self.model = WORD_MODELS[model.name](model, lexicon.words, recipe.train.seed)
        self.given: WordVectorBenchmark | None = None
        self._directed: Float32Array | None = None

    def vocabulary_json(self) -> dict[str, Any]:
        """The words."""
        return self.lexicon.to_json()

    def attach_data(self, prepared: PreparedWords) -> None:
        """Take the text."""
        self.sentences = prepared.sentences

    def fit(self, context: FitContext) -> None:
        """By the model's own way."""
        self.model.fit(self.sentences, context)
        self._directed = None

    def weights(self) -> dict[str, Any]:
        """All rows."""
        return self.model.arrays()

    def load(self, weights: dict[str, Any]) -> None:
        """Take up rows."""
        self.model.load(weights)
        self._directed = None

    @property
    def unit_vectors(self) -> Float32Array:
        """Every word's vector, of length 1."""
        if self._directed is None:
            self._directed = normalize_rows(self.model.word_vectors())
        return self._directed

    # --- asking ---------------------------------------------------------------------------

    def example_input(self) -> str:
        """A word that is neither very frequent nor rare."""
        some = [word for word in self.lexicon.words[100:2000] if word.isalpha() and len(word) > 3]
        return some[0] if some else self.lexicon.words[0]

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        n_best: int | None = None,
    ) -> list[NeighborPrediction]:
        """The words near a word, or near what an analogy adds up to.

        With `n_best`, so many, one by one; else some, in one line.
        """
        wanted, without = [], []
        for number, text in enumerate(texts, first):
            found = [
                (term.sign, *self._found(term.word, text, number)) for term in parse_analogy(text)
            ]
            wanted.append(sum(sign * vector for sign, vector, _ in found))
            without.append([row for _, _, row in found if row is not None])
        many = n_best or DEFAULT_NEIGHBORS
        rows, cosines = nearest_neighbors(
            np.array(wanted, np.float32), self.unit_vectors, many, without
        )
        on_progress(len(texts))
        answers = []
        for numbers, scores in zip(rows.tolist(), cosines.tolist(), strict=True):
            pairs = zip(numbers, scores, strict=True)
            near = [NeighborPrediction(self.lexicon.words[row], score) for row, score in pairs]
            answers.append(
                near[0]._replace(alternatives=tuple(near[1:])) if n_best else _together(near)
            )
        return answers

    def _found(self, word: str, text: str, line: int) -> tuple[Float32Array, int | None]:
        """A word's direction and its row, or, of an unseen word, what the model makes of it."""
        row = self.row(word)
        if row is not None:
            return self.unit_vectors[row], row
        vector = self.model.oov_vector(word)
        if vector is not None:
            return normalize_rows(vector[None])[0], None
        raise DataError(
            f"input {line}, {text!r}: {word!r} has no vector; it is not among the "
            f"{len(self.numbers):,} words that the text had {self.recipe.data.min_count} times or more."
            f"{did_you_mean(word, self.numbers)}"
        )

    def row(self, word: str) -> int | None:
        """Where a word is, as it is spelt or in small letters."""
        return self.numbers.get(word, self.numbers.get(word.lower()))

    def cosines(self, words: Sequence[str]) -> Float32Array:
        """How alike each two of some words are."""
        rows = self._directions(words)
        alike: Float32Array = rows @ rows.T
        return alike

    def plot_words(self, words: Sequence[str], path: Path) -> list[str]:
        """A map of some words; what is to be said is returned."""
        return save_word_map(words, self._directions(words), path)

    def _directions(self, words: Sequence[str]) -> Float32Array:
        found = [self._found(word, word, number)[0] for number, word in enumerate(words, 1)]
        return np.array(found, np.float32)

    def save_plots(self, folder: Path) -> list[str]:
        """A map of frequent words that are not the most frequent of all."""
        words = [word for word in self.lexicon.words[100:400] if word.isalpha()][:40]
        return self.plot_words(words, folder / "words.png") if len(words) > 2 else []

    # --- scores ---------------------------------------------------------------------------

    def load_split(self, path: str | Path) -> str:
        """A set of pairs with scores, or of analogies."""
        self.given = read_word_benchmark(Path(path), list(read_lines(path)))
        return "given"

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """The loss on held-out lines; for a test, every set that is at hand as well."""
        if split == "given":
            assert self.given is not None
            return self._scored_set(self.given)
        figures: dict[str, float] = {} if split == "sets" else self.model.evaluate(self.sentences)
        said = {"loss": "nats for each word to be foretold, on lines that are never learned from"}
        said = said if figures else {}
        for one in _sets() if split in ("test", "sets") else []:
            more, how = self._scored_set(one)
            figures |= more
            said |= how
            on_progress(1)
        return figures, said

    def selection_score(self, scores: dict[str, float]) -> float:
        """Less loss is better; where there is none, all are alike."""
        return -scores.get("loss", 0.0)

    def _scored_set(self, one: WordVectorBenchmark) -> Evaluation:
        return self._analogies(one) if one.analogies else self._similarity(one)

    def _similarity(self, one: WordVectorBenchmark) -> Evaluation:
        pairs = [(self._any(j.one), self._any(j.other), j.score) for j in one.similarity_pairs]
        known = [(a, b, score) for a, b, score in pairs if a is not None and b is not None]
        cosines = np.array([float(a @ b) for a, b, _ in known])
        rho = spearman(np.array([score for _, _, score in known]), cosines)
        share = len(known) / len(pairs)
        return {one.name: rho, f"{one.name}_covered": share}, {
            one.name: "Spearman's ρ of cosines and people's judgments; the rest is left out"
        }

    def _any(self, word: str) -> Float32Array | None:
        row = self.row(word)
        if row is not None:
            return self.unit_vectors[row]
        vector = self.model.oov_vector(word)
        return None if vector is None else normalize_rows(vector[None])[0]

    def _analogies(self, one: WordVectorBenchmark) -> Evaluation:
        """Answered among all words of the vocabulary but the three of the question."""
        rows = [(q.category, [self.row(word) for word in q.words]) for q in one.analogies]
        known = [(category, row) for category, row in rows if None not in row]
        figures: dict[str, float] = {f"{one.name}_covered": len(known) / len(rows)}
        if known:
            places = np.array([row for _, row in known], np.int64)
            a, b, c = (self.unit_vectors[places[:, column]] for column in range(3))
            found, _ = nearest_neighbors(b - a + c, self.unit_vectors, 1, places[:, :3].tolist())
            right = found[:, 0] == places[:, 3]
            names = np.array([category for category, _ in known])
            figures[one.name] = float(right.mean())
            for name in dict.fromkeys(names.tolist()):
                figures[f"{one.name} {name}"] = float(right[names == name].mean())
        return figures, {
            one.name: "share of questions whose nearest word, the three named left out, is the one "
            "asked for; those with a word outside the vocabulary do not count"
        }

    def compare_reloaded(self, other: "WordVectorsTask", split: str, count: int) -> CheckResult:
        """Saved and reopened."""
        apart = np.abs(self.unit_vectors - other.unit_vectors).max()
        return CheckResult("saved and reopened agree", len(self.lexicon.words), float(apart), 0.0)


def _sets() -> list[WordVectorBenchmark]:
    """Those of $SACCADE_DATA/word-vector-eval, if it is there."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / EVAL_SETS_FOLDER
    files = sorted(folder.glob("*.t*")) if folder.is_dir() else []
    return [read_word_benchmark(path, list(read_lines(path))) for path in files]


VECTORS = TaskSpec(
    VectorsRecipe,
    WORD_MODELS,
    SYNTHETIC_CORPORA,
    TEXT_DATASETS,
    prepare_word_corpus,
    WordVectorsTask,
    WordVocabulary.from_json,
    torch_free=True,
)
