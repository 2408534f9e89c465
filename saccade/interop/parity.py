"""Parity check between a model and its export."""

from typing import Any

import torch

from saccade.data.special_tokens import EOS, PAD
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.invariants import CheckExample
from saccade.interop.ctranslate2.subprocess import SubprocessEngine

EXPORT_TOLERANCE = 1e-4  # of a token's log-probability, both in float32


@torch.no_grad()
def check_export(
    invariant: str, model: Any, example: CheckExample, engine: SubprocessEngine
) -> CheckResult:
    """Return the largest difference of a token's log-probability between model and export."""
    if (quantization := engine.export_info()["quantization"]) != "float32":
        return skipped(invariant, f"the export is in {quantization}, which quantizes the weights")
    source, lengths, target = example
    sources = [row[: n - 1] for row, n in zip(source.tolist(), lengths.tolist(), strict=True)]
    targets = [[id for id in row[1:] if id != PAD] for row in target.tolist()]
    logits, _ = model.step(target, model.init_state(model.encode(source, lengths)))
    log_probabilities = logits.log_softmax(dim=-1).cpu()
    differences = [0.0]
    exported_scores = engine.score(sources, targets)
    for table, ids, exported in zip(log_probabilities, targets, exported_scores, strict=True):
        tokens = torch.tensor([*ids, EOS])
        original = table[: len(tokens)].gather(1, tokens[:, None])[:, 0]
        differences.append(float((original - torch.tensor(exported)).abs().max()))
    worst = max(differences, key=lambda d: (d != d, d))  # NaN counts as the worst
    note = "compared the engine 'ctranslate2'"
    return CheckResult(invariant, len(sources), worst, EXPORT_TOLERANCE, note)
