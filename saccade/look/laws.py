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

from saccade.decoding import Answer, Marks, beam, greedy
from saccade.look.finding import Finding, not_tried
from saccade.nn.attention import Attention
from saccade.types import Ids, Lengths

# Of logits, in each format: some hundred roundings, one on the other. A law that is broken shows
# as a difference near 1.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


class Example(NamedTuple):
    """Input for the laws: sources with their lengths, and something to read as the target."""

    source: Ids
    lengths: Lengths
    target: Ids  # starts with the begin mark


def _logits(model: Any, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    logits, _ = model.step(target, model.start(model.encode(source, lengths)))
    return logits


def _finding(law: str, tried: int, pairs: list[tuple[Tensor, Tensor]]) -> Finding:
    differences = [float((one - other).abs().max()) for one, other in pairs if one.numel()]
    worst = max(differences, key=lambda d: (d != d, d), default=0.0)  # NaN counts as the worst
    return Finding(law, tried, worst, TOLERANCE[pairs[0][0].dtype])


@torch.no_grad()
def padding(model: Any, example: Example, more: int = 3) -> Finding:
    """More padding at the end of the sources changes nothing."""
    source, lengths, target = example
    # ids that mean something, so that a place that is not masked is noticed
    filler = source[:, :1].expand(-1, more)
    padded = torch.cat([source, filler], dim=1)
    one, other = (_logits(model, s, lengths, target) for s in (source, padded))
    return _finding("padding changes nothing", len(source), [(one, other)])


@torch.no_grad()
def neighbours(model: Any, example: Example) -> Finding:
    """An answer alone is the answer in a batch."""
    source, lengths, target = example
    together = _logits(model, source, lengths, target)
    pairs = []
    for row, length in enumerate(lengths.tolist()):
        alone = _logits(model, source[row : row + 1, :length], None, target[row : row + 1])
        pairs.append((together[row], alone[0]))
    return _finding("neighbours change nothing", len(source), pairs)


@torch.no_grad()
def future(model: Any, example: Example, vocab_size: int) -> Finding:
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
def stepwise(model: Any, example: Example, stepper: Any = None) -> Finding:
    """Step by step, with what is remembered, equals all at once; another's steps do so, too."""
    source, lengths, target = example
    whole = _logits(model, source, lengths, target)
    pairs = []
    for steps in (model,) if stepper is None else (model, stepper):
        state = steps.start(steps.encode(source, lengths))
        for t in range(target.shape[1]):
            logits, state = steps.step(target[:, t : t + 1], state)
            pairs.append((whole[:, t], logits[:, 0]))
    return _finding("step by step equals all at once", len(source), pairs)


def beam_of_one(model: Any, example: Example, marks: Marks, limit: int) -> Finding:
    """A beam of 1 writes what greedy search writes.

    The difference is between the log-probabilities of the two answers: where the best two tokens
    are closer to each other than rounding, either may be chosen.
    """
    source, lengths, _ = example
    limits = torch.full_like(lengths, limit)
    plain = greedy(model, model.encode(source, lengths), marks=marks, limits=limits)
    one = beam(model, model.encode(source, lengths), marks=marks, limits=limits, width=1)
    pairs = [
        (_exact(a.log_probability, model), _exact(b[0].log_probability, model))
        for a, b in zip(plain, one, strict=True)
    ]
    return _finding("a beam of 1 is greedy", len(source), pairs)


def rereading(
    model: Any, example: Example, marks: Marks, limit: int, width: int = 3, stepper: Any = None
) -> Finding:
    """The score of every answer of a beam is its score when it is read again."""
    source, lengths, _ = example
    limits = torch.full_like(lengths, limit)
    stepper = model if stepper is None else stepper
    found = beam(
        stepper,
        stepper.encode(source, lengths),
        marks=marks,
        limits=limits,
        width=width,
        n_best=width,
    )
    pairs = []
    for row, answers in enumerate(found):
        for answer in answers:
            again = read_again(model, source[row : row + 1, : lengths[row]], answer, marks)
            pairs.append((_exact(answer.log_probability, model), _exact(again, model)))
    return _finding("beam scores equal re-reading", len(source), pairs)


@torch.no_grad()
def read_again(model: Any, source: Ids, answer: Answer, marks: Marks) -> float:
    """The log-probability of an answer to one source, read all at once."""
    written = [*answer.ids, marks.end] if answer.finished else answer.ids
    target = torch.tensor([[marks.begin, *written[:-1]]], device=source.device)
    logits = _logits(model, source, None, target)[0].log_softmax(dim=-1)
    return float(logits[torch.arange(len(written)), torch.tensor(written)].double().sum())


def _exact(value: float, model: nn.Module) -> Tensor:
    """A figure in the model's own format, whose tolerance it is held to."""
    return torch.tensor(value, dtype=next(model.parameters()).dtype)


@contextmanager
def clear_attention(model: nn.Module) -> Iterator[None]:
    """Let every attention of a model take the clear path while the block is open."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    for module in attentions:
        module.forward = module.clear  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in attentions:
            del module.forward


def fused(model: Any, example: Example) -> Finding:
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
    with clear_attention(model):
        clear, clear_slopes = run()
    pairs = [(quick, clear), *zip(quick_slopes, clear_slopes, strict=True)]
    return _finding("fused attention equals clear", len(source), pairs)


def best_of_many(model: Any, example: Example, marks: Marks, limit: int, width: int = 3) -> Finding:
    """The first of the n best is the best, however many are asked for."""
    source, lengths, _ = example
    limits = torch.full_like(lengths, limit)
    firsts = []
    for n_best in (1, width):
        memory = model.encode(source, lengths)
        found = beam(model, memory, marks=marks, limits=limits, width=width, n_best=n_best)
        firsts.append([_exact(answers[0].log_probability, model) for answers in found])
    return _finding("the n best begin with the best", len(source), list(zip(*firsts, strict=True)))


@torch.no_grad()
def threads(model: Any, example: Example) -> Finding:
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
def compiled(model: Any, example: Example) -> Finding:
    """The compiled model is the eager one."""
    law = "compiled equals eager"
    source, lengths, target = example
    quick = torch.compile(_logits, dynamic=True)
    eager = _logits(model, source, lengths, target)
    try:
        other = quick(model, source, lengths, target)
    except Exception as error:
        # a missing compiler, or a backend that cannot: torch has many errors for that
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return not_tried(law, f"torch.compile does not work here: {reason}")
    finally:
        torch._dynamo.reset()
    return _finding(law, len(source), [(eager, other)])


@torch.no_grad()
def same(law: str, model: Any, other: Any, example: Example) -> Finding:
    """Two models that must be one: saved and reopened, exported and original."""
    one, two = (_logits(m, *example) for m in (model, other))
    return _finding(law, len(example.source), [(one, two)])


def all_of(
    model: Any, example: Example, marks: Marks, vocab_size: int, limit: int, stepper: Any = None
) -> Iterator[Finding]:
    """Every law that a model with `encode`, `start` and `step` must keep, one after the other.

    `stepper` is what answers are searched for with, if that is not the model itself.
    """
    yield neighbours(model, example)
    try:
        yield padding(model, example)
    except ValueError as error:  # learned positions end somewhere
        yield not_tried("padding changes nothing", str(error))
    yield stepwise(model, example, stepper)
    yield future(model, example, vocab_size)
    yield fused(model, example)
    yield beam_of_one(model, example, marks, limit)
    yield best_of_many(model, example, marks, limit)
    yield rereading(model, example, marks, limit, stepper=stepper)
    yield threads(model, example)
    yield compiled(model, example)
