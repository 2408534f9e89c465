r"""Parameter groups: which tensors get weight decay, and the learning rate of all of them."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

ParamGroups = Iterable[Tensor] | Iterable[dict[str, Any]]  # as `torch.optim` takes them
Params = nn.Module | ParamGroups


def decay_groups(params: Params, weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters into matrices, which decay, and vectors (biases, norm gains), which do not.

    Args:
        params: a module, its parameters, or dictionaries with "params" as `torch.optim` takes them,
            whose other entries are kept; their own "weight_decay" applies to their matrices.
        weight_decay: λ of the matrices.
    """
    groups = []
    for group in _as_groups(params):
        matrices = [p for p in group["params"] if p.dim() > 1]
        vectors = [p for p in group["params"] if p.dim() <= 1]
        decay = group.get("weight_decay", weight_decay)
        groups += [
            {**group, "params": matrices, "weight_decay": decay},
            {**group, "params": vectors, "weight_decay": 0.0},
        ]
    return [group for group in groups if group["params"]]


def parameter_list(params: Params) -> list[Tensor]:
    """Return the tensors of a module or of parameter groups, in order."""
    return [p for group in _as_groups(params) for p in group["params"]]


def _as_groups(params: Params) -> Iterator[dict[str, Any]]:
    if isinstance(params, nn.Module):
        params = params.parameters()
    elif isinstance(params, Tensor):
        raise TypeError(
            f"got a tensor of shape {tuple(params.shape)}; expected a module or an iterable of "
            "parameters; try [tensor]."
        )
    tensors: list[Tensor] = []
    for entry in params:
        if isinstance(entry, Tensor):
            tensors.append(entry)
        elif isinstance(entry, dict):
            inner = entry["params"]
            yield {**entry, "params": [inner] if isinstance(inner, Tensor) else list(inner)}
        else:
            raise TypeError(
                f"got {type(entry).__name__} among the parameters; expected tensors or "
                "dictionaries; try model.parameters() or the model itself."
            )
    if tensors:
        yield {"params": tensors}


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    """Set the learning rate of the next step, for every group: `lr` times its `lr_factor`."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_factor", 1.0)
