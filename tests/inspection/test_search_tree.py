"""The tree of a beam against log-probabilities of every prefix, and exhaustive search."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from saccade.decoding import PromptedDecoder, SpecialTokens
from saccade.estimators.ngram.model import NGram
from saccade.inspection.search_tree import SearchProblem, trace_beam

EOS = 0


@pytest.fixture
def problem() -> SearchProblem:
    ids = np.random.default_rng(3).integers(0, 5, 300)
    model = NGram(2, 5, "laplace").fit(ids)
    return SearchProblem(
        PromptedDecoder(model),
        lambda: torch.tensor([[2]]),
        SpecialTokens(EOS, EOS, ()),
        3,
        torch.device("cpu"),
        lambda some: [f"t{one}" for one in some],
        lambda some: " ".join(map(str, some)),
    )


def log_probability(problem: SearchProblem, ids: tuple[int, ...]) -> float:
    model = problem.model.model
    pairs = zip((2, *ids), ids, strict=False)
    return sum(math.log(model.distribution([before])[token]) for before, token in pairs)


def test_every_node_has_the_log_probability_of_its_sequence(problem: SearchProblem) -> None:
    found = trace_beam(problem, 3, 0.0)
    nodes = found.tree.nodes
    sequences: list[tuple[int, ...]] = [()]
    for node in nodes[1:]:
        sequences.append((*sequences[node.parent], int(node.label[1:])))
        expected = log_probability(problem, sequences[-1])
        assert float(node.note.split()[0]) == pytest.approx(expected, abs=0.006)
    first = [node for node in nodes if node.parent == 0]
    best = sorted((log_probability(problem, (token,)) for token in range(5)), reverse=True)[:3]
    assert [float(node.note.split()[0]) for node in first] == pytest.approx(best, abs=0.006)
    assert sum("#" in node.note for node in nodes) == len(found.hypotheses) == 3
    ended = {(*one.ids, EOS) if one.finished else tuple(one.ids) for one in found.hypotheses}
    for node, ids in zip(nodes, sequences, strict=True):
        assert node.kept == any(one[: len(ids)] == ids for one in ended)


def test_exhaustive_search_finds_the_best_of_all_sequences(problem: SearchProblem) -> None:
    found = trace_beam(problem, 2, 0.0, exhaustive=True)
    ended = [(*ids, EOS) for size in (0, 1, 2) for ids in product(range(1, 5), repeat=size)]
    every = [*ended, *product(range(1, 5), repeat=3)]
    best = max(every, key=lambda ids: log_probability(problem, ids))
    assert found.best[0].log_probability == pytest.approx(log_probability(problem, best))
    assert found.best[0].log_probability >= found.hypotheses[0].log_probability
    with pytest.raises(ValueError, match="expected at most 1,000,000"):
        trace_beam(problem._replace(max_length=40), 2, 0.0, exhaustive=True)
