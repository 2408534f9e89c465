r"""Prefix codes: mean length of a code, Huffman's code, and entropy as its lower bound. No torch.

With p the probability of a symbol and |c| the length of its code word, the mean length is
L = Σ p |c|. No prefix code is shorter than the entropy H = −Σ p log₂ p (Shannon 1948), and that of
Huffman (1952) is the shortest one: H ≤ L < H + 1.
"""

from collections.abc import Mapping

import numpy as np

from saccade.estimators.word_vectors.sampling import huffman_paths


def huffman_code(weights: Mapping[str, float]) -> dict[str, str]:
    """Return the code word of each symbol, as a text of 0 and 1."""
    values = _checked(weights)
    if len(values) == 1:
        return dict.fromkeys(weights, "0")  # a tree without inner node has no bit
    paths = huffman_paths(values)
    bits = paths.code_bits.astype(int)
    return {
        symbol: "".join(map(str, bits[start:end]))
        for symbol, start, end in zip(weights, paths.starts[:-1], paths.starts[1:], strict=True)
    }


def mean_code_length(code: Mapping[str, str], weights: Mapping[str, float]) -> float:
    """Return the mean number of bits per symbol of a prefix code, weights being normalised."""
    values = _checked(weights)
    if code.keys() != weights.keys():
        missing = sorted(code.keys() ^ weights.keys())
        raise ValueError(f"got a code and weights of other symbols: {', '.join(missing)}.")
    check_prefix_code(code)
    lengths = np.array([len(code[symbol]) for symbol in weights])
    return float(lengths @ values / values.sum())


def check_prefix_code(code: Mapping[str, str]) -> None:
    """Raise ValueError if a code word is not of 0 and 1, or the start of another one."""
    for symbol, word in code.items():
        if not word or set(word) - {"0", "1"}:
            raise ValueError(f"got the code word {word!r} of {symbol!r}; expected 0s and 1s.")
    words = sorted(code.items(), key=lambda item: item[1])
    for (symbol, word), (other, longer) in zip(words, words[1:], strict=False):
        if longer.startswith(word):
            raise ValueError(
                f"got {word} for {symbol!r} and {longer} for {other!r}; expected a prefix code, in "
                "which no word is the start of another one."
            )


def entropy_bits(weights: Mapping[str, float]) -> float:
    r"""Return H = −Σ p log₂ p of normalised weights."""
    values = _checked(weights)
    p = values[values > 0] / values.sum()
    return float(-(p * np.log2(p)).sum())


def _checked(weights: Mapping[str, float]) -> np.ndarray:
    values = np.array(list(weights.values()), np.float64)
    if not len(values) or not np.isfinite(values).all() or (values < 0).any() or not values.sum():
        raise ValueError("got no weights, or not finite or negative ones; expected some above 0.")
    return values
