"""Attention from its parts: a score, a mask, the weights; and the fused kernel, watched.

python examples/attention_from_parts.py
"""

import torch

from saccade.inspection.attention import capture_attention
from saccade.nn import AdditiveScore, Mask, MultiHeadAttention, ScaledDotScore, attention_weights


def main() -> None:
    """Two scores on the same queries and keys, a mask that explains itself, a watched module."""
    torch.manual_seed(1)
    query, key = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 4, 8)

    for score in (ScaledDotScore(), AdditiveScore(8, 8, hidden=16)):
        table = attention_weights(score(query, key))
        print(f"{type(score).__name__:10} {[round(w, 2) for w in table[0, 0, 0].tolist()]}")

    mask = Mask.causal() & Mask.lengths(torch.tensor([3, 4]))
    print(mask.explain(query=1, key=2))
    print(mask.explain(query=3, key=3))

    attention = MultiHeadAttention(width=8, heads=2)
    x = torch.randn(2, 4, 8)
    with capture_attention(attention) as seen:
        attention(x, attention.project_kv(x), mask)
    for name in seen.names():
        print(
            name,
            tuple(seen.weights(name).shape),
            "rows sum to",
            seen.weights(name)[1].sum(-1).mean(),
        )


if __name__ == "__main__":
    main()
