"""The search for one prediction: as a tree, in a terminal, as JSON."""

from typing import Any

from saccade.decoding.greedy import Hypothesis
from saccade.inspection.figures import Tree
from saccade.inspection.search_tree import SearchProblem, SearchResult
from saccade.plots.figure_json import figure_to_json
from saccade.runs.picture import Picture


class SearchTree(Picture):
    """The hypotheses of a beam for one input, and those of an exhaustive search if there was one.

    `hypotheses` and `exhaustive` are texts with their score and log-probability, best first.
    """

    def __init__(self, source: str, result: SearchResult, problem: SearchProblem):
        self.source, self.tree = source, result.tree
        self.hypotheses = [_values(one, problem) for one in result.hypotheses]
        self.exhaustive = [_values(one, problem) for one in result.best]

    def __repr__(self) -> str:
        return f"SearchTree({self.source!r}, {len(self.hypotheses)} hypotheses)"

    def figure(self) -> Tree:
        """Return the data of the picture."""
        return self.tree

    def terminal(self) -> str:
        """Return the tree as text for a terminal."""
        from saccade.plots.figure_text import render_tree

        return render_tree(self.tree)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "source": self.source,
            "hypotheses": self.hypotheses,
            "exhaustive": self.exhaustive,
            "tree": figure_to_json(self.tree),
        }


def _values(hypothesis: Hypothesis, problem: SearchProblem) -> dict[str, Any]:
    return {
        "text": problem.decode(hypothesis.ids),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "finished": hypothesis.finished,
    }
