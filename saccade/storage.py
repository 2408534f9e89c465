"""Tensors in sealed files: the seal of a safetensors file is in its header.

The other files of a run are those of `saccade.sealed`, which loads no torch.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from saccade.errors import RunError
from saccade.sealed import SEAL, damaged, write_atomically


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and a few plain facts as one sealed safetensors file."""
    whole = _each_its_own(tensors)
    note = json.dumps(facts, sort_keys=True)
    seal = _seal(whole, note)
    # one entry: of several, safetensors would write them in another order every time
    sealed = json.dumps({"facts": note, SEAL: seal})
    write_atomically(path, save(whole, metadata={"sealed": sealed}))


def _each_its_own(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, and apart: safetensors refuses tied weights, which share their memory."""
    whole, seen = {}, set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        whole[name] = own.clone() if place in seen else own
        seen.add(place)
    return whole


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `write_tensors` wrote, or a `RunError` if they were changed."""
    if not path.exists():
        raise RunError(f"{path} is missing. Is {path.parent} a finished run?")
    try:
        with safe_open(path, framework="pt") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if "sealed" in notes:  # in format 1 the two stood by themselves
            notes = json.loads(notes["sealed"])
        note, seal = notes["facts"], notes[SEAL]
        facts = json.loads(note)
    except (SafetensorError, KeyError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise damaged(
            path, f"it is cut short or is not the file that was written ({error})"
        ) from None
    if _seal(tensors, note) != seal:
        raise damaged(path, "its content does not match its seal")
    return tensors, dict(facts)


def _seal(tensors: Mapping[str, Tensor], note: str) -> str:
    digest = sha256(note.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # numpy knows no bfloat16, so the bytes are taken as bytes
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
