"""Tolerances that follow from the arithmetic instead of from one run."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

ROUNDINGS = 64.0  # accumulated errors, in units of one error of each weight and layer output


@torch.no_grad()
def float32_tolerance(model: nn.Module, outputs: Callable[[], Tensor], draws: int = 4) -> float:
    """Return how far two correct float32 evaluations of `outputs` may differ.

    Every weight and the output of every layer of the model, which must be in float64, is moved by
    one unit in the last place of float32, up or down at random; the largest change of the outputs,
    times `ROUNDINGS`, is the tolerance (running error analysis; Higham 2002, section 3.3). A
    well-conditioned model gets about 1e-5; one that normalises nearly constant rows gets more.
    """
    unit = torch.finfo(torch.float32).eps
    generator = torch.Generator().manual_seed(0)

    def moved(tensor: Tensor) -> Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
        return tensor * (1 + unit * signs)

    def round_output(module: nn.Module, inputs: object, output: object) -> object:
        return moved(output) if isinstance(output, Tensor) else output

    exact = outputs()
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [leaf.register_forward_hook(round_output) for leaf in leaves]
    worst = unit * float(exact.abs().max())
    for _ in range(draws):
        for parameter in model.parameters():
            parameter.copy_(moved(parameter))
        worst = max(worst, float((outputs() - exact).abs().max()))
        model.load_state_dict(kept)
    for hook in hooks:
        hook.remove()
    return ROUNDINGS * worst
