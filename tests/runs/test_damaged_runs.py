"""Truncated files and flipped bits: reported or repaired, and never a wrong prediction."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import RunError
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training.loop import Event, StepEvent

Damage = Callable[[bytes, random.Random], bytes]
SOURCES = ["abc", "fed", "a", "cafe", "bead"]


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Flip one bit, anywhere."""
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def flipped_early(content: bytes, draw: random.Random) -> bytes:
    """Flip one of the first bits, those of the header."""
    return flipped(content[:400], draw) + content[400:]


DAMAGES: dict[str, Damage] = {
    "emptied": lambda content, draw: b"",
    "last byte gone": lambda content, draw: content[:-1],
    "cut short": lambda content, draw: content[: draw.randrange(len(content))],
    "zeros at the end": lambda content, draw: content[:-16] + bytes(16),
    "a flipped bit": flipped,
    "a flipped bit early": flipped_early,
}
# needed for prediction; damage to the others does not change a prediction
NEEDED = ("run.toml", "tokenizer.json", "model.safetensors")
FILES = (*NEEDED, "checks.json", "checkpoint/000000006.safetensors")
REPETITIONS = 8  # of each damage, at random offsets


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda *arguments: None)


@pytest.fixture(scope="module")
def whole(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run."""
    folder = tmp_path_factory.mktemp("damage") / "whole"
    train_recipe(smallest("transformer"), folder, TrainOptions())
    return folder


@pytest.fixture(scope="module")
def stopped(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same run interrupted after seven steps, with two checkpoints and checks.json."""
    folder = tmp_path_factory.mktemp("damage") / "stopped"

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(
            smallest("transformer", {"train.checkpoint_seconds": 0}),
            folder,
            TrainOptions(on_event=on_event),
        )
    (folder / "checks.json").write_text("{}")
    assert all((folder / name).exists() for name in FILES)
    return folder


def cases() -> list[Any]:
    return [
        pytest.param(name, damage, id=f"{name}, {what}")
        for name in FILES
        for what, damage in DAMAGES.items()
    ]


@pytest.mark.parametrize(("name", "damage"), cases())
def test_predict_from_a_damaged_run_is_right_or_refused(
    name: str, damage: Damage, whole: Path, tmp_path: Path
) -> None:
    expected = [answer.text for answer in load_run(whole).predict(SOURCES)]
    draw = random.Random(f"{name}{damage.__name__}")
    path = tmp_path / "run" / name
    shutil.copytree(whole, tmp_path / "run")
    content = path.read_bytes() if path.exists() else b"{}"
    path.parent.mkdir(exist_ok=True)
    for _ in range(REPETITIONS):
        path.write_bytes(damage(content, draw))
        if name in NEEDED:
            with pytest.raises(RunError) as caught:
                load_run(tmp_path / "run")
            assert str(path) in str(caught.value)
        else:
            got = load_run(tmp_path / "run").predict(SOURCES)
            assert [answer.text for answer in got] == expected


@pytest.mark.parametrize(("name", "damage"), cases())
def test_resume_of_a_damaged_run_is_exact_or_refused(
    name: str, damage: Damage, whole: Path, stopped: Path, outcome_of: Any, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(damage(path.read_bytes(), random.Random(f"{name}{damage.__name__}")))
    messages: list[str] = []
    if name in ("run.toml", "tokenizer.json"):
        with pytest.raises(RunError) as caught:
            resume(tmp_path / "run", {}, TrainOptions(log=messages.append))
        assert str(path) in str(caught.value)
        return
    resume(tmp_path / "run", {}, TrainOptions(log=messages.append))
    assert outcome_of(tmp_path / "run") == outcome_of(whole)
    warnings = [line for line in messages if "is damaged" in line]
    assert bool(warnings) == name.startswith("checkpoint")
    assert all(str(path) in line for line in warnings)
