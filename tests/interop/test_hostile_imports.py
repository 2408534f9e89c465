"""Files of any content for `saccade import`: one message that names the file, and little memory."""

import io
import json
import pickle
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    OpenAIGPTTokenizer,
)

from saccade.cli.main import run
from saccade.io import memory
from tests.special_files import SPECIAL_KINDS, make_special

TEXT = ["the cat sat on the mat", "a cat, a mat", "the end of it all"] * 3
SPARE_BYTES = 1 << 30  # that a refusal may need at most; the hostile sizes ask for far more
FIELDS = ("n_embd", "n_layer", "n_head", "n_positions", "vocab_size", "n_inner", "resid_pdrop")
SIZES = {"n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4}
ABSENT = object()
WRONG_VALUES: dict[str, Any] = {
    "negative": -1,
    "fraction": 1.5,
    "billion": 10**9,
    "huge": 10**30,
    "text": "sixteen",
    "digits as text": "16",
    "list": [16],
    "object": {"value": 16},
    "true": True,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "4,000 digits": 10**4000,
}


def gpt2_files(folder: Path) -> None:
    """Write a GPT-2 with random weights and its tokenizer."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=270,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    engine.train_from_iterator(TEXT, trainer)
    config = GPT2Config(vocab_size=engine.get_vocab_size(), **SIZES)
    GPT2LMHeadModel(config).save_pretrained(folder)
    engine.save(str(folder / "tokenizer.json"))


def gpt1_files(folder: Path) -> None:
    """Write a GPT with random weights and its tokenizer."""
    letters = sorted({letter for line in TEXT for letter in line} - {" "})
    tokens = ["<unk>", *letters, *(f"{letter}</w>" for letter in letters), "th", "the</w>"]
    vocabulary = {token: id for id, token in enumerate([*tokens, "\n</w>"])}
    merges = [("t", "h"), ("th", "e</w>")]
    OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=len(vocabulary), **SIZES)).save_pretrained(
        folder
    )
    tokenizer = OpenAIGPTTokenizer(vocab=vocabulary, merges=merges)
    (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())


@pytest.fixture(scope="module", params=["gpt1", "gpt2"])
def gpt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of another tool, named like its format."""
    folder = tmp_path_factory.mktemp("hostile") / request.param
    torch.manual_seed(1)
    {"gpt1": gpt1_files, "gpt2": gpt2_files}[request.param](folder)
    return folder


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let an allocation of more than a gigabyte fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], little_memory: None) -> Refused:
    """Return a function that imports a file, which must be refused, and returns the message."""

    def call(layout: str, source: Path) -> str:
        out = tmp_path / "runs" / "imported"
        code = run(["import", layout, str(source), "--out", str(out)])
        message = capsys.readouterr().err
        assert code == 2, message
        assert str(source) in message, message
        for wrong in ("Traceback", "Internal error", "used up", "fault"):
            assert wrong not in message, message
        assert len(message) < 3000
        assert not out.parent.exists()  # nothing is left
        return message

    return call


def changed_config(gpt: Path, tmp_path: Path, **changes: Any) -> Path:
    """Return a copy with other values in config.json."""
    folder = Path(shutil.copytree(gpt, tmp_path / "changed" / gpt.name))
    config = json.loads((folder / "config.json").read_text()) | changes
    kept = {name: value for name, value in config.items() if value is not ABSENT}
    (folder / "config.json").write_text(json.dumps(kept))
    return folder


@pytest.mark.parametrize("value", WRONG_VALUES)
@pytest.mark.parametrize("field", FIELDS)
def test_wrong_sizes_are_refused(
    field: str, value: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    if (field, gpt.name) == ("n_inner", "gpt1"):
        pytest.skip("GPT has no n_inner")
    message = refused(gpt.name, changed_config(gpt, tmp_path, **{field: WRONG_VALUES[value]}))
    assert "expected" in message and "; try" in message or "\ntry" in message
    assert field in message or "does not fit its config.json" in message


@pytest.mark.parametrize("value", [0, None, ABSENT], ids=["zero", "null", "missing"])
@pytest.mark.parametrize("field", ["n_embd", "n_layer", "n_head", "n_positions", "model_type"])
def test_needed_values_are_refused_if_absent(
    field: str, value: Any, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    assert field in refused(gpt.name, changed_config(gpt, tmp_path, **{field: value}))


@pytest.mark.parametrize("field", ["n_embd", "n_layer", "n_positions", "n_inner", "vocab_size"])
def test_sizes_within_their_range_are_compared_with_the_header(
    field: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    """Sizes of which each alone would be allowed ask for terabytes together."""
    if (field, gpt.name) == ("n_inner", "gpt1"):
        pytest.skip("GPT has no n_inner")
    value = {"n_layer": 1000, "n_positions": 1 << 20, "vocab_size": 1 << 30}.get(field, 1 << 16)
    message = refused(gpt.name, changed_config(gpt, tmp_path, **{field: value}))
    assert "model.safetensors does not fit its config.json" in message


def test_gpt_of_these_tests_is_imported(gpt: Path, tmp_path: Path) -> None:
    """The refusals are not those of a folder that is wrong anyway."""
    folder = changed_config(gpt, tmp_path)
    assert run(["import", gpt.name, str(folder), "--out", str(tmp_path / "run")]) == 0


def test_integer_of_5000_digits_is_refused(gpt: Path, tmp_path: Path, refused: Refused) -> None:
    folder = changed_config(gpt, tmp_path)
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"n_embd": 16', '"n_embd": ' + "9" * 5000))
    assert "thousands of digits" in refused(gpt.name, folder)


CONFIGS = {
    "empty": b"",
    "not JSON": b"{n_embd: 16}",
    "list": b"[]",
    "null": b"null",
    "nested": b"[" * 200_000,
    "random": np.random.default_rng(0).bytes(500),
    "not UTF-8": b'{"model_type": "\xff"}',
}


@pytest.mark.parametrize("content", CONFIGS)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "vocab.json"])
def test_other_json_is_refused(
    name: str, content: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    if name == "vocab.json":
        (folder / "tokenizer.json").unlink()
        (folder / "merges.txt").write_text("#version: 0.2\nt h\n")
    (folder / name).write_bytes(CONFIGS[content])
    assert name in refused(gpt.name, folder)


# --- tokenizers -----------------------------------------------------------------------------------

CATASTROPHIC = "(a+)+$"
TOKENIZERS: dict[str, dict[str, Any]] = {
    "model is text": {"model": "BPE"},
    "model is a list": {"model": [1]},
    "no model": {"model": None},
    "Unigram": {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}},
    "vocabulary is a list": {"model": {"type": "BPE", "vocab": ["a"], "merges": []}},
    "ids are text": {"model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []}},
    "ids are fractions": {"model": {"type": "BPE", "vocab": {"a": 0.5}, "merges": []}},
    "ids are negative": {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},
    "ids are huge": {"model": {"type": "BPE", "vocab": {"a": 10**30}, "merges": []}},
    "no tokens": {"model": {"type": "BPE", "vocab": {}, "merges": []}},
    "no merges": {"model": {"type": "BPE", "vocab": {"a": 0}}},
    "words": {"model": {"type": "WordLevel", "vocab": {"word": 0, "other": 1}}},
    "word ids": {"model": {"type": "WordLevel", "vocab": {"word": None}}},
    "added tokens": {"added_tokens": [1, 2]},
    "added tokens are a number": {"added_tokens": 7},
    "added ids": {"added_tokens": [{"content": "<|endoftext|>", "id": "0"}]},
    "added ids are lists": {"added_tokens": [{"content": ["a"], "id": 0}]},
    "pre-tokenizer of a pattern": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": CATASTROPHIC}, "invert": False}
    },
    "pre-tokenizers with a pattern": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": CATASTROPHIC}},
                {"type": "ByteLevel", "use_regex": False},
            ],
        }
    },
    "pre-tokenizer is text": {"pre_tokenizer": "ByteLevel"},
    "pre-tokenizer without its pattern": {"pre_tokenizer": {"type": "ByteLevel", "use_regex": 0}},
    "normalizer of a pattern": {
        "normalizer": {"type": "Replace", "pattern": {"Regex": CATASTROPHIC}, "content": ""}
    },
    "normalizer is a list": {"normalizer": [CATASTROPHIC]},
}
MERGES: dict[str, Any] = {
    "text": "t h",
    "numbers": [1, 2],
    "one part": ["t"],
    "three parts": ["t h e"],
    "empty parts": [" "],
    "lists of numbers": [[1, 2]],
    "before their parts": ["th e"],
    "unknown characters": ["猫 猫"],
    "nested": [[["t"], ["h"]]],
}


@pytest.mark.parametrize("case", TOKENIZERS)
def test_other_tokenizers_are_refused(
    case: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | TOKENIZERS[case]))
    message = refused(gpt.name, folder)
    assert "tokenizer" in message and "; try" in message


@pytest.mark.parametrize("case", MERGES)
def test_other_merges_are_refused(case: str, gpt: Path, tmp_path: Path, refused: Refused) -> None:
    folder = changed_config(gpt, tmp_path)
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["merges"] = MERGES[case]
    path.write_text(json.dumps(values))
    message = refused(gpt.name, folder)
    assert "is not a byte-pair tokenizer" in message and "; try" in message


def test_token_ids_outside_the_table_are_refused(
    gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["a"] = 5000
    path.write_text(json.dumps(values))
    assert "the token id 5,000" in refused(gpt.name, folder)


# --- weights --------------------------------------------------------------------------------------


def framed(
    header: bytes | dict[str, Any], content: bytes = b"", length: int | None = None
) -> bytes:
    """Return a safetensors file of any header."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + content


def tensor(start: int = 0, end: int = 4, shape: Any = (1,), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def pickled() -> bytes:
    return pickle.dumps({"wte.weight": [1.0, 2.0] * 20})


def torch_saved() -> bytes:
    content = io.BytesIO()
    torch.save({"wte.weight": torch.ones(3)}, content)
    return content.getvalue()


WEIGHTS: dict[str, bytes] = {
    "empty": b"",
    "random": np.random.default_rng(1).bytes(3000),
    "header longer than the file": framed(b"{}", length=10**6),
    "header of 2⁶³ bytes": framed(b"{}", length=1 << 63),
    "header is no JSON": framed(b"{wte"),
    "header is a list": framed(b"[]"),
    "header is nested": framed(b'{"a":' * 100_000),
    "no tensors": framed(b"{}"),
    "overlapping": framed({"wte.weight": tensor(), "wpe.weight": tensor()}, b"0000"),
    "a gap": framed({"wte.weight": tensor(), "wpe.weight": tensor(8, 12)}, b"0" * 12),
    "negative shape": framed({"wte.weight": tensor(shape=[-1])}, b"0000"),
    "fractional shape": framed({"wte.weight": tensor(shape=[1.5])}, b"0000"),
    "overflowing shape": framed({"wte.weight": tensor(shape=[1 << 62, 1 << 62])}, b"0000"),
    "empty of a huge shape": framed({"wte.weight": tensor(0, 0, [0, 1 << 60])}),
    "offsets backwards": framed({"wte.weight": tensor(4, 0)}, b"0000"),
    "offsets beyond the file": framed({"wte.weight": tensor(0, 1 << 40, [1 << 38])}, b"0000"),
    "unknown type": framed({"wte.weight": tensor(dtype="F31")}, b"0000"),
    "pickle": pickled(),
    "file of torch.save": torch_saved(),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_other_weights_are_refused(case: str, gpt: Path, tmp_path: Path, refused: Refused) -> None:
    folder = changed_config(gpt, tmp_path)
    (folder / "model.safetensors").write_bytes(WEIGHTS[case])
    message = refused(gpt.name, folder)
    assert "model.safetensors" in message
    assert ("a pickle, which may execute code" in message) == (
        case in ("pickle", "file of torch.save")
    )


def test_truncated_weights_are_refused(gpt: Path, tmp_path: Path, refused: Refused) -> None:
    folder = changed_config(gpt, tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert "model.safetensors" in refused(gpt.name, folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, name: tensors.pop(name),
        lambda tensors, name: tensors.update({name: tensors[name][:-1]}),
        lambda tensors, name: tensors.update({name: tensors[name].long()}),
        lambda tensors, name: tensors.update({name: tensors[name].to(torch.complex64)}),
        lambda tensors, name: tensors.update({name: tensors[name].flatten()[None]}),
    ],
    ids=["missing", "a row less", "integers", "complex", "other shape"],
)
@pytest.mark.parametrize(
    "name",
    [
        {"gpt1": "tokens_embed.weight", "gpt2": "wte.weight"},
        {"gpt1": "positions_embed.weight", "gpt2": "wpe.weight"},
        {"gpt1": "h.1.attn.c_attn.bias", "gpt2": "h.1.attn.c_attn.bias"},
        {"gpt1": "h.1.ln_2.bias", "gpt2": "ln_f.bias"},
    ],
    ids=["embeddings", "positions", "attention", "norm"],
)
def test_other_tensors_are_refused(
    name: dict[str, str], change: Any, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    change(tensors, f"transformer.{name[gpt.name]}")
    save_file(tensors, folder / "model.safetensors")
    assert f"{name[gpt.name]}: " in refused(gpt.name, folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_refused_with_the_reason(
    name: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(torch_saved())
    message = refused(gpt.name, folder)
    assert f"got {name}, a pickle, which may execute code" in message
    (folder / name).unlink()
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "got weights in several files" in refused(gpt.name, folder)


def test_import_that_does_not_fit_into_memory_is_refused(
    gpt: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    message = refused(gpt.name, gpt)
    assert "of memory; expected at most the 10 kB that are available" in message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("kind", SPECIAL_KINDS)
def test_special_files_are_refused_without_opening(
    kind: str, name: str, gpt: Path, tmp_path: Path, refused: Refused
) -> None:
    folder = changed_config(gpt, tmp_path)
    (folder / name).unlink()
    make_special(kind, folder / name)
    assert f"{name}: got {kind}; expected a file" in refused(gpt.name, folder)


# --- word vectors ---------------------------------------------------------------------------------


def fasttext_model(
    *,
    magic: int = 793712314,
    width: int = 2,
    buckets: int = 3,
    grams: tuple[int, int] = (1, 2),
    entries: tuple[int, int, int] = (1, 1, 0),
    shape: tuple[int, int] = (4, 2),
    word: bytes = b"cat\0",
    count: int = 5,
    rows: bytes = np.ones(8, "<f4").tobytes(),
) -> bytes:
    """Return a fastText model of one word."""
    content = struct.pack("<ii", magic, 12)
    content += struct.pack("<12id", width, *[1] * 7, buckets, *grams, 1, 0.1)
    content += struct.pack("<iiiqq", *entries, 1, -1) + word + struct.pack("<qb", count, 0)
    return content + struct.pack("<?qq", False, *shape) + rows


TEXTS: dict[str, bytes] = {
    "huge header": b"1000000000000 300\na 1 2\n",
    "huge width": b"1 1000000000000\na 1 2\n",
    "header of 5,000 digits": b"9" * 5000 + b" 300\na 1 2\n",
    "width of 5,000 digits": b"1 " + b"9" * 5000 + b"\na 1 2\n",
    "no words": b"0 300\n",
    "no width": b"1 0\na\n",
    "more than the file has": b"1000000 300\na 1 2\n",
    "empty": b"",
    "one line": b"a",
    "random": np.random.default_rng(2).bytes(3000),
    "infinite": b"1 2\na inf 1e999\n",
    "wide row": b"a" + b" 1" * 70_000 + b"\n",
    "pickle": pickled(),
    "file of torch.save": torch_saved(),
    "gzip of nothing": b"\x1f\x8b" + b"\0" * 30,
}
BINARIES: dict[str, bytes] = {
    **{name: content for name, content in TEXTS.items() if name != "infinite"},
    "cut": b"2 2\na " + np.ones(2, "<f4").tobytes() + b"b ",
    "NaN": b"1 2\na " + np.full(2, np.nan, "<f4").tobytes(),
    "no space": b"1 2\n" + b"a" * 100,
    "no header": b"a" * 100_000,
}
MODELS: dict[str, bytes] = {
    **{name: TEXTS[name] for name in ("empty", "random", "pickle", "file of torch.save")},
    "other magic number": fasttext_model(magic=1),
    "billions of entries": fasttext_model(entries=(2**31 - 1, 1, 0)),
    "billions of words": fasttext_model(entries=(2**31 - 1, 2**31 - 1, 0)),
    "negative words": fasttext_model(entries=(1, -1, 0)),
    "no words": fasttext_model(entries=(0, 0, 0)),
    "word without an end": fasttext_model(word=b"c" * 70_000, rows=b""),
    "billions of buckets": fasttext_model(buckets=2**31 - 1),
    "all rows of billions of buckets": fasttext_model(buckets=2**31 - 1, shape=(2**31, 2)),
    "no buckets": fasttext_model(buckets=0),
    "negative buckets": fasttext_model(buckets=-3),
    "n-grams of billions": fasttext_model(grams=(1, 2**31 - 1)),
    "n-grams backwards": fasttext_model(grams=(3, 2)),
    "negative n-grams": fasttext_model(grams=(-3, 2)),
    "huge table": fasttext_model(shape=(2**62, 2**62)),
    "negative table": fasttext_model(shape=(-4, 2)),
    "other width": fasttext_model(shape=(4, 3)),
    "no width": fasttext_model(width=0, shape=(4, 0)),
    "cut": fasttext_model(rows=b"\0" * 31),
    "NaN": fasttext_model(rows=np.full(8, np.nan, "<f4").tobytes()),
    "negative count": fasttext_model(count=-1),
}
VECTOR_FILES = {
    **{f"word2vec: {name}": ("word2vec", content) for name, content in TEXTS.items()},
    **{f"binary: {name}": ("word2vec-binary", content) for name, content in BINARIES.items()},
    **{f"fasttext: {name}": ("fasttext", content) for name, content in MODELS.items()},
}


@pytest.mark.parametrize("case", VECTOR_FILES)
def test_other_vector_files_are_refused(case: str, tmp_path: Path, refused: Refused) -> None:
    layout, content = VECTOR_FILES[case]
    path = tmp_path / "vectors.bin"
    path.write_bytes(content)
    message = refused(layout, path)
    if "pickle" in case or "torch.save" in case:
        assert "a pickle, which may execute code" in message


def test_fasttext_model_of_these_tests_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusals above are not those of a file that is wrong anyway."""
    path = tmp_path / "vectors.bin"
    path.write_bytes(fasttext_model())
    assert run(["import", "fasttext", str(path), "--out", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("layout", ["word2vec", "word2vec-binary", "fasttext", "glove"])
@pytest.mark.parametrize("kind", SPECIAL_KINDS)
def test_special_vector_files_are_refused(
    kind: str, layout: str, tmp_path: Path, refused: Refused
) -> None:
    make_special(kind, tmp_path / "vectors.bin")
    assert f"got {kind}; expected a file" in refused(layout, tmp_path / "vectors.bin")
