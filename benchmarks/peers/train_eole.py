"""Eole's own trainer with its own data loading, loss and optimiser, on the same text and sizes.

All that is ours is a gate behind every step, where it waits for its next window; the tokens are
those of its own statistics, as its log shows them. Its bucket holds the whole corpus, so that its
batches are as well sorted by length as they can be.
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
    training_task,
)
from peers.gate import Gate
from peers.pipe import Pipe

from saccade.data.batching import Ragged
from saccade.data.vocabulary import SPECIAL_TOKENS


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train for ever, a window at a time."""
    gate = Gate(pipe)
    place = Path(folder) / "eole"
    place.mkdir(exist_ok=True)
    _write_corpus(folder, place)
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
    main(TrainConfig(**_settings(place)), device_id=-1)


def _drop_as_ours(model: Any) -> None:
    """No dropout inside the feed-forward; no setting of its own takes that one away."""
    for module in model.modules():
        if hasattr(module, "dropout_1"):
            module.dropout_1.p = 0.0


def _write_corpus(folder: str, place: Path) -> None:
    """Our numbers as words between spaces, and the list of them."""
    task = training_task(folder, **TRANSFORMER)
    encoded = task.encoded["train"]
    for side, name in ((encoded.source, "source"), (encoded.target, "target")):
        (place / name).write_text("".join(f"{line}\n" for line in _lines(side)))
    size = task.tokenizers.target.vocab_size
    words = [f"t{number}\t1\n" for number in range(len(SPECIAL_TOKENS), size)]
    (place / "vocabulary").write_text("".join(words))


def _lines(side: Ragged) -> list[str]:
    words = [f"t{number}" for number in side.ids.tolist()]
    ends = side.offsets.tolist()
    return [" ".join(words[a:b]) for a, b in zip(ends, ends[1:], strict=False)]


def _settings(place: Path) -> dict[str, Any]:
    vocabulary = str(place / "vocabulary")
    return {
        "data": {
            "corpus_1": {
                "path_src": str(place / "source"),
                "path_tgt": str(place / "target"),
                "transforms": [],
            }
        },
        "save_data": str(place),
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
            "model_path": str(place / "model"),
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
