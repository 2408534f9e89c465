"""Forward passes on torch's meta device: shapes and types without values or memory."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


def run_on_meta(module: nn.Module, *inputs: Tensor) -> Any:
    """Return the outputs of a module for inputs of these shapes and types, on the meta device.

    The module stays on its device; hooks run.
    """
    tensors = {
        name: torch.empty_like(tensor, device="meta")
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }
    with torch.no_grad():
        return functional_call(
            module, tensors, tuple(torch.empty_like(x, device="meta") for x in inputs)
        )
