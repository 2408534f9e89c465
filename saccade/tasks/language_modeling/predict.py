"""Generating text: continue prompts by greedy, beam or sampled decoding."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from saccade.config import Config
from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.data.tokenizers import Tokenizer
from saccade.decoding import (
    MAX_SEARCH_ROWS,
    GenerationConfig,
    Hypothesis,
    PromptedDecoder,
    SpecialTokens,
    TokenCallback,
    ignore_token,
    parse_decoding,
    run_decoding,
)
from saccade.inference.engine import make_decoder
from saccade.inspection.search_tree import SearchProblem
from saccade.models.base import CausalLM
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.language_modeling.choices import predict_choices
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction

# a line ends with eos, and what follows it is the start of the next line
LM_SPECIAL_TOKENS = SpecialTokens(EOS, EOS, (PAD, BOS, UNK))
NO_TOKEN = -1


class TextGenerator(TextPredictor):
    """Continues prompts to the end of the line, or for a number of tokens."""

    options = GenerationConfig
    can_stream = True

    def __init__(self, recipe: LanguageRecipe, model: CausalLM | NGramModel, tokenizer: Tokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self._decoder: Any = None  # weights of the fused decoder, rebuilt when the model changes

    def parse_options(self, options: Mapping[str, Any]) -> GenerationConfig:
        """Validate generation options."""
        return parse_decoding(dict(options), GenerationConfig)

    def decoder(self, engine: str) -> Any:
        """Return the decoder of an engine: "fused", or the model's own code ("torch")."""
        if isinstance(self.model, NGramModel):
            return self.model.ngram
        # an optimizer may have changed the weights in place since the last call
        previous = None if self.model.training else self._decoder
        decoder = self._decoder = make_decoder(self.model.eval(), engine, previous)
        return decoder

    @torch.inference_mode()
    def engine_name(self, requested: str) -> str | None:
        """Return the engine that decodes if `requested` is asked for; None: an n-gram model."""
        if isinstance(self.model, NGramModel):
            return None
        return str(self.decoder(requested).engine_name)

    @torch.inference_mode()
    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the continuation of each prompt; `context.on_text` follows the first one."""
        assert isinstance(options, GenerationConfig)
        if options.choices:
            counter = ProgressCounter(context.on_progress, "scoring", len(inputs))
            decoder = self.decoder(context.engine)
            return predict_choices(decoder, self.tokenizer, options, inputs, counter.advance)
        decoder = PromptedDecoder(self.decoder(context.engine))
        prompts = [[EOS, *ids] for ids in self.tokenizer.encode_many(list(inputs))]
        found = [Prediction("", 0.0, 0.0, True)] * len(prompts)
        counter = ProgressCounter(context.on_progress, "generating", len(prompts))
        limit = options.max_new_tokens or self.recipe.data.max_new_tokens
        for rows in _equal_lengths(prompts, max(1, MAX_SEARCH_ROWS // options.beam)):
            ids = torch.tensor([prompts[row] for row in rows])
            hypotheses = run_decoding(
                decoder,
                lambda ids=ids: ids,  # type: ignore[misc]
                options,
                special_tokens=self._special_tokens(options),
                max_lengths=torch.full((len(rows),), limit),
                numbers=[context.first + row for row in rows],
                on_token=self._on_token(context.on_text, rows),
            )
            for row, several in zip(rows, hypotheses, strict=True):
                best, *others = [self._prediction(one, options) for one in several]
                found[row] = best._replace(alternatives=tuple(others))
            counter.advance(len(rows))
        return found

    def search_problem(self, text: str, max_new_tokens: int | None) -> SearchProblem:
        """Return a prompt for a search to the end of the line, of limited length."""
        decoder = PromptedDecoder(self.decoder("fused"))
        ids = torch.tensor([[EOS, *self.tokenizer.encode(text)]])
        limit = max_new_tokens or self.recipe.data.max_new_tokens
        return SearchProblem(
            decoder,
            lambda: ids,
            LM_SPECIAL_TOKENS,
            limit,
            ids.device,
            self.tokenizer.display_tokens,
            self.decode,
        )

    def _special_tokens(self, options: GenerationConfig) -> SpecialTokens:
        """Return where generation ends: at eos, after a number of tokens, at stop strings."""
        eos = EOS if options.max_new_tokens is None else NO_TOKEN
        if not options.stop:
            return LM_SPECIAL_TOKENS._replace(eos=eos)
        longest = max(map(len, options.stop)) + 1  # a token has at least one byte

        def should_stop(ids: Sequence[int]) -> bool:
            return any(text in self.decode(ids[-4 * longest :]) for text in options.stop)

        return LM_SPECIAL_TOKENS._replace(eos=eos, should_stop=should_stop)

    def _on_token(self, on_text: Callable[[str], None] | None, rows: list[int]) -> TokenCallback:
        if on_text is None:
            return ignore_token
        publish = on_text

        def on_token(sentence: int, ids: list[int]) -> None:
            if rows[sentence] == 0:
                publish(self.decode(ids))

        return on_token

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, with line breaks at eos."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == EOS:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def _prediction(self, hypothesis: Hypothesis, options: GenerationConfig) -> Prediction:
        text = self.decode(hypothesis.ids)
        ends = [start for stop in options.stop if (start := text.find(stop)) >= 0]
        if ends:
            text = text[: min(ends)]
        return Prediction(text, hypothesis.score, hypothesis.log_probability, hypothesis.finished)


def _equal_lengths(prompts: list[list[int]], max_rows: int) -> Iterator[list[int]]:
    """Yield groups of at most `max_rows` rows whose prompts have the same length."""
    for length in sorted({len(prompt) for prompt in prompts}):
        rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
        for start in range(0, len(rows), max_rows):
            yield rows[start : start + max_rows]
