"""What must not change an answer, as functions that measure by how much it does.

Each takes a model that encodes, starts and steps, and some input, and returns a `Finding`: the
largest difference that was seen between two ways that must agree. The tests run them on random
models; on a trained one they speak about that very model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.decoding import Hypothesis, SpecialTokens, beam_search, greedy_search
from saccade.inspection.checks import CheckResult, skipped
from saccade.nn.attention import Attention
from saccade.types.shapes import Lengths, TokenIds

# Of logits, in each format: some hundred roundings, one on the other. A law that is broken shows
# as a difference near 1.
LOGIT_TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


class CheckExample(NamedTuple):
    """Input for the laws: sources with their lengths, and something to read as the target."""

    source: TokenIds
    lengths: Lengths
    target: TokenIds  # starts with the begin mark


def _logits(model: Any, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    logits, _ = model.step(target, model.init_state(model.encode(source, lengths)))
    return logits


def _finding(invariant: str, num_inputs: int, pairs: list[tuple[Tensor, Tensor]]) -> CheckResult:
    differences = [float((one - other).abs().max()) for one, other in pairs if one.numel()]
    worst = max(differences, key=lambda d: (d != d, d), default=0.0)  # NaN counts as the worst
    return CheckResult(invariant, num_inputs, worst, LOGIT_TOLERANCE[pairs[0][0].dtype])


@torch.no_grad()
def padding_invariance(model: Any, example: CheckExample, more: int = 3) -> CheckResult:
    """More padding at the end of the sources changes nothing."""
    source, lengths, target = example
    # ids that mean something, so that a place that is not masked is noticed
    filler = source[:, :1].expand(-1, more)
    padded = torch.cat([source, filler], dim=1)
    one, other = (_logits(model, s, lengths, target) for s in (source, padded))
    return _finding("padding changes nothing", len(source), [(one, other)])


@torch.no_grad()
def batch_invariance(model: Any, example: CheckExample) -> CheckResult:
    """An answer alone is the answer in a batch."""
    source, lengths, target = example
    together = _logits(model, source, lengths, target)
    pairs = []
    for row, length in enumerate(lengths.tolist()):
        alone = _logits(model, source[row : row + 1, :length], None, target[row : row + 1])
        pairs.append((together[row], alone[0]))
    return _finding("neighbours change nothing", len(source), pairs)


@torch.no_grad()
def causality(model: Any, example: CheckExample, vocab_size: int) -> CheckResult:
    """A changed token changes nothing before it."""
    source, lengths, target = example
    before = _logits(model, source, lengths, target)
    pairs = []
    for t in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 1) % vocab_size
        after = _logits(model, source, lengths, changed)
        pairs.append((before[:, :t], after[:, :t]))
    pairs = pairs or [(before[:, :0], before[:, :0])]
    return _finding("the future is not seen", len(source), pairs)


@torch.no_grad()
def cache_consistency(model: Any, example: CheckExample, stepper: Any = None) -> CheckResult:
    """Step by step, with what is remembered, equals all at once; another's steps do so, too."""
    source, lengths, target = example
    whole = _logits(model, source, lengths, target)
    pairs = []
    for steps in (model,) if stepper is None else (model, stepper):
        state = steps.init_state(steps.encode(source, lengths))
        for t in range(target.shape[1]):
            logits, state = steps.step(target[:, t : t + 1], state)
            pairs.append((whole[:, t], logits[:, 0]))
    return _finding("step by step equals all at once", len(source), pairs)


def beam1_is_greedy(
    model: Any, example: CheckExample, special_tokens: SpecialTokens, limit: int
) -> CheckResult:
    """A beam of 1 writes what greedy search writes.

    The difference is between the log-probabilities of the two answers: where the best two tokens
    are closer to each other than rounding, either may be chosen.
    """
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    plain = greedy_search(
        model, model.encode(source, lengths), special_tokens=special_tokens, max_lengths=max_lengths
    )
    one = beam_search(
        model,
        model.encode(source, lengths),
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=1,
    )
    pairs = [
        (_exact(a.log_probability, model), _exact(b[0].log_probability, model))
        for a, b in zip(plain, one, strict=True)
    ]
    return _finding("a beam of 1 is greedy", len(source), pairs)


def beam_score_consistency(
    model: Any,
    example: CheckExample,
    special_tokens: SpecialTokens,
    limit: int,
    width: int = 3,
    stepper: Any = None,
) -> CheckResult:
    """The score of every answer of a beam is its score when it is read again."""
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    stepper = model if stepper is None else stepper
    found = beam_search(
        stepper,
        stepper.encode(source, lengths),
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=width,
        n_best=width,
    )
    pairs = []
    for row, answers in enumerate(found):
        for answer in answers:
            again = rescore(model, source[row : row + 1, : lengths[row]], answer, special_tokens)
            pairs.append((_exact(answer.log_probability, model), _exact(again, model)))
    return _finding("beam scores equal re-reading", len(source), pairs)


@torch.no_grad()
def rescore(
    model: Any, source: TokenIds, answer: Hypothesis, special_tokens: SpecialTokens
) -> float:
    """The log-probability of an answer to one source, read all at once."""
    written = [*answer.ids, special_tokens.eos] if answer.finished else answer.ids
    target = torch.tensor([[special_tokens.bos, *written[:-1]]], device=source.device)
    logits = _logits(model, source, None, target)[0].log_softmax(dim=-1)
    return float(logits[torch.arange(len(written)), torch.tensor(written)].double().sum())


def _exact(value: float, model: nn.Module) -> Tensor:
    """A figure in the model's own format, whose tolerance it is held to."""
    return torch.tensor(value, dtype=next(model.parameters()).dtype)


@contextmanager
def reference_attention(model: nn.Module) -> Iterator[None]:
    """Let every attention of a model take the clear path while the block is open."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    for module in attentions:
        module.forward = module.reference  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in attentions:
            del module.forward


def kernel_parity(model: Any, example: CheckExample) -> CheckResult:
    """The fused path equals the clear path: values, and the gradients of all weights."""
    source, lengths, target = example

    def run() -> tuple[Tensor, list[Tensor]]:
        with torch.enable_grad():
            logits = _logits(model, source, lengths, target)
            weights = [p for p in model.parameters() if p.requires_grad]
            # a weight that one path does not reach has a slope of zero, and the other's shows
            slopes = torch.autograd.grad(logits.square().mean(), weights, materialize_grads=True)
        return logits.detach(), list(slopes)

    quick, quick_slopes = run()
    with reference_attention(model):
        reference, clear_slopes = run()
    pairs = [(quick, reference), *zip(quick_slopes, clear_slopes, strict=True)]
    return _finding("fused attention equals clear", len(source), pairs)


def nbest_prefix(
    model: Any, example: CheckExample, special_tokens: SpecialTokens, limit: int, width: int = 3
) -> CheckResult:
    """The first of the n best is the best, however many are asked for."""
    source, lengths, _ = example
    max_lengths = torch.full_like(lengths, limit)
    firsts = []
    for n_best in (1, width):
        memory = model.encode(source, lengths)
        found = beam_search(
            model,
            memory,
            special_tokens=special_tokens,
            max_lengths=max_lengths,
            width=width,
            n_best=n_best,
        )
        firsts.append([_exact(answers[0].log_probability, model) for answers in found])
    return _finding("the n best begin with the best", len(source), list(zip(*firsts, strict=True)))


@torch.no_grad()
def thread_invariance(model: Any, example: CheckExample) -> CheckResult:
    """One thread and two give the same answer."""
    source, lengths, target = example
    before = torch.get_num_threads()
    both = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            both.append(_logits(model, source, lengths, target))
    finally:
        torch.set_num_threads(before)
    return _finding("one thread and two agree", len(source), [(both[0], both[1])])


@torch.no_grad()
def compile_parity(model: Any, example: CheckExample) -> CheckResult:
    """The compiled model is the eager one."""
    invariant = "compiled equals eager"
    source, lengths, target = example
    quick = torch.compile(_logits, dynamic=True)
    eager = _logits(model, source, lengths, target)
    try:
        other = quick(model, source, lengths, target)
    except Exception as error:
        # a missing compiler, or a backend that cannot: torch has many errors for that
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return skipped(invariant, f"torch.compile does not work here: {reason}")
    finally:
        torch._dynamo.reset()
    return _finding(invariant, len(source), [(eager, other)])


@torch.no_grad()
def same_outputs(invariant: str, model: Any, other: Any, example: CheckExample) -> CheckResult:
    """Two models that must be one: saved and reopened, exported and original."""
    one, two = (_logits(m, *example) for m in (model, other))
    return _finding(invariant, len(example.source), [(one, two)])


def check_all(
    model: Any,
    example: CheckExample,
    special_tokens: SpecialTokens,
    vocab_size: int,
    limit: int,
    stepper: Any = None,
) -> Iterator[CheckResult]:
    """Every law that a model with `encode`, `start` and `step` must keep, one after the other.

    `stepper` is what answers are searched for with, if that is not the model itself.
    """
    yield batch_invariance(model, example)
    try:
        yield padding_invariance(model, example)
    except ValueError as error:  # learned positions end somewhere
        yield skipped("padding changes nothing", str(error))
    yield cache_consistency(model, example, stepper)
    yield causality(model, example, vocab_size)
    yield kernel_parity(model, example)
    yield beam1_is_greedy(model, example, special_tokens, limit)
    yield nbest_prefix(model, example, special_tokens, limit)
    yield beam_score_consistency(model, example, special_tokens, limit, stepper=stepper)
    yield thread_invariance(model, example)
    yield compile_parity(model, example)
