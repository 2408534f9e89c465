"""Attention from its parts: scores, masks, weights, and the weights of a fused module.

python examples/attention_from_parts.py
"""

import torch

from saccade.inspection.attention import capture_attention
from saccade.nn import AdditiveScore, Mask, MultiHeadAttention, ScaledDotScore, attention_weights


def main() -> None:
    """Compare two scores, explain a mask, and capture the weights of a module."""
    torch.manual_seed(1)
    query, key = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 4, 8)

    for score in (ScaledDotScore(), AdditiveScore(8, 8, hidden=16)):
        weights = attention_weights(score(query, key))
        print(f"{type(score).__name__:14} {[round(w, 2) for w in weights[0, 0, 0].tolist()]}")

    mask = Mask.causal() & Mask.lengths([3, 4])
    print(mask.explain(query=1, key=2))
    print(mask.explain(query=3, key=3))

    attention = MultiHeadAttention(width=8, heads=2)
    x = torch.randn(2, 4, 8)
    with capture_attention(attention) as recorder:
        attention(x, mask=mask)  # the fused kernel computes the result
    for name in recorder.names():
        weights = recorder.weights(name)
        print(f"{name}: shape {tuple(weights.shape)}, rows sum to {weights[1].sum(-1).mean():.2f}")


if __name__ == "__main__":
    main()
