"""What does a step of each optimiser take, beside the framework's AdamW?

    python benchmarks/optimisers.py [name …]

The weights are those of a GPT of 6 layers, 384 wide, over 8,000 tokens, the gradients random and
the same for all. A round makes one step of each, so that what disturbs the machine disturbs all; a
ratio is that of one round. LARS and LAMB are to take 1.5 times AdamW's time at most.
"""

import sys
import time

import torch
from timing import say_machine, spread, table
from torch import Tensor, nn

from saccade.optim import OPTIMIZERS, OptimizerSettings, make_optimizer
from saccade.training.device import tune_malloc

LAYERS, WIDTH, VOCABULARY, PLACES = 6, 384, 8000, 256
WARMUP, ROUNDS = 3, 25
MOST = 1.5
ASKED = ["lars", "lamb", "lamb_unclamped"]
SEARCHING = {"lbfgs", "newton"}  # whose step is several passes through a model
PEER = "torch.optim.AdamW(foreach=True)"


def weights() -> nn.ParameterList:
    """As a GPT has them, each beginning as in GPT-2."""
    shapes = [(VOCABULARY, WIDTH), (PLACES, WIDTH)]
    for _ in range(LAYERS):
        shapes += [(WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
        shapes += [(WIDTH,), (WIDTH,), (4 * WIDTH, WIDTH), (4 * WIDTH,)]
        shapes += [(WIDTH, 4 * WIDTH), (WIDTH,)]
    shapes += [(WIDTH,), (WIDTH,)]
    return nn.ParameterList(nn.Parameter(0.02 * torch.randn(shape)) for shape in shapes)


def peer(model: nn.Module) -> torch.optim.Optimizer:
    """The one that all are compared with."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)


def main() -> None:
    """Measure and print."""
    say_machine()
    tune_malloc()  # as training does
    names = sys.argv[1:] or ASKED + sorted(OPTIMIZERS.keys() - SEARCHING - {*ASKED})
    torch.manual_seed(1)
    gradients: list[Tensor] = [0.01 * torch.randn_like(weight) for weight in weights()]
    models = {name: weights() for name in [PEER, *names]}
    for model in models.values():
        for weight, gradient in zip(model, gradients, strict=True):
            weight.grad = gradient
    optimizers = {
        name: peer(model)
        if name == PEER
        else make_optimizer(name, model, OptimizerSettings(1e-4, weight_decay=0.01))
        for name, model in models.items()
    }
    taken: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(WARMUP + ROUNDS):
        for name, optimizer in optimizers.items():
            began = time.perf_counter()
            optimizer.step()
            taken[name].append(1000 * (time.perf_counter() - began))
    print(f"{sum(gradient.numel() for gradient in gradients):,} weights, {ROUNDS} rounds")
    rows = []
    for name, times in taken.items():
        counted, beside = times[WARMUP:], taken[PEER][WARMUP:]
        ratio = spread([own / other for own, other in zip(counted, beside, strict=True)])
        verdict = "holds" if ratio.middle <= MOST else "too slow"
        rows.append([name, spread(counted), ratio, verdict if name in ASKED else ""])
    table(["optimiser", "ms a step", "of AdamW's", f"at most {MOST}"], rows)


if __name__ == "__main__":
    main()
