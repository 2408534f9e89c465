"""Whether an export says what the model says."""

from typing import Any

import torch

from saccade.data.vocabulary import EOS, PAD
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.invariants import CheckExample
from saccade.interop.ctranslate2.subprocess import SubprocessEngine

EXPORT_TOLERANCE = 1e-4  # of the log-probability of a token, both in float32


@torch.no_grad()
def check_export(
    invariant: str, model: Any, example: CheckExample, engine: SubprocessEngine
) -> CheckResult:
    """The largest difference of any token's log-probability, between a model and its export."""
    if (quantization := engine.export_info()["quantization"]) != "float32":
        return skipped(invariant, f"the export is in {quantization}, which rounds the weights")
    source, lengths, target = example
    sources = [row[: n - 1] for row, n in zip(source.tolist(), lengths.tolist(), strict=True)]
    targets = [[id for id in row[1:] if id != PAD] for row in target.tolist()]
    logits, _ = model.step(target, model.init_state(model.encode(source, lengths)))
    tables = logits.log_softmax(dim=-1).cpu()
    differences = [0.0]
    for table, ids, theirs in zip(tables, targets, engine.score(sources, targets), strict=True):
        written = torch.tensor([*ids, EOS])
        ours = table[: len(written)].gather(1, written[:, None])[:, 0]
        differences.append(float((ours - torch.tensor(theirs)).abs().max()))
    worst = max(differences, key=lambda d: (d != d, d))  # NaN counts as the worst
    return CheckResult(invariant, len(sources), worst, EXPORT_TOLERANCE)
