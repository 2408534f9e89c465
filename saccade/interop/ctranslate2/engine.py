r"""Answering with CTranslate2, in a process that never loads torch: beside it, it is much slower.

    python -m saccade.interop.ctranslate2.engine RUN

is such a process: it reads a request a line and answers it, both in JSON (`saccade.interop.ctranslate2.subprocess`
is the other end).

The answers are those of our own greedy search. A beam is CTranslate2's: a hypothesis that ends
gives its place to the next, where ours keeps it, so that the answers of a beam may differ. They
are ranked by our length penalty, ((5 + length) / 6)^α, where CTranslate2's own is length^α. Their
log-probabilities are counted anew, as the model's: CTranslate2's search hands the chance of the
marks that are never written to the other tokens, ours to none.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from saccade.config import Config, build_config
from saccade.data.length_bucketing import group_by_length
from saccade.data.tokenizers import Tokenizer, tokenizer_from_json
from saccade.data.truncation import truncate_text
from saccade.data.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.errors import ConfigError, DataError, MissingPackageError, RunError, SaccadeError
from saccade.io.atomic import corrupt_file_error, read_checksummed_json
from saccade.io.run_folder import read_run_settings, weights_checksum
from saccade.types.results import Prediction

ENGINE_NAME = "ctranslate2"
EXPORT_INFO_FILE = "saccade.json"  # beside CTranslate2's own files
EXPORT_FORMAT = 1  # of an export
ENGINE_BATCH_TOKENS = 4096  # source tokens, padding included, that are answered at once
# what our own search can do and this one cannot, or not to the same effect
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
    """The package itself, or where it is to be had."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingPackageError(
            "CTranslate2 is not installed. Install it with: pip install 'saccade[ctranslate2]'"
        ) from None
    return ctranslate2


class EngineDecodingConfig(Config):
    """What may be asked of the search; as it stands here, the likeliest token at every step."""

    beam: int = Field(1, ge=1)
    n_best: int = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=0)


def parse_engine_options(options: dict[str, Any]) -> EngineDecodingConfig:
    """The search that is asked for; what CTranslate2 does otherwise or not at all is refused."""
    if ours := sorted(UNSUPPORTED_OPTIONS & options.keys()):
        raise ConfigError(
            f"{', '.join(ours)} is for our own search; with the engine {ENGINE_NAME} there are: "
            f"{', '.join(EngineDecodingConfig.model_fields)}. Leave it out, or answer without the engine."
        )
    wanted = build_config(EngineDecodingConfig, options, "the search")
    if wanted.n_best > wanted.beam:
        raise ConfigError(
            f"{wanted.n_best} best answers of a beam of {wanted.beam} were asked for; "
            f"a beam finds no more than it is wide: use a beam of {wanted.n_best} or more."
        )
    return wanted


def export_folder(run: Path) -> Path:
    """Where a run keeps its export."""
    return run / "exports" / ENGINE_NAME


class _Found(NamedTuple):
    """A hypothesis: its tokens' numbers, the end mark too if it got there."""

    ids: list[int]
    log_probability: float

    @property
    def finished(self) -> bool:
        return self.ids[-1:] == [EOS]

    @property
    def written(self) -> list[int]:
        return self.ids[:-1] if self.finished else self.ids

    def score(self, alpha: float) -> float:
        """As `saccade.decoding.penalties` has it."""
        return self.log_probability / ((5.0 + len(self.ids)) / 6.0) ** alpha


class CTranslate2Engine:
    """A run's export, opened. `scored=False` leaves the log-probabilities out, which saves time."""

    def __init__(self, run: Path, with_scores: bool = True):
        self.run, self.with_scores = run, with_scores
        data = read_run_settings(run)["recipe"]["data"]
        self.folder = export_folder(run)
        self.export_info = _facts(run, self.folder)
        self._check_fresh()
        self.source, self.target = _tokenizers(read_checksummed_json(run / "tokenizer.json"))
        self.source_tokens = _tokens(self.folder, "source")
        self.target_tokens = _tokens(self.folder, "target")
        self.target_ids = {token: number for number, token in enumerate(self.target_tokens)}
        num_positions = (
            self.export_info["places"] - 1
        )  # the source has an end mark too, an answer a begin mark
        self.max_length = min(data["max_length"], num_positions)
        self.max_new_tokens = max(1, min(data["max_new_tokens"], num_positions))
        self.translator = import_ctranslate2().Translator(
            str(self.folder),
            device="cpu",
            compute_type=compute_type(self.export_info["quantization"]),
            inter_threads=1,
            intra_threads=_threads(),
        )

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        **options: Any,
    ) -> list[Prediction]:
        """An answer to each text, in order; the same as `Run.predict`, where that is promised."""
        wanted = parse_engine_options(options)
        self._check_fresh()
        encoded = self.source.encode_many(list(texts))
        self._check_lengths(encoded, first)
        found = [Prediction("", 0.0, 0.0, True)] * len(encoded)
        asked = [row for row, ids in enumerate(encoded) if ids]
        on_progress(len(encoded) - len(asked))
        for rows in group_by_length(asked, encoded, ENGINE_BATCH_TOKENS, len(asked)):
            for row, answer in zip(rows, self._search(rows, encoded, wanted), strict=True):
                found[row] = answer
            on_progress(len(rows))
        return found

    def truncate(self, text: str) -> str:
        """The text, or the longest beginning of it that the model takes."""
        return truncate_text(text, self.source, self.max_length)

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of every token of each target, the end mark's last."""
        results = self.translator.score_batch(
            [self._named(ids, self.source_tokens) for ids in sources],
            [self._named(ids, self.target_tokens) for ids in targets],
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def _search(
        self, rows: list[int], encoded: list[list[int]], options: EngineDecodingConfig
    ) -> list[Prediction]:
        sources = [encoded[row] for row in rows]
        ranked = options.length_penalty > 0 and options.beam > 1
        results = self.translator.translate_batch(
            [self._named(ids, self.source_tokens) for ids in sources],
            beam_size=options.beam,
            # all of them where the order is to be another one
            num_hypotheses=options.beam if ranked else options.n_best,
            length_penalty=options.length_penalty if ranked else 0,
            suppress_sequences=[[SPECIAL_TOKENS[mark]] for mark in (PAD, BOS, UNK)],
            return_end_token=True,
            max_input_length=0,
            max_decoding_length=self.max_new_tokens,
            min_decoding_length=0,
            return_scores=options.beam > 1,
        )
        penalty = options.length_penalty if ranked else 0.0
        chosen = [self._ranked(result, options, penalty) for result in results]
        if self.with_scores:
            chosen = self._rescored(sources, chosen)
        return [self._answered(several, options.length_penalty) for several in chosen]

    def _ranked(self, result: Any, options: EngineDecodingConfig, penalty: float) -> list[_Found]:
        """The best hypotheses by our penalty, theirs taken back."""
        scores = result.scores or [float("nan")] * len(result.hypotheses)
        found = []
        for tokens, score in zip(result.hypotheses, scores, strict=True):
            ids = [self.target_ids[token] for token in tokens]
            found.append(_Found(ids, score * len(ids) ** penalty))
        if options.beam > 1:
            found.sort(key=lambda one: -one.score(options.length_penalty))
        return found[: options.n_best]

    def _rescored(self, sources: list[list[int]], chosen: list[list[_Found]]) -> list[list[_Found]]:
        """With log-probabilities by the model's own table, as our search counts them."""
        pairs = [(source, one) for source, s in zip(sources, chosen, strict=True) for one in s]
        tables = self.score([source for source, _ in pairs], [one.written for _, one in pairs])
        # the end mark of one that was cut off is not its own
        again = iter(
            one._replace(log_probability=sum(table[: len(one.ids)]))
            for (_, one), table in zip(pairs, tables, strict=True)
        )
        return [list(islice(again, len(several))) for several in chosen]

    def _answered(self, several: list[_Found], alpha: float) -> Prediction:
        best, *alternatives = [
            Prediction(
                self.target.decode(one.written),
                one.score(alpha),
                one.log_probability,
                one.finished,
            )
            for one in several
        ]
        return best._replace(alternatives=tuple(alternatives))

    def _named(self, ids: list[int], tokens: list[str]) -> list[str]:
        return [tokens[id] for id in ids]

    def _check_fresh(self) -> None:
        if weights_checksum(self.run) != self.export_info["weights"]:
            raise RunError(
                f"the weights of {self.run} are not those that were exported; export them again: "
                f"{_command(self.run)}"
            )

    def _check_lengths(self, encoded: list[list[int]], first: int) -> None:
        over = [
            f"{number} ({len(ids):,} tokens)"
            for number, ids in enumerate(encoded, first)
            if len(ids) > self.max_length
        ]
        if over:
            raise DataError(
                f"input {', '.join(over[:5])}{' …' if len(over) > 5 else ''} is longer than the "
                f"{self.max_length} tokens this model takes. Cut it into sentences, or train with a "
                "larger data.max_length."
            )


ENGINES = {ENGINE_NAME: CTranslate2Engine}


def _facts(run: Path, folder: Path) -> dict[str, Any]:
    """What was written about the export, whose files are as they were."""
    if not (folder / EXPORT_INFO_FILE).exists():
        raise RunError(
            f"{run} has no export for the engine {ENGINE_NAME}. Make one with: {_command(run)}"
        )
    export_info = read_checksummed_json(folder / EXPORT_INFO_FILE)
    if export_info["format"] > EXPORT_FORMAT:
        raise RunError(
            f"{folder} was written by saccade {export_info['saccade']}, which is newer than this. "
            f"Install it, or export again: {_command(run)}"
        )
    for name, seal in export_info["files"].items():
        path = folder / name
        if not path.exists() or sha256(path.read_bytes()).hexdigest() != seal:
            raise corrupt_file_error(
                path, f"it is not as it was written ({_command(run)} writes it again)"
            )
    return export_info


def _command(run: Path) -> str:
    return f"saccade export {run} --to {ENGINE_NAME}"


def _tokenizers(kept: dict[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    if "shared" in kept:
        both = tokenizer_from_json(kept["shared"])
        return both, both
    return tokenizer_from_json(kept["source"]), tokenizer_from_json(kept["target"])


def _tokens(folder: Path, side: str) -> list[str]:
    path = folder / "shared_vocabulary.json"
    path = path if path.exists() else folder / f"{side}_vocabulary.json"
    return list(json.loads(path.read_text(encoding="utf-8")))


def compute_type(quantization: str) -> str:
    """What a model is computed in: bytes only where the processor adds them up without loss.

    On an x86 processor without VNNI, CTranslate2 may multiply bytes by way of 16 bits, which
    overflow: log-probabilities were then off by 0.35 on the mean, against 0.02 by rounding alone.
    There the weights, rounded as they are, are taken as float32, which is faster there as well.
    """
    if quantization == "float32" or platform.machine().lower() not in ("x86_64", "amd64"):
        return quantization
    return quantization if "avx512_vnni" in _processor() else "float32"


def _processor() -> str:
    """What Linux says of it."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _threads() -> int:
    """As many as there are cores that may be used; 0 leaves it to OMP_NUM_THREADS."""
    if os.environ.get("OMP_NUM_THREADS"):
        return 0
    mine = getattr(os, "sched_getaffinity", None)
    return len(mine(0)) if mine else os.cpu_count() or 1


# --- a process of its own -------------------------------------------------------------------------


def serve_requests(run: Path, lines: Iterator[str], say: Callable[[dict[str, Any]], None]) -> None:
    """Answer a request a line; what can be mended is said, and the next one awaited."""
    try:
        engine = CTranslate2Engine(run)
    except SaccadeError as error:
        say({"error": [type(error).__name__, str(error)]})
        return
    say({"ready": True})
    for line in lines:
        try:
            say({"answer": _answer(engine, json.loads(line), say)})
        except SaccadeError as error:
            say({"error": [type(error).__name__, str(error)]})


def _answer(
    engine: CTranslate2Engine, request: dict[str, Any], say: Callable[[dict[str, Any]], None]
) -> Any:
    if request["do"] == "export_info":
        return engine.export_info
    if request["do"] == "score":
        return engine.score(request["sources"], request["targets"])
    return engine.predict(
        request["texts"],
        first=request["first"],
        on_progress=lambda more: say({"more": more}),
        **request["options"],
    )


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve_requests(Path(sys.argv[1]), sys.stdin, _say)
