"""The slope that backward gives is the slope there is: finite differences of the whole loss."""

import pytest
import torch

from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)
from saccade.nn import cross_entropy

SIZES = {"source_vocab_size": 5, "target_vocab_size": 5, "width": 4, "dropout": 0.0}
MODELS = {
    "seq2seq-gru": lambda: Seq2Seq(Seq2SeqConfig(**SIZES)),
    "seq2seq-lstm-2": lambda: Seq2Seq(Seq2SeqConfig(**SIZES, cell="lstm", depth=2)),
    "bahdanau-gru-2": lambda: Bahdanau(BahdanauConfig(**SIZES, depth=2)),
    "bahdanau-lstm": lambda: Bahdanau(BahdanauConfig(**SIZES, cell="lstm")),
    **{
        f"transformer-{score}-{'pre' if first else 'post'}": (
            lambda score=score, first=first, positions=positions, shared=shared: Transformer(
                TransformerConfig(
                    **SIZES,
                    depth=1,
                    heads=2,
                    hidden=6,
                    score=score,
                    norm_first=first,
                    positions=positions,
                    shared_vocab=shared,
                    max_positions=4,
                )
            )
        )
        for score, first, positions, shared in [
            ("scaled_dot", True, "sinusoidal", False),
            ("scaled_dot", False, "learned", True),
            ("dot", True, "learned", False),
            ("additive", False, "sinusoidal", True),
        ]
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_models_loss_gradient_equals_finite_difference(name):
    """In every direction of each parameter tensor, padded rows and positions that do not count."""
    model = MODELS[name]().double()
    with torch.no_grad():
        for parameter in model.parameters():  # off the symmetric start, and off relu's corner
            parameter.add_(0.2 * torch.randn_like(parameter))
    source, lengths = torch.tensor([[3, 4, 2], [4, 2, 0]]), torch.tensor([3, 2])
    target_in = torch.tensor([[1, 3, 4], [1, 4, 0]])
    real, target_out = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([3, 4, 2, 4, 2])
    parameters = dict(model.named_parameters())

    def loss(*values):
        own = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(
            _Loss(model),
            {f"model.{k}": v for k, v in own.items()},
            (source, lengths, target_in, real, target_out),
        )

    values = tuple(p.detach().clone().requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(loss, values, fast_mode=True, eps=1e-6, atol=1e-6, rtol=1e-4)
    used = torch.autograd.grad(loss(*values), values, allow_unused=True)
    unused = [name for name, slope in zip(parameters, used, strict=True) if slope is None]
    assert not unused


class _Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source, lengths, target_in, real, target_out):
        state = self.model.init_state(self.model.encode(source, lengths))
        hidden, _ = self.model.decode_hidden(target_in, state)
        logits = self.model.compute_logits(hidden.flatten(0, 1)[real])
        return cross_entropy(logits, target_out, label_smoothing=0.1, reduction="sum")
