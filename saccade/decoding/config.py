"""Settings of a search, and their validation."""

from typing import Annotated, Any, TypeVar

from pydantic import Field

from saccade.config import Config, build_config
from saccade.errors import ConfigError
from saccade.types.limits import (
    MAX_BEAM,
    MAX_CHOICES,
    MAX_COUNT,
    MAX_LENGTH,
    MAX_PENALTY,
    MAX_SEED,
    MAX_VALUE,
)

MAX_SEARCH_ROWS = 512  # hypotheses in one batch; a larger beam has one example in a batch
SAMPLING_SETTINGS = frozenset({"temperature", "top_k", "top_p", "seed"})


class DecodingConfig(Config):
    """Settings of a search; the defaults are greedy search."""

    # hypotheses kept at each step; 1 is greedy search
    beam: int = Field(1, ge=1, le=MAX_BEAM)
    n_best: int = Field(1, ge=1, le=MAX_BEAM)
    # α; 0 ranks by the log-probability
    length_penalty: float = Field(1.0, ge=0, le=MAX_PENALTY)
    # β, penalty for source positions without attention
    coverage: float = Field(0.0, ge=0, le=MAX_PENALTY)
    # no n-gram of this size twice; 0: no constraint
    no_repeat_ngram_size: int = Field(0, ge=0, le=MAX_LENGTH)
    # for tokens generated before; 1: none
    repetition_penalty: float = Field(1.0, gt=0, le=MAX_PENALTY)
    sample: bool = False  # sample instead of searching
    temperature: float = Field(1.0, gt=0, le=MAX_VALUE)
    top_k: int | None = Field(None, ge=1, le=MAX_COUNT)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int = Field(0, ge=0, le=MAX_SEED)


class GenerationConfig(DecodingConfig):
    """Settings for continuing a text; the default continues to the end of the line."""

    max_new_tokens: int | None = Field(None, ge=1, le=MAX_COUNT)  # this many, across line ends
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # texts before which to stop
    # candidate continuations; the most probable one is the prediction, and nothing is generated
    choices: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), max_length=MAX_CHOICES)
    # texts with their candidates, in front of each text
    examples: tuple[tuple[str, str], ...] = Field((), max_length=MAX_CHOICES)
    calibrate: bool = False  # divide by the probabilities after texts without content


_DecodingT = TypeVar("_DecodingT", bound=DecodingConfig)


def parse_decoding(options: dict[str, Any], config_class: type[_DecodingT]) -> _DecodingT:
    """Return the settings of a search given as plain values, checked."""
    config = build_config(config_class, options, "the search")
    check_decoding(config)
    return config


def check_decoding(config: DecodingConfig) -> None:
    """Raise ConfigError for settings that cannot be combined."""
    for_sampling = SAMPLING_SETTINGS & config.model_fields_set
    if for_sampling and not config.sample:
        raise ConfigError(
            f"got {', '.join(sorted(for_sampling))} without sampling; add sample=True "
            f"(--sample), or leave {'it' if len(for_sampling) == 1 else 'them'} out."
        )
    if isinstance(config, GenerationConfig):
        _check_choices(config)
    if config.sample and (config.beam > 1 or config.coverage):
        raise ConfigError(
            "got sample together with beam or coverage; expected sampling or a beam, not both."
        )
    if not config.sample and config.n_best > config.beam:
        raise ConfigError(
            f"got n_best {config.n_best} with a beam of {config.beam}; a beam finds no more "
            f"hypotheses than its width: use a beam of {config.n_best} or more."
        )


def _check_choices(config: GenerationConfig) -> None:
    """Raise ConfigError for candidates that cannot be scored, or options that need them."""
    if not config.choices:
        if config.examples or config.calibrate:
            raise ConfigError(
                "got examples or calibrate without choices; expected two or more candidates; try "
                "choices=['good', 'bad'] (--choices good,bad)."
            )
        return
    if len(set(config.choices)) < max(2, len(config.choices)):
        raise ConfigError(
            f"got the choices {', '.join(config.choices)}; expected two or more different ones."
        )
    unknown = sorted({label for _, label in config.examples} - set(config.choices))
    if unknown:
        raise ConfigError(
            f"got examples with {', '.join(map(repr, unknown[:3]))}; expected one of the choices: "
            f"{', '.join(config.choices)}."
        )
    generating = {"beam", "n_best", "sample", "max_new_tokens", "stop"} & config.model_fields_set
    if generating:
        raise ConfigError(
            f"got {', '.join(sorted(generating))} with choices, which are scored, not generated; "
            "try without."
        )
