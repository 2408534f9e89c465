"""How an answer is to be searched for, as a person says it, and the search that does it."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field
from torch import Tensor

from saccade.config import Config, build_config
from saccade.decoding import (
    Hypothesis,
    RepetitionConstraints,
    SpecialTokens,
    TokenCallback,
    beam_search,
    greedy_search,
    ignore_token,
    rerank_by_coverage,
    sample,
)
from saccade.errors import ConfigError
from saccade.seeding import seed_for
from saccade.types.shapes import Lengths


class DecodingConfig(Config):
    """As it stands here: the likeliest token at every step."""

    beam: int = Field(1, ge=1)  # hypotheses kept at each step; 1 is greedy
    n_best: int = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=0)  # penalty: 0 is the plain log-probability
    coverage: float = Field(0.0, ge=0)  # penalty for places of the source never looked at
    no_repeat_ngram_size: int = Field(0, ge=0)  # no run of so many tokens twice
    repetition_penalty: float = Field(1.0, gt=0)  # penalty for tokens that were written before
    sample: bool = False  # draw by chance
    temperature: float = Field(1.0, gt=0)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int = 0


class GenerationConfig(DecodingConfig):
    """A text goes on to the end of its line, if nothing else is asked for."""

    max_new_tokens: int | None = Field(None, ge=1)  # so many, over the ends of lines
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # texts before which it ends


S = TypeVar("S", bound=DecodingConfig)


def parse_decoding(how: dict[str, Any], kind: type[S]) -> S:
    """The search that is asked for; what does not go together is said."""
    wanted = build_config(kind, how, "the search")
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


def run_decoding(
    model: Any,
    memory: Callable[[], Any],
    how: DecodingConfig,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    numbers: Sequence[int],
    weights: Callable[[int, Hypothesis], Tensor] | None = None,
    on_token: TokenCallback = ignore_token,
) -> list[list[Hypothesis]]:
    """The answers to each sentence, best first.

    `memory` makes what the stepper starts from, once for every search that is made. `numbers`
    are the sentences' own, by which luck is handed out. `weights` gives the attention of one
    answer to the sentence in a row, for coverage. `told` hears of every token as it is written,
    where only one answer is.
    """
    if on_token is not ignore_token and (how.beam > 1 or how.n_best > 1):
        raise ConfigError(
            "an answer can be shown as it is written when there is one: leave beam and n_best out."
        )
    constraints = RepetitionConstraints(how.repetition_penalty, how.no_repeat_ngram_size)
    common: dict[str, Any] = {
        "special_tokens": special_tokens,
        "max_lengths": max_lengths,
        "alpha": how.length_penalty,
        "constraints": constraints,
    }
    if how.sample:
        cuts: dict[str, Any] = {
            "temperature": how.temperature,
            "top_k": how.top_k,
            "top_p": how.top_p,
        }
        drawn = [
            sample(
                model,
                memory(),
                seeds=_seeds(how.seed, k, numbers),
                on_token=on_token,
                **cuts,
                **common,
            )
            for k in range(how.n_best)
        ]
        return [
            sorted(several, key=lambda answer: -answer.score)
            for several in zip(*drawn, strict=True)
        ]
    if how.beam == 1 and not how.coverage:
        return [[answer] for answer in greedy_search(model, memory(), on_token=on_token, **common)]
    if not how.coverage:
        return beam_search(model, memory(), width=how.beam, n_best=how.n_best, **common)
    if weights is None:
        raise ConfigError("coverage is of a source that is looked at; this model has none.")
    found = beam_search(model, memory(), width=how.beam, n_best=how.beam, **common)
    tables = [[weights(row, answer) for answer in answers] for row, answers in enumerate(found)]
    return rerank_by_coverage(found, tables, beta=how.coverage, n_best=how.n_best)


def _seeds(seed: int, draw: int, numbers: Sequence[int]) -> list[int]:
    return [seed_for(seed, f"sample {draw}", number) for number in numbers]
