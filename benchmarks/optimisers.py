"""Time per step of each optimiser relative to the framework's AdamW.

    python benchmarks/optimisers.py [name …]

The weights are those of a GPT of 6 layers, width 384 and 8,000 tokens; the gradients are random and
the same for all. A round makes one step of each, so that other load on the machine affects all; a
ratio is within one round. The goal for LARS and LAMB is at most 1.5 times AdamW's time.
"""

import sys
import time

import torch
from timing import print_machine, spread, table
from torch import Tensor, nn

from saccade.optim import OPTIMIZERS, OptimizerSettings, make_optimizer
from saccade.training.device import tune_malloc

LAYERS, WIDTH, VOCABULARY, POSITIONS = 6, 384, 8000, 256
WARMUP, ROUNDS = 3, 25
MAX_RATIO = 1.5
LIMITED = ["lars", "lamb", "lamb_unclamped"]
CLOSURE_OPTIMIZERS = {"lbfgs", "newton"}  # a step evaluates the model several times
PEER = "torch.optim.AdamW(foreach=True)"


def weights() -> nn.ParameterList:
    """Return the parameters of a GPT, initialised as in GPT-2."""
    shapes = [(VOCABULARY, WIDTH), (POSITIONS, WIDTH)]
    for _ in range(LAYERS):
        shapes += [(WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
        shapes += [(WIDTH,), (WIDTH,), (4 * WIDTH, WIDTH), (4 * WIDTH,)]
        shapes += [(WIDTH, 4 * WIDTH), (WIDTH,)]
    shapes += [(WIDTH,), (WIDTH,)]
    return nn.ParameterList(nn.Parameter(0.02 * torch.randn(shape)) for shape in shapes)


def peer(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser that all are compared with."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    tune_malloc()  # as training does
    names = sys.argv[1:] or LIMITED + sorted(OPTIMIZERS.keys() - CLOSURE_OPTIMIZERS - {*LIMITED})
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
            start = time.perf_counter()
            optimizer.step()
            taken[name].append(1000 * (time.perf_counter() - start))
    print(f"{sum(gradient.numel() for gradient in gradients):,} weights, {ROUNDS} rounds")
    rows = []
    for name, times in taken.items():
        counted, reference = times[WARMUP:], taken[PEER][WARMUP:]
        ratio = spread([own / other for own, other in zip(counted, reference, strict=True)])
        verdict = "passed" if ratio.middle <= MAX_RATIO else "too slow"
        rows.append([name, spread(counted), ratio, verdict if name in LIMITED else ""])
    table(["optimiser", "ms per step", "ratio to AdamW", f"at most {MAX_RATIO}"], rows)


if __name__ == "__main__":
    main()
