r"""What is taken off, or divided out of, the score of a hypothesis."""


def length_penalty(length: int, alpha: float) -> float:
    r"""((5 + length) / 6)^α; a score is the log-probability divided by it.

    Wu et al. 2016, eq. 14. α = 0 leaves the log-probability as it is, larger α favours longer
    answers. The length counts the end mark.
    """
    return ((5.0 + length) / 6.0) ** alpha
