"""Reading: how a text is scored and gone on with, whatever the model."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.lines import read_corpus
from saccade.data.tokenizers import Tokenizer
from saccade.data.tokens import Corpus, corpus_of
from saccade.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from saccade.decoding import Answer, Marks, Told, silent
from saccade.errors import ConfigError
from saccade.predictions import Prediction
from saccade.tasks.searching import Continuation, search, search_from
from saccade.tasks.task import Scored, Task
from saccade.tasks.text import LanguageRecipe, PreparedText
from saccade.types import Ids, State

# a line ends with the end mark, and what follows it is the beginning of the next
MARKS = Marks(END, END, (PAD, BEGIN, UNKNOWN))
NEVER = -1  # the number of no token
Tell = Callable[[int], None]  # is told how many more are done


class OnText(Task):
    """What all tasks on a text have in common: the text, as ids."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, *rest: Any):
        super().__init__(recipe, *rest)
        self.tokenizer = tokenizer
        self.corpora: dict[str, Corpus] = {}

    def give(self, prepared: PreparedText) -> None:
        """Hand over the text."""
        self.corpora = dict(prepared.corpora)

    def add_file(self, path: str | Path) -> str:
        """A text as a split; its name is returned."""
        self.corpora["given"] = corpus_of(self.tokenizer, read_corpus(path))
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

    def begun(self, split: str, most: int | None) -> NDArray[Any]:
        """The ids of a split, or as many as so many segments have."""
        ids = self.corpora[split].ids
        return ids if most is None else ids[: most * self.recipe.data.steps + 1]


class Reading(OnText):
    """What all models that go on with a text have in common: how it is scored and continued."""

    streams = True

    @property
    @abstractmethod
    def stepper(self) -> Any:
        """What writes one token after another."""

    @property
    def writing(self) -> Any:
        """The same, as fast as it goes."""
        return self.stepper

    @abstractmethod
    def total(self, ids: NDArray[Any], tell: Tell = lambda more: None) -> float:
        """The summed log-probability of all tokens but the first."""

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Tell = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Loss, perplexity and bits, so that models of different tokens can be compared."""
        if beam != 1:
            raise ConfigError("a text is scored token by token, not searched for: leave beam out.")
        corpus = self.corpora[split]
        ids = self.begun(split, most)
        events = len(ids) - 1
        total = self.total(ids, tell)
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

    @torch.inference_mode()
    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Tell = lambda more: None,
        stream: Callable[[str], None] | None = None,
        **how: Any,
    ) -> list[Prediction]:
        """How each text goes on; `how` is that of `searching.Continuation`.

        `stream` is told of the first text's tokens as they come, as the text they make so far.
        """
        wanted = search_from(how, Continuation)
        stepper = self.writing
        prompts = [[END, *ids] for ids in self.tokenizer.encode_many(list(texts))]
        found: list[Prediction] = [Prediction("", 0.0, 0.0, True)] * len(prompts)
        for length in sorted({len(prompt) for prompt in prompts}):
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            ids = torch.tensor([prompts[row] for row in rows])
            limits = torch.full((len(rows),), wanted.tokens or self.recipe.data.longest_answer)
            answers = search(
                Prompted(stepper),
                partial(_as_it_is, ids),
                wanted,
                marks=self._marks(wanted),
                limits=limits,
                numbers=[first + row for row in rows],
                told=silent if stream is None else self._telling(stream, rows),
            )
            for row, several in zip(rows, answers, strict=True):
                best, *others = [self._prediction(answer, wanted) for answer in several]
                found[row] = best._replace(others=tuple(others))
            tell(len(rows))
        return found

    def _marks(self, wanted: Continuation) -> Marks:
        """Where an answer ends: with its line, after so many tokens, or where it is to stop."""
        end = END if wanted.tokens is None else NEVER
        if not wanted.stop:
            return MARKS._replace(end=end)
        most = max(map(len, wanted.stop)) + 1  # a token has a byte at least

        def stops(ids: Sequence[int]) -> bool:
            return any(text in self._written(ids[-4 * most :]) for text in wanted.stop)

        return MARKS._replace(end=end, stops=stops)

    def _telling(self, stream: Callable[[str], None], rows: list[int]) -> Told:
        def told(sentence: int, ids: list[int]) -> None:
            if rows[sentence] == 0:
                stream(self._written(ids))

        return told

    def _written(self, ids: Sequence[int]) -> str:
        """The text of an answer, over the ends of lines."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == END:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def _prediction(self, answer: Answer, wanted: Continuation) -> Prediction:
        text = self._written(answer.ids)
        ends = [at for stop in wanted.stop if (at := text.find(stop)) >= 0]
        if ends:
            text = text[: min(ends)]
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


def _as_it_is(prompts: Ids) -> Ids:
    return prompts
