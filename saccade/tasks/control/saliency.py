"""Saliency of an observation: the contribution of each number to the value of an action."""

from typing import Any

import torch
from torch import Tensor

from saccade.errors import ConfigError
from saccade.inspection.attribution import Attribution
from saccade.inspection.integrated_gradients import integrated_gradients
from saccade.models.control import QNetwork
from saccade.tasks.control.network_agent import NetworkAgent
from saccade.tasks.control.predict import parse_observation
from saccade.tasks.neural import device_of


def attribute_action(agent: NetworkAgent, raw: Any, method: str, output: str | None) -> Attribution:
    """Return the contributions to the value or log-probability of an action; default: the best.

    Of a continuous action it is its first component, or the one named. A number is left out by
    replacing it with 0.
    """
    observation = parse_observation(agent.spaces, raw, "input 1")
    model, spaces = agent.model, agent.spaces
    row = torch.from_numpy(observation).to(device_of(model), next(model.parameters()).dtype)
    action = _chosen_action(agent, row, output)

    def number(rows: Tensor) -> Tensor:
        found = model(rows)
        if isinstance(model, QNetwork):
            return found[:, action]
        if found.log_deviation is None:
            return found.policy.log_softmax(dim=-1)[:, action]
        return found.policy[:, action]

    baseline = torch.zeros_like(row)
    if method == "integrated_gradients":
        scores = integrated_gradients(number, row, baseline)
    elif method == "occlusion":
        left_out = row.expand(len(row), -1) * (1 - torch.eye(len(row), device=row.device))
        with torch.no_grad():
            scores = number(row[None]) - number(left_out)
    else:
        point = row[None].clone().requires_grad_()
        with torch.enable_grad():
            scores = torch.autograd.grad(number(point).sum(), point)[0][0] * row
    with torch.no_grad():
        value, base = number(torch.stack([row, baseline])).tolist()
    unit = "units of return" if isinstance(model, QNetwork) else "log-probability"
    return Attribution(
        parts=_part_names(agent),
        scores=scores.detach().double().cpu().numpy(),
        output=f"action {spaces.first_action + action}",
        method=method,
        value=value,
        base=base,
        unit="units of the action" if agent.is_continuous else unit,
        cells=[f"{value:.4g}" for value in observation.tolist()],
        baseline="an observation of zeros",
    )


def _part_names(agent: NetworkAgent) -> list[str]:
    spaces = agent.spaces
    if spaces.observation == "numbers":
        return [f"number {index + 1}" for index in range(spaces.width)]
    return [
        f"category {index + 1} = {start + value}" if len(spaces.sizes) > 1 else str(start + value)
        for index, (size, start) in enumerate(zip(spaces.sizes, spaces.starts, strict=True))
        for value in range(size)
    ]


def _chosen_action(agent: NetworkAgent, row: Tensor, output: str | None) -> int:
    """Return the index of the action that is named, or of the best one."""
    spaces = agent.spaces
    if output is None:
        return 0 if agent.is_continuous else int(agent.greedy(row[None].cpu().numpy())[0])
    names = [str(spaces.first_action + action) for action in range(spaces.actions)]
    if output not in names:
        raise ConfigError(f"got {output!r} as the answer; expected an action: {', '.join(names)}.")
    return names.index(output)
