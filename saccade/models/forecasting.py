r"""Models that predict the next value of a series from the values before it.

    autoregressive   x̂_{t+1} = f(x_t, …, x_{t−τ+1})            Yule 1927; f linear, or
                                                               one hidden layer (of tanh,
                                                               or any `activation`)
    latent           h_t = g(h_{t−1}, x_t),  x̂_{t+1} = W h_t + b   g a recurrent cell

The first depends on the last τ values only (a Markov model of order τ), the second on a summary of
all of them. `predictions = model(values)` predicts the value after each; `init_state` and `step`
do the same in pieces. Values are standardised to mean 0, so zeros are a neutral initial state.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.config import AutoregressiveForecasterConfig, RecurrentForecasterConfig
from saccade.nn.activations import ActivationLayer
from saccade.nn.rnn import RNN


@runtime_checkable
class Forecaster(Protocol):
    """Interface of the forecasting models."""

    input_length: int  # values in a training row
    first_scored: int  # first position of the row whose prediction enters the loss

    def init_state(self, rows: int) -> Tensor:
        """Return the state before the first value."""
        ...

    def step(
        self, values: Float[Tensor, "B T"], state: Tensor
    ) -> tuple[Float[Tensor, "B T"], Tensor]:
        """Return the prediction after each of T values, and the state after the last."""
        ...


class AutoregressiveForecaster(nn.Module):
    """Linear or one-hidden-layer function of the last τ values; the state is the last τ − 1."""

    def __init__(self, config: AutoregressiveForecasterConfig):
        super().__init__()
        self.lags = self.input_length = config.lags
        self.first_scored = config.lags - 1
        self.function: nn.Module = nn.Linear(config.lags, 1)
        if config.hidden is not None:
            self.function = nn.Sequential(
                nn.Linear(config.lags, config.hidden),
                ActivationLayer(config.activation, config.activation_alpha),
                nn.Linear(config.hidden, 1),
            )

    def init_state(self, rows: int) -> Float[Tensor, "B P"]:
        """Return zeros: as if all values before the first had been the mean."""
        return next(self.parameters()).new_zeros(rows, self.lags - 1)

    def forward(self, values: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Return the prediction after each value."""
        return self.step(values, self.init_state(len(values)))[0]

    def step(
        self, values: Float[Tensor, "B T"], state: Float[Tensor, "B P"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B P"]]:
        """Apply the function to every window of τ values that ends with one of `values`."""
        history = torch.cat([state, values], dim=1)
        windows = history.unfold(1, self.lags, 1)
        return self.function(windows).squeeze(-1), history[:, history.shape[1] - self.lags + 1 :]


class RecurrentForecaster(nn.Module):
    """Recurrent layers with a linear output; the state is that of the cells, layer by layer."""

    def __init__(self, config: RecurrentForecasterConfig):
        super().__init__()
        self.input_length, self.first_scored = config.window, 0
        self.recurrent = RNN(config.cell, 1, config.hidden, config.depth)
        self.output = nn.Linear(config.hidden, 1)
        self.state_shape = (config.depth, config.hidden * (2 if config.cell == "lstm" else 1))

    def init_state(self, rows: int) -> Float[Tensor, "B L E"]:
        """Return zeros."""
        return self.output.weight.new_zeros(rows, *self.state_shape)

    def forward(self, values: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Return the prediction after each value."""
        return self.step(values, self.init_state(len(values)))[0]

    def step(
        self, values: Float[Tensor, "B T"], state: Float[Tensor, "B L E"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B L E"]]:
        """Read T values with one call of the recurrent layers."""
        read = self.recurrent(values.unsqueeze(-1), start=state)
        return self.output(read.outputs).squeeze(-1), read.last_state


ForecastModel = AutoregressiveForecaster | RecurrentForecaster


def rollout(
    model: Forecaster, expected: Float[Tensor, " B"], state: Tensor, horizon: int
) -> Float[Tensor, "B K"]:
    """Return `horizon` predictions, starting with `expected`; each is the input of the next."""
    predictions = [expected]
    for _ in range(horizon - 1):
        following, state = model.step(predictions[-1][:, None], state)
        predictions.append(following[:, 0])
    return torch.stack(predictions, dim=1)
