"""Batch norm folded into the layer before it: the same outputs, and only where that is right."""

import torch
from torch import Tensor, nn

from saccade.nn.norm_folding import fold_batch_norm


class Forked(nn.Module):
    """A convolution whose output is read twice, one that is used twice, one after its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.forked, self.forked_norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.shared, self.shared_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.norm_first = nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1, groups=2))
        self.dense = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.plain(x)
        y = self.forked(x)
        x = y + self.forked_norm(y)
        x = self.shared_norm(self.shared(x)) + self.shared(x)
        return self.dense(self.norm_first(x).mean((2, 3)))


def trained(model: nn.Module) -> nn.Module:
    """Return the model with random gains, biases and running statistics."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and tensor.dim() == 1:
            if name.endswith("running_var"):
                nn.init.uniform_(tensor, 0.5, 2.0)
            else:
                nn.init.normal_(tensor, 0.5, 0.5)
    return model.eval()


def norms(model: nn.Module) -> set[str]:
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    return {name for name, module in model.named_modules() if isinstance(module, kinds)}


def test_only_norms_that_alone_read_a_layer_are_folded() -> None:
    model, x = trained(Forked()), torch.randn(2, 3, 6, 6)
    folded = fold_batch_norm(model, x)
    assert norms(folded) == {"forked_norm", "shared_norm", "norm_first.0"}
    assert norms(model) == norms(folded) | {"plain.1", "dense.1"}
    torch.testing.assert_close(folded(x), model(x), rtol=1e-5, atol=1e-5)


def test_folding_leaves_the_model_as_it_was() -> None:
    model, x = trained(Forked()).train(), torch.randn(2, 3, 6, 6)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    folded = fold_batch_norm(model, x)
    assert model.training and not folded.training
    assert not any(module._forward_hooks for module in (*model.modules(), *folded.modules()))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_copy_shares_the_weights_of_layers_without_a_folded_norm() -> None:
    model, x = trained(Forked()), torch.randn(2, 3, 6, 6)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    folded = fold_batch_norm(model, x)
    own = {tensor.data_ptr() for tensor in model.state_dict().values()}
    shared = {name for name, t in folded.state_dict().items() if t.data_ptr() in own}
    assert {"forked.weight", "shared.bias", "shared_norm.running_var"} <= shared
    assert not any(name.startswith(("plain", "dense")) for name in shared)
    folded.double()  # converts the copy only
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_layer_with_a_forward_of_its_own_is_not_folded() -> None:
    class WithoutBias(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            return nn.functional.conv2d(input, self.weight)

    model, x = (
        trained(nn.Sequential(WithoutBias(1, 2, 1), nn.BatchNorm2d(2))),
        torch.ones(1, 1, 2, 2),
    )
    torch.testing.assert_close(fold_batch_norm(model, x)(x), model(x))


def test_output_that_is_returned_too_is_not_folded() -> None:
    class TwoOutputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = self.layer(x)
            return y, self.norm(y)

    model, x = trained(TwoOutputs()), torch.randn(1, 1, 2, 2)
    folded = fold_batch_norm(model, x)
    assert norms(folded) == {"norm"}
    torch.testing.assert_close(folded(x), model(x))
