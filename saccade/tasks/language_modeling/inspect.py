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
from saccade.inspection.figures import AttentionGrid, Figure, HeatMap
from saccade.inspection.invariants import CheckExample
from saccade.inspection.recurrent_states import capture_recurrent_inputs, state_names
from saccade.inspection.search_tree import SearchProblem
from saccade.models.base import CausalLM
from saccade.models.rnn_lm import RecurrentLM
from saccade.nn.bptt import gradients_by_distance
from saccade.tasks.base import AttentionKey, HeatMapKey, Inspector, PredictContext
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.data import example_prompt
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.tasks.language_modeling.predict import LM_SPECIAL_TOKENS, TextGenerator
from saccade.tasks.language_modeling.states import (
    causal_influence,
    influence_map,
    state_maps,
)
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
        self.has_attention = model.context_length is not None
        self.heat_map_kinds = ("influence",)
        if isinstance(model, RecurrentLM):
            self.heat_map_kinds = ("mean", *state_names(recipe.model_name), "influence")

    def example_input(self, split: TokenCorpus) -> str:
        """Return the first words of a held-out line."""
        return example_prompt(self.tokenizer, split)

    def views(self) -> dict[str, str]:
        """Return attention of models that have it, gradients of recurrent ones."""
        influence = {"PROMPT --kind influence": "the influence of each context token"}
        if self.has_attention:
            return {"PROMPT": "self-attention"} | influence
        if isinstance(self.model, RecurrentLM):
            return {
                "PROMPT": "gates and states",
                **influence,
                "--gradients": "gradient norms by distance in time",
            }
        return {"PROMPT": "the influence of each context token"}

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return gates and states of a recurrent model, and the influence of the context."""
        prompt = self._text_ids(text)
        ids = self._text_ids(text, answer or "")
        tokens = self.tokenizer.display_tokens(ids)
        maps: dict[HeatMapKey, HeatMap] = {}
        with capture_recurrent_inputs(self.model.eval()) as recorder, torch.no_grad():
            read = torch.tensor([ids[:-1] or ids], device=device_of(self.model))
            self.model.forward_hidden(read, self.model.init_cache(1))
        if recorder.calls:
            maps |= state_maps(recorder.states(), dict.fromkeys(recorder.calls, tokens[:-1]))
        first = min(len(prompt), len(ids) - 1)
        scores = causal_influence(self._log_probabilities, ids, first)
        maps["influence", 1] = influence_map(scores[:, 1:], tokens[first:], tokens[1:-1])
        return maps

    @torch.no_grad()
    def _log_probabilities(self, rows: Tensor) -> Tensor:
        rows = rows.to(device_of(self.model))
        logits = self.model.eval()(rows[:, :-1])
        return logits.log_softmax(dim=-1).gather(2, rows[:, 1:, None])[:, :, 0]

    def search_problem(self, text: str, max_new_tokens: int | None) -> SearchProblem:
        """Return a prompt for a search over its continuations."""
        return self.generator.search_problem(text, max_new_tokens)

    @torch.no_grad()
    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the maps of a prompt and its continuation, or the answer given.

        A row is the token being generated, a column a token of the text. A text may be longer than
        the context of the model: the prompt stays in the map, with the weight 0 in rows whose
        context it has left.
        """
        model = self.model.eval()
        if model.context_length is None:
            return {}
        if answer is None:
            options = self.generator.parse_options(self.answer_options)
            answer = self.generator.predict([text], options, PredictContext())[0].text
        ids = self._text_ids(text, answer)
        read = ids[:-1] or ids
        generated, attended = (
            self.tokenizer.display_tokens(some) for some in (ids[1:] or ids, read)
        )
        lead = min(len(self._text_ids(text)), len(read))
        maps = {}
        for layer, heads in enumerate(self._attention_weights(read), start=1):
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
                    lead=lead,
                )
        return maps

    def _text_ids(self, *texts: str) -> list[int]:
        """Return the ids of a prompt and its continuation, with eos before each line."""
        return line_ids(self.tokenizer, *texts)

    def _attention_weights(self, read: list[int]) -> list[NDArray[np.float32]]:
        """Return the weights (H, T, T) of every layer over a text of any length.

        What fits into the context is read in one pass, the rest token by token, as it is generated.
        The keys of a call are the last positions up to its last query; earlier ones, which are
        outside the context of the model, have the weight 0.
        """
        model, T = self.model, len(read)
        assert model.context_length is not None
        first = min(model.context_length, T)
        ends = [first, *range(first + 1, T + 1)]
        cache, start = model.init_cache(1), 0
        layers: dict[str, NDArray[np.float32]] = {}
        for end in ends:
            ids = torch.tensor([read[start:end]], device=device_of(model))
            with capture_attention(model) as captured:
                _, cache = model.forward_hidden(ids, cache)
            for name, calls in captured.calls.items():
                weights = calls[-1][0, :, start - end :].float().cpu().numpy()
                found = layers.setdefault(name, np.zeros((len(weights), T, T), np.float32))
                keys = weights.shape[-1]
                found[:, start:end, end - keys : end] = weights
            start = end
        return list(layers.values())

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
    """Shows the counts behind a prediction of an n-gram model, and checks it."""

    heat_map_kinds = ("counts",)
    has_attention = False
    answer_options = LanguageInspector.answer_options

    def __init__(self, recipe: LanguageRecipe, model: NGramModel, tokenizer: Tokenizer):
        self.model, self.tokenizer, self.smoothing = model, tokenizer, model.ngram.smoothing
        self.generator = TextGenerator(recipe, model, tokenizer)

    def search_problem(self, text: str, max_new_tokens: int | None) -> SearchProblem:
        """Return a prompt for a search over its continuations."""
        return self.generator.search_problem(text, max_new_tokens)

    def views(self) -> dict[str, str]:
        """Return the counts."""
        return {"PROMPT": "the counts behind each generated token"}

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return for each generated token and order the count of the n-gram and of its context."""
        prompt = line_ids(self.tokenizer, text)
        ids = line_ids(self.tokenizer, text, answer or "")
        ngram = self.model.ngram
        first = min(len(prompt), len(ids) - 1) or len(ids) - 1
        values = np.full((len(ids) - first, ngram.order), np.nan)
        cells = [[""] * ngram.order for _ in ids[first:]]
        for row, at in enumerate(range(first, len(ids))):
            try:
                orders = ngram.explain(ids[:at], ids[at])
            except ValueError as error:
                raise ConfigError(str(error)) from None
            decisive = max((one.order for one in orders if one.seen), default=0)
            for one in orders:
                values[row, one.order - 1] = one.probability
                star = "*" if one.order == decisive else ""
                seen = f"{one.seen}/{one.total}{star}" if one.total else "unseen"
                cells[row][one.order - 1] = f"{seen}  p={one.probability:.2g}"
        title = "count / count of the context, probability; * longest n-gram that was seen"
        if self.smoothing == "kneser-ney":
            title += "; below the last order, counts of distinct tokens before it"
        columns = [f"{order}-gram" for order in range(1, ngram.order + 1)]
        rows = self.tokenizer.display_tokens(ids[first:])
        map = HeatMap(values, rows, columns, title, "order", "generated token", (0.0, 1.0), cells)
        return {("counts", 1): map}

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


def line_ids(tokenizer: Tokenizer, *texts: str) -> list[int]:
    """Return the ids of texts that continue each other, with eos before each line.

    They are encoded one by one: a continuation starts with a token of its own.
    """
    ids = [EOS]
    for text in texts:
        first, *lines = (tokenizer.encode(line) for line in text.split("\n"))
        ids += [*first, *(id for line in lines for id in (EOS, *line))]
    return ids


def split_line(tokenizer: Tokenizer, ids: NDArray[Any]) -> tuple[str, str]:
    """Return the two halves of a long line, cut to the length of a plot."""
    leading = ids[:LINE_SEARCH_TOKENS]
    lines = (line[line != EOS] for line in np.split(leading, np.flatnonzero(leading == EOS)))
    line = max(lines, key=lambda line: min(len(line), MAX_PLOT_TOKENS))[:MAX_PLOT_TOKENS].tolist()
    half = len(line) // 2
    return tokenizer.decode(line[:half]), tokenizer.decode(line[half:])
