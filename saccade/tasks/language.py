"""Language: what a batch, a loss, a score and an answer mean for a long text."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config, flatten, set_paths
from saccade.data.corpus import (
    Segments,
    encode_lines,
    read_corpus,
    reference_text,
    sequential_segments,
    training_segments,
)
from saccade.data.parallel import TokenizerConfig
from saccade.data.tokenizers import Tokenizer, train
from saccade.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from saccade.decoding import Answer, Marks
from saccade.errors import ConfigError, DataError
from saccade.fitted.ngram import NGram
from saccade.look import laws
from saccade.look.laws import Example, Finding
from saccade.models.language import (
    ConvolutionLanguage,
    ConvolutionLanguageConfig,
    NGramConfig,
    Past,
    RecurrentLanguage,
    RecurrentLanguageConfig,
)
from saccade.nn.losses import Judged, word_loss
from saccade.nn.truncation import (
    full,
    gradients_by_distance,
    randomly_truncated,
    truncated,
    unroll,
)
from saccade.predictions import Prediction
from saccade.seeding import generator
from saccade.tasks.searching import search, search_from
from saccade.tasks.sizing import Choice
from saccade.tasks.task import Fitted, Network, Progress, Scored, Task, print_of
from saccade.training import Loss, TrainConfig
from saccade.types import Ids, State

# a line ends with the end mark, and what follows it is the beginning of the next
MARKS = Marks(END, END, (PAD, BEGIN, UNKNOWN))
ROWS = 16  # stretches that are read side by side when a text is scored
MADE: dict[str, Callable[[], str]] = {"python": reference_text}
LANGUAGE_MODELS: dict[str, Any] = {
    "convolution": ConvolutionLanguage,
    "gru": RecurrentLanguage,
    "gru_reset_first": RecurrentLanguage,
    "lstm": RecurrentLanguage,
    "ngram": NGram,
    "rnn": RecurrentLanguage,
}


class CorpusConfig(Config):
    """Where the text comes from, how it is cut into tokens, and how it is read."""

    made: str | None = None  # python: the language reference that every interpreter carries
    path: str | None = None  # a file or a folder of them
    dev: str | None = None  # files of their own; otherwise the last part is held out
    test: str | None = None
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    test_share: float = Field(0.05, gt=0, lt=0.5)
    tokenizer: TokenizerConfig = TokenizerConfig()
    reading: Literal["sequential", "random"] = "sequential"
    steps: int = Field(64, ge=1)  # tokens of a segment
    longest_answer: int = Field(100, ge=1)  # tokens after which an answer is cut off


class LanguageRecipe(Config):
    """A long text in, a model that continues and scores text out."""

    task: Literal["language"] = "language"
    data: CorpusConfig = CorpusConfig()
    model: Annotated[
        RecurrentLanguageConfig | ConvolutionLanguageConfig | NGramConfig,
        Field(discriminator="name"),
    ] = RecurrentLanguageConfig()
    train: TrainConfig = TrainConfig()


class Corpus(NamedTuple):
    """A text as ids, and how many characters and words it has, line ends counted as one."""

    ids: NDArray[Any]
    characters: int
    words: int


@dataclass
class PreparedText:
    """The text of a recipe, ready for training."""

    recipe: LanguageRecipe
    vocabulary: Tokenizer
    corpora: dict[str, Corpus]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the training ids."""
        return print_of(self.corpora["train"].ids)


def prepare(
    recipe: LanguageRecipe,
    tell: Progress,
    tokenizer: Tokenizer | None = None,
    name_model: bool = False,
) -> PreparedText:
    """Read the text, choose what the recipe leaves open, learn the vocabulary, encode."""
    tell("reading the text", 0, 0)
    lines = _lines(recipe.data)
    if tokenizer is None:
        tell("learning the vocabulary", 0, 0)
        settings = recipe.data.tokenizer
        tokenizer = train(settings.kind, lines["train"], settings.size)
    total, done = sum(map(len, lines.values())), 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        tell("encoding", done, total)

    corpora = {split: corpus_of(tokenizer, some, more) for split, some in lines.items()}
    recipe, choices = _size_up(recipe, len(corpora["train"].ids))
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    return PreparedText(recipe.with_values(model=model), tokenizer, corpora, choices)


def _lines(config: CorpusConfig) -> dict[str, list[str]]:
    """The lines of each split: held out is what comes last."""
    if (config.made is None) == (config.path is None):
        raise ConfigError("a recipe for text needs data.made or data.path, and not both.")
    if config.made is not None:
        if config.made not in MADE:
            raise ConfigError(f"There is no made text {config.made!r}. There are: python.")
        every = MADE[config.made]().split("\n")
    else:
        every = list(read_corpus(str(config.path)))
    named = {"dev": config.dev, "test": config.test}
    found = {split: list(read_corpus(path)) for split, path in named.items() if path}
    for split, share in (("test", config.test_share), ("dev", config.dev_share)):
        if split not in found:
            count = max(1, round(share * len(every)))
            every, found[split] = every[:-count], every[-count:]
    if not any(line.strip() for line in every):
        raise DataError(
            f"{config.path or config.made}: nothing is left to train on once dev and test are held "
            "out; a text of more lines was wanted."
        )
    return {"train": every, **found}


def corpus_of(
    tokenizer: Tokenizer, lines: Sequence[str], tell: Callable[[int], None] = lambda more: None
) -> Corpus:
    """The ids of some lines, and their size as a person counts it."""
    characters = sum(map(len, lines)) + len(lines)
    words = sum(len(line.split()) for line in lines) + len(lines)
    return Corpus(encode_lines(tokenizer, lines, tell), characters, words)


def _size_up(recipe: LanguageRecipe, tokens: int) -> tuple[LanguageRecipe, list[Choice]]:
    """Choose how long to train, where nobody has said it."""
    if recipe.model.name == "ngram":
        return recipe, []
    given = flatten(recipe, only_set=True)
    epoch = max(1, tokens // recipe.train.batch_tokens)
    epochs = float(np.clip(4e6 / tokens, 2, 40))
    steps = int(np.clip(epochs * epoch, 200, 20_000))
    wanted = [
        Choice("train.steps", steps, f"{steps / epoch:.1f} times through {tokens:,} tokens"),
        Choice("train.evaluate_every", max(50, steps // 20), "twenty times"),
    ]
    choices = [choice for choice in wanted if choice.path not in given]
    return set_paths(recipe, {choice.path: choice.value for choice in choices}), choices


class Text(NamedTuple):
    """The segments of one batch, as the loop counts them."""

    segments: Segments

    @property
    def tokens(self) -> int:
        """How many tokens the batch teaches."""
        lengths = self.segments.lengths
        return self.segments.targets.numel() if lengths is None else int(lengths.sum())


class Reading(Task):
    """What all models of text have in common: how a text is scored and continued."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, *rest: Any):
        super().__init__(recipe, *rest)
        self.tokenizer = tokenizer
        self.corpora: dict[str, Corpus] = {}

    @property
    @abstractmethod
    def stepper(self) -> Any:
        """What writes one token after another."""

    @abstractmethod
    def total(self, ids: NDArray[Any]) -> float:
        """The summed log-probability of all tokens but the first."""

    def give(self, prepared: PreparedText) -> None:
        """Hand over the text."""
        self.corpora = dict(prepared.corpora)

    def add_file(self, path: str | Path) -> str:
        """A text as a split; its name is returned."""
        self.corpora["given"] = corpus_of(self.tokenizer, list(read_corpus(path)))
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The tokenizer."""
        return self.tokenizer.to_json()

    def first_input(self) -> str:
        """How a held-out line begins."""
        ids = self.corpora["test"].ids
        lines = np.split(ids, np.flatnonzero(ids == END) + 1)
        longest = max(lines[:100], key=len).tolist()
        return self.tokenizer.decode([i for i in longest if i != END][: max(1, len(longest) // 2)])

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Loss, perplexity and bits, so that models of different tokens can be compared."""
        if beam != 1:
            raise ConfigError("a text is scored token by token, not searched for: leave beam out.")
        corpus = self.corpora[split]
        ids = corpus.ids if most is None else corpus.ids[: most * self.recipe.data.steps + 1]
        events = len(ids) - 1
        total = self.total(ids)
        loss = -total / events
        share = events / max(1, len(corpus.ids) - 1)  # of the text, if only a part is read
        characters, words = share * corpus.characters, share * corpus.words
        figures = {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "word_perplexity": math.exp(min(-total / max(words, 1.0), 700.0)),
            "bits_per_character": -total / math.log(2) / max(characters, 1.0),
            "tokens": float(events),
        }
        seen = self.seen()
        conventions = {
            "loss": f"per token, line ends counted; {seen}",
            "perplexity": "e to the loss",
            "word_perplexity": "per word between spaces and line end, whatever the tokens",
            "bits_per_character": "per character and line end, whatever the tokens",
        }
        return figures, conventions

    @abstractmethod
    def seen(self) -> str:
        """How much of the past a token sees when it is scored."""

    @torch.no_grad()
    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[Prediction]:
        """How each text goes on, to the end of its line; `how` is that of `searching.Search`."""
        wanted = search_from(how)
        prompts = [[END, *ids] for ids in self.tokenizer.encode_many(list(texts))]
        found: list[Prediction] = [Prediction("", 0.0, 0.0, True)] * len(prompts)
        for length in sorted({len(prompt) for prompt in prompts}):
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            ids = torch.tensor([prompts[row] for row in rows])
            limits = torch.full((len(rows),), self.recipe.data.longest_answer)
            answers = search(
                Prompted(self.stepper),
                partial(_as_it_is, ids),
                wanted,
                marks=MARKS,
                limits=limits,
                numbers=[first + row for row in rows],
            )
            for row, several in zip(rows, answers, strict=True):
                best, *others = [self._prediction(answer) for answer in several]
                found[row] = best._replace(others=tuple(others))
            tell(len(rows))
        return found

    def _prediction(self, answer: Answer) -> Prediction:
        text = self.tokenizer.decode(answer.ids)
        return Prediction(text, answer.score, answer.log_probability, answer.finished)


class Prompted:
    """A model that has read a prompt before a search begins: its first step is that reading."""

    def __init__(self, model: Any):
        self.model = model

    def start(self, memory: Ids) -> State:
        """The prompts are the memory."""
        return State(memory, None)

    def step(self, ids: Ids, state: State) -> tuple[Tensor, State]:
        """The first time the prompt is read in place of the mark that a search begins with."""
        prompts, past = state
        if past is None:
            logits, after = self.model.step(prompts, self.model.start(prompts))
        else:
            logits, after = self.model.step(ids, State(prompts, past))
        return logits[:, -1:], State(prompts, after.past)


class NetworkLanguage(Reading, Network):
    """A network of text, trained by the loop."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(
            recipe, tokenizer, lambda: LANGUAGE_MODELS[recipe.model.name](recipe.model)
        )

    @property
    def stepper(self) -> nn.Module:
        """The model itself."""
        self.model.eval()
        return self.model

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[Text]:
        """For "train" without end; others once, from their beginning."""
        data, settings = self.recipe.data, self.recipe.train
        rows = max(1, settings.batch_tokens // data.steps)
        ids = self.corpora[split].ids
        if split == "train":
            segments = training_segments(ids, data.reading, rows, data.steps, settings.seed, start)
        else:
            every = sequential_segments(ids, ROWS, data.steps, seed=0, epoch=0)
            segments = islice(every, start, None)
        yield from map(Text, segments)

    def loss(self, batch: Text) -> Loss:
        """Summed over the tokens; the state after the last is kept for the batch that follows.

        It is kept without its gradient: backpropagation goes no farther than the segment.
        """
        segments = batch.segments
        model: Any = self.model
        past = model.past(len(segments.inputs))
        if not segments.fresh:
            past = tuple(self.carried[str(i)][: len(part)] for i, part in enumerate(past))
        judged, after = self._judged(segments, past, self.recipe.train.smoothing)
        self.carried = {str(i): part.detach() for i, part in enumerate(after)}
        return Loss(*judged)

    def _judged(self, segments: Segments, past: Past, smoothing: float) -> tuple[Judged, Past]:
        """The tokens that count."""
        model: Any = self.model
        inputs = segments.inputs.to(self.device)
        hidden, after = unroll(model.read, past, inputs, self._borders(inputs.shape[1]))
        hidden = model.finish(_real(hidden.flatten(0, 1), segments))
        targets = _real(segments.targets.flatten(), segments).to(self.device)
        return word_loss(hidden, model.words, targets, smoothing), after

    def _borders(self, steps: int) -> tuple[float, ...]:
        config = self.recipe.model
        if not self.model.training or config.name == "convolution" or steps < 2:
            return full(steps)
        if config.truncation == "window":
            return truncated(steps, config.window)
        if config.truncation == "random":
            # the loop has seeded torch's generator by the step, so this, too, follows from it
            seed = int(torch.randint(2**62, ()))
            return randomly_truncated(steps, config.keep, generator(seed, "borders"))
        return full(steps)

    # --- scores ----------------------------------------------------------------------------

    @torch.no_grad()
    def total(self, ids: NDArray[Any]) -> float:
        """Read in stretches side by side, each with its state carried."""
        model: Any = self.stepper
        past: Past = ()
        total = 0.0
        for segments in sequential_segments(ids, ROWS, self.recipe.data.steps, seed=0, epoch=0):
            rows = len(segments.inputs)
            past = model.past(rows) if segments.fresh else tuple(part[:rows] for part in past)
            judged, past = self._judged(segments, past, smoothing=0.0)
            total -= float(judged.total)
        return total

    def seen(self) -> str:
        """What a token sees."""
        return f"a token sees all that is before it in one of {ROWS} stretches of the text"

    def gradients(self, split: str = "test", count: int = 16) -> Float[Tensor, "B T"]:
        """How much of the last loss reaches the state 1, 2, … steps before, for some segments."""
        if not isinstance(self.model, RecurrentLanguage):
            raise ConfigError(
                f"{self.recipe.model.name} has no state that a gradient goes back through; "
                "rnn, gru and lstm have one."
            )
        steps = self.recipe.data.steps
        ids = self.corpora[split].ids
        most = min(steps, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - most - 1, count).astype(np.int64))
        rows = torch.from_numpy(np.stack([ids[a : a + most + 1] for a in starts]).astype(np.int64))
        model: Any = self.stepper

        def surprise(hidden: Tensor) -> Tensor:
            return nn.functional.cross_entropy(
                model.project(hidden), rows[:, -1].to(self.device), reduction="none"
            )

        inputs = rows[:, :-1].to(self.device)
        return gradients_by_distance(model.read, model.past(len(rows)), inputs, surprise).detach()

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """The laws of a model that has no source."""
        model, example = self._example(split, count)
        vocab, limit = self.tokenizer.vocab_size, example.target.shape[1]
        yield laws.neighbours(model, example)
        yield laws.stepwise(model, example)
        yield laws.future(model, example, vocab)
        yield laws.beam_of_one(model, example, MARKS, limit)
        yield laws.best_of_many(model, example, MARKS, limit)
        yield laws.rereading(model, example, MARKS, limit)
        yield laws.threads(model, example)
        yield laws.compiled(model, example)

    def again(self, other: "NetworkLanguage", split: str, count: int) -> Finding:
        """Saved and reopened."""
        model, example = self._example(split, count)
        return laws.same("saved and reopened agree", model, Alone(other.stepper), example)

    def _example(self, split: str, count: int) -> tuple["Alone", Example]:
        ids = self.corpora[split].ids
        steps = min(16, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - steps, count).astype(np.int64))
        rows = np.stack([ids[at : at + steps] for at in starts]).astype(np.int64)
        nothing = torch.zeros(len(rows), 1, dtype=torch.long)
        lengths = torch.ones(len(rows), dtype=torch.long)
        return Alone(self.stepper), Example(nothing, lengths, torch.from_numpy(rows))


class Alone(nn.Module):
    """A model without a source, for laws that speak of one."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def encode(self, source: Ids, lengths: Tensor | None) -> Ids:
        """The source says only how many rows there are."""
        return source

    def start(self, memory: Any) -> State:
        """Nothing read yet."""
        return self.model.start(memory)

    def step(self, ids: Ids, state: State) -> tuple[Tensor, State]:
        """The model's."""
        return self.model.step(ids, state)


class CountedLanguage(Reading, Fitted):
    """n-grams: fitted by counting."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(recipe, tokenizer)
        config = recipe.model
        assert isinstance(config, NGramConfig)
        self.ngram = NGram(config.order, config.vocab_size, config.smoothing)

    @property
    def stepper(self) -> NGram:
        """The counts."""
        return self.ngram

    def fit(self, tell: Callable[[str, int, int], None]) -> None:
        """Count."""
        tell("counting", 0, 0)
        self.ngram.fit(self.corpora["train"].ids)

    def weights(self) -> dict[str, Tensor]:
        """The counts and what follows from them."""
        return {name: torch.from_numpy(a) for name, a in self.ngram.to_arrays().items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take up counts."""
        self.ngram = NGram.from_arrays({name: t.numpy() for name, t in weights.items()})

    def total(self, ids: NDArray[Any]) -> float:
        """All tokens but the first, each after those before it."""
        return float(self.ngram.log_probabilities(ids)[1:].sum())

    def seen(self) -> str:
        """What a token sees."""
        return f"a token sees the {self.ngram.order - 1} before it"

    def again(self, other: "CountedLanguage", split: str, count: int) -> Finding:
        """Saved and reopened."""
        ids = self.corpora[split].ids[: 64 * count]
        one, two = (task.ngram.log_probabilities(ids) for task in (self, other))
        # of a token that no count allows both say minus infinity
        apart = np.abs(np.where(one == two, 0.0, one - two)).max()
        return Finding("saved and reopened agree", count, float(apart), 1e-9)


def language_task(recipe: LanguageRecipe, tokenizer: Tokenizer) -> Reading:
    """The task of a recipe: a network, or counts."""
    if recipe.model.name == "ngram":
        return CountedLanguage(recipe, tokenizer)
    return NetworkLanguage(recipe, tokenizer)


def _as_it_is(prompts: Ids) -> Ids:
    return prompts


def _real(flat: Tensor, segments: Segments) -> Tensor:
    real = segments.real
    return flat if real is None else flat.index_select(0, real.to(flat.device))
