"""The targets: functions from bytes to nothing that raise if the contract is broken.

records    a file of records in any format, encoding and compression
documents  a run whose files were changed and have right checksums again
tensors    the bytes of a safetensors file
tokenizer  the JSON of a tokenizer, and texts to encode
imports    a folder or file of another tool that was changed
vectors    the bytes of a file of word vectors
images     the bytes of an image, of an array of images or of an archive
commands   a command line
"""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from fuzz.base_runs import BASES, base_export, base_run, without_report
from fuzz.commands import commands_target, mutate_command
from fuzz.contract import interrupted, refusals
from fuzz.mutate import DELETE, expand, get, hostile_value, paths_of, put
from fuzz.record_files import mutate_records, records_target
from fuzz.run_documents import documents_of, read_document, write_document
from fuzz.sandbox import sandbox

Mutator = Callable[[bytes, int, int], bytes]  # content, maximum size, seed
IMPORTED = {"gpt2": "gpt2", "word2vec": "word2vec", "word2vec-binary": "word2vec-binary"}
TEXTS = ["", "a", "the cat", "é\u0301 \u202e 猫\n\t", "<pad>", "x" * 300]


class Target(NamedTuple):
    """A target, how its inputs are changed (None: any bytes), and the size of an input."""

    run: Callable[[bytes], None]
    mutate: Mutator | None
    max_bytes: int


def _quietly(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    @wraps(run)
    def call(content: bytes) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(content)

    return call


def parse_case(content: bytes) -> Any:
    """Return the JSON of a case; None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


# --- runs -----------------------------------------------------------------------------------------


def documents_target(content: bytes) -> None:
    """Open a changed run, predict, evaluate, summarise and resume it.

    The case is {"run": NAME, "edits": [[FILE, PATH, VALUE], …]}; PATH is a list of keys.
    """
    from saccade.runs.train import TrainOptions, resume

    case = parse_case(content)
    if not isinstance(case, dict) or case.get("run") not in BASES:
        return
    name = case["run"]
    base = base_run(name)
    with sandbox() as folder, interrupted():
        run = folder / "run"
        shutil.copytree(base, run)
        if not _apply(run, case.get("edits"), is_checksummed=True):
            return
        _use_run(run, BASES[name].input)
        if crc32(content) % 4 == 0:  # it takes most of the time
            with refusals(), without_report():
                resume(run, {}, TrainOptions())


def _use_run(folder: Path, given: Any) -> None:
    from saccade.runs.run import load_run

    with refusals():
        run = load_run(folder)
        for action in (
            run.summary,
            lambda: run.predict(given),
            lambda: run.evaluate(limit=2),
            lambda: run.vector("cat"),
        ):
            with refusals():
                action()


def _apply(folder: Path, edits: Any, is_checksummed: bool) -> bool:
    """Apply the edits of a case to a folder; False if there are none."""
    changed: dict[str, Any] = {}
    for edit in edits if isinstance(edits, list) else []:
        match edit:
            case [str(name), [*path], value] if name in documents_of(folder):
                if name not in changed:
                    changed[name] = read_document(folder / name)
                if name.endswith(".safetensors"):
                    changed[name] = _without_offsets(changed[name], path)
                changed[name] = put(changed[name], path, expand(value))
    for name, value in changed.items():
        if value == DELETE:
            (folder / name).unlink()
        else:
            write_document(folder / name, value, is_checksummed)
    return bool(changed)


def _without_offsets(value: Any, path: list[Any]) -> Any:
    """Return a header without offsets, which are made to fit, unless they are what is changed."""
    tensors = value.get("tensors") if isinstance(value, dict) else None
    if "data_offsets" in path or not isinstance(tensors, dict):
        return value
    kept = {
        name: {key: inner for key, inner in entry.items() if key != "data_offsets"}
        if isinstance(entry, dict)
        else entry
        for name, entry in tensors.items()
    }
    return {**value, "tensors": kept}


def _mutate_edits(case: dict[str, Any], folder: Path, draw: random.Random) -> None:
    """Add, change or remove an edit of a case."""
    edits = [edit for edit in case.get("edits") or [] if isinstance(edit, list) and len(edit) == 3]
    if edits and draw.random() < 0.3:
        edits.remove(draw.choice(edits))
    if len(edits) < 4 or not edits:
        name = draw.choice(documents_of(folder))
        if draw.random() < 0.4:
            name = draw.choice([n for n in documents_of(folder) if "/" not in n])
        document = read_document(folder / name)
        path = draw.choice(paths_of(document))
        edits.append([name, path, hostile_value(draw, get(document, path))])
    else:
        edit = draw.choice(edits)
        edit[2] = hostile_value(draw, edit[2])
    case["edits"] = edits


def _mutate_documents(content: bytes, max_size: int, seed: int) -> bytes:
    draw = random.Random(seed)
    case = parse_case(content)
    if not isinstance(case, dict) or case.get("run") not in BASES or draw.random() < 0.1:
        case = {"run": draw.choice(list(BASES)), "edits": []}
    _mutate_edits(case, base_run(case["run"]), draw)
    return json.dumps(case).encode()[:max_size]


# --- tensors and tokenizers -----------------------------------------------------------------------


def tensors_target(content: bytes) -> None:
    """Read the bytes of a safetensors file in every way there is."""
    from saccade.io.run_folder import read_weights_info
    from saccade.io.tensors import read_arrays, read_tensors

    with sandbox() as folder:
        path = folder / "model.safetensors"
        path.write_bytes(content)
        for read in (read_tensors, read_arrays):
            with refusals():
                read(path)
        with refusals():
            read_weights_info(folder)


def tokenizer_target(content: bytes) -> None:
    """Load a tokenizer from JSON, encode texts and decode them again."""
    from saccade.data.tokenizers import tokenizer_from_json

    with refusals(), interrupted():
        tokenizer = tokenizer_from_json(expand(parse_case(content)))
        for text, ids in zip(TEXTS, tokenizer.encode_many(TEXTS), strict=True):
            assert ids == tokenizer.encode(text), "encode_many differs from encode"
            assert all(0 <= id < tokenizer.vocab_size for id in ids), "an id out of range"
            tokenizer.decode(ids)
            assert len(tokenizer.display_tokens(ids)) == len(ids)
        again = tokenizer_from_json(tokenizer.to_json())
        assert again.encode_many(TEXTS) == tokenizer.encode_many(TEXTS), "reloading changes ids"


def _mutate_json(content: bytes, max_size: int, seed: int) -> bytes:
    draw = random.Random(seed)
    value = parse_case(content)
    if value is None:
        value = {"kind": draw.choice(["character", "word", "whitespace", "bpe"]), "tokens": ["a"]}
    for _ in range(draw.randint(1, 3)):
        path = draw.choice(paths_of(value))
        value = put(value, path, hostile_value(draw, get(value, path)))
    return json.dumps(value).encode()[:max_size]


# --- imports --------------------------------------------------------------------------------------


def imports_target(content: bytes) -> None:
    """Import a changed folder of Hugging Face's GPT or GPT-2, predict and export it again.

    The case is {"layout": "gpt1" or "gpt2", "edits": [[FILE, PATH, VALUE], …]}.
    """
    case = parse_case(content)
    if not isinstance(case, dict):
        return
    layout = _gpt_layout(case)
    base = base_export(layout)
    with sandbox() as folder, interrupted():
        shutil.copytree(base, folder / "model")
        _apply(folder / "model", case.get("edits"), is_checksummed=False)
        _import(layout, folder / "model", "the cat")


def _gpt_layout(case: dict[str, Any]) -> str:
    return "gpt1" if case.get("layout") == "gpt1" else "gpt2"


def _import(layout: str, path: Path, given: str) -> None:
    from saccade.runs.run import import_run, load_run

    with refusals():
        import_run(layout, path, Path("imported"))
        # what was imported is a run like others
        run = load_run("imported")
        with refusals():
            run.predict(given)


def _mutate_imports(content: bytes, max_size: int, seed: int) -> bytes:
    draw = random.Random(seed)
    case = parse_case(content)
    if not isinstance(case, dict):
        case = {"layout": draw.choice(["gpt1", "gpt2"])}
    _mutate_edits(case, base_export(_gpt_layout(case)), draw)
    return json.dumps(case).encode()[:max_size]


def vectors_target(content: bytes) -> None:
    """Import a file of word vectors; the first line is the format and the suffix of the file."""
    from saccade.interop.registry import IMPORTS

    first, _, rest = content.partition(b"\n")
    layout, _, suffix = first.decode("ascii", "replace").partition(" ")
    if layout not in IMPORTS or layout in ("gpt1", "gpt2"):
        return
    with sandbox() as folder, interrupted():
        path = folder / ("vectors.bin" if suffix == ".bin" else "vectors.txt")
        path.write_bytes(rest)
        _import(layout, path, "cat")


IMAGE_FILES = ("image", "train-images-idx3-ubyte", "data_batch_1.bin", "photos.zip", "photos.tar")


def images_target(content: bytes) -> None:
    """Open images and decode some; the first line is the name of the file, one of IMAGE_FILES."""
    from saccade.data.images.config import ImagesConfig
    from saccade.data.images.decode import ImageForm, decode_images
    from saccade.data.images.readers import open_images

    first, _, rest = content.partition(b"\n")
    name = first.decode("ascii", "replace")
    if name not in IMAGE_FILES:
        return
    form, limit = ImageForm(8, 3), 1 << 20
    with sandbox() as folder, interrupted(), refusals():
        if name == "image":
            list(decode_images(lambda row: rest, range(1), form, limit))
            return
        (folder / name).write_bytes(rest)
        (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 0, 1]))
        images = open_images(folder / name, ImagesConfig())
        for found in decode_images(images.read, range(min(len(images), 8)), form, limit):
            assert found.pixels is None or found.pixels.shape[:2] == (8, 8)


TARGETS: dict[str, Target] = {
    "images": Target(_quietly(images_target), None, 1 << 13),
    "records": Target(_quietly(records_target), mutate_records, 1 << 14),
    "documents": Target(_quietly(documents_target), _mutate_documents, 1 << 13),
    "tensors": Target(_quietly(tensors_target), None, 1 << 12),
    "tokenizer": Target(_quietly(tokenizer_target), _mutate_json, 1 << 12),
    "imports": Target(_quietly(imports_target), _mutate_imports, 1 << 13),
    "vectors": Target(_quietly(vectors_target), None, 1 << 12),
    "commands": Target(_quietly(commands_target), mutate_command, 1 << 13),
}
