"""Small environments for tests: a corridor, and several that cannot be used as they are."""

import itertools
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

NUMBERS = itertools.count()


class Corridor(gymnasium.Env[Any, Any]):
    """Positions 0 to 3, left and right; reward 1 at the right end, -0.1 for each other step."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    length = 3

    def __init__(self, slip: float = 0.0, render_mode: str | None = None):
        self.slip, self.render_mode, self.position = slip, render_mode, 0

    def _observe(self) -> Any:
        x = 2.0 * self.position / self.length - 1.0
        return np.array([x, x * x], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = 1 if int(action) == 1 else -1
        if self.np_random.random() < self.slip:
            move = -move
        self.position = max(0, self.position + move)
        ended = self.position == self.length
        return self._observe(), 1.0 if ended else -0.1, ended, False, {}

    def render(self) -> Any:
        picture = np.zeros((40, 80, 3), np.uint8)
        picture[:, 20 * self.position : 20 * self.position + 20] = 255
        return picture


class NaNRewards(Corridor):
    """Rewards that are not numbers."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class Unseeded(Corridor):
    """An environment that draws its start without its seed."""

    length = 1000

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        found = super().reset(seed=next(NUMBERS))
        return found


class Remembering(Corridor):
    """State that survives `reset`: each episode starts one position further."""

    length = 1000
    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.position = self.resets
        return self._observe(), {}


class DictObservations(Corridor):
    """Observations with names."""

    observation_space: Any = spaces.Dict(
        {"camera": spaces.Discrete(2), "speed": spaces.Discrete(3)}
    )


class TwoActions(Corridor):
    """Two discrete actions at a time."""

    action_space: Any = spaces.MultiDiscrete([2, 2])


class Fails(Corridor):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("the simulator is not running")


class Steered(Corridor):
    """Continuous actions: the goal is near -0.5."""

    action_space: Any = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: Any) -> Any:
        self.position = min(self.position + 1, self.length)
        ended = self.position == self.length
        return self._observe(), -float((np.asarray(action)[0] + 0.5) ** 2), ended, False, {}


class Cards(gymnasium.Env[Any, Any]):
    """Observations of several categories, with other first values than 0."""

    observation_space: Any = spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiBinary(2)))
    action_space: Any = spaces.Discrete(2, start=5)
    taken: ClassVar[list[int]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return (3, np.array([1, 0])), {}

    def step(self, action: Any) -> Any:
        self.taken.append(int(action))
        return (1, np.array([0, 1])), 1.0, True, False, {}
