"""Each file of a run cut short or with a flipped bit: said, or made good; never a wrong answer."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import RunError
from saccade.runs.run import TrainOptions, load_run, resume, train_recipe
from saccade.training.loop import Event, StepEvent

Damage = Callable[[bytes, random.Random], bytes]
SOURCES = ["abc", "fed", "a", "cafe", "bead"]


def flipped(content: bytes, draw: random.Random) -> bytes:
    """One bit, anywhere."""
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def flipped_early(content: bytes, draw: random.Random) -> bytes:
    """One bit among the first, where a file says what it holds."""
    return flipped(content[:400], draw) + content[400:]


DAMAGES: dict[str, Damage] = {
    "emptied": lambda content, draw: b"",
    "last byte gone": lambda content, draw: content[:-1],
    "cut short": lambda content, draw: content[: draw.randrange(len(content))],
    "zeros at the end": lambda content, draw: content[:-16] + bytes(16),
    "a flipped bit": flipped,
    "a flipped bit early": flipped_early,
}
# what an answer needs; the rest may be damaged and the answers stay as they are
NEEDED = ("run.toml", "tokenizer.json", "model.safetensors")
FILES = (*NEEDED, "checks.json", "checkpoint/000000006.safetensors")
AGAIN = 8  # times each, where the place is drawn


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


@pytest.fixture(scope="module")
def whole(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that came to its end."""
    folder = tmp_path_factory.mktemp("damage") / "whole"
    train_recipe(smallest("transformer"), folder, TrainOptions())
    return folder


@pytest.fixture(scope="module")
def stopped(smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, cut off after seven steps, with two checkpoints and findings of a check."""
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
def test_an_answer_is_right_or_refused(
    name: str, damage: Damage, whole: Path, tmp_path: Path
) -> None:
    wanted = [answer.text for answer in load_run(whole).predict(SOURCES)]
    draw = random.Random(f"{name}{damage.__name__}")
    path = tmp_path / "run" / name
    shutil.copytree(whole, tmp_path / "run")
    content = path.read_bytes() if path.exists() else b"{}"
    path.parent.mkdir(exist_ok=True)
    for _ in range(AGAIN):
        path.write_bytes(damage(content, draw))
        if name in NEEDED:
            with pytest.raises(RunError) as caught:
                load_run(tmp_path / "run")
            assert str(path) in str(caught.value)
        else:
            got = load_run(tmp_path / "run").predict(SOURCES)
            assert [answer.text for answer in got] == wanted


@pytest.mark.parametrize(("name", "damage"), cases())
def test_what_goes_on_is_right_or_refused(
    name: str, damage: Damage, whole: Path, stopped: Path, outcome_of: Any, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(damage(path.read_bytes(), random.Random(f"{name}{damage.__name__}")))
    said: list[str] = []
    if name in ("run.toml", "tokenizer.json"):
        with pytest.raises(RunError) as caught:
            resume(tmp_path / "run", {}, TrainOptions(log=said.append))
        assert str(path) in str(caught.value)
        return
    resume(tmp_path / "run", {}, TrainOptions(log=said.append))
    assert outcome_of(tmp_path / "run") == outcome_of(whole)
    told = [line for line in said if "is damaged" in line]
    assert bool(told) == name.startswith("checkpoint")
    assert all(str(path) in line for line in told)
