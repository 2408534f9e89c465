"""How an answer is to be searched for, as a person says it, and the search that does it."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field
from torch import Tensor

from saccade.config import Config, build
from saccade.decoding import Answer, Marks, Rules, Told, beam, covered, greedy, sample, silent
from saccade.errors import ConfigError
from saccade.seeding import seed_for
from saccade.types import Lengths


class Search(Config):
    """As it stands here: the likeliest token at every step."""

    beam: int = Field(1, ge=1)  # hypotheses kept at each step; 1 is greedy
    n_best: int = Field(1, ge=1)
    length: float = Field(1.0, ge=0)  # penalty: 0 is the plain log-probability
    coverage: float = Field(0.0, ge=0)  # penalty for places of the source never looked at
    no_repeat: int = Field(0, ge=0)  # no run of so many tokens twice
    repetition: float = Field(1.0, gt=0)  # penalty for tokens that were written before
    sample: bool = False  # draw by chance
    temperature: float = Field(1.0, gt=0)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int = 0


class Continuation(Search):
    """A text goes on to the end of its line, if nothing else is asked for."""

    tokens: int | None = Field(None, ge=1)  # so many, over the ends of lines
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # texts before which it ends


S = TypeVar("S", bound=Search)


def search_from(how: dict[str, Any], kind: type[S]) -> S:
    """The search that is asked for; what does not go together is said."""
    wanted = build(kind, how, "the search")
    drawn = {"temperature", "top_k", "top_p", "seed"} & wanted.model_fields_set
    if drawn and not wanted.sample:
        raise ConfigError(
            f"{', '.join(sorted(drawn))} is for answers that are drawn by chance: add sample."
        )
    if wanted.sample and (wanted.beam > 1 or wanted.coverage):
        raise ConfigError("an answer is drawn by chance or searched for with a beam, not both.")
    if not wanted.sample and wanted.n_best > wanted.beam:
        raise ConfigError(
            f"{wanted.n_best} best answers of a beam of {wanted.beam} were asked for; "
            f"a beam finds no more than it is wide: use a beam of {wanted.n_best} or more."
        )
    return wanted


def search(
    stepper: Any,
    memory: Callable[[], Any],
    how: Search,
    *,
    marks: Marks,
    limits: Lengths,
    numbers: Sequence[int],
    weights: Callable[[int, Answer], Tensor] | None = None,
    told: Told = silent,
) -> list[list[Answer]]:
    """The answers to each sentence, best first.

    `memory` makes what the stepper starts from, once for every search that is made. `numbers`
    are the sentences' own, by which luck is handed out. `weights` gives the attention of one
    answer to the sentence in a row, for coverage. `told` hears of every token as it is written,
    where only one answer is.
    """
    if told is not silent and (how.beam > 1 or how.n_best > 1):
        raise ConfigError(
            "an answer can be shown as it is written when there is one: leave beam and n_best out."
        )
    rules = Rules(how.repetition, how.no_repeat)
    common: dict[str, Any] = {"marks": marks, "limits": limits, "alpha": how.length, "rules": rules}
    if how.sample:
        cuts: dict[str, Any] = {
            "temperature": how.temperature,
            "top_k": how.top_k,
            "top_p": how.top_p,
        }
        drawn = [
            sample(
                stepper, memory(), seeds=_seeds(how.seed, k, numbers), told=told, **cuts, **common
            )
            for k in range(how.n_best)
        ]
        return [
            sorted(several, key=lambda answer: -answer.score)
            for several in zip(*drawn, strict=True)
        ]
    if how.beam == 1 and not how.coverage:
        return [[answer] for answer in greedy(stepper, memory(), told=told, **common)]
    if not how.coverage:
        return beam(stepper, memory(), width=how.beam, n_best=how.n_best, **common)
    if weights is None:
        raise ConfigError("coverage is of a source that is looked at; this model has none.")
    found = beam(stepper, memory(), width=how.beam, n_best=how.beam, **common)
    tables = [[weights(row, answer) for answer in answers] for row, answers in enumerate(found)]
    return covered(found, tables, beta=how.coverage, n_best=how.n_best)


def _seeds(seed: int, draw: int, numbers: Sequence[int]) -> list[int]:
    return [seed_for(seed, f"sample {draw}", number) for number in numbers]
