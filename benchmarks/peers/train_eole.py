"""Eole's trainer with its own data loading, loss and optimiser, on the same text and sizes.

Only a gate is added after every step, where it waits for its next window; the tokens are those of
its own statistics. Its bucket holds the whole corpus, so that its batches are sorted by length as
well as possible.
"""

from pathlib import Path
from typing import Any

from eole.config.run import TrainConfig
from eole.train_single import main
from eole.trainer import Trainer
from peers.corpus import (
    BETAS,
    CLIP,
    DEPTH,
    DROPOUT,
    FOREVER,
    HEADS,
    HIDDEN,
    RATE,
    SMOOTHING,
    TOKENS,
    TRANSFORMER,
    WIDTH,
    training_objective,
)
from peers.gate import Gate
from peers.pipe import Pipe

from saccade.data.batching import Ragged
from saccade.data.special_tokens import SPECIAL_TOKENS


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    gate = Gate(pipe)
    eole_folder = Path(folder) / "eole"
    eole_folder.mkdir(exist_ok=True)
    _write_corpus(folder, eole_folder)
    step, first = Trainer._train_step, True

    def gated(self: Any, batches: Any, norm: Any, total: Any, *rest: Any, **more: Any) -> None:
        nonlocal first
        if first:
            first = False
            _drop_as_ours(self.model)
            parameters = sum(parameter.numel() for parameter in self.model.parameters())
            about = "its own trainer, batches and Adam; pre-norm"
            gate.ready(self.model, parameters=parameters, about=about)
        before = total.n_tokens
        step(self, batches, norm, total, *rest, **more)
        gate(total.n_tokens - before)

    Trainer._train_step = gated
    main(TrainConfig(**_settings(eole_folder)), device_id=-1)


def _drop_as_ours(model: Any) -> None:
    """Disable dropout inside the feed-forward, for which Eole has no setting."""
    for module in model.modules():
        if hasattr(module, "dropout_1"):
            module.dropout_1.p = 0.0


def _write_corpus(folder: str, eole_folder: Path) -> None:
    """Write our token ids as words, and their vocabulary."""
    objective = training_objective(folder, **TRANSFORMER)
    encoded = objective.splits["train"].encoded
    for side, name in ((encoded.source, "source"), (encoded.target, "target")):
        (eole_folder / name).write_text("".join(f"{line}\n" for line in _lines(side)))
    size = objective.recipe.model.target_vocab_size
    words = [f"t{number}\t1\n" for number in range(len(SPECIAL_TOKENS), size)]
    (eole_folder / "vocabulary").write_text("".join(words))


def _lines(side: Ragged) -> list[str]:
    words = [f"t{number}" for number in side.ids.tolist()]
    ends = side.offsets.tolist()
    return [" ".join(words[a:b]) for a, b in zip(ends, ends[1:], strict=False)]


def _settings(eole_folder: Path) -> dict[str, Any]:
    vocabulary = str(eole_folder / "vocabulary")
    return {
        "data": {
            "corpus_1": {
                "path_src": str(eole_folder / "source"),
                "path_tgt": str(eole_folder / "target"),
                "transforms": [],
            }
        },
        "save_data": str(eole_folder),
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "share_vocab": True,
        "src_vocab_size": 8000,
        "tgt_vocab_size": 8000,
        "overwrite": True,
        "seed": 1,
        "report_every": 100,
        "transforms": [],
        "training": {
            "model_path": str(eole_folder / "model"),
            "world_size": 1,
            "gpu_ranks": [],
            "compute_dtype": "fp32",
            "batch_type": "tokens",
            "batch_size": TOKENS,
            "batch_size_multiple": 1,
            "normalization": "tokens",
            "bucket_size": 29_000,
            "num_workers": 0,
            "train_steps": FOREVER,
            "valid_steps": FOREVER,
            "save_checkpoint_steps": FOREVER,
            "optim": "adam",
            "adam_beta1": BETAS[0],
            "adam_beta2": BETAS[1],
            "learning_rate": RATE,
            "decay_method": "none",
            "max_grad_norm": CLIP,
            "label_smoothing": SMOOTHING,
            "dropout": [DROPOUT],
            "attention_dropout": [0.0],
            "dropout_steps": [0],
        },
        "model": {
            "architecture": "transformer",
            "layers": DEPTH,
            "hidden_size": WIDTH,
            "heads": HEADS,
            "transformer_ff": HIDDEN,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "mlp_activation_fn": "relu",
            "embeddings": {
                "word_vec_size": WIDTH,
                "position_encoding_type": "SinusoidalInterleaved",
            },
        },
    }
