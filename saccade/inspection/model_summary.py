r"""Layers of a model with output shape, parameters, multiply-adds and receptive field.

    convolution    Y X D · (C / g) U W multiply-adds: outputs times taps of one output
    linear         outputs times inputs
    attention      2 H T S K: scores and weighted values
    r = r_in + (k - 1) δ j_in,   j = s j_in     receptive field and step of a layer, in pixels

r is the side of the square of input pixels that a value can depend on, and may exceed the image;
j is the distance in the image of two neighbours of the layer. Biases, norms, activations and
pooling are not counted among the multiply-adds, as is usual. The model runs on torch's meta device:
nothing is computed, and a model built there (`with torch.device("meta")`) needs no memory.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from saccade.nn.convolution import StochasticPool2d
from saccade.nn.functional import Attention
from saccade.nn.meta import run_on_meta

WINDOWED = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d, StochasticPool2d)


class LayerSummary(NamedTuple):
    """One call of one layer."""

    name: str
    kind: str
    output_shape: tuple[int, ...]  # of one row of the batch
    parameters: int
    multiply_adds: int  # of one row of the batch
    receptive_field: int | None  # side in pixels; None: the whole input


class ModelSummary(NamedTuple):
    """The layers of a model in the order of their calls, and totals."""

    layers: list[LayerSummary]
    parameters: int
    multiply_adds: int


def summarise_model(model: nn.Module, *example: Tensor) -> ModelSummary:
    """Return the layers that a forward pass calls; containers and identities are left out.

    Args:
        model: any model of layers with names.
        example: inputs of its `forward`, of which only shapes and types are used.
    """
    layers: list[LayerSummary] = []
    fields = _FieldTracker()

    def record(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if not isinstance(output, Tensor):
                return
            fields.apply_layer(module, inputs, output)
            layers.append(
                LayerSummary(
                    name,
                    type(module).__name__,
                    tuple(output.shape[1:]),
                    sum(parameter.numel() for parameter in module.parameters()),
                    _multiply_adds(module, inputs, output),
                    fields.field_of(output),
                )
            )

        return hook

    handles = [
        module.register_forward_hook(record(name))
        for name, module in model.named_modules()
        if not isinstance(module, nn.Identity)
        and (isinstance(module, Attention) or not list(module.children()))
    ]
    was_training = model.training
    model.eval()
    try:
        with fields:
            run_on_meta(model, *example)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    total = sum(layer.multiply_adds for layer in layers)
    return ModelSummary(layers, sum(p.numel() for p in model.parameters()), total)


def _multiply_adds(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> int:
    """Return the multiply-adds of one row of the batch."""
    outputs = output[0].numel()
    if isinstance(module, nn.Conv2d):
        return outputs * module.weight[0].numel()
    if isinstance(module, nn.Linear):
        return outputs * module.in_features
    if isinstance(module, Attention):
        _, heads, queries, width = inputs[0].shape
        keys = inputs[1].shape[-2]
        return heads * queries * keys * (width + output.shape[-1])
    return 0


class _Field(NamedTuple):
    """The receptive field of the values of a tensor; None: the whole input."""

    size: int | None
    step: int


class _FieldTracker(TorchFunctionMode):
    """Receptive fields of tensors during a forward pass.

    A function of several tensors has the largest field among them; layers that read more than one
    position are handled by `apply_layer`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[int, tuple[_Field, Tensor]] = {}  # tensors are kept: ids are not reused

    def field_of(self, tensor: Tensor) -> int | None:
        """Return the side of the receptive field in pixels; None: the whole input."""
        return self._get(tensor).size

    def _get(self, tensor: Tensor) -> _Field:
        known = self.fields.get(id(tensor))
        return known[0] if known else _Field(1, 1)

    def _set(self, tensor: Tensor, field: _Field) -> None:
        self.fields[id(tensor)] = (field, tensor)

    def _merged(self, read: list[Tensor], is_pooled: bool) -> _Field:
        """Return the largest field; a grid reduced to one vector has the whole input."""
        fields = [self._get(tensor) for tensor in read]
        sizes = [field.size for field in fields]
        step = max(field.step for field in fields)
        if None in sizes or (is_pooled and any(tensor.dim() == 4 for tensor in read)):
            return _Field(None, step)
        return _Field(max(size for size in sizes if size is not None), step)

    def apply_layer(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Widen the field of the output of a layer that reads several positions."""
        if isinstance(module, WINDOWED):
            field = self._get(inputs[0])
            kernel, stride, dilation = (
                _side(getattr(module, name, 1)) for name in ("kernel_size", "stride", "dilation")
            )
            if field.size is not None:
                size = field.size + (kernel - 1) * dilation * field.step
                self._set(output, _Field(size, field.step * stride))
        elif isinstance(module, nn.AdaptiveAvgPool2d):
            field, pixels, cells = self._get(inputs[0]), inputs[0].shape[-1], output.shape[-1]
            if cells == 1:
                self._set(output, _Field(None, field.step))
            elif field.size is not None:
                size = field.size + (-(-pixels // cells) - 1) * field.step
                self._set(output, _Field(size, field.step * max(pixels // cells, 1)))
        elif isinstance(module, Attention) or (isinstance(module, nn.Linear) and output.dim() == 2):
            self._set(output, _Field(None, 1))

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        read = [
            leaf
            for leaf in tree_leaves((arguments, dict(keywords)))
            if isinstance(leaf, Tensor) and id(leaf) in self.fields
        ]
        for leaf in tree_leaves(result):
            if read and isinstance(leaf, Tensor):
                self._set(leaf, self._merged(read, is_pooled=leaf.dim() <= 2))
        return result


def _side(value: int | tuple[int, ...]) -> int:
    """Return the larger of two sides, or the one number for both."""
    return value if isinstance(value, int) else max(value)
