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

from saccade.data.text.corpus import read_text_corpus
from saccade.data.text.token_store import TokenCorpus, encode_corpus
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BOS, EOS, PAD, UNK
from saccade.decoding import Hypothesis, SpecialTokens, TokenCallback, ignore_token
from saccade.errors import ConfigError
from saccade.tasks.searching import GenerationConfig, parse_decoding, run_decoding
from saccade.tasks.task import Evaluation, Task
from saccade.tasks.text import LanguageRecipe, PreparedText
from saccade.types.results import Prediction
from saccade.types.shapes import DecoderState, TokenIds

# a line ends with the end mark, and what follows it is the beginning of the next
LM_SPECIAL_TOKENS = SpecialTokens(EOS, EOS, (PAD, BOS, UNK))
NO_TOKEN = -1  # the number of no token
AdvanceCallback = Callable[[int], None]  # is told how many more are done


class TextTask(Task):
    """What all tasks on a text have in common: the text, as ids."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, *rest: Any):
        super().__init__(recipe, *rest)
        self.tokenizer = tokenizer
        self.corpora: dict[str, TokenCorpus] = {}

    def attach_data(self, prepared: PreparedText) -> None:
        """Hand over the text."""
        self.corpora = dict(prepared.corpora)

    def load_split(self, path: str | Path) -> str:
        """A text as a split; its name is returned."""
        self.corpora["given"] = encode_corpus(self.tokenizer, read_text_corpus(path))
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The tokenizer."""
        return self.tokenizer.to_json()

    def example_input(self) -> str:
        """How a held-out line begins."""
        ids = self.corpora["test"].ids
        lines = np.split(ids, np.flatnonzero(ids == EOS) + 1)
        longest = max(lines[:100], key=len).tolist()
        return self.tokenizer.decode([i for i in longest if i != EOS][: max(1, len(longest) // 2)])

    def leading_ids(self, split: str, limit: int | None) -> NDArray[Any]:
        """The ids of a split, or as many as so many segments have."""
        ids = self.corpora[split].ids
        return ids if limit is None else ids[: limit * self.recipe.data.segment_length + 1]


class CausalLMTask(TextTask):
    """What all models that go on with a text have in common: how it is scored and continued."""

    can_stream = True

    @property
    @abstractmethod
    def stepper(self) -> Any:
        """What writes one token after another."""

    @property
    def fast_decoder(self) -> Any:
        """The same, as fast as it goes."""
        return self.stepper

    @abstractmethod
    def total(self, ids: NDArray[Any], on_progress: AdvanceCallback = lambda more: None) -> float:
        """The summed log-probability of all tokens but the first."""

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: AdvanceCallback = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Loss, perplexity and bits, so that models of different tokens can be compared."""
        if beam != 1:
            raise ConfigError("a text is scored token by token, not searched for: leave beam out.")
        corpus = self.corpora[split]
        ids = self.leading_ids(split, limit)
        events = len(ids) - 1
        total = self.total(ids, on_progress)
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
        context_description = self.context_description()
        conventions = {
            "loss": f"per token, line ends counted; {context_description}",
            "perplexity": "e to the loss",
            "word_perplexity": "per word between spaces and line end, whatever the tokens",
            "bits_per_character": "per character and line end, whatever the tokens",
        }
        return figures, conventions

    @abstractmethod
    def context_description(self) -> str:
        """How much of the past a token sees when it is scored."""

    @torch.inference_mode()
    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: AdvanceCallback = lambda more: None,
        stream: Callable[[str], None] | None = None,
        **how: Any,
    ) -> list[Prediction]:
        """How each text goes on; `how` is that of `searching.Continuation`.

        `stream` is told of the first text's tokens as they come, as the text they make so far.
        """
        wanted = parse_decoding(how, GenerationConfig)
        stepper = self.fast_decoder
        prompts = [[EOS, *ids] for ids in self.tokenizer.encode_many(list(texts))]
        found: list[Prediction] = [Prediction("", 0.0, 0.0, True)] * len(prompts)
        for length in sorted({len(prompt) for prompt in prompts}):
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            ids = torch.tensor([prompts[row] for row in rows])
            max_lengths = torch.full(
                (len(rows),), wanted.max_new_tokens or self.recipe.data.max_new_tokens
            )
            answers = run_decoding(
                PromptedDecoder(stepper),
                partial(_as_it_is, ids),
                wanted,
                special_tokens=self._marks(wanted),
                max_lengths=max_lengths,
                numbers=[first + row for row in rows],
                on_token=ignore_token if stream is None else self._telling(stream, rows),
            )
            for row, several in zip(rows, answers, strict=True):
                best, *alternatives = [self._prediction(answer, wanted) for answer in several]
                found[row] = best._replace(alternatives=tuple(alternatives))
            on_progress(len(rows))
        return found

    def _marks(self, wanted: GenerationConfig) -> SpecialTokens:
        """Where an answer ends: with its line, after so many tokens, or where it is to stop."""
        eos = EOS if wanted.max_new_tokens is None else NO_TOKEN
        if not wanted.stop:
            return LM_SPECIAL_TOKENS._replace(eos=eos)
        limit = max(map(len, wanted.stop)) + 1  # a token has a byte at least

        def should_stop(ids: Sequence[int]) -> bool:
            return any(text in self._written(ids[-4 * limit :]) for text in wanted.stop)

        return LM_SPECIAL_TOKENS._replace(eos=eos, should_stop=should_stop)

    def _telling(self, stream: Callable[[str], None], rows: list[int]) -> TokenCallback:
        def on_token(sentence: int, ids: list[int]) -> None:
            if rows[sentence] == 0:
                stream(self._written(ids))

        return on_token

    def _written(self, ids: Sequence[int]) -> str:
        """The text of an answer, over the ends of lines."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == EOS:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def _prediction(self, answer: Hypothesis, wanted: GenerationConfig) -> Prediction:
        text = self._written(answer.ids)
        ends = [at for stop in wanted.stop if (at := text.find(stop)) >= 0]
        if ends:
            text = text[: min(ends)]
        return Prediction(text, answer.score, answer.log_probability, answer.finished)


class PromptedDecoder:
    """A model that has read a prompt before a search begins: its first step is that reading."""

    def __init__(self, model: Any):
        self.model = model

    def init_state(self, memory: TokenIds) -> DecoderState:
        """The prompts are the memory."""
        return DecoderState(memory, None)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The first time the prompt is read in place of the mark that a search begins with."""
        prompts, cache = state
        if cache is None:
            logits, after = self.model.step(prompts, self.model.init_state(prompts))
        else:
            logits, after = self.model.step(ids, DecoderState(prompts, cache))
        return logits[:, -1:], DecoderState(prompts, after.cache)


def _as_it_is(prompts: TokenIds) -> TokenIds:
    return prompts
