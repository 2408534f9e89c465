"""Word vectors: what is fitted, asked and judged. Nothing here loads torch."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.files import read_blocks, read_lines
from saccade.data.lines import files_of, reference_text
from saccade.data.sentences import Lexicon, Sentences, mapped, read_sentences
from saccade.data.sources import TEXTS, obtain
from saccade.errors import ConfigError, DataError
from saccade.fitted.baselines import OneHotConfig, SVDConfig
from saccade.fitted.fasttext import FastTextConfig
from saccade.fitted.glove import GloVeConfig
from saccade.fitted.nearest import Floats, directions, nearest, terms
from saccade.fitted.word2vec import Word2VecConfig
from saccade.look.draw_words import save_words
from saccade.look.finding import Finding
from saccade.lookup import did_you_mean, pick
from saccade.metrics.vectors import Set, read_set, spearman
from saccade.tasks.task import Choice, FitConfig, Fitted, Fitting, Kind, Progress, Scored, print_of
from saccade.tasks.word_models import WORD_MODELS

MADE: dict[str, Callable[[], str]] = {"python": reference_text}
NEAR = 10  # words that an answer has
SETS = "word-vector-eval"  # the folder of SACCADE_DATA with sets of pairs and analogies


class WordsConfig(Config):
    """Where the text comes from, and which of its words count."""

    made: str | None = None  # python: the language reference that every interpreter carries
    published: str | None = None
    path: str | None = None  # a file or a folder of them
    split: Literal["words", "spaces"] = "words"  # plain text, or text that has been prepared
    least: int = Field(5, ge=1)  # a word that is rarer has no vector


class VectorsRecipe(Config):
    """A text in, a vector for each of its words out."""

    task: Literal["vectors"] = "vectors"
    data: WordsConfig = WordsConfig()
    model: Annotated[
        Word2VecConfig | FastTextConfig | GloVeConfig | SVDConfig | OneHotConfig,
        Field(discriminator="name"),
    ] = Word2VecConfig()
    train: FitConfig = FitConfig()


class Neighbour(NamedTuple):
    """A word near what was asked for, its cosine, and those that are less near."""

    text: str
    score: float
    others: tuple["Neighbour", ...] = ()


def _together(found: list[Neighbour]) -> Neighbour:
    """All in one line."""
    return Neighbour(", ".join(f"{one.text} {one.score:.3f}" for one in found), found[0].score)


@dataclass
class PreparedWords:
    """A text as numbers of words."""

    recipe: VectorsRecipe
    vocabulary: Lexicon
    sentences: Sentences
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the text."""
        return print_of(self.sentences.ids)


def prepare(
    recipe: VectorsRecipe,
    tell: Progress,
    vocabulary: Lexicon | None = None,
    name_model: bool = False,
    place: Path | None = None,
) -> PreparedWords:
    """Number the words of the text; the numbers go into a file in `place`, or are there already."""
    ids = None if place is None else place / "words.ids"
    notes: list[str] = []
    if ids is not None and ids.exists() and vocabulary is not None:
        known = Sentences(vocabulary.words, vocabulary.counts, mapped(ids), vocabulary.read)
        return PreparedWords(recipe, vocabulary, known)
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    done, total = 0, 0

    def more(size: int) -> None:
        nonlocal done
        done += size
        tell("reading the text", done, total)

    contents, total, notes = _contents(recipe.data, tell)
    data = recipe.data
    sentences = read_sentences(contents, least=data.least, split=data.split, place=ids, tell=more)
    lexicon = Lexicon(sentences.words, sentences.counts, sentences.read)
    notes.append(
        f"{sentences.read:,} words; {len(lexicon.words):,} different ones are there "
        f"{data.least} times or more."
    )
    return PreparedWords(recipe, lexicon, sentences, notes=notes)


def _contents(data: WordsConfig, tell: Progress) -> tuple[Iterator[bytes], int, list[str]]:
    """The text in blocks of whole lines, how many bytes it has (0: nobody knows), and notes."""
    sources = [data.made, data.published, data.path]
    if sum(source is not None for source in sources) != 1:
        raise ConfigError(
            "a text is wanted, and one only: name it with --data, or set one of data.made, "
            "data.published and data.path."
        )
    if data.made is not None:
        text = pick(MADE, data.made, "made text")().encode() + b"\n"
        return iter([text]), len(text), []
    notes: list[str] = []
    files = files_of(data.path or "")
    if data.published is not None:
        published = pick(TEXTS, data.published, "published text")
        paths, notes = obtain(published, lambda done, of: tell("fetching", done, of))
        files = [paths[file.name] for file in published.files]
    packed = any(file.suffix in (".gz", ".xz") for file in files)
    total = 0 if packed else sum(file.stat().st_size for file in files if file.exists())
    blocks = (block.content for file in files for block in read_blocks(file))
    return blocks, total, notes


class WordVectors(Fitted):
    """Vectors for the words of a text."""

    goes_on = True

    def __init__(self, recipe: VectorsRecipe, lexicon: Lexicon):
        super().__init__(recipe)
        self.lexicon = lexicon
        self.numbers = {word: number for number, word in enumerate(lexicon.words)}
        model = recipe.model
        self.model = WORD_MODELS[model.name](model, lexicon.words, recipe.train.seed)
        self.given: Set | None = None
        self._directed: Floats | None = None

    def vocabulary_json(self) -> dict[str, Any]:
        """The words."""
        return self.lexicon.to_json()

    def give(self, prepared: PreparedWords) -> None:
        """Take the text."""
        self.sentences = prepared.sentences

    def fit(self, around: Fitting) -> None:
        """By the model's own way."""
        self.model.fit(self.sentences, around)
        self._directed = None

    def weights(self) -> dict[str, Any]:
        """All rows."""
        return self.model.arrays()

    def load(self, weights: dict[str, Any]) -> None:
        """Take up rows."""
        self.model.load(weights)
        self._directed = None

    @property
    def directed(self) -> Floats:
        """Every word's vector, of length 1."""
        if self._directed is None:
            self._directed = directions(self.model.of_words())
        return self._directed

    # --- asking ---------------------------------------------------------------------------

    def first_input(self) -> str:
        """A word that is neither very frequent nor rare."""
        some = [word for word in self.lexicon.words[100:2000] if word.isalpha() and len(word) > 3]
        return some[0] if some else self.lexicon.words[0]

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        n_best: int | None = None,
    ) -> list[Neighbour]:
        """The words near a word, or near what an analogy adds up to.

        With `n_best`, so many, one by one; else some, in one line.
        """
        wanted, without = [], []
        for number, text in enumerate(texts, first):
            found = [(term.sign, *self._found(term.word, text, number)) for term in terms(text)]
            wanted.append(sum(sign * vector for sign, vector, _ in found))
            without.append([row for _, _, row in found if row is not None])
        many = n_best or NEAR
        rows, cosines = nearest(np.array(wanted, np.float32), self.directed, many, without)
        tell(len(texts))
        answers = []
        for numbers, scores in zip(rows.tolist(), cosines.tolist(), strict=True):
            pairs = zip(numbers, scores, strict=True)
            near = [Neighbour(self.lexicon.words[row], score) for row, score in pairs]
            answers.append(near[0]._replace(others=tuple(near[1:])) if n_best else _together(near))
        return answers

    def _found(self, word: str, text: str, line: int) -> tuple[Floats, int | None]:
        """A word's direction and its row, or, of an unseen word, what the model makes of it."""
        row = self.row(word)
        if row is not None:
            return self.directed[row], row
        vector = self.model.unseen(word)
        if vector is not None:
            return directions(vector[None])[0], None
        raise DataError(
            f"input {line}, {text!r}: {word!r} has no vector; it is not among the "
            f"{len(self.numbers):,} words that the text had {self.recipe.data.least} times or more."
            f"{did_you_mean(word, self.numbers)}"
        )

    def row(self, word: str) -> int | None:
        """Where a word is, as it is spelt or in small letters."""
        return self.numbers.get(word, self.numbers.get(word.lower()))

    def cosines(self, words: Sequence[str]) -> Floats:
        """How alike each two of some words are."""
        rows = self._directions(words)
        alike: Floats = rows @ rows.T
        return alike

    def draw(self, words: Sequence[str], path: Path) -> list[str]:
        """A map of some words; what is to be said is returned."""
        return save_words(words, self._directions(words), path)

    def _directions(self, words: Sequence[str]) -> Floats:
        found = [self._found(word, word, number)[0] for number, word in enumerate(words, 1)]
        return np.array(found, np.float32)

    def pictures(self, folder: Path) -> list[str]:
        """A map of frequent words that are not the most frequent of all."""
        words = [word for word in self.lexicon.words[100:400] if word.isalpha()][:40]
        return self.draw(words, folder / "words.png") if len(words) > 2 else []

    # --- scores ---------------------------------------------------------------------------

    def add_file(self, path: str | Path) -> str:
        """A set of pairs with scores, or of analogies."""
        self.given = read_set(Path(path), list(read_lines(path)))
        return "given"

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """The loss on held-out lines; for a test, every set that is at hand as well."""
        if split == "given":
            assert self.given is not None
            return self._scored_set(self.given)
        figures: dict[str, float] = {} if split == "sets" else self.model.judge(self.sentences)
        said = {"loss": "nats for each word to be foretold, on lines that are never learned from"}
        said = said if figures else {}
        for one in _sets() if split in ("test", "sets") else []:
            more, how = self._scored_set(one)
            figures |= more
            said |= how
            tell(1)
        return figures, said

    def goodness(self, scores: dict[str, float]) -> float:
        """Less loss is better; where there is none, all are alike."""
        return -scores.get("loss", 0.0)

    def _scored_set(self, one: Set) -> Scored:
        return self._analogies(one) if one.questions else self._similarity(one)

    def _similarity(self, one: Set) -> Scored:
        pairs = [(self._any(j.one), self._any(j.other), j.score) for j in one.judged]
        known = [(a, b, score) for a, b, score in pairs if a is not None and b is not None]
        cosines = np.array([float(a @ b) for a, b, _ in known])
        rho = spearman(np.array([score for _, _, score in known]), cosines)
        share = len(known) / len(pairs)
        return {one.name: rho, f"{one.name}_covered": share}, {
            one.name: "Spearman's ρ of cosines and people's judgments; the rest is left out"
        }

    def _any(self, word: str) -> Floats | None:
        row = self.row(word)
        if row is not None:
            return self.directed[row]
        vector = self.model.unseen(word)
        return None if vector is None else directions(vector[None])[0]

    def _analogies(self, one: Set) -> Scored:
        """Answered among all words of the vocabulary but the three of the question."""
        rows = [(q.category, [self.row(word) for word in q.words]) for q in one.questions]
        known = [(category, row) for category, row in rows if None not in row]
        figures: dict[str, float] = {f"{one.name}_covered": len(known) / len(rows)}
        if known:
            places = np.array([row for _, row in known], np.int64)
            a, b, c = (self.directed[places[:, column]] for column in range(3))
            found, _ = nearest(b - a + c, self.directed, 1, places[:, :3].tolist())
            right = found[:, 0] == places[:, 3]
            names = np.array([category for category, _ in known])
            figures[one.name] = float(right.mean())
            for name in dict.fromkeys(names.tolist()):
                figures[f"{one.name} {name}"] = float(right[names == name].mean())
        return figures, {
            one.name: "share of questions whose nearest word, the three named left out, is the one "
            "asked for; those with a word outside the vocabulary do not count"
        }

    def again(self, other: "WordVectors", split: str, count: int) -> Finding:
        """Saved and reopened."""
        apart = np.abs(self.directed - other.directed).max()
        return Finding("saved and reopened agree", len(self.lexicon.words), float(apart), 0.0)


def _sets() -> list[Set]:
    """Those of $SACCADE_DATA/word-vector-eval, if it is there."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / SETS
    files = sorted(folder.glob("*.t*")) if folder.is_dir() else []
    return [read_set(path, list(read_lines(path))) for path in files]


VECTORS = Kind(
    VectorsRecipe,
    WORD_MODELS,
    MADE,
    TEXTS,
    prepare,
    WordVectors,
    Lexicon.from_json,
    light=True,
)
