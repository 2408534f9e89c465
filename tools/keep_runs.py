"""Write the small runs that later versions must be able to read: python tools/keep_runs.py

They go to tests/kept/formatN, once for every format N of the run folder, and are never rewritten.
"""

import json
import os
import random
from pathlib import Path

from saccade.io.run_folder import RUN_FORMAT
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training.loop import Event, StepEvent

SOURCES = ["abc", "fed", "a", "cafe", "bead", ""]
SETTINGS = {
    "data.max_new_tokens": 8,
    "model.width": 8,
    "train.steps": 60,
    "train.learning_rate": 0.03,
    "train.warmup": 5,
    "train.batch_tokens": 128,
    "train.report_every": 10,
    "train.evaluate_every": 20,
    "train.checkpoint_seconds": 0,
    "train.threads": 1,
}
STOP = 41


def interrupt(event: Event) -> None:
    """Raise at the step STOP, as if the machine went down."""
    if isinstance(event, StepEvent) and event.step == STOP:
        raise InterruptedError


def keep(model: str) -> None:
    """Write an interrupted run, and the predictions before and after it is resumed."""
    more = {"model.depth": 1, "model.heads": 2} if model == "transformer" else {}
    recipe = resolve_recipe("words.tsv", model=model, changes=SETTINGS | more).recipe
    folder = Path(model)
    try:
        train_recipe(recipe, folder, TrainOptions(on_event=interrupt))
    except InterruptedError:
        pass
    # the older of the two checkpoints is not needed
    min((folder / "checkpoint").iterdir()).unlink()
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    resume(folder, {}, TrainOptions())
    run = load_run(folder)
    answers = [answer.to_dict() for answer in run.predict(SOURCES)]
    metrics = [line for line in run.metrics() if line["step"] > STOP]
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)
    (folder / "report").rmdir()
    now = [answer.to_dict() for answer in load_run(folder).predict(SOURCES)]
    facts = {"sources": SOURCES, "answers": now, "in the end": answers, "metrics": metrics}
    Path(f"{model}.json").write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    """Write one run of each model, trained to reverse words."""
    folder = Path(__file__).parent.parent / "tests" / "kept" / f"format{RUN_FORMAT}"
    folder.mkdir(parents=True)
    os.chdir(folder)
    draw = random.Random(7)
    words = sorted({"".join(draw.choices("abcdef", k=draw.randint(1, 6))) for _ in range(120)})
    Path("words.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    for model in ("bahdanau", "seq2seq", "transformer"):
        keep(model)


if __name__ == "__main__":
    main()
