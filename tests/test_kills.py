"""Every command that writes, killed with SIGKILL at seeded moments: typed again, it ends alike.

Some kills come at the n-th moment on the disk (`tests.moments`), some at a fraction of the time
that the command takes. A command is killed several times in a row, then typed again until it ends;
a training is resumed where it has left a run. All files must then equal those of a command that was
never killed, to the bit, except times and the drawing of figures.
"""

import json
import os
import random
import shutil
import signal
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from saccade.io.tensors import read_tensors
from tests.moments import CommandServer

KILLS = 15  # of each case
KILLS_IN_A_ROW = 5
TIMES = ("seconds", "rate", "milliseconds", "per_second")
# modules that the commands would otherwise import after each fork
MODULES = (
    "matplotlib.pyplot",
    "saccade.plots.attention",
    "saccade.plots.comparison",
    "saccade.plots.confusion",
    "saccade.plots.curves",
    "saccade.plots.fits",
    "saccade.plots.reliability",
    "saccade.plots.word_map",
    "saccade.plots.zipf",
    "saccade.plots.embedding",
    "saccade.tasks.contrastive.components",
    "saccade.tasks.control.components",
    "saccade.tasks.captioning.components",
    "saccade.tasks.embedding.components",
    "saccade.tasks.forecasting.components",
    "saccade.tasks.image_classification.components",
    "saccade.tasks.kernel_regression.components",
    "saccade.tasks.language_modeling.components",
    "saccade.tasks.masked_language_modeling.components",
    "saccade.tasks.tabular.components",
    "saccade.tasks.text_classification.components",
    "saccade.tasks.translation.components",
    "saccade.tasks.word_vectors.components",
    "saccade.workflows.compare.compare",
    "saccade.workflows.finetune",
    "saccade.workflows.prune",
    "sacrebleu.metrics",
)
LOOP = ("train.steps=6", "train.evaluate_every=3", "train.threads=1", "train.checkpoint_seconds=0")
WORDS = ("model.width=8", "data.max_new_tokens=8", "train.batch_tokens=128", *LOOP)
HEADS = ("model.depth=1", "model.heads=2")
SHORT = ("data.sequence_length=16", "data.tokenizer.size=60", "train.batch_tokens=64")
VECTORS = ("model.width=8", "train.threads=1")
EPISODES = ("data.dev_episodes=2", "data.test_episodes=2", "model.hidden=8")
CAPTIONS = ("model.width=8", "model.encoder_width=4", "train.batch_tokens=16")


class Case(NamedTuple):
    """A command, the task of its run, and the files it writes."""

    command: str
    task: str
    arguments: list[str]
    out: str = "out"


def case(command: str, task: str, *arguments: str, out: str = "out", settings: Any = ()) -> Case:
    return Case(command, task, [*arguments, *(f"--set={value}" for value in settings)], out)


def train(task: str, data: str, model: str, *settings: str, target: str = "") -> Case:
    named = ["--target", target] if target else []
    return case("train", task, "train", task, data, "--model", model, *named, settings=settings)


CASES = {
    "translate bahdanau": train("translate", "words.tsv", "bahdanau", *WORDS),
    "translate transformer": train("translate", "words.tsv", "transformer", *HEADS, *WORDS),
    "translate conv_seq2seq": train("translate", "words.tsv", "conv_seq2seq", *WORDS),
    "language gpt2": train("language", "text.txt", "gpt2", "model.width=8", *HEADS, *LOOP),
    "language lstm": train("language", "text.txt", "lstm", "model.width=8", *LOOP),
    "language ngram": train("language", "text.txt", "ngram"),
    "bert": train("bert", "text.txt", "bert", "model.width=8", *SHORT, *HEADS, *LOOP),
    "vectors skipgram": train("vectors", "text.txt", "skipgram", *VECTORS),
    "vectors glove": train("vectors", "text.txt", "glove", *VECTORS),
    "vectors svd": train("vectors", "text.txt", "svd", "model.width=8"),
    "table mlp": train("table", "table.csv", "mlp", *LOOP, target="kind"),
    "table svm": train("table", "table.csv", "svm", target="kind"),
    "image lenet": train("image", "images", "lenet", *LOOP),
    "contrastive attention_cnn": train(
        "contrastive", "images", "attention_cnn", "model.width=4", "train.batch_tokens=16", *LOOP
    ),
    "caption recurrent": train("caption", "captions.tsv", "recurrent", *CAPTIONS, *LOOP),
    "embed words": train("embed", "text.txt", "words", "model.width=8", *LOOP),
    "control dqn": train(
        "control", "CartPole-v1", "dqn", "model.learning_starts=40", "train.batch_tokens=8",
        *EPISODES, *LOOP,
    ),
    "control ppo": train(
        "control", "CartPole-v1", "ppo", "model.rollout_steps=12", "train.batch_tokens=32",
        *EPISODES, *LOOP,
    ),
    "table svr": train("table", "table.csv", "svr", target="size"),
    "classify ngrams": train("classify", "reviews.csv", "ngrams"),
    "classify fasttext": train("classify", "reviews.csv", "fasttext", "train.threads=1"),
    "classify cnn": train("classify", "reviews.csv", "cnn", *LOOP),
    "answer bert": train("answer", "asked.jsonl", "bert", "model.width=8", *HEADS, *LOOP),
    "tag bilstm_tagger": train("tag", "tags.conll", "bilstm_tagger", "model.word_width=4", *LOOP),
    "forecast recurrent": train("forecast", "series.csv", "recurrent", *LOOP),
    "forecast autoregressive": train("forecast", "series.csv", "autoregressive", *LOOP),
    "kernel-regression kernel": train("kernel-regression", "points.csv", "kernel"),
    "kernel-regression attention": train("kernel-regression", "points.csv", "attention", *LOOP),
    "extend": case(
        "train --resume", "translate", "train", "--resume", "short", out="short",
        settings=("train.steps=9",),
    ),
    "finetune": case("finetune", "translate", "finetune", "base", "words.tsv", settings=LOOP[:2]),
    "online": case("finetune --online", "table", "finetune", "rows", "table.csv", "--online"),
    "predict translate": case("predict --out", "translate", "predict", "base", "--file", "in.txt"),
    "predict classify": case("predict --out", "classify", "predict", "labels", "--file", "in.txt"),
    "predict table": case("predict --out", "table", "predict", "rows", "--file", "table.csv"),
    "compare translate": case(
        "compare", "translate", "compare", "translate", "words.tsv", "--models", "seq2seq,bahdanau",
        "--steps", "6", "--seeds", "1", settings=(*WORDS[:3], *LOOP[1:]),
    ),
    "compare classify": case(
        "compare", "classify", "compare", "classify", "reviews.csv", "--models", "bilstm,cnn",
        "--steps", "4", "--seeds", "1", settings=("train.threads=1",),
    ),
    "prune": case("prune", "translate", "prune", "heads", "--tolerance", "0.9"),
    "export ctranslate2": case("export", "translate", "export", "heads", "--to", "ctranslate2"),
    "export huggingface": case("export", "language", "export", "gpt", "--to", "huggingface"),
    "export word2vec": case(
        "export", "vectors", "export", "vectors", "--to", "word2vec", out="out.txt"
    ),
    "import gpt2": case("import", "language", "import", "gpt2", "hf"),
    "import glove": case("import", "vectors", "import", "glove", "vectors.txt"),
    "evaluate": case("evaluate", "translate", "evaluate", "base", out="base"),
    "check": case("check", "table", "check", "rows", out="rows"),
    "look": case("look --save", "translate", "look", "base", "abc", out="map.png"),
    "plot": case("plot --save", "", "plot", "activations", out="plot.png"),
    "copy": case("copy", "", "copy", "dates", out="mine.toml"),
}  # fmt: skip
OPTIONS = {"copy": "", "look --save": "--save", "plot --save": "--save"}


def whole_command(what: Case) -> list[str]:
    """Return the arguments with those that name the output."""
    if what.command in ("train --resume", "evaluate", "check"):  # into the run itself
        return what.arguments
    option = OPTIONS.get(what.command, "--out")
    return [*what.arguments, *filter(None, [option]), what.out]


def command_again(what: Case, folder: Path) -> list[str]:
    """Return what a user types after a kill: the same, or --resume where a training left a run."""
    is_training = what.command in ("train", "finetune", "finetune --online")
    if is_training and (folder / what.out / "run.toml").exists():
        return ["train", "--resume", what.out]
    return whole_command(what)


def write_data(folder: Path) -> None:
    """Write small data of every task."""
    draw = random.Random(7)
    words = list(dict.fromkeys("".join(draw.choices("abcdef", k=4)) for _ in range(160)))
    (folder / "words.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    (folder / "in.txt").write_text("".join(f"{draw.choice(words)}\n" for _ in range(6000)))
    lines = [" ".join(draw.choices(words[:40], k=8)) for _ in range(300)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    labels = [draw.choice(["good", "bad"]) for _ in lines]
    rows = "".join(
        f"{label},{line} {label[0]}\n" for label, line in zip(labels, lines, strict=True)
    )
    tagged = [f"{word} {'B-x' if word > 'c' else 'O'}" for line in lines for word in line.split()]
    blocks = ["\n".join(tagged[at : at + 8]) for at in range(0, len(tagged), 8)]
    asked = (
        {"question": "who?", "context": f"{c} {d} sat", "answers": [{"text": c}][: n % 3]}
        for n, (c, d) in enumerate(zip("abcdefghijkl", "bcdefghijklm", strict=True))
    )
    (folder / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    (folder / "tags.conll").write_text("\n\n".join(blocks))
    (folder / "reviews.csv").write_text(f"label,text\n{rows}")
    rows = "".join(
        f"{draw.gauss(0, 1):.3f},{draw.choice('uvw')},{draw.choice(['yes', 'no'])}\n"
        for _ in range(200)
    )
    (folder / "table.csv").write_text(f"size,group,kind\n{rows}")
    values = [draw.gauss(0, 1) for _ in range(300)]
    (folder / "series.csv").write_text("value\n" + "".join(f"{v:.4f}\n" for v in values))
    points = "".join(f"{n / 10:.1f},{v:.4f}\n" for n, v in enumerate(values[:60]))
    (folder / "points.csv").write_text(f"x,y\n{points}")
    kinds = ("dark", "light")
    for kind in kinds:
        (folder / "images" / kind).mkdir(parents=True)
        for number in range(40):
            shade = draw.randrange(128) + 128 * (kind == "light")
            image = Image.new("L", (16, 16), shade)
            image.save(folder / "images" / kind / f"{number}.png")
    captions = (f"images/{kind}/{n}.png\ta {kind} square\n" for kind in kinds for n in range(40))
    (folder / "captions.tsv").write_text("".join(captions))


def write_runs(server: CommandServer, folder: Path) -> None:
    """Train the runs that the cases start from."""
    runs = {
        "base": "translate bahdanau",
        "short": "translate bahdanau",
        "heads": "translate transformer",
        "rows": "table mlp",
        "labels": "classify ngrams",
        "gpt": "language gpt2",
        "vectors": "vectors svd",
    }
    for name, of in runs.items():
        ended = server([*CASES[of].arguments, "--out", name], folder)
        assert ended.code == 0, ended.errors
    for export in (["gpt", "--to", "huggingface", "--out", "hf"],
                   ["vectors", "--to", "glove", "--out", "vectors.txt"]):  # fmt: skip
        ended = server(["export", *export], folder)
        assert ended.code == 0, ended.errors


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    started = CommandServer(tmp_path_factory.mktemp("server"), MODULES, is_quick=True)
    yield started
    started.close()


@pytest.fixture(scope="module")
def start(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    write_data(folder)
    write_runs(server, folder)
    return folder


def without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: without_times(v) for k, v in value.items() if not str(k).endswith(TIMES)}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def content(path: Path) -> Any:
    """Return what must be equal of a file."""
    if path.suffix == ".safetensors" and path.parent.name != "out":
        tensors, facts = read_tensors(path)
        values = {n: sha256(t.numpy().tobytes()).hexdigest() for n, t in tensors.items()}
        return values, without_times(facts)
    if path.suffix == ".png":
        return path.read_bytes()[:8]
    if path.name == "run.toml":
        values = tomllib.loads(path.read_text("utf-8"))
        for name in ("paths", "machine"):  # the folder, and its signature
            values["made"].pop(name, None)
        return without_times(values)
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if "learning_rate" not in lines[0]:  # of a fit, which may report by the clock
            lines = [{**line, "step": None} for line in lines if "rate" not in line]
        return [without_times(line) for line in lines]
    if path.suffix == ".json" and path.name in ("scores.json", "checks.json", "compare.json"):
        values = without_times(json.loads(path.read_text("utf-8")))
        values.pop("sha256", None)
        return values
    return sha256(path.read_bytes()).hexdigest()


def outcome(folder: Path, what: Case) -> dict[str, Any]:
    """Return the content of all files of a command, hidden ones too."""
    there = folder / what.out
    paths = [there] if there.is_file() else [path for path in there.rglob("*") if path.is_file()]
    if what.command == "compare":  # `train --resume` draws the figures of a run
        paths = [path for path in paths if path.parent.name != "report"]
    hidden = [path for path in folder.glob(".*") if path.is_dir() or path.is_file()]
    return {str(path.relative_to(folder)): content(path) for path in [*paths, *hidden]}


class Chain(NamedTuple):
    """Kills of one command in a row, until it came to an end."""

    kills: int
    problem: str


def kill_in_a_row(
    what: Case, server: CommandServer, folder: Path, draw: random.Random, kills: int,
    whole: tuple[int, float, dict[str, Any]],
) -> Chain:  # fmt: skip
    """Kill a command so many times, let it end, and compare its files with `whole`."""
    moments, seconds, expected = whole
    killed = 0
    for attempt in range(2 * kills + 1):
        again = command_again(what, folder) if attempt else whole_command(what)
        is_last = killed == kills or attempt == 2 * kills
        at = draw.randint(1, max(moments, 1)) if draw.random() < 0.6 else None
        after = None if at is not None or is_last else draw.uniform(0.0, seconds)
        ended = server(
            again,
            folder,
            signals=() if is_last else (signal.SIGKILL,),
            moment=None if is_last else at,
            seconds=after,
        )
        if ended.code == -signal.SIGKILL:
            killed += 1
            continue
        is_refused = ended.code == 2 and "already" in ended.errors
        if ended.code and not is_refused:
            return Chain(
                killed, f"{' '.join(again)} ended with {ended.code}: {ended.errors[-600:]}"
            )
        problem = differences(outcome(folder, what), expected)
        if problem and is_refused:  # else it was complete when it was killed
            problem = f"{' '.join(again)} is refused: {ended.errors[-600:]}"
        return Chain(killed, problem)
    raise AssertionError("the last attempt has no signal")


def differences(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return the files that differ; empty if none does."""
    names = sorted(n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n))
    return f"other files than without kills: {names}" if names else ""


def prove(
    name: str, server: CommandServer, start: Path, folder: Path, kills: int = KILLS, seed: int = 1
) -> tuple[Counter[str], list[str]]:
    """Kill the command of a case so often; return how many kills were fine, and the problems."""
    what, draw = CASES[name], random.Random(f"{seed} {name}")
    whole_folder = folder / "whole"
    shutil.copytree(start, whole_folder)
    ended = server(whole_command(what), whole_folder)
    assert ended.code == 0, ended.errors
    whole = ended.moments, ended.seconds, outcome(whole_folder, what)
    assert whole[2], f"{name} has written nothing"
    counts: Counter[str] = Counter()
    problems = []
    for number in range(4 * kills):
        left = kills - counts["kills"]
        if left <= 0:
            break
        chain_folder = folder / f"chain{number}"
        shutil.copytree(start, chain_folder)
        in_a_row = min(left, draw.randint(1, KILLS_IN_A_ROW))
        try:
            chain = kill_in_a_row(what, server, chain_folder, draw, in_a_row, whole)
        except Exception:  # a file that cannot be read
            chain = Chain(in_a_row, traceback.format_exc()[-600:])
        counts["kills"] += chain.kills
        counts["fine"] += 0 if chain.problem else chain.kills
        if chain.problem:
            problems.append(chain.problem)
        elif not os.environ.get("SACCADE_KEEP_KILLED"):
            shutil.rmtree(chain_folder)
    return counts, problems


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_killed_command_typed_again_ends_alike(
    name: str, server: CommandServer, start: Path, tmp_path: Path
) -> None:
    counts, problems = prove(name, server, start, tmp_path)
    print(f"{name}: {counts['fine']} of {counts['kills']} kills fine", flush=True)
    assert not problems, "\n".join(problems)
