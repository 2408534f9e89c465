"""Making of Gymnasium environments by name, and whether they are deterministic."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import numpy as np

from saccade.data.environments.config import DEFAULT_MAX_STEPS, EnvironmentConfig
from saccade.data.environments.spaces import Spaces, read_spaces
from saccade.errors import ConfigError, DataError, MissingPackageError
from saccade.registry import did_you_mean
from saccade.seeding import generator, seed_for

CHECKED_STEPS = 200  # of the episodes by which determinism is checked
EpisodeSeed = Callable[[int], int]  # number of an episode → seed of its reset


def gymnasium() -> Any:
    """Return the package, or raise MissingPackageError."""
    try:
        import gymnasium
    except ImportError:
        raise MissingPackageError(
            "got an environment without Gymnasium, which is not installed; expected it for the "
            "task control; try pip install 'saccade[rl]'."
        ) from None
    return gymnasium


def episode_seeds(seed: int, purpose: str) -> EpisodeSeed:
    """Return the seed of each episode of one purpose (train, dev, test): 31 bits."""
    return lambda episode: seed_for(seed, f"episode of {purpose}", episode) >> 32


def make_environment(config: EnvironmentConfig, render_mode: str | None = None) -> Any:
    """Return a new environment, without a limit on the steps of an episode."""
    world = config.world
    if world is None:
        raise ConfigError("got no environment; expected the name of one; try --world CartPole-v1.")
    arguments = dict(config.arguments)
    if "render_mode" in arguments:
        raise ConfigError(
            f"got render_mode in data.arguments of {world}; expected arguments without it, since "
            "an environment is drawn without a window; try saccade look RUN --save play.gif."
        )
    if render_mode is not None:
        arguments["render_mode"] = render_mode
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are out of date
            return _make(world, arguments)
    except (ConfigError, MissingPackageError):
        raise
    except Exception as error:  # of code that is not ours
        _refuse_unknown_arguments(world, config.arguments)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "none"
        raise ConfigError(
            f"got the environment {world!r}, which cannot be made ({reason[:300]}); expected one "
            f"that takes these arguments: {given}; try --set data.arguments.NAME=VALUE, or install "
            "what it needs."
        ) from None


def _refuse_unknown_arguments(world: str, arguments: Mapping[str, Any]) -> None:
    """Raise a ConfigError if the environment does not take some of the arguments."""
    known = _argument_names(world)
    if known is None or not (unknown := [name for name in arguments if name not in known]):
        return
    raise ConfigError(
        f"got {unknown[0]!r} in data.arguments; expected an argument of {world}."
        f"{did_you_mean(unknown[0], known)} It takes: {', '.join(known) or 'none'}."
    )


def _argument_names(world: str) -> list[str] | None:
    """Return the arguments of an environment; None if any name, or if they are not known."""
    package = gymnasium()
    module_name, _, name = world.rpartition(":")
    try:
        if name in package.registry:
            entry = package.registry[name].entry_point
            maker = (
                package.envs.registration.load_env_creator(entry) if type(entry) is str else entry
            )
        else:
            maker = getattr(_import_module(module_name, world), name)
        parameters = signature(maker).parameters.values()
    except Exception:  # of code that is not ours
        return None
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.name != "render_mode"]


def _make(world: str, arguments: dict[str, Any]) -> Any:
    package = gymnasium()
    module_name, colon, name = world.partition(":")
    if colon:
        module = _import_module(module_name, world)
        if name not in package.registry:
            return _make_class(module, name, world, arguments)
    elif world not in package.registry:
        raise ConfigError(_unknown_world(world, package))
    return package.make(
        name if colon else world, max_episode_steps=-1, disable_env_checker=True, **arguments
    )


def _import_module(name: str, world: str) -> Any:
    if "" not in sys.path:  # a module in the working folder, as `python -m` finds it
        sys.path.insert(0, "")
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"got the environment {world!r}, whose module {name!r} cannot be imported ({error}); "
            "expected package:Class or package:Name-v0; try to install the package, or run the "
            "command in the folder of the module."
        ) from None


def _make_class(module: Any, name: str, world: str, arguments: dict[str, Any]) -> Any:
    environment_class = getattr(module, name, None)
    if not isinstance(environment_class, type) or not issubclass(
        environment_class, gymnasium().Env
    ):
        classes = [
            found
            for found, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, gymnasium().Env)
        ]
        raise ConfigError(
            f"got the environment {world!r}; expected a subclass of gymnasium.Env of the module, "
            f"or a name that it registers.{did_you_mean(name, classes)} The module has: "
            f"{', '.join(classes) or 'none'}."
        )
    return environment_class(**arguments)


def _unknown_world(world: str, package: Any) -> str:
    names = [name for name in package.registry if "/" not in name]
    return (
        f"There is no environment {world!r}.{did_you_mean(world, names)} Expected a name of "
        "Gymnasium (such as CartPole-v1, Acrobot-v1, FrozenLake-v1), or package:Class."
    )


def open_spaces(config: EnvironmentConfig) -> Spaces:
    """Make an environment once, and return its spaces and the limit on its episodes."""
    environment = make_environment(config)
    try:
        spec = environment.spec
        stated = None
        if spec is not None and (registered := gymnasium().registry.get(spec.id)) is not None:
            stated = registered.max_episode_steps
        limit = config.max_episode_steps or stated or DEFAULT_MAX_STEPS
        return read_spaces(environment, str(config.world), limit)
    finally:
        close_environment(environment)


def has_stated_limit(config: EnvironmentConfig) -> bool:
    """Return True if settings or environment limit the steps of an episode."""
    name = str(config.world).rpartition(":")[2]
    registered = gymnasium().registry.get(name)
    stated = registered is not None and registered.max_episode_steps is not None
    return stated or config.max_episode_steps is not None


@contextmanager
def without_display() -> Iterator[None]:
    """Draw without a window, on machines without a display too."""
    before = os.environ.get("SDL_VIDEODRIVER")
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the package that draws
            yield
    finally:
        if before is None:
            del os.environ["SDL_VIDEODRIVER"]
        else:
            os.environ["SDL_VIDEODRIVER"] = before


def close_environment(environment: Any) -> None:
    """Close an environment; what fails in closing it has no effect on results."""
    with suppress(Exception):
        environment.close()


def is_deterministic(config: EnvironmentConfig, spaces: Spaces) -> bool:
    """Return True if equal seeds and actions give equal episodes, in three trials.

    The third trial is in the environment of the first, after another episode, so that state which
    survives `reset` is found too.
    """
    one, other = make_environment(config), make_environment(config)
    try:
        first = _trace(one, spaces, seed=1)
        _trace(one, spaces, seed=2)
        return all(_equal(first, _trace(again, spaces, seed=1)) for again in (other, one))
    finally:
        close_environment(one)
        close_environment(other)


def _trace(environment: Any, spaces: Spaces, seed: int) -> list[tuple[Any, ...]]:
    """Return observations, rewards and ends of an episode of random actions."""
    draw = generator(seed, "actions of the check")
    observation, _ = environment.reset(seed=seed)
    trace: list[tuple[Any, ...]] = [(spaces.encode(observation),)]
    for _ in range(min(CHECKED_STEPS, spaces.max_steps)):
        action = random_action(spaces, draw)
        observation, reward, terminated, truncated, _ = environment.step(action)
        trace.append((spaces.encode(observation), float(reward), bool(terminated)))
        if terminated or truncated:
            break
    return trace


def _equal(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a[0], b[0], equal_nan=True) and a[1:] == b[1:]
        for a, b in zip(one, other, strict=True)
    )


def random_action(spaces: Spaces, draw: np.random.Generator) -> Any:
    """Return an action from the uniform distribution; of an unbounded component, from N(0, 1)."""
    if spaces.action == "discrete":
        return spaces.first_action + int(draw.integers(spaces.actions))
    values = [
        draw.normal() if low is None or high is None else draw.uniform(low, high)
        for low, high in zip(spaces.low, spaces.high, strict=True)
    ]
    return spaces.clip_action(np.array(values))


def check_reward(reward: Any, world: str, episode: int, step: int) -> float:
    """Return a reward as a number; DataError if it is not finite."""
    value = float(reward)
    if value - value != 0.0:  # NaN or infinite
        raise DataError(
            f"{world}: got a reward of {value} in step {step:,} of episode {episode:,}; expected a "
            "finite number; correct the environment's step()."
        )
    return value
