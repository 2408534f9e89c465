"""Bidirectional language models fill gaps and never see the token that they predict."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.cli.main import run as saccade
from saccade.errors import ConfigError
from saccade.models.bidirectional_lm import BidirectionalLM
from saccade.models.config import BidirectionalLMConfig
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, train_recipe

VOCAB = 9


def model_of(cell: str, depth: int) -> BidirectionalLM:
    torch.manual_seed(0)
    settings: dict[str, object] = {"cell": cell, "depth": depth}
    config = BidirectionalLMConfig(vocab_size=VOCAB, width=6, dropout=0.0, **settings)
    return BidirectionalLM(config).double().eval()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("depth", [1, 3])
@torch.no_grad()
def test_bidirectional_lm_hides_a_token_from_its_own_state(cell: str, depth: int) -> None:
    model = model_of(cell, depth)
    ids = torch.randint(VOCAB, (1, 7), generator=torch.Generator().manual_seed(1))
    found = model.forward_hidden(ids, None)
    for changed in range(7):
        other = ids.clone()
        other[0, changed] = (other[0, changed] + 1) % VOCAB
        moved = (model.forward_hidden(other, None) - found).abs().amax(dim=-1)[0]
        assert moved[changed] == 0
        assert all(moved[position] > 0 for position in range(7) if position != changed)


@settings(max_examples=10, deadline=None)
@given(lengths=st.lists(st.integers(1, 8), min_size=1, max_size=4))
@torch.no_grad()
def test_bidirectional_lm_is_padding_and_batch_invariant(lengths: list[int]) -> None:
    model = model_of("lstm", 2)
    rows = [torch.arange(length) % VOCAB for length in lengths]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    together = model.forward_hidden(padded, torch.tensor(lengths))
    for row, found in zip(rows, together, strict=True):
        torch.testing.assert_close(found[: len(row)], model.forward_hidden(row[None], None)[0])


def test_gap_filler_learns_and_refuses_to_continue_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["ann", "bob", "cat", "dan"]
    lines = [f"{a} likes {b} and {b} likes {a}" for a in names for b in names] * 20
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines))
    changes = {
        "data.tokenizer.kind": "word",
        "data.segment_length": 16,
        "train.batch_tokens": 512,
        "train.steps": 120,
        "train.learning_rate": 0.01,
        "train.evaluate_every": 60,
        "train.threads": 1,
        "model.width": 32,
    }
    recipe = resolve_recipe(
        "language", data=str(text), model="bidirectional", changes=changes
    ).recipe
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    assert run.evaluate()["accuracy"] > 0.8
    assert "perplexity" not in run.evaluate()
    assert run.predict("ann likes ___ and dan likes ann").text == "ann likes dan and dan likes ann"
    several = run.predict("ann likes ___ and ____ likes ann", n_best=3)
    assert "_" not in several.text and len(several.alternatives) == 2
    again = load_run(tmp_path / "run")
    assert again.predict("bob likes ___").text == run.predict("bob likes ___").text
    with pytest.raises(
        ConfigError, match="input 1: got a text without a gap; a bidirectional model .* both sides"
    ):
        run.predict("ann likes")
    with pytest.raises(ConfigError, match="got beam; expected no decoding options"):
        run.evaluate(beam=2)
    assert saccade(["predict", str(tmp_path / "run"), "ann likes", "--max-new-tokens", "3"]) == 2
    assert "max_new_tokens; a bidirectional model" in capsys.readouterr().err
    findings = run.check(inputs=5)
    assert {finding.verdict for finding in findings if finding.num_inputs} == {"passed"}
