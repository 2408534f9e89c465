r"""Batch normalisation folded into the layer before it, for inference.

    γ (W x + b - μ) / √(σ² + ε) + β = W' x + b'
    W' = γ / √(σ² + ε) W,   b' = γ / √(σ² + ε) (b - μ) + β

In inference μ and σ² are constants, so that a convolution or linear layer followed by batch norm is
one layer of the same kind (Jacob et al. 2018, section 3.2). Which pairs follow one another is
observed in a forward pass on torch's meta device, without values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from saccade.nn.meta import run_on_meta

# a layer with a `forward` of its own may not add its bias
FOLDABLE = {kind.forward for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)}


def fold_batch_norm(model: nn.Module, *example: Tensor) -> nn.Module:
    """Return a copy of a model in evaluation mode, with each batch norm that can be in its layer.

    A norm is folded if its only input is the output of one convolution or linear layer that nothing
    else reads; others (before the convolution, as in DenseNet) stay. The copy is for inference
    only. It has no memory of its own but for the layers with a folded norm: the weights of the
    others are the model's.

    Args:
        model: any model with layers of torch.
        example: inputs of its `forward`, of which only shapes and types are used.
    """
    shared: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=False)
        for weight in model.parameters()
    }
    shared |= {id(buffer): buffer.detach() for buffer in model.buffers()}
    folded = deepcopy(model, shared).eval()
    layers = dict(folded.named_modules())
    for norm_name, layer_name in _observe_pairs(folded, example).items():
        layer, norm = layers[layer_name], layers[norm_name]
        fuse = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
        folded.set_submodule(layer_name, fuse(layer, norm))
        folded.set_submodule(norm_name, nn.Identity())
    return folded


def _observe_pairs(model: nn.Module, example: Iterable[Tensor]) -> dict[str, str]:
    """Return the layer that each foldable norm follows, by the norm's name."""
    observer = _InputObserver()
    handles = []
    for name, module in model.named_modules():
        if type(module).forward in FOLDABLE:
            handles.append(module.register_forward_hook(observer.layer_hook(name)))
        elif isinstance(module, _BatchNorm) and module.running_mean is not None:
            handles.append(module.register_forward_pre_hook(observer.norm_hook(name)))
    try:
        with observer:
            output = run_on_meta(model, *example)
    finally:
        for handle in handles:
            handle.remove()
    observer.count_reads(tree_leaves(output))
    return observer.foldable_pairs()


class _InputObserver(TorchFunctionMode):
    """Records which layer's output each norm reads, and how many functions read that output."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[int, tuple[str, Tensor]] = {}  # tensors are kept: an id is not reused
        self.reads: Counter[int] = Counter()
        self.calls: Counter[str] = Counter()
        self.pairs: dict[str, int] = {}

    def layer_hook(self, name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            self.outputs[id(output)] = (name, output)
            self.reads[id(output)] = 0  # an earlier tensor may have had this id
            self.calls[name] += 1

        return hook

    def norm_hook(self, name: str) -> Callable[[nn.Module, Any], None]:
        def hook(module: nn.Module, inputs: Any) -> None:
            self.calls[name] += 1
            if id(inputs[0]) in self.outputs:
                self.pairs[name] = id(inputs[0])

        return hook

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):  # not a shape or dtype
            self.count_reads(tree_leaves((arguments, dict(keywords))))
        return result

    def count_reads(self, values: Iterable[Any]) -> None:
        """Count tensors that a function, or the caller of the model, receives."""
        self.reads.update(id(value) for value in values if isinstance(value, Tensor))

    def foldable_pairs(self) -> dict[str, str]:
        """Return the pairs in which both are called once and nothing else reads the output."""
        return {
            norm: self.outputs[key][0]
            for norm, key in self.pairs.items()
            if self.reads[key] == 1
            and self.calls[norm] == 1
            and self.calls[self.outputs[key][0]] == 1
        }
