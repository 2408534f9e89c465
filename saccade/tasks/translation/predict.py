"""Translating texts: tokenize, decode in groups of similar length, detokenize."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from unicodedata import category

import torch
from torch import Tensor

from saccade.config import Config
from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.data.tokenizers import group_by_length, truncate
from saccade.decoding import (
    MAX_SEARCH_ROWS,
    DecodingConfig,
    Hypothesis,
    SpecialTokens,
    parse_decoding,
    run_decoding,
)
from saccade.errors import ConfigError, DataError
from saccade.inference.engine import make_decoder
from saccade.inspection.attention import AttentionRecorder, capture_attention
from saccade.models.base import EncoderDecoder
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.neural import device_of
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import TokenizerPair
from saccade.training.thread_parallel import thread_map
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction

TRANSLATION_SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (PAD, BOS, UNK))
DECODE_BATCH_TOKENS = 8192  # source tokens, padding included, decoded in one batch
MIN_DECODE_GROUP = 64  # sources below which a thread of their own does not pay


def _unknown_notes(text: str, ids: Sequence[int]) -> tuple[str, ...] | None:
    """Return a note on tokens that are not in the vocabulary, and on invisible characters."""
    count = sum(token == UNK for token in ids)
    if not count:
        return None
    invisible = [f"U+{ord(c):04X}" for c in dict.fromkeys(text) if category(c) in ("Cc", "Cf")]
    listed = f"; the text has invisible characters ({', '.join(invisible)})" if invisible else ""
    verb = "is" if count == 1 else "are"
    return (f"{count} of {len(ids)} tokens {verb} not in the vocabulary{listed}",)


class TranslationPredictor(TextPredictor):
    """Translates source texts with greedy, beam or sampled decoding."""

    options = DecodingConfig

    def __init__(self, recipe: TranslationRecipe, model: EncoderDecoder, tokenizers: TokenizerPair):
        self.recipe, self.model, self.tokenizers = recipe, model, tokenizers
        self._decoder: Any = None  # weights of the fused decoder, rebuilt when the model changes

    def parse_options(self, options: Mapping[str, Any]) -> DecodingConfig:
        """Validate decoding options."""
        return parse_decoding(dict(options), DecodingConfig)

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return a translation of each source; that of an empty source is empty."""
        assert isinstance(options, DecodingConfig)
        encoded = self.tokenizers.source.encode_many(list(inputs))
        self.check_lengths(encoded, context.first)
        found = [Prediction("", 0.0, 0.0, True)] * len(encoded)
        rows = [row for row, ids in enumerate(encoded) if ids]
        counter = ProgressCounter(context.on_progress, "predicting", len(encoded))
        counter.advance(len(encoded) - len(rows))
        for row, hypotheses in self._decode_rows(rows, encoded, options, context):
            best, *others = [self._prediction(hypothesis) for hypothesis in hypotheses]
            notes = _unknown_notes(inputs[row], encoded[row])
            found[row] = best._replace(alternatives=tuple(others), notes=notes)
            counter.advance(1)
        return found

    @torch.inference_mode()
    def decoder(self, engine: str) -> Any:
        """Return the decoder of an engine: "fused", or the model's own code ("torch")."""
        # an optimizer may have changed the weights in place since the last call
        previous = None if self.model.training else self._decoder
        decoder = self._decoder = make_decoder(self.model.eval(), engine, previous)
        return decoder

    def engine_name(self, requested: str) -> str:
        """Return the engine that decodes if `requested` is asked for."""
        return str(self.decoder(requested).engine_name)

    def decode(
        self, sources: list[list[int]], options: DecodingConfig, context: PredictContext
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for sources given as token ids, in order."""
        rows = list(range(len(sources)))
        found = dict(self._decode_rows(rows, sources, options, context))
        return [found[row] for row in rows]

    def _decode_rows(
        self,
        rows: list[int],
        encoded: list[list[int]],
        options: DecodingConfig,
        context: PredictContext,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield rows with their hypotheses, in any order; groups are decoded in parallel."""
        limit = max(1, MAX_SEARCH_ROWS // options.beam)
        per_thread = math.ceil(len(rows) / torch.get_num_threads())
        if MIN_DECODE_GROUP <= per_thread < limit:
            limit = per_thread  # a group for each core
        limit = min(limit, context.max_group or limit)
        groups = list(group_by_length(rows, encoded, DECODE_BATCH_TOKENS, limit))
        decoder = self.decoder(context.engine)  # built once, not by each thread

        def decode_group(group: list[int]) -> list[list[Hypothesis]]:
            sources = [encoded[row] for row in group]
            numbers = [context.first + row for row in group]
            return self._search(decoder, sources, options, numbers)

        for group, hypotheses in zip(groups, thread_map(decode_group, groups), strict=True):
            yield from zip(group, hypotheses, strict=True)

    def _search(
        self,
        decoder: Any,
        sources: list[list[int]],
        options: DecodingConfig,
        numbers: list[int],
    ) -> list[list[Hypothesis]]:
        ids, lengths = self.pad(sources)
        max_lengths = torch.full((len(sources),), self.max_target_length, device=ids.device)
        with torch.inference_mode():  # less work than no_grad for each small operation
            return run_decoding(
                decoder,
                lambda: decoder.encode(ids, lengths),
                options,
                special_tokens=TRANSLATION_SPECIAL_TOKENS,
                max_lengths=max_lengths,
                numbers=numbers,
                attention_weights=lambda row, hypothesis: self._source_attention(
                    sources[row], hypothesis
                ),
            )

    def _source_attention(self, source: list[int], hypothesis: Hypothesis) -> Tensor:
        """Return the attention to the source, averaged over layers and heads."""
        ids, _ = self.pad([source])
        target = [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
        captured = self.capture(ids, [BOS, *target[:-1]])
        maps = [
            captured.weights(name)[0].mean(0)
            for name in captured.names()
            if attention_kind(name)[0] == "cross"
        ]
        if not maps:
            raise ConfigError(
                f"got coverage with {self.recipe.model_name}, which has no attention to the "
                "source; try without coverage."
            )
        return torch.stack(maps).mean(0)

    def capture(self, source: Tensor, target: list[int]) -> AttentionRecorder:
        """Record the attention of one forward pass over a given target."""
        with torch.no_grad(), capture_attention(self.model) as captured:
            state = self.model.init_state(self.model.encode(source, None))
            self.model.decode_hidden(torch.tensor([target], device=source.device), state)
        return captured

    def pad(self, sources: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        """Return padded source ids with eos, and their lengths if they differ."""
        device = device_of(self.model)
        lengths = [len(ids) + 1 for ids in sources]
        table = torch.full((len(sources), max(lengths)), PAD)
        for row, ids in enumerate(sources):
            table[row, : lengths[row]] = torch.tensor([*ids, EOS])
        if min(lengths) == max(lengths):
            return table.to(device), None
        return table.to(device), torch.tensor(lengths, device=device)

    def _prediction(self, hypothesis: Hypothesis) -> Prediction:
        text = self.tokenizers.target.decode(hypothesis.ids)
        return Prediction(text, hypothesis.score, hypothesis.log_probability, hypothesis.finished)

    # --- lengths ---------------------------------------------------------------------------

    @property
    def max_target_length(self) -> int:
        """Maximum number of generated tokens."""
        # a translation is scored again behind the bos token
        return max(1, min(self.recipe.data.max_new_tokens, self.max_positions - 1))

    @cached_property
    def max_positions(self) -> int:
        """Number of positions the model has; unlimited unless they are learned."""
        settings = self.recipe.model.model_dump()
        is_learned = settings.get("positions") == "learned"
        return int(settings["max_positions"]) if is_learned else sys.maxsize

    @cached_property
    def max_length(self) -> int:
        """Maximum source length in tokens, with one position left for eos."""
        return min(self.recipe.data.max_length, self.max_positions - 1)

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a source that the model accepts."""
        return truncate(text, self.tokenizers.source, self.max_length)

    def check_lengths(self, encoded: list[list[int]], first: int = 1) -> None:
        """Raise a DataError that names the sources above the maximum length."""
        limit = self.max_length
        too_long = [
            f"{number} ({len(ids):,} tokens)"
            for number, ids in enumerate(encoded, first)
            if len(ids) > limit
        ]
        if too_long:
            raise DataError(
                f"got input {', '.join(too_long[:5])}{' …' if len(too_long) > 5 else ''}; expected "
                f"at most {limit} tokens; try shorter sentences, or train with a larger "
                "data.max_length."
            )


def attention_kind(name: str) -> tuple[str, int]:
    """Return the kind (encoder, decoder, cross, self) and layer of an attention by its name."""
    layer = next((int(part) + 1 for part in name.split(".") if part.isdigit()), 1)
    if name.startswith("encoder"):
        return "encoder", layer
    if name.startswith("blocks"):  # a language model
        return "self", layer
    return ("decoder" if "self_attention" in name else "cross"), layer
