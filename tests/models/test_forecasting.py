"""Forecasters: their equations step by step, and the invariants of reading from a state."""

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.config import build_config
from saccade.errors import ConfigError
from saccade.models.config import AutoregressiveForecasterConfig, RecurrentForecasterConfig
from saccade.models.forecasting import (
    AutoregressiveForecaster,
    Forecaster,
    RecurrentForecaster,
    rollout,
)
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.rnn_cells import CELLS


def models() -> list[Any]:
    torch.manual_seed(1)
    made: list[Any] = [
        AutoregressiveForecaster(AutoregressiveForecasterConfig(lags=lags, hidden=hidden))
        for lags in (1, 4)
        for hidden in (None, 5)
    ]
    made += [
        RecurrentForecaster(RecurrentForecasterConfig(cell=cell, hidden=5, depth=2))
        for cell in CELLS
    ]
    return [model.double() for model in made]


NAMES = [f"{lags}-{hidden}" for lags in (1, 4) for hidden in ("linear", "hidden")] + list(CELLS)
every = pytest.mark.parametrize("model", models(), ids=NAMES)


def test_forecaster_config_accepts_every_cell() -> None:
    assert set(get_args(RecurrentForecasterConfig.model_fields["cell"].annotation)) == set(CELLS)


def test_forecaster_linear_is_weighted_sum_of_lags() -> None:
    model = AutoregressiveForecaster(AutoregressiveForecasterConfig(lags=3)).double()
    weight, bias = model.function.weight[0].tolist(), float(model.function.bias.detach())
    values = [0.5, -1.0, 2.0, 0.25]
    answers, _ = model.step(torch.tensor([values], dtype=torch.float64), model.init_state(1))
    known = [0.0, 0.0, *values]  # before the first value, the mean
    for t in range(4):
        expected = bias + sum(w * x for w, x in zip(weight, known[t : t + 3], strict=True))
        assert float(answers[0, t].detach()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("message", [{}, {"activation": "relu"}, {"activation": "silu"}])
def test_forecaster_with_hidden_layer_equals_equation(message: dict[str, Any]) -> None:
    model = AutoregressiveForecaster(
        AutoregressiveForecasterConfig(lags=2, hidden=3, **message)
    ).double()
    first, _, last = model.function
    x = torch.tensor([0.3, -0.7], dtype=torch.float64)
    f = ACTIVATIONS[message.get("activation", "tanh")]
    expected = last.weight @ f(first.weight @ x + first.bias) + last.bias
    answers, _ = model.step(x[None], model.init_state(1))
    torch.testing.assert_close(answers[0, -1:], expected)


def test_forecaster_activation_needs_hidden_layer() -> None:
    with pytest.raises(ConfigError, match="has no hidden layer .*; set model.hidden"):
        build_config(AutoregressiveForecasterConfig, {"activation": "relu"})


def test_forecaster_recurrent_equals_recurrence() -> None:
    model = RecurrentForecaster(RecurrentForecasterConfig(cell="rnn", hidden=4)).double()
    w, u, b, c = (p.detach() for p in model.recurrent.layers[0].parameters())
    values, h = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), torch.zeros(4).double()
    answers, last = model.step(values[None], model.init_state(1))
    for t, x in enumerate(values):
        h = (w[:, 0] * x + b + u @ h + c).tanh()
        torch.testing.assert_close(answers[0, t : t + 1], model.output(h))
    torch.testing.assert_close(last[0, 0], h)


@every
@settings(deadline=None, max_examples=8)
@given(rows=st.integers(1, 3), steps=st.integers(1, 7), cut=st.integers(0, 6))
def test_forecaster_chunked_reading_equals_one_call(
    model: Any, rows: int, steps: int, cut: int
) -> None:
    values = torch.randn(rows, steps, dtype=torch.float64)
    whole, last = model.step(values, model.init_state(rows))
    assert whole.shape == (rows, steps)
    parts, state = [], model.init_state(rows)
    for part in (values[:, :cut], *values[:, cut:].split(1, dim=1)):
        if part.shape[1]:
            answers, state = model.step(part, state)
            parts.append(answers)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    torch.testing.assert_close(state, last)


@every
def test_forecaster_is_causal(model: Any) -> None:
    values = torch.randn(2, 6, dtype=torch.float64)
    changed = values.clone()
    changed[:, 3] += 1
    before, after = (model.step(x, model.init_state(2))[0] for x in (values, changed))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=0)
    assert ((before[:, 3] - after[:, 3]).abs() > 1e-6).all()


@every
def test_forecaster_rollout_reads_its_predictions(model: Any) -> None:
    values = torch.randn(2, 5, dtype=torch.float64)
    answers, state = model.step(values, model.init_state(2))
    rolled = rollout(model, answers[:, -1], state, 4)
    known = values
    for k in range(4):  # from the start each time
        answers, _ = model.step(known, model.init_state(2))
        torch.testing.assert_close(rolled[:, k], answers[:, -1])
        known = torch.cat([known, answers[:, -1:]], dim=1)


@every
def test_forecaster_classes_satisfy_protocol(model: Any) -> None:
    assert isinstance(model, Forecaster)
    assert 0 <= model.first_scored < model.input_length


@pytest.mark.parametrize("model", models()[1::4], ids=NAMES[1::4])
def test_forecaster_gradients_pass_gradcheck(model: Any) -> None:
    values = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: model.step(x, model.init_state(1))[0], (values,))
