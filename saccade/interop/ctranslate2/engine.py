r"""Inference with CTranslate2 in a process that never imports torch (next to it, it is slower).

    python -m saccade.interop.ctranslate2.engine RUN

serves requests: one line of JSON in, one or more out. The client is
`saccade.interop.ctranslate2.subprocess`.

Greedy predictions equal those of our own decoder. Beam search is CTranslate2's: a finished
hypothesis frees its slot for the next one, where ours keeps it, so predictions may differ. They
are ranked by our length penalty, ((5 + length) / 6)^α, where CTranslate2's own is length^α.
Log-probabilities are recomputed with the model: CTranslate2 redistributes the probability of
suppressed tokens to the others, ours does not.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from saccade.config import Config, build_config
from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import Tokenizer, group_by_length, tokenizer_from_json, truncate
from saccade.errors import ConfigError, DataError, MissingPackageError, RunError, SaccadeError
from saccade.interop.export_folder import EXPORT_FORMAT, EXPORT_INFO_FILE, PARITY_FILE
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json
from saccade.io.documents import parse_json, parse_structure
from saccade.io.file_kinds import check_regular_file
from saccade.io.machine import is_made_here
from saccade.io.run_folder import read_run_settings, weights_checksum
from saccade.types.limits import MAX_BEAM, MAX_PENALTY
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.results import Prediction

ENGINE_NAME = "ctranslate2"
ENGINE_BATCH_TOKENS = 4096  # source tokens of a batch, padding included
# decoding options that CTranslate2 does not have, or not with the same effect
UNSUPPORTED_OPTIONS = frozenset(
    (
        "coverage",
        "no_repeat_ngram_size",
        "repetition_penalty",
        "sample",
        "seed",
        "temperature",
        "top_k",
        "top_p",
    )
)


def import_ctranslate2() -> Any:
    """Return the package, or raise an error that explains how to install it."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingPackageError(
            "CTranslate2 is not installed. Install it with: pip install 'saccade[ctranslate2]'"
        ) from None
    return ctranslate2


class EngineDecodingConfig(Config):
    """Decoding options of the engine; the default is greedy decoding."""

    beam: int = Field(1, ge=1, le=MAX_BEAM)
    n_best: int = Field(1, ge=1, le=MAX_BEAM)
    length_penalty: float = Field(1.0, ge=0, le=MAX_PENALTY)


def parse_engine_options(options: dict[str, Any]) -> EngineDecodingConfig:
    """Check decoding options; refuse those that CTranslate2 does not support."""
    if unsupported := sorted(UNSUPPORTED_OPTIONS & options.keys()):
        raise ConfigError(
            f"got {', '.join(unsupported)}, which the engine {ENGINE_NAME} does not support; it "
            f"has: {', '.join(EngineDecodingConfig.model_fields)}. Leave it out, or predict "
            "without the engine."
        )
    decoding = build_config(EngineDecodingConfig, options, "decoding")
    if decoding.n_best > decoding.beam:
        raise ConfigError(
            f"got n_best={decoding.n_best} with a beam of {decoding.beam}; use a beam of "
            f"{decoding.n_best} or more."
        )
    return decoding


def write_parity(run: Path, inputs: int, same: int) -> None:
    """Record for how many of some inputs the export of a run gave the run's own predictions."""
    parity = {"weights": weights_checksum(run), "inputs": inputs, "same": same}
    write_checksummed_json(export_folder(run) / PARITY_FILE, parity)


def is_verified_export(run: Path) -> bool:
    """Return True if a run has an export of its weights that gives the same greedy predictions.

    It must be in float32, and `write_parity` must have recorded that all predictions were equal.
    CTranslate2 reads its files itself, so that the run must have been made on this machine.
    """
    folder = export_folder(run)
    if not (folder / PARITY_FILE).exists() or find_spec("ctranslate2") is None:
        return False
    try:
        info = _read_structure(folder / EXPORT_INFO_FILE, ExportInfo)
        parity = _read_structure(folder / PARITY_FILE, ExportParity)
        checksum = weights_checksum(run)
        settings = read_run_settings(run)
    except RunError:
        return False
    if not is_made_here(settings["recipe"].get("data", {}), settings["made"]):
        return False
    is_same = parity["inputs"] > 0 and parity["same"] == parity["inputs"]
    is_fresh = info["weights"] == parity["weights"] == checksum
    return is_same and is_fresh and info["quantization"] == "float32"


def export_folder(run: Path) -> Path:
    """Return the folder of a run's export."""
    return run / "exports" / ENGINE_NAME


class ExportFormat(TypedDict):
    """The part of an export's metadata that every version has."""

    format: Annotated[int, Field(ge=1)]
    saccade: str


# the functional form, since a key is not one of our words
ExportInfo = TypedDict(  # noqa: UP013
    "ExportInfo",
    {
        "weights": str,  # checksum of the weights that were exported
        "quantization": Literal["float32", "int8"],
        "places": Annotated[int, Field(ge=2, le=sys.maxsize)],  # positions
        "files": Annotated[dict[str, str], Field(min_length=1)],  # checksums
    },
)


class ExportParity(TypedDict):
    """Comparison of the predictions of an export with those of its run."""

    inputs: int
    same: int
    weights: str


class _Hypothesis(NamedTuple):
    """Token ids, with eos if it is finished, and their log-probability."""

    ids: list[int]
    log_probability: float

    @property
    def finished(self) -> bool:
        return self.ids[-1:] == [EOS]

    @property
    def text_ids(self) -> list[int]:
        return self.ids[:-1] if self.finished else self.ids

    def score(self, alpha: float) -> float:
        """Return the length-normalised score, as in `saccade.decoding.greedy`."""
        return self.log_probability / ((5.0 + len(self.ids)) / 6.0) ** alpha


class CTranslate2Engine:
    """CTranslate2 on the export of a run.

    `with_scores=False` saves the time for log-probabilities.
    """

    def __init__(self, run: Path, with_scores: bool = True):
        self.run, self.with_scores = run, with_scores
        data = read_run_settings(run)["recipe"]["data"]
        self.folder = export_folder(run)
        self.export_info = _read_export_info(run, self.folder)
        self._check_fresh()
        self.source, self.target = _read_tokenizers(run / "tokenizer.json")
        self.source_tokens = _read_tokens(self.folder, "source")
        self.target_tokens = _read_tokens(self.folder, "target")
        self.target_ids = {token: id for id, token in enumerate(self.target_tokens)}
        num_positions = self.export_info["places"] - 1  # one is for eos or bos
        self.max_length = min(data["max_length"], num_positions)
        self.max_new_tokens = max(1, min(data["max_new_tokens"], num_positions))
        self.translator = import_ctranslate2().Translator(
            str(self.folder),
            device="cpu",
            compute_type=compute_type(self.export_info["quantization"]),
            inter_threads=1,
            intra_threads=_num_threads(),
        )

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Progress = ignore_progress,
        **options: Any,
    ) -> list[Prediction]:
        """Return a prediction for each text, in order; greedy ones equal those of `Run.predict`."""
        decoding = parse_engine_options(options)
        self._check_fresh()
        encoded = self.source.encode_many(list(texts))
        self._check_lengths(encoded, first)
        predictions = [Prediction("", 0.0, 0.0, True)] * len(encoded)
        nonempty = [row for row, ids in enumerate(encoded) if ids]
        counter = ProgressCounter(on_progress, "predicting", len(encoded))
        counter.advance(len(encoded) - len(nonempty))
        for rows in group_by_length(nonempty, encoded, ENGINE_BATCH_TOKENS, len(nonempty)):
            for row, found in zip(rows, self._search(rows, encoded, decoding), strict=True):
                predictions[row] = found
            counter.advance(len(rows))
        return predictions

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a text that the model takes."""
        return truncate(text, self.source, self.max_length)

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of every token of each target, eos included."""
        results = self.translator.score_batch(
            [self._to_tokens(ids, self.source_tokens) for ids in sources],
            [self._to_tokens(ids, self.target_tokens) for ids in targets],
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def _search(
        self, rows: list[int], encoded: list[list[int]], options: EngineDecodingConfig
    ) -> list[Prediction]:
        sources = [encoded[row] for row in rows]
        rerank = options.length_penalty > 0 and options.beam > 1
        results = self.translator.translate_batch(
            [self._to_tokens(ids, self.source_tokens) for ids in sources],
            beam_size=options.beam,
            num_hypotheses=options.beam if rerank else options.n_best,
            length_penalty=options.length_penalty if rerank else 0,
            suppress_sequences=[[SPECIAL_TOKENS[id]] for id in (PAD, BOS, UNK)],
            return_end_token=True,
            max_input_length=0,
            max_decoding_length=self.max_new_tokens,
            min_decoding_length=0,
            return_scores=options.beam > 1,
        )
        penalty = options.length_penalty if rerank else 0.0
        ranked = [self._rank(result, options, penalty) for result in results]
        if self.with_scores:
            ranked = self._rescore(sources, ranked)
        return [self._to_prediction(found, options.length_penalty) for found in ranked]

    def _rank(
        self, result: Any, options: EngineDecodingConfig, penalty: float
    ) -> list[_Hypothesis]:
        """Undo CTranslate2's length penalty and return the best hypotheses by ours."""
        scores = result.scores or [float("nan")] * len(result.hypotheses)
        found = []
        for tokens, score in zip(result.hypotheses, scores, strict=True):
            ids = [self.target_ids[token] for token in tokens]
            found.append(_Hypothesis(ids, score * len(ids) ** penalty))
        if options.beam > 1:
            found.sort(key=lambda hypothesis: -hypothesis.score(options.length_penalty))
        return found[: options.n_best]

    def _rescore(
        self, sources: list[list[int]], ranked: list[list[_Hypothesis]]
    ) -> list[list[_Hypothesis]]:
        """Replace the log-probabilities of the search by the model's own."""
        pairs = [
            (source, hypothesis)
            for source, found in zip(sources, ranked, strict=True)
            for hypothesis in found
        ]
        scores = self.score([source for source, _ in pairs], [h.text_ids for _, h in pairs])
        # `score` adds eos; a hypothesis that was cut off does not have it
        rescored = iter(
            hypothesis._replace(log_probability=sum(logs[: len(hypothesis.ids)]))
            for (_, hypothesis), logs in zip(pairs, scores, strict=True)
        )
        return [list(islice(rescored, len(found))) for found in ranked]

    def _to_prediction(self, ranked: list[_Hypothesis], alpha: float) -> Prediction:
        best, *alternatives = [
            Prediction(
                self.target.decode(found.text_ids),
                found.score(alpha),
                found.log_probability,
                found.finished,
            )
            for found in ranked
        ]
        return best._replace(alternatives=tuple(alternatives))

    def _to_tokens(self, ids: list[int], tokens: list[str]) -> list[str]:
        return [tokens[id] for id in ids]

    def _check_fresh(self) -> None:
        if weights_checksum(self.run) != self.export_info["weights"]:
            raise RunError(
                f"the weights of {self.run} changed after the export; export again: "
                f"{_export_command(self.run)}"
            )

    def _check_lengths(self, encoded: list[list[int]], first: int) -> None:
        too_long = [
            f"{number} ({len(ids):,} tokens)"
            for number, ids in enumerate(encoded, first)
            if len(ids) > self.max_length
        ]
        if too_long:
            listed = ", ".join(too_long[:5]) + (" …" if len(too_long) > 5 else "")
            raise DataError(
                f"got input {listed}; expected at most {self.max_length} tokens; try shorter "
                "sentences, or train with a larger data.max_length."
            )


def _read_export_info(run: Path, folder: Path) -> ExportInfo:
    """Return the metadata of an export; check its files against their checksums."""
    if not (folder / EXPORT_INFO_FILE).exists():
        raise RunError(
            f"{run} has no export for the engine {ENGINE_NAME}. Make one with: "
            f"{_export_command(run)}"
        )
    path = folder / EXPORT_INFO_FILE
    newest = _read_structure(path, ExportFormat)
    if newest["format"] > EXPORT_FORMAT:
        raise RunError(
            f"{folder} was written by saccade {newest['saccade']}, which is newer than this. "
            f"Install it, or export again: {_export_command(run)}"
        )
    export_info: ExportInfo = _read_structure(path, ExportInfo)
    for name, checksum in export_info["files"].items():
        path = folder / Path(name).name  # no file outside of the folder
        check_regular_file(path, RunError)
        if not path.exists() or sha256(path.read_bytes()).hexdigest() != checksum:
            raise corrupt_file_error(
                path, f"it was changed after the export ({_export_command(run)} writes it again)"
            )
    return export_info


def _read_structure(path: Path, kind: Any) -> Any:
    """Return the values of a checksummed file, which must have the keys and types of `kind`."""
    try:
        return parse_structure(kind, read_checksummed_json(path))
    except ValueError as error:
        raise corrupt_file_error(path, f"it has another structure ({error})") from None


def _export_command(run: Path) -> str:
    return f"saccade export {run} --to {ENGINE_NAME}"


def _read_tokenizers(path: Path) -> tuple[Tokenizer, Tokenizer]:
    saved = read_checksummed_json(path)
    try:
        if "shared" in saved:
            shared = tokenizer_from_json(saved["shared"])
            return shared, shared
        return tokenizer_from_json(saved["source"]), tokenizer_from_json(saved["target"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise corrupt_file_error(path, f"it is not a tokenizer ({error})") from None


def _read_tokens(folder: Path, side: str) -> list[str]:
    path = folder / "shared_vocabulary.json"
    path = path if path.exists() else folder / f"{side}_vocabulary.json"
    try:
        return list(parse_structure(list[str], parse_json(path.read_text(encoding="utf-8"))))
    except ValueError as error:
        raise corrupt_file_error(path, f"it is not a list of tokens ({error})") from None


def compute_type(quantization: str) -> str:
    """Return the type to compute in: int8 only where the processor accumulates it exactly.

    On x86 without VNNI, CTranslate2 may multiply int8 by way of int16, which overflows:
    log-probabilities were then off by 0.35 on average, against 0.02 by quantization alone. There
    the quantized weights are computed in float32, which is also faster.
    """
    if quantization == "float32" or platform.machine().lower() not in ("x86_64", "amd64"):
        return quantization
    return quantization if "avx512_vnni" in _cpu_info() else "float32"


def _cpu_info() -> str:
    """Return /proc/cpuinfo; empty where there is none."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _num_threads() -> int:
    """Return the number of usable cores; 0 leaves the choice to OMP_NUM_THREADS."""
    if os.environ.get("OMP_NUM_THREADS"):
        return 0
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


# --- server process -------------------------------------------------------------------------------


Reply = dict[str, Any]  # one of "ready", "result", "progress", "error"
SendFunction = Callable[[Reply], None]


def serve_requests(run: Path, lines: Iterator[str], send: SendFunction) -> None:
    """Handle one request per line; errors that the caller can fix are sent back."""
    try:
        engine = CTranslate2Engine(run)
    except SaccadeError as error:
        send({"error": [type(error).__name__, str(error)]})
        return
    send({"ready": True})
    for line in lines:
        try:
            send({"result": _handle(engine, json.loads(line), send)})
        except SaccadeError as error:
            send({"error": [type(error).__name__, str(error)]})


def _handle(engine: CTranslate2Engine, request: dict[str, Any], send: SendFunction) -> Any:
    """Call the method of the engine that a request names."""
    if request["method"] == "export_info":
        return engine.export_info
    if request["method"] == "score":
        return engine.score(request["sources"], request["targets"])
    return engine.predict(
        request["texts"],
        first=request["first"],
        on_progress=lambda what, done, total: send({"progress": [what, done, total]}),
        **request["options"],
    )


def _send(reply: Reply) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve_requests(Path(sys.argv[1]), sys.stdin, _send)
