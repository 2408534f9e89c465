"""The hypotheses of a beam search as a tree, and the best sequences of an exhaustive search."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from saccade.decoding.beam import beam_search
from saccade.decoding.exhaustive import exhaustive_search
from saccade.decoding.greedy import Hypothesis
from saccade.decoding.protocol import AutoregressiveModel, SpecialTokens
from saccade.inspection.figures import Tree, TreeNode

Ids = tuple[int, ...]


class SearchProblem(NamedTuple):
    """One input of a model that generates tokens, ready for a search."""

    model: AutoregressiveModel
    memory: Callable[[], Any]  # makes the input of `model.init_state`, one row
    special_tokens: SpecialTokens
    max_length: int
    device: torch.device
    display: Callable[[Sequence[int]], list[str]]  # ids → a text for each
    decode: Callable[[Sequence[int]], str]


class SearchResult(NamedTuple):
    """Hypotheses of a search, best first, and the tree of all that the beam kept for a step."""

    tree: Tree
    hypotheses: list[Hypothesis]
    best: list[Hypothesis]  # of an exhaustive search; empty: there was none


def trace_beam(
    problem: SearchProblem, width: int, length_penalty: float, exhaustive: bool = False
) -> SearchResult:
    """Search with a beam and record every continuation that it kept for at least one step.

    A node has the log-probability of the sequence up to it; nodes that are in no finished
    hypothesis were pruned. `exhaustive` searches all sequences as well, for comparison.
    """
    totals: dict[Ids, float] = {}

    def record(example: int, ids: Ids, total: float) -> None:
        totals[ids] = total

    options: dict[str, Any] = {
        "special_tokens": problem.special_tokens,
        "max_lengths": torch.tensor([problem.max_length], device=problem.device),
        "length_penalty": length_penalty,
    }
    with torch.inference_mode():
        [hypotheses] = beam_search(
            problem.model,
            problem.memory(),
            width=width,
            n_best=width,
            on_candidate=record,
            **options,
        )
        best: list[Hypothesis] = []
        if exhaustive:
            [best] = exhaustive_search(problem.model, problem.memory(), n_best=width, **options)
    tree = hypothesis_tree(totals, hypotheses, problem)
    return SearchResult(tree, hypotheses, best)


def hypothesis_tree(
    totals: dict[Ids, float], hypotheses: Sequence[Hypothesis], problem: SearchProblem
) -> Tree:
    """Return the tree of sequences with their log-probabilities; bos is the root."""
    eos = problem.special_tokens.eos
    ended = [(*h.ids, eos) if h.finished else tuple(h.ids) for h in hypotheses]
    kept = {ids[:end] for ids in ended for end in range(len(ids) + 1)}
    ranks = {ids: rank for rank, ids in enumerate(ended, start=1)}
    sequences = sorted(totals, key=lambda ids: (len(ids), -totals[ids]))
    index: dict[Ids, int] = {(): 0}
    nodes = [TreeNode(-1, "start")]
    for ids in sequences:
        index[ids] = len(nodes)
        note = f"{totals[ids]:.2f}"
        if ids in ranks:
            note += f"  #{ranks[ids]}"
        [label] = problem.display([ids[-1]])
        nodes.append(TreeNode(index[ids[:-1]], label, note, ids in kept))
    title = f"{len(totals)} sequences; log-probabilities; #1 is the best, grey or × was pruned"
    return Tree(nodes, title)
