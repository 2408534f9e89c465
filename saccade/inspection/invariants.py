"""Invariance checks: padding, batching, caching, causality, beam size, threads, compilation.

Each takes a model with `encode`, `init_state` and `step` and an example, computes the same output
in two ways that must agree, and returns the largest deviation as a `CheckResult`. The tests run
them on random models, `saccade check` on a trained one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.decoding import Hypothesis, SpecialTokens, beam_search, greedy_search
from saccade.inspection.checks import (
    BATCH_INVARIANCE,
    BEAM1_IS_GREEDY,
    BEAM_SCORE_CONSISTENCY,
    CACHE_CONSISTENCY,
    CAUSALITY,
    COMPILE_PARITY,
    KERNEL_PARITY,
    NBEST_PREFIX,
    PADDING_INVARIANCE,
    THREAD_INVARIANCE,
    CheckResult,
    skipped,
)
from saccade.nn.functional import Attention
from saccade.types.shapes import Lengths, TokenIds

# Largest deviation of logits that rounding explains, by dtype: some hundred rounding errors. A
# violated invariant shows as a deviation near 1.
LOGIT_TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


class CheckExample(NamedTuple):
    """Input of the checks: a batch of sources with their lengths, and targets."""

    source: TokenIds
    lengths: Lengths
    target: TokenIds  # starts with bos


def _logits(model: Any, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    logits, _ = model.step(target, model.init_state(model.encode(source, lengths)))
    return logits


def _result(invariant: str, num_inputs: int, pairs: list[tuple[Tensor, Tensor]]) -> CheckResult:
    differences = [float((a - b).abs().max()) for a, b in pairs if a.numel()]
    worst = max(differences, key=lambda d: (d != d, d), default=0.0)  # NaN is the worst
    return CheckResult(invariant, num_inputs, worst, LOGIT_TOLERANCE[pairs[0][0].dtype])


@torch.no_grad()
def padding_invariance(model: Any, example: CheckExample, padding: int = 3) -> CheckResult:
    """Compare logits with and without additional padding after the sources."""
    source, lengths, target = example
    # real token ids, so that an unmasked padding position changes the logits
    filler = source[:, :1].expand(-1, padding)
    padded = torch.cat([source, filler], dim=1)
    before, after = (_logits(model, s, lengths, target) for s in (source, padded))
    return _result(PADDING_INVARIANCE, len(source), [(before, after)])


@torch.no_grad()
def batch_invariance(model: Any, example: CheckExample) -> CheckResult:
    """Compare the logits of each example by itself with those in the batch."""
    source, lengths, target = example
    batched = _logits(model, source, lengths, target)
    pairs = []
    for row, length in enumerate(lengths.tolist()):
        single = _logits(model, source[row : row + 1, :length], None, target[row : row + 1])
        pairs.append((batched[row], single[0]))
    return _result(BATCH_INVARIANCE, len(source), pairs)


@torch.no_grad()
def causality(model: Any, example: CheckExample, vocab_size: int) -> CheckResult:
    """Compare the logits before a position with and without a change from that position on."""
    source, lengths, target = example
    before = _logits(model, source, lengths, target)
    pairs = []
    for t in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 1) % vocab_size
        after = _logits(model, source, lengths, changed)
        pairs.append((before[:, :t], after[:, :t]))
    pairs = pairs or [(before[:, :0], before[:, :0])]
    return _result(CAUSALITY, len(source), pairs)


@torch.no_grad()
def cache_consistency(model: Any, example: CheckExample, stepper: Any = None) -> CheckResult:
    """Compare incremental decoding with one forward pass; `stepper` is checked too if given."""
    source, lengths, target = example
    full = _logits(model, source, lengths, target)
    pairs = []
    for decoder in (model,) if stepper is None else (model, stepper):
        state = decoder.init_state(decoder.encode(source, lengths))
        for t in range(target.shape[1]):
            logits, state = decoder.step(target[:, t : t + 1], state)
            pairs.append((full[:, t], logits[:, 0]))
    return _result(CACHE_CONSISTENCY, len(source), pairs)._replace(note=_engine_note(stepper))


def _engine_note(stepper: Any) -> str:
    """Return which engine a check compared with the model's forward pass."""
    return "" if stepper is None else f"compared the engine {stepper.engine_name!r}"


def beam1_is_greedy(
    model: Any, example: CheckExample, special_tokens: SpecialTokens, limit: int
) -> CheckResult:
    """Compare beam search of width 1 with greedy search.

    The deviation is that of the log-probabilities of the two outputs: where the best two tokens
    are closer to each other than rounding, either may be chosen.
    """
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    greedy = greedy_search(
        model, model.encode(source, lengths), special_tokens=special_tokens, max_lengths=max_lengths
    )
    beams = beam_search(
        model,
        model.encode(source, lengths),
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=1,
    )
    pairs = [
        (_in_dtype(a.log_probability, model), _in_dtype(b[0].log_probability, model))
        for a, b in zip(greedy, beams, strict=True)
    ]
    return _result(BEAM1_IS_GREEDY, len(source), pairs)


def beam_score_consistency(
    model: Any,
    example: CheckExample,
    special_tokens: SpecialTokens,
    limit: int,
    width: int = 3,
    stepper: Any = None,
) -> CheckResult:
    """Compare the score of every beam hypothesis with its score by teacher forcing."""
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    decoder = model if stepper is None else stepper
    beams = beam_search(
        decoder,
        decoder.encode(source, lengths),
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=width,
        n_best=width,
    )
    pairs = []
    for row, hypotheses in enumerate(beams):
        for hypothesis in hypotheses:
            unpadded = source[row : row + 1, : lengths[row]]
            score = rescore(model, unpadded, hypothesis, special_tokens)
            pairs.append((_in_dtype(hypothesis.log_probability, model), _in_dtype(score, model)))
    return _result(BEAM_SCORE_CONSISTENCY, len(source), pairs)._replace(note=_engine_note(stepper))


@torch.no_grad()
def rescore(
    model: Any, source: TokenIds, hypothesis: Hypothesis, special_tokens: SpecialTokens
) -> float:
    """Return the log-probability of a hypothesis for one source, by teacher forcing."""
    ids = [*hypothesis.ids, special_tokens.eos] if hypothesis.finished else hypothesis.ids
    target = torch.tensor([[special_tokens.bos, *ids[:-1]]], device=source.device)
    log_probs = _logits(model, source, None, target)[0].log_softmax(dim=-1)
    return float(log_probs[torch.arange(len(ids)), torch.tensor(ids)].double().sum())


def _in_dtype(value: float, model: nn.Module) -> Tensor:
    """Return a number in the model's dtype, which sets the tolerance."""
    return torch.tensor(value, dtype=next(model.parameters()).dtype)


@contextmanager
def reference_attention(model: nn.Module) -> Iterator[None]:
    """Run every attention of a model by its reference implementation inside the `with` block."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    for module in attentions:
        module.forward = module.reference  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in attentions:
            del module.forward


def kernel_parity(model: Any, example: CheckExample) -> CheckResult:
    """Compare fused with reference attention: logits, and the gradients of all weights."""
    source, lengths, target = example

    def run() -> tuple[Tensor, list[Tensor]]:
        with torch.enable_grad():
            logits = _logits(model, source, lengths, target)
            weights = [p for p in model.parameters() if p.requires_grad]
            # a weight that one path does not use gets a zero gradient, so the other's is compared
            gradients = torch.autograd.grad(logits.square().mean(), weights, materialize_grads=True)
        return logits.detach(), list(gradients)

    fused, fused_gradients = run()
    with reference_attention(model):
        reference, reference_gradients = run()
    pairs = [(fused, reference), *zip(fused_gradients, reference_gradients, strict=True)]
    return _result(KERNEL_PARITY, len(source), pairs)


def nbest_prefix(
    model: Any, example: CheckExample, special_tokens: SpecialTokens, limit: int, width: int = 3
) -> CheckResult:
    """Compare the first hypothesis of an n-best list with that of n = 1."""
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    firsts = []
    for n_best in (1, width):
        memory = model.encode(source, lengths)
        beams = beam_search(
            model,
            memory,
            special_tokens=special_tokens,
            max_lengths=max_lengths,
            width=width,
            n_best=n_best,
        )
        firsts.append([_in_dtype(beam[0].log_probability, model) for beam in beams])
    return _result(NBEST_PREFIX, len(source), list(zip(*firsts, strict=True)))


@torch.no_grad()
def thread_invariance(model: Any, example: CheckExample) -> CheckResult:
    """Compare logits computed with one thread and with two."""
    source, lengths, target = example
    before = torch.get_num_threads()
    logits = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            logits.append(_logits(model, source, lengths, target))
    finally:
        torch.set_num_threads(before)
    return _result(THREAD_INVARIANCE, len(source), [(logits[0], logits[1])])


@torch.no_grad()
def compile_parity(model: Any, example: CheckExample) -> CheckResult:
    """Compare the logits of `torch.compile` with eager ones; skipped where it does not work."""
    source, lengths, target = example
    compiled_logits = torch.compile(_logits, dynamic=True)
    eager = _logits(model, source, lengths, target)
    try:
        compiled = compiled_logits(model, source, lengths, target)
    except Exception as error:
        # no C++ compiler or no backend: torch raises many types for that
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return skipped(COMPILE_PARITY, f"torch.compile does not work here: {reason}")
    finally:
        torch._dynamo.reset()
    return _result(COMPILE_PARITY, len(source), [(eager, compiled)])


@torch.no_grad()
def same_outputs(invariant: str, model: Any, other: Any, example: CheckExample) -> CheckResult:
    """Compare the logits of two models that must agree, such as one and its reloaded copy."""
    own, others = (_logits(m, *example) for m in (model, other))
    return _result(invariant, len(example.source), [(own, others)])


def check_all(
    model: Any,
    example: CheckExample,
    special_tokens: SpecialTokens,
    vocab_size: int,
    limit: int,
    stepper: Any = None,
) -> Iterator[CheckResult]:
    """Yield the result of every check of a model with `encode`, `init_state` and `step`.

    `stepper` is the decoder that search uses, if that is not the model itself.
    """
    yield batch_invariance(model, example)
    try:
        yield padding_invariance(model, example)
    except ValueError as error:  # the padded source exceeds the learned positions
        yield skipped(PADDING_INVARIANCE, str(error))
    yield cache_consistency(model, example, stepper)
    yield causality(model, example, vocab_size)
    yield kernel_parity(model, example)
    yield beam1_is_greedy(model, example, special_tokens, limit)
    yield nbest_prefix(model, example, special_tokens, limit)
    yield beam_score_consistency(model, example, special_tokens, limit, stepper=stepper)
    yield thread_invariance(model, example)
    yield compile_parity(model, example)
