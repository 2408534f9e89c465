"""`generate`: the entry point of decoding, the dispatch to the searches, wrappers of models."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.decoding.beam import beam_search
from saccade.decoding.config import DecodingConfig, GenerationConfig, check_decoding
from saccade.decoding.constraints import RepetitionConstraints
from saccade.decoding.greedy import Hypothesis, greedy_search
from saccade.decoding.protocol import (
    AutoregressiveModel,
    Seq2SeqModel,
    SpecialTokens,
    TokenCallback,
    ignore_token,
)
from saccade.decoding.rerank import rerank_by_coverage
from saccade.decoding.sampling import sample
from saccade.errors import ConfigError
from saccade.seeding import seed_for
from saccade.types.shapes import DecoderState, Lengths, Logits, TokenIds

NO_EOS = -1  # an id that no token has
AttentionOf = Callable[[int, Hypothesis], Tensor]  # row, hypothesis → weights (T, S)


def generate(
    model: AutoregressiveModel | Callable[[TokenIds], Tensor],
    prompts: Sequence[Sequence[int]] | TokenIds,
    config: DecodingConfig | None = None,
    *,
    eos: int | None = None,
    bos: int | None = None,
    max_length: int = 100,
    forbidden: Sequence[int] = (),
    should_stop: Callable[[Sequence[int]], bool] = lambda ids: False,
    attention_weights: AttentionOf | None = None,
    on_token: TokenCallback = ignore_token,
) -> list[list[Hypothesis]]:
    """Generate a continuation of each prompt, or the target of each source.

        generate(gpt, [[5, 8, 2], [5, 1]], eos=3)
        generate(translator, sources, DecodingConfig(beam=4, length_penalty=0.6), bos=1, eos=2)

    The output for a prompt does not depend on the others, nor on their order, except that samples
    are drawn by (`config.seed`, index of the prompt).

    Args:
        model: a causal language model (`init_state`, `step`), an encoder-decoder (these and
            `encode`), or a module with `logits = model(ids)`, which is called anew for every token.
            Call `model.eval()` first.
        prompts: token ids of each prompt, or of each source for an encoder-decoder.
        config: the search; None is greedy search.
        eos: the token that ends a sequence; None: only `max_length` and `should_stop` end it.
        bos: the first target token of an encoder-decoder (required); a language model reads it
            before each prompt.
        max_length: maximum number of new tokens, eos included; `config.max_new_tokens` has
            precedence.
        forbidden: tokens that are never generated.
        should_stop: ends a sequence whose ids it returns True for.
        attention_weights: weights of a hypothesis, for `config.coverage`.
        on_token: called with the index of the prompt and its ids after every token.

    Returns:
        For each prompt the `config.n_best` hypotheses, best first.
    """
    config = DecodingConfig() if config is None else config
    check_decoding(config)
    if isinstance(config, GenerationConfig):
        if config.stop:
            raise ConfigError(
                "got stop texts, but generate has no tokenizer; pass should_stop, a function of "
                "token ids."
            )
        max_length = config.max_new_tokens or max_length
    rows = [list(map(int, prompt)) for prompt in prompts]
    decoder = model if isinstance(model, AutoregressiveModel) else UncachedDecoder(model)
    seq2seq = isinstance(decoder, Seq2SeqModel)
    if seq2seq and bos is None:
        raise ValueError("got an encoder-decoder and no bos; pass bos, the first target token.")
    if not seq2seq and bos is not None:
        rows = [[bos, *ids] for ids in rows]
    if empty := [index for index, ids in enumerate(rows) if not ids]:
        raise ValueError(
            f"got an empty prompt at index {empty[0]}; expected one token or more: pass bos."
        )
    special_tokens = SpecialTokens(
        0 if bos is None else bos,  # a language model reads its prompt instead
        NO_EOS if eos is None else eos,
        tuple(forbidden),
        should_stop,
    )
    device = _device_of(model)
    found: list[list[Hypothesis]] = [[] for _ in rows]
    groups = [list(range(len(rows)))] if seq2seq else _by_length(rows)
    for group in filter(None, groups):
        ids, lengths = _pad([rows[index] for index in group], device)

        def memory(ids: TokenIds = ids, lengths: Lengths | None = lengths) -> Any:
            return decoder.encode(ids, lengths) if isinstance(decoder, Seq2SeqModel) else ids

        def on_row_token(row: int, ids: list[int], group: list[int] = group) -> None:
            on_token(group[row], ids)

        def weights(row: int, hypothesis: Hypothesis, group: list[int] = group) -> Tensor:
            assert attention_weights is not None
            return attention_weights(group[row], hypothesis)

        results = run_decoding(
            decoder if seq2seq else PromptedDecoder(decoder),
            memory,
            config,
            special_tokens=special_tokens,
            max_lengths=torch.full((len(group),), max_length, device=device),
            numbers=group,
            attention_weights=None if attention_weights is None else weights,
            on_token=ignore_token if on_token is ignore_token else on_row_token,
        )
        for index, hypotheses in zip(group, results, strict=True):
            found[index] = hypotheses
    return found


def run_decoding(
    model: AutoregressiveModel,
    memory: Callable[[], Any],
    config: DecodingConfig,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    numbers: Sequence[int],
    attention_weights: AttentionOf | None = None,
    on_token: TokenCallback = ignore_token,
) -> list[list[Hypothesis]]:
    """Run the search that `config` selects; returns the hypotheses of each example, best first.

    Args:
        memory: makes the input of `model.init_state`; called once per search.
        numbers: the number of each example; with the seed it determines its samples.
        attention_weights: weights of a hypothesis of the example in a row, for coverage.
        on_token: called with the row and its ids after every token; needs one hypothesis a row.
    """
    if on_token is not ignore_token and (config.beam > 1 or config.n_best > 1):
        raise ConfigError(
            "got streaming with several hypotheses; tokens can be streamed for one: leave beam "
            "and n_best out."
        )
    options: dict[str, Any] = {
        "special_tokens": special_tokens,
        "max_lengths": max_lengths,
        "length_penalty": config.length_penalty,
        "constraints": RepetitionConstraints(
            config.repetition_penalty, config.no_repeat_ngram_size
        ),
    }
    if config.sample:
        draws = [
            sample(
                model,
                memory(),
                seeds=[seed_for(config.seed, f"sample {draw}", number) for number in numbers],
                temperature=config.temperature,
                top_k=config.top_k,
                top_p=config.top_p,
                on_token=on_token,
                **options,
            )
            for draw in range(config.n_best)
        ]
        return [
            sorted(samples, key=lambda hypothesis: -hypothesis.score)
            for samples in zip(*draws, strict=True)
        ]
    if config.beam == 1 and not config.coverage:
        return [[best] for best in greedy_search(model, memory(), on_token=on_token, **options)]
    if not config.coverage:
        return beam_search(model, memory(), width=config.beam, n_best=config.n_best, **options)
    if attention_weights is None:
        raise ConfigError(
            "got a coverage penalty for a model without attention to a source; leave coverage out."
        )
    found = beam_search(model, memory(), width=config.beam, n_best=config.beam, **options)
    weights = [
        [attention_weights(row, hypothesis) for hypothesis in hypotheses]
        for row, hypotheses in enumerate(found)
    ]
    return rerank_by_coverage(found, weights, beta=config.coverage, n_best=config.n_best)


# --- wrappers that give a model the interface of `AutoregressiveModel` ---------------------------


class PromptedDecoder:
    """A language model with prompts of equal length: its first step reads them.

    The memory of the search is the prompts (B, T); the first step ignores its bos.
    """

    def __init__(self, model: AutoregressiveModel):
        self.model = model

    def init_state(self, memory: TokenIds) -> DecoderState:
        """Return the state before the prompts are read."""
        return DecoderState(memory, None)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read the prompts in the first call, and one more token in the others."""
        prompts, cache = state
        if cache is None:
            logits, after = self.model.step(prompts, self.model.init_state(prompts))
        else:
            logits, after = self.model.step(ids, DecoderState(prompts, cache))
        return logits[:, -1:], DecoderState(prompts, after.cache)


class UncachedState(NamedTuple):
    """The ids read so far."""

    ids: TokenIds


class UncachedDecoder:
    """A module with `logits = model(ids)` and no cache: every step reads the whole text again."""

    def __init__(self, model: Callable[[TokenIds], Logits]):
        self.model = model

    def init_state(self, memory: Tensor) -> DecoderState:
        """Return the state of empty texts, as many as `memory` has rows."""
        empty = torch.empty(len(memory), 0, dtype=torch.long, device=memory.device)
        return DecoderState(memory, UncachedState(empty))

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Return the logits of the token after each of `ids`, and the new state."""
        text = torch.cat([state.cache.ids, ids], dim=1)
        logits = self.model(text)[:, -ids.shape[1] :]
        return logits, DecoderState(state.memory, UncachedState(text))


# --- prompts --------------------------------------------------------------------------------------


def _by_length(rows: list[list[int]]) -> list[list[int]]:
    """Group the indices of prompts of equal length: a prompt is read without padding."""
    lengths = sorted({len(ids) for ids in rows})
    return [[index for index, ids in enumerate(rows) if len(ids) == n] for n in lengths]


def _pad(rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    lengths = [len(ids) for ids in rows]
    table = torch.zeros(len(rows), max(lengths), dtype=torch.long)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = torch.tensor(ids)
    if min(lengths) == max(lengths):
        return table.to(device), None
    return table.to(device), torch.tensor(lengths, device=device)


def _device_of(model: object) -> torch.device:
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return torch.device("cpu")
