r"""Models that foretell the next value of a series from those before it.

    autoregressive   x̂_{t+1} = f(x_t, …, x_{t−τ+1})            Yule 1927; f linear, or
                                                               one hidden layer (of tanh,
                                                               or any `activation`)
    latent           h_t = g(h_{t−1}, x_t),  x̂_{t+1} = W h_t + b   g a recurrent cell

The first forgets all but the last τ values (a Markov model of order τ), the second keeps a
summary of all of them. Both read values from a state: `start` gives it, `step` reads T values and
answers each with what it expects next. Values are in units in which their mean is 0, so a state
of zeros says that nothing is known yet.
"""

from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from saccade.config import Config
from saccade.nn.activations import Activation, ActivationLayer
from saccade.nn.rnn import RNN


class AutoregressiveForecasterConfig(Config):
    """A model of the last values alone."""

    name: Literal["autoregressive"] = "autoregressive"
    lags: int = Field(4, ge=1)  # from data.lags
    hidden: int | None = Field(None, ge=1)  # of the hidden layer; open: there is none
    activation: Activation = "tanh"  # of the hidden layer

    @field_validator("activation")
    @classmethod
    def _of_a_layer(cls, activation: Activation, info: Any) -> Activation:
        if activation != "tanh" and info.data.get("hidden") is None:
            raise ValueError("it is the hidden layer's, and there is none; set model.hidden too")
        return activation


class RecurrentForecasterConfig(Config):
    """A recurrent model."""

    name: Literal["recurrent"] = "recurrent"
    cell: Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"] = "gru"
    hidden: int = Field(32, ge=1)
    depth: int = Field(1, ge=1)
    window: int = Field(64, ge=1)  # values that are read from nothing in training


@runtime_checkable
class Forecaster(Protocol):
    """What a forecast asks of a model."""

    input_length: int  # values in a row of training
    first_scored: int  # the place in it from which on the answers count

    def init_state(self, rows: int) -> Tensor:
        """Before the first value."""
        ...

    def step(
        self, values: Float[Tensor, "B T"], state: Tensor
    ) -> tuple[Float[Tensor, "B T"], Tensor]:
        """Read T values, answer each with the one that is expected next."""
        ...


class AutoregressiveForecaster(nn.Module):
    """The state is the last τ − 1 values."""

    def __init__(self, config: AutoregressiveForecasterConfig):
        super().__init__()
        self.lags = self.input_length = config.lags
        self.first_scored = config.lags - 1
        self.function: nn.Module = nn.Linear(config.lags, 1)
        if config.hidden is not None:
            self.function = nn.Sequential(
                nn.Linear(config.lags, config.hidden),
                ActivationLayer(config.activation),
                nn.Linear(config.hidden, 1),
            )

    def init_state(self, rows: int) -> Float[Tensor, "B P"]:
        """As if the values before the first had all been the mean."""
        return next(self.parameters()).new_zeros(rows, self.lags - 1)

    def step(
        self, values: Float[Tensor, "B T"], state: Float[Tensor, "B P"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B P"]]:
        """Every window of τ that ends with one of the values."""
        every = torch.cat([state, values], dim=1)
        windows = every.unfold(1, self.lags, 1)
        return self.function(windows).squeeze(-1), every[:, every.shape[1] - self.lags + 1 :]


class RecurrentForecaster(nn.Module):
    """The state is that of the cells, layer by layer."""

    def __init__(self, config: RecurrentForecasterConfig):
        super().__init__()
        self.input_length, self.first_scored = config.window, 0
        self.recurrent = RNN(config.cell, 1, config.hidden, config.depth)
        self.output = nn.Linear(config.hidden, 1)
        self.sizes = (config.depth, config.hidden * (2 if config.cell == "lstm" else 1))

    def init_state(self, rows: int) -> Float[Tensor, "B L E"]:
        """Zeros."""
        return self.output.weight.new_zeros(rows, *self.sizes)

    def step(
        self, values: Float[Tensor, "B T"], state: Float[Tensor, "B L E"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B L E"]]:
        """All T at once: the layers are the framework's fused ones where it has them."""
        read = self.recurrent(values.unsqueeze(-1), start=state)
        return self.output(read.outputs).squeeze(-1), read.last_state


FORECASTERS = {"autoregressive": AutoregressiveForecaster, "recurrent": RecurrentForecaster}


def rollout(
    model: Forecaster, expected: Float[Tensor, " B"], state: Tensor, horizon: int
) -> Float[Tensor, "B K"]:
    """From the first value that is expected on, `ahead` in all: each answer is read as if seen."""
    answers = [expected]
    for _ in range(horizon - 1):
        following, state = model.step(answers[-1][:, None], state)
        answers.append(following[:, 0])
    return torch.stack(answers, dim=1)
