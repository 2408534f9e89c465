"""Forecasters: their equations step by step, and the laws of reading from a state."""

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.config import build_config
from saccade.errors import ConfigError
from saccade.models.forecasting import (
    AutoregressiveForecaster,
    AutoregressiveForecasterConfig,
    Forecaster,
    RecurrentForecaster,
    RecurrentForecasterConfig,
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


def test_every_cell_can_be_named() -> None:
    assert set(get_args(RecurrentForecasterConfig.model_fields["cell"].annotation)) == set(CELLS)


def test_a_linear_one_is_a_weighted_sum_of_the_last_values() -> None:
    model = AutoregressiveForecaster(AutoregressiveForecasterConfig(lags=3)).double()
    weight, bias = model.function.weight[0].tolist(), float(model.function.bias.detach())
    values = [0.5, -1.0, 2.0, 0.25]
    answers, _ = model.step(torch.tensor([values], dtype=torch.float64), model.init_state(1))
    known = [0.0, 0.0, *values]  # before the first value, the mean
    for t in range(4):
        wanted = bias + sum(w * x for w, x in zip(weight, known[t : t + 3], strict=True))
        assert float(answers[0, t].detach()) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("said", [{}, {"activation": "relu"}, {"activation": "silu"}])
def test_a_hidden_layer_is_between_two_sums(said: dict[str, Any]) -> None:
    model = AutoregressiveForecaster(
        AutoregressiveForecasterConfig(lags=2, hidden=3, **said)
    ).double()
    first, _, last = model.function
    x = torch.tensor([0.3, -0.7], dtype=torch.float64)
    f = ACTIVATIONS[said.get("activation", "tanh")]
    wanted = last.weight @ f(first.weight @ x + first.bias) + last.bias
    answers, _ = model.step(x[None], model.init_state(1))
    torch.testing.assert_close(answers[0, -1:], wanted)


def test_without_a_hidden_layer_no_activation_can_be_chosen() -> None:
    with pytest.raises(ConfigError, match="hidden layer's, and there is none; set model.hidden"):
        build_config(AutoregressiveForecasterConfig, {"activation": "relu"})


def test_a_latent_one_is_its_recurrence() -> None:
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
def test_read_in_two_parts_or_one_by_one_is_read_at_once(
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
def test_a_later_value_changes_no_earlier_answer_and_an_earlier_one_does(model: Any) -> None:
    values = torch.randn(2, 6, dtype=torch.float64)
    changed = values.clone()
    changed[:, 3] += 1
    before, after = (model.step(x, model.init_state(2))[0] for x in (values, changed))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=0)
    assert ((before[:, 3] - after[:, 3]).abs() > 1e-6).all()


@every
def test_rolling_on_reads_its_own_answers(model: Any) -> None:
    values = torch.randn(2, 5, dtype=torch.float64)
    answers, state = model.step(values, model.init_state(2))
    rolled = rollout(model, answers[:, -1], state, 4)
    known = values
    for k in range(4):  # from the beginning each time
        answers, _ = model.step(known, model.init_state(2))
        torch.testing.assert_close(rolled[:, k], answers[:, -1])
        known = torch.cat([known, answers[:, -1:]], dim=1)


@every
def test_both_kinds_are_what_a_forecast_asks_for(model: Any) -> None:
    assert isinstance(model, Forecaster)
    assert 0 <= model.first_scored < model.input_length


@pytest.mark.parametrize("model", models()[1::4], ids=NAMES[1::4])
def test_gradients(model: Any) -> None:
    values = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: model.step(x, model.init_state(1))[0], (values,))
