"""Attention maps, gradient norms and invariance checks of language models."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.special_tokens import EOS
from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.errors import ConfigError
from saccade.inspection import invariants
from saccade.inspection.attention import capture_attention
from saccade.inspection.attention_map import AttentionMap, attention_title
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import AttentionGrid, Figure
from saccade.inspection.invariants import CheckExample
from saccade.models.base import CausalLM
from saccade.models.rnn_lm import RecurrentLM
from saccade.nn.bptt import gradients_by_distance
from saccade.tasks.base import AttentionKey, Inspector, PredictContext
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.data import example_prompt
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.tasks.language_modeling.predict import LM_SPECIAL_TOKENS, TextGenerator
from saccade.tasks.neural import device_of
from saccade.types.shapes import DecoderState, TokenIds

LOOK_NEW_TOKENS = 24  # tokens generated for an attention map, unless more are asked for
MAX_PLOT_TOKENS = 32  # tokens of an attention plot
LINE_SEARCH_TOKENS = 4096  # tokens among which a line to plot is looked for


class LanguageInspector(Inspector[TokenCorpus]):
    """Shows where a language model attends, and checks its invariances."""

    # a short continuation, to the end of the line at most: its map can be read
    answer_options = {"max_new_tokens": LOOK_NEW_TOKENS, "stop": ("\n",)}

    def __init__(self, recipe: LanguageRecipe, model: CausalLM, tokenizer: Tokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.generator = TextGenerator(recipe, model, tokenizer)

    def example_input(self, split: TokenCorpus) -> str:
        """Return the first words of a held-out line."""
        return example_prompt(self.tokenizer, split)

    def views(self) -> dict[str, str]:
        """Return attention of models that have it, gradients of recurrent ones."""
        if self.model.context_length is not None:
            return {"PROMPT": "self-attention"}
        return {"--gradients": "gradient norms by distance in time"}

    @torch.no_grad()
    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the maps of a prompt and its continuation, or the answer given.

        A row is the token being generated, a column a token of the context: as many of the last
        ones as the model attends to at a time.
        """
        model = self.model.eval()
        if model.context_length is None:
            return {}
        if answer is None:
            options = self.generator.parse_options(self.answer_options)
            answer = self.generator.predict([text], options, PredictContext())[0].text
        lines = [self.tokenizer.encode(line) for line in (text + answer).split("\n")]
        ids = [EOS, *lines[0], *(id for line in lines[1:] for id in (EOS, *line))]
        ids = ids[-model.context_length - 1 :]
        read = ids[:-1] or ids
        with capture_attention(model) as captured:
            model.forward_hidden(torch.tensor([read], device=device_of(model)), model.init_cache(1))
        generated, attended = (
            self.tokenizer.display_tokens(some) for some in (ids[1:] or ids, read)
        )
        maps = {}
        for layer, name in enumerate(captured.names(), start=1):
            heads = captured.weights(name)[0].float().cpu().numpy()
            for head, weights in enumerate(heads, start=1):
                title = f"self-attention, layer {layer}, head {head}"
                maps["self", layer, head] = AttentionMap(
                    weights,
                    generated,
                    attended,
                    title,
                    "text (attended)",
                    "text (generated)",
                    anchor="last",
                )
        return maps

    def figures(self, splits: Mapping[str, TokenCorpus]) -> dict[str, Figure]:
        """Return the last layer's attention on one held-out line, if the model has attention."""
        if self.model.context_length is None:
            return {}
        prompt, rest = split_line(self.tokenizer, splits["test"].ids)
        maps = self.attention_maps(prompt, rest)
        last = max(layer for _, layer, _ in maps)
        of_last = [map_ for (_, layer, _), map_ in maps.items() if layer == last]
        title = attention_title(self.recipe.model_name, prompt, rest)
        return {"attention.png": AttentionGrid(of_last, title)}

    def gradient_norms(self, split: TokenCorpus, count: int) -> NDArray[np.float64]:
        """Return (B, T): how much of the last loss reaches the state 1, 2, … steps before."""
        model = self.model.eval()
        if not isinstance(model, RecurrentLM):
            raise ConfigError(
                f"got {self.recipe.model_name}, which has no recurrent state; expected rnn, gru or "
                "lstm."
            )
        ids = split.ids
        length = min(self.recipe.data.segment_length, len(ids) - 1)
        starts = evenly_spaced_rows(len(ids) - length, count)
        rows = torch.from_numpy(
            np.stack([ids[start : start + length + 1] for start in starts]).astype(np.int64)
        )
        device = device_of(model)

        def last_loss(hidden: Tensor) -> Tensor:
            logits = model.compute_logits(hidden)
            return nn.functional.cross_entropy(logits, rows[:, -1].to(device), reduction="none")

        norms = gradients_by_distance(
            model.forward_hidden, model.init_cache(len(rows)), rows[:, :-1].to(device), last_loss
        )
        return norms.detach().cpu().double().numpy()

    def checks(self, split: TokenCorpus, count: int) -> Iterator[CheckResult]:
        """Run the invariance checks of a model without a source."""
        model, example = self._example(split, count)
        vocab_size, limit = self.tokenizer.vocab_size, example.target.shape[1]
        fused = WithoutSource(self.generator.decoder("fused"))
        tokens = LM_SPECIAL_TOKENS
        yield invariants.batch_invariance(model, example)
        yield invariants.cache_consistency(model, example, fused)
        yield invariants.causality(model, example, vocab_size)
        yield invariants.beam1_is_greedy(model, example, tokens, limit)
        yield invariants.nbest_prefix(model, example, tokens, limit)
        yield invariants.beam_score_consistency(model, example, tokens, limit)
        yield invariants.thread_invariance(model, example)
        yield invariants.compile_parity(model, example)

    def compare_reloaded(self, other: CausalLM, split: TokenCorpus, count: int) -> CheckResult:
        """Check that the reloaded model gives the same logits."""
        model, example = self._example(split, count)
        reloaded = WithoutSource(other.eval())
        return invariants.same_outputs("reload consistency", model, reloaded, example)

    def _example(self, split: TokenCorpus, count: int) -> tuple["WithoutSource", CheckExample]:
        ids = split.ids
        length = min(16, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - length, count).astype(np.int64))
        rows = np.stack([ids[start : start + length] for start in starts]).astype(np.int64)
        source = torch.zeros(len(rows), 1, dtype=torch.long)
        lengths = torch.ones(len(rows), dtype=torch.long)
        example = CheckExample(source, lengths, torch.from_numpy(rows))
        return WithoutSource(self.model.eval()), example


class NGramInspector(Inspector[TokenCorpus]):
    """Checks an n-gram model."""

    def __init__(self, recipe: LanguageRecipe, model: NGramModel, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer

    def example_input(self, split: TokenCorpus) -> str:
        """Return the first half of a held-out line."""
        return example_prompt(self.tokenizer, split)

    def compare_reloaded(self, other: NGramModel, split: TokenCorpus, count: int) -> CheckResult:
        """Check that the reloaded counts give the same probabilities."""
        ids = split.ids[: 64 * count]
        one, two = (model.ngram.log_probabilities(ids) for model in (self.model, other))
        # both give minus infinity to a token of probability 0
        difference = np.abs(np.where(one == two, 0.0, one - two)).max()
        return CheckResult("reload consistency", count, float(difference), 1e-9)


class WithoutSource(nn.Module):
    """A language model as an encoder-decoder, for checks that expect a source."""

    def __init__(self, model: Any):
        super().__init__()
        self.model, self.engine_name = model, model.engine_name

    def encode(self, source: TokenIds, lengths: Tensor | None) -> TokenIds:
        """Return the source, which only gives the number of rows."""
        return source

    def init_state(self, memory: Any) -> DecoderState:
        """Return the initial state of the model."""
        return self.model.init_state(memory)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Take a step of the model."""
        return self.model.step(ids, state)


def split_line(tokenizer: Tokenizer, ids: NDArray[Any]) -> tuple[str, str]:
    """Return the two halves of a long line, cut to the length of a plot."""
    leading = ids[:LINE_SEARCH_TOKENS]
    lines = (line[line != EOS] for line in np.split(leading, np.flatnonzero(leading == EOS)))
    line = max(lines, key=lambda line: min(len(line), MAX_PLOT_TOKENS))[:MAX_PLOT_TOKENS].tolist()
    half = len(line) // 2
    return tokenizer.decode(line[:half]), tokenizer.decode(line[half:])
