import json
import math

import numpy as np
import pytest
import torch

from saccade.cli.main import run as command
from saccade.errors import ConfigError, RunError
from saccade.inspection import invariants
from saccade.nn.pruning import count_heads, masked_heads, prune_heads
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.translation.predict import TRANSLATION_SPECIAL_TOKENS
from saccade.types.progress import ignore_progress
from saccade.types.results import Evaluation
from saccade.workflows import prune
from saccade.workflows.prune import (
    PRUNE_METRICS,
    attention_variance,
    is_within_tolerance,
    score_heads,
    time_runs,
)

LEARNED = {
    "model.width": 16,
    "model.heads": 4,
    "model.depth": 1,
    "model.dropout": 0.0,
    "train.steps": 80,
    "train.learning_rate": 5e-3,
    "train.batch_tokens": 512,
    "train.warmup": 10,
    "train.evaluate_every": 80,
}


@pytest.fixture(scope="module")
def learned(smallest, tmp_path_factory):
    """A transformer that has learned something, to be read and never written to."""
    folder = tmp_path_factory.mktemp("learned") / "run"
    train_recipe(smallest("transformer", LEARNED), folder, TrainOptions())
    return folder


@pytest.fixture(scope="module")
def pruned(learned, tmp_path_factory):
    messages = []
    out = tmp_path_factory.mktemp("pruned") / "smaller"
    run = load_run(learned)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    found = prune(run, out=out, tolerance=0.4, on_progress=lambda *what: messages.append(what))
    assert messages and all(done <= total or total == 0 for _, done, total in messages)
    for name, tensor in run.model.state_dict().items():  # what was opened stays as it was
        assert torch.equal(tensor, before[name])
    return found


def off_by_name(found):
    """Removed heads by their names in the model."""
    names = {"encoder": "encoder.{}.self_attention", "decoder": "decoder.{}.self_attention"}
    names["cross"] = "decoder.{}.source_attention"
    off = {}
    for head in found.heads:
        if head.is_pruned:
            name = names[head.kind].format(head.layer - 1)
            off.setdefault(name, []).append(head.head - 1)
    return off


def test_pruned_run_equals_masked_run(learned, pruned):
    whole, smaller = load_run(learned), load_run(pruned.folder)
    off = off_by_name(pruned)
    assert off and smaller.recipe.model.pruned_heads == off
    example = whole.inspector.example(whole.split("test"), np.arange(4))
    for dtype, near in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        logits = []
        for run in (whole, smaller):
            model = run.model.to(dtype)
            with torch.no_grad(), masked_heads(model, off if run is whole else {}):
                state = model.init_state(model.encode(example.source, example.lengths))
                logits.append(model.step(example.target, state)[0])
        torch.testing.assert_close(*logits, atol=near, rtol=near)


def test_pruned_heads_are_removed(learned, pruned):
    whole, smaller = load_run(learned), load_run(pruned.folder)
    out = sum(head.is_pruned for head in pruned.heads)
    assert len(pruned.heads) == pruned.before.heads == 3 * 4
    assert pruned.after.heads == 12 - out == sum(count_heads(smaller.model).values())
    # W_q, W_k, W_v with their biases and W_o have so many numbers for one head of width 4
    assert whole.parameters - smaller.parameters == out * (4 * 16 * 4 + 3 * 4)
    assert pruned.after.parameters == smaller.parameters
    assert min(count_heads(smaller.model).values()) >= 1
    assert pruned.after.test["loss"] == pytest.approx(smaller.evaluate()["loss"])
    assert pruned.before.test["loss"] == pytest.approx(whole.evaluate()["loss"])
    assert pruned.before.milliseconds > 0 and pruned.after.milliseconds > 0


def test_prune_keeps_dev_scores(learned, pruned):
    whole, smaller = load_run(learned), load_run(pruned.folder)
    before, after = (run.evaluate(split="dev") for run in (whole, smaller))
    assert pruned.dev["chrf"] == pytest.approx(before["chrf"])
    assert is_within_tolerance(before, after, 0.4)
    head = pruned.heads[5]
    assert (head.kind, head.layer, head.head) == ("decoder", 1, 2)
    with masked_heads(whole.model, {"decoder.0.self_attention": [1]}):
        without = whole.evaluate(split="dev")
    assert head.loss == pytest.approx(without["loss"])
    assert head.scores == pytest.approx({name: without[name] for name in PRUNE_METRICS})
    for head in pruned.heads:  # what alone loses too much is kept
        if not is_within_tolerance(pruned.dev, head.scores, 0.4):
            assert not head.is_pruned and head.verdict == "kept"


def test_pruned_run_can_be_used(pruned, tmp_path):
    run = load_run(pruned.folder)
    assert run.predict("abc").text == load_run(pruned.folder).predict("abc").text
    counts = count_heads(run.model)
    maps = run.look("abc", answer="cba", kind="encoder").maps
    assert len(maps) == counts["encoder.0.self_attention"]
    model, output = run.model, run.inspector.example(run.split("test"), np.arange(4))
    findings = [
        invariants.padding_invariance(model, output),
        invariants.batch_invariance(model, output),
        invariants.causality(model, output, run.preprocessor.target.vocab_size),
        invariants.cache_consistency(model, output),
        invariants.beam1_is_greedy(model, output, TRANSLATION_SPECIAL_TOKENS, 5),
        invariants.beam_score_consistency(model, output, TRANSLATION_SPECIAL_TOKENS, 5),
        invariants.kernel_parity(model, output),
    ]
    assert all(finding.passed for finding in findings), findings
    run.save(tmp_path / "copy")
    assert load_run(tmp_path / "copy").recipe.model.pruned_heads == run.recipe.model.pruned_heads


def test_prune_twice_numbers_heads_of_the_original(learned, pruned, tmp_path, capsys):
    out = tmp_path / "again"
    command(["prune", str(pruned.folder), "--out", str(out), "--tolerance", "0.9", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["run"] == str(out) and len(result["heads"]) == pruned.after.heads
    smaller, before = load_run(out), load_run(pruned.folder).recipe.model.pruned_heads
    now = smaller.recipe.model.pruned_heads
    assert sum(map(len, now.values())) > sum(map(len, before.values()))
    assert all(set(heads) <= set(now[name]) for name, heads in before.items())
    cut = load_run(learned).model
    prune_heads(cut, now)
    for name, tensor in smaller.model.state_dict().items():
        assert torch.equal(tensor, cut.state_dict()[name]), name


def test_pruned_run_can_be_trained(smallest, pruned, tmp_path):
    recipe = smallest("transformer", {**LEARNED, "train.steps": 2})
    trained = train_recipe(recipe, tmp_path / "more", TrainOptions(init_from=pruned.folder))
    assert (
        trained.run.recipe.model.pruned_heads == load_run(pruned.folder).recipe.model.pruned_heads
    )
    assert trained.run.parameters == pruned.after.parameters


# --- the three steps --------------------------------------------------------------------------


def test_attention_variance_by_the_equation():
    weights = torch.rand(2, 3, 4, 5, dtype=torch.float64)
    may_see = torch.rand(2, 1, 4, 5) < 0.6
    may_see[..., 0] = True
    weights = weights * may_see
    weights = weights / weights.sum(dim=-1, keepdim=True)
    found = attention_variance(weights, may_see)
    for b, h, t in np.ndindex(2, 3, 4):
        seen = [float(weights[b, h, t, j]) for j in range(5) if may_see[b, 0, t, j]]
        mean = sum(seen) / len(seen)
        assert math.isclose(
            found[b, h, t], sum((w - mean) ** 2 for w in seen) / len(seen), abs_tol=1e-12
        )
    alike = may_see / may_see.sum(dim=-1, keepdim=True)
    assert attention_variance(alike.double(), may_see).abs().max() < 1e-12
    every = torch.ones_like(may_see)
    torch.testing.assert_close(
        attention_variance(weights, None), attention_variance(weights, every)
    )


def test_score_heads_ignores_padding(learned):
    run = load_run(learned)
    run.model.double()
    assert any(batch.target_positions is not None for batch in objective_of(run).batches("dev", 0))
    together = score_heads(run, ignore_progress)
    one_pair_per_batch(run)  # without padding
    alone = score_heads(run, ignore_progress)
    for one, other in zip(together, alone, strict=True):
        assert set(one) == set(count_heads(run.model))
        for name in one:
            assert one[name] == pytest.approx(other[name], rel=1e-9), name


def objective_of(run):
    return run.components.objective(run.recipe, run.model, run.preprocessor, run.data().splits)


def one_pair_per_batch(run):
    settings = run.recipe.train.with_values(batch_tokens=1)
    run.recipe = run.recipe.with_values(train=settings.model_dump())


def test_score_heads_gradient(learned):
    run = load_run(learned)
    run.model.double()
    _, gradients = score_heads(run, ignore_progress)
    name, head, nudge = "decoder.0.source_attention", 2, 1e-5
    out = run.model.get_submodule(name).out
    columns = slice(4 * head, 4 * head + 4)
    one_pair_per_batch(run)
    objective = objective_of(run)
    total = tokens = 0.0
    with torch.no_grad():
        kept = out.weight[:, columns].clone()
        for batch in objective.batches("dev", 0):
            losses = []
            for sign in (1, -1):  # ξ_h = 1 ± nudge
                out.weight[:, columns] = kept * (1 + sign * nudge)
                losses.append(float(objective.loss(batch).total))
            total += abs(losses[0] - losses[1]) / (2 * nudge)
            tokens += batch.tokens
    assert gradients[name][head] == pytest.approx(total / tokens, rel=1e-5)


def test_is_within_tolerance_checks_every_score():
    whole = {"loss": 1.0, "exact": 0.8, "chrf": 90.0}
    assert is_within_tolerance(whole, {"loss": 9.0, "exact": 0.8, "chrf": 89.6}, 0.005)
    assert not is_within_tolerance(whole, {"loss": 1.0, "exact": 0.79, "chrf": 90.0}, 0.005)
    assert not is_within_tolerance(whole, {"loss": 1.0, "exact": 0.8, "chrf": 89.5}, 0.005)
    assert is_within_tolerance({"loss": 1.0}, {"loss": 1.004}, 0.005)
    assert not is_within_tolerance({"loss": 1.0}, {"loss": 1.006}, 0.005)


# --- what is refused, and the command ---------------------------------------------------------


def test_prune_errors(learned, trained_runs, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="got the model bahdanau; expected a transformer"):
        prune(trained_runs["bahdanau"], out=tmp_path / "new")
    with pytest.raises(ConfigError, match="got a tolerance of 1.5; expected a share"):
        prune(learned, out=tmp_path / "new", tolerance=1.5)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(RunError, match="full already exists; choose another"):
        prune(learned, out=tmp_path / "full")
    with pytest.raises(RunError, match="is not a run"):
        prune(tmp_path / "full", out=tmp_path / "new")
    untrained = load_run(learned)
    scores = Evaluation({"loss": 3.0, "exact": 0.0, "chrf": 0.0}, {})
    monkeypatch.setattr(untrained.evaluator, "evaluate", lambda split, **options: scores)
    with pytest.raises(
        ConfigError, match="no correct prediction on its dev split.*Train it for longer"
    ):
        prune(untrained, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_prune_writes_no_run_if_every_head_matters(learned, tmp_path, monkeypatch):
    run = load_run(learned)
    whole = run.evaluate(split="dev")

    def evaluate(split, **options):
        hooks = [len(m._forward_pre_hooks) for m in run.model.modules()]
        return Evaluation({**whole, "chrf": whole["chrf"] / 2}, {}) if any(hooks) else whole

    monkeypatch.setattr(run.evaluator, "evaluate", evaluate)
    found = prune(run, out=tmp_path / "new")
    assert found.after is None and found.folder is None and not (tmp_path / "new").exists()
    assert not any(head.is_pruned for head in found.heads)
    assert found.before.milliseconds > 0
    assert json.loads(json.dumps(found.to_dict()))["run"] is None
    assert len(time_runs(run, run)) == 2


def test_prune_command_prints_table_or_json(learned, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "small one"
    assert command(["prune", str(learned), "--out", str(out), "--tolerance", "0.4"]) == 0
    output = capsys.readouterr().out
    assert "variance" in output and "pruned" in output and "ms per input" in output
    assert f"'{out}'" in output.replace("\n", "")
    assert command(["evaluate", str(out)]) == 0
    assert command(["prune", str(learned), "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["gpt1", "gpt2", "gpt3"])
def test_pruned_gpt_equals_masked_gpt(model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"{n} and {n + 1} make {2 * n + 1}" for n in range(300)) + "\n")
    sizes = {"model.width": 16, "model.heads": 4, "model.depth": 2, "data.segment_length": 16}
    steps = {"train.steps": 5, "train.batch_tokens": 256, "train.threads": 1}
    resolved = resolve_recipe("language", data=str(text), model=model, changes=sizes | steps)
    whole = train_recipe(resolved.recipe, tmp_path / "run", TrainOptions()).run
    found = prune(whole, out=tmp_path / "smaller", tolerance=0.2)
    off = {}
    for head in found.heads:
        assert head.kind == "self"
        if head.is_pruned:
            off.setdefault(f"blocks.{head.layer - 1}.self_attention", []).append(head.head - 1)
    smaller = load_run(tmp_path / "smaller")
    assert off and smaller.recipe.model.pruned_heads == off
    assert found.after.parameters < found.before.parameters
    with masked_heads(whole.model, off):
        expected = whole.evaluate()
        written = whole.predict("17 and", max_new_tokens=30, engine="torch").text
    assert smaller.evaluate()["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert smaller.predict("17 and", max_new_tokens=30).text == written
    further = train_recipe(
        smaller.recipe, tmp_path / "more", TrainOptions(init_from=smaller.folder)
    ).run
    assert further.recipe.model == smaller.recipe.model
