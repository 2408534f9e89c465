"""CTranslate2 answers as our own search does, or refuses with a reason."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.decoding import DecodingConfig
from saccade.decoding.greedy import length_penalty
from saccade.errors import ConfigError, DataError, MissingPackageError, RunError
from saccade.interop.ctranslate2 import engine as engines
from saccade.interop.ctranslate2.engine import (
    UNSUPPORTED_OPTIONS,
    CTranslate2Engine,
    EngineDecodingConfig,
    compute_type,
)
from saccade.io.atomic import read_checksummed_json, write_checksummed_json
from saccade.runs.run import Run, load_run
from saccade.types.results import Prediction
from tests.hanging import HANG_SECONDS


def words(count: int = 60) -> list[str]:
    draw = random.Random(3)
    return ["".join(draw.choices("abcdef", k=draw.randint(1, 9))) for _ in range(count)]


@torch.no_grad()
def reread(run: Run, source: str, answer: Prediction) -> float:
    """The log-probability of an answer by our own model, in one pass."""
    ids = run.preprocessor.source.encode(source)
    written = run.preprocessor.target.encode(answer.text)
    model = run.model
    state = model.init_state(model.encode(torch.tensor([[*ids, EOS]]), None))
    logits, _ = model.step(torch.tensor([[BOS, *written]]), state)
    after = [*written, EOS] if answer.finished else written
    table = logits[0].log_softmax(dim=-1)[: len(after)]
    return float(table.gather(1, torch.tensor(after)[:, None]).sum())


def test_engine_greedy_equals_torch(loud_run: Path) -> None:
    texts = [*words(), "", "zzz", "   ", "a🙂b"]  # letters that were never seen too
    ours = load_run(loud_run).predict(texts)
    theirs = CTranslate2Engine(loud_run).predict(texts)
    assert [a.text for a in theirs] == [a.text for a in ours]
    assert [a.finished for a in theirs] == [a.finished for a in ours]
    assert {a.finished for a in ours} == {True, False}  # some end, some are cut off
    assert len({a.text for a in ours}) > 10
    for mine, other in zip(ours, theirs, strict=True):
        assert other.log_probability == pytest.approx(mine.log_probability, abs=1e-3)
        assert other.score == pytest.approx(mine.score, abs=1e-3)
        assert other.alternatives == ()


def test_engine_empty_input(loud_run: Path) -> None:
    assert (
        CTranslate2Engine(loud_run).predict(["", "ab", ""])[::2]
        == [Prediction("", 0.0, 0.0, True)] * 2
    )
    assert CTranslate2Engine(loud_run).predict([]) == []


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_engine_beam_scores_equal_torch(alpha: float, loud_run: Path) -> None:
    run = load_run(loud_run)
    texts = words(12)
    for text, best in zip(
        texts,
        CTranslate2Engine(loud_run).predict(texts, beam=4, n_best=4, length_penalty=alpha),
        strict=True,
    ):
        found = (best, *best.alternatives)
        assert len({one.text for one in found}) == len(found) == 4
        for one in found:
            assert one.log_probability == pytest.approx(reread(run, text, one), abs=1e-3)
            tokens = len(run.preprocessor.target.encode(one.text)) + one.finished
            expected = one.log_probability / length_penalty(tokens, alpha)
            assert one.score == pytest.approx(expected, abs=1e-6)


def test_engine_ranks_by_our_length_penalty(own_run: Path) -> None:
    run = load_run(own_run)
    with torch.no_grad():  # no chance for the marks, so that their search counts as the model does
        run.model.decoder_norm.weight[0] = 0
        run.model.decoder_norm.bias[0] = 10
        run.model.target.table.weight[:, 0] = 0
        run.model.target.table.weight[[PAD, BOS, UNK], 0] = -5
    run.save_weights(run.model.state_dict(), {})
    run.export("ctranslate2")
    with_scores, plain = CTranslate2Engine(own_run), CTranslate2Engine(own_run, with_scores=False)
    first = {}
    for alpha in (0.5, 1.0, 6.0):
        how = {"beam": 4, "n_best": 4, "length_penalty": alpha}
        for one, other in zip(
            with_scores.predict(words(), **how), plain.predict(words(), **how), strict=True
        ):
            scores = [answer.score for answer in (one, *one.alternatives)]
            assert scores == pytest.approx(
                [a.score for a in (other, *other.alternatives)], abs=1e-3
            )
            assert all(a >= b - 1e-3 for a, b in zip(scores, scores[1:], strict=False))
        first[alpha] = [answer.text for answer in with_scores.predict(words(), **how)]
    assert len("".join(first[0.5])) < len("".join(first[6.0]))  # it is the penalty that decides


def test_engine_n_best_order(loud_run: Path) -> None:
    engine = CTranslate2Engine(loud_run)
    for alpha in (0.7, 1.0):
        alone = engine.predict(words(20), beam=5, length_penalty=alpha)
        many = engine.predict(words(20), beam=5, n_best=3, length_penalty=alpha)
        assert [a.text for a in alone] == [a.text for a in many]
        assert {len(a.alternatives) for a in many} == {2}


def test_engine_beam_one_is_greedy(loud_run: Path) -> None:
    engine = CTranslate2Engine(loud_run)
    assert (
        engine.predict(words(), beam=1, length_penalty=0.3)[3].text
        == engine.predict(words())[3].text
    )


def test_engine_keeps_the_order_of_inputs(loud_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = CTranslate2Engine(loud_run)
    reports: list[tuple[str, int, int | None]] = []
    whole = engine.predict(words())
    monkeypatch.setattr(engines, "ENGINE_BATCH_TOKENS", 12)
    found = engine.predict(words(), on_progress=lambda *report: reports.append(report))
    assert [a.text for a in found] == [a.text for a in whole]
    assert reports[-1] == ("predicting", 60, 60) and len(reports) > 10
    counts = [done for _, done, _ in reports]
    assert counts == sorted(counts)


def test_engine_texts_without_scores(loud_run: Path) -> None:
    for how in ({}, {"beam": 3}):
        with_scores = CTranslate2Engine(loud_run).predict(words(), **how)
        plain = CTranslate2Engine(loud_run, with_scores=False).predict(words(), **how)
        assert [a.text for a in plain] == [a.text for a in with_scores]


# --- refusals -------------------------------------------------------------------------------------


def test_engine_knows_every_decoding_option() -> None:
    assert (
        UNSUPPORTED_OPTIONS | EngineDecodingConfig.model_fields.keys()
        == DecodingConfig.model_fields.keys()
    )
    assert not UNSUPPORTED_OPTIONS & EngineDecodingConfig.model_fields.keys()
    for name, field in EngineDecodingConfig.model_fields.items():
        assert field.default == DecodingConfig.model_fields[name].default


@pytest.mark.parametrize("name", sorted(UNSUPPORTED_OPTIONS))
def test_engine_refuses_other_options(name: str, loud_run: Path) -> None:
    with pytest.raises(
        ConfigError, match=f"got {name}, which the engine ctranslate2 does not support"
    ):
        CTranslate2Engine(loud_run).predict(["ab"], **{name: 1})


def test_engine_refuses_invalid_options(loud_run: Path) -> None:
    engine = CTranslate2Engine(loud_run)
    with pytest.raises(ConfigError, match="no setting 'beem'. Did you mean 'beam'"):
        engine.predict(["ab"], beem=3)
    with pytest.raises(ConfigError, match="got n_best=3 with a beam of 2"):
        engine.predict(["ab"], beam=2, n_best=3)


def test_engine_reports_too_long_inputs(loud_run: Path) -> None:
    run, engine = load_run(loud_run), CTranslate2Engine(loud_run)
    texts = ["ab", "a" * (run.recipe.data.max_length + 1)]
    messages = []
    for predict in (run.predict, engine.predict):
        with pytest.raises(DataError, match=r"input 11 \(1,001 tokens\); expected at most") as at:
            predict(texts, first=10)
        messages.append(str(at.value))
    assert messages[0] == messages[1]
    assert engine.truncate(texts[1]) == run.predictor.truncate(texts[1])
    assert len(engine.predict([engine.truncate(texts[1])])) == 1


def test_engine_refuses_stale_exports(own_run: Path) -> None:
    engine = CTranslate2Engine(own_run)
    run = load_run(own_run)
    with torch.no_grad():
        run.model.target.table.weight[5, 0] += 0.25
    run.save_weights(run.model.state_dict(), {})
    again = r"export again: saccade export \S+ --to ctranslate2"
    with pytest.raises(RunError, match=again):
        engine.predict(["ab"])  # one that is open finds it too
    with pytest.raises(RunError, match=again):
        CTranslate2Engine(own_run)
    run.export("ctranslate2")
    assert CTranslate2Engine(own_run).predict(["ab"])[0].text == run.predict("ab").text


def test_engine_names_the_export_command(own_run: Path) -> None:
    folder = own_run
    shutil.rmtree(folder / "exports")
    with pytest.raises(RunError, match=f"Make one with: saccade export {folder} --to ctranslate2"):
        CTranslate2Engine(folder)


def test_engine_refuses_other_folders(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run: there is no run.toml in it"):
        CTranslate2Engine(tmp_path)


@pytest.mark.parametrize("name", ["model.bin", "config.json", "shared_vocabulary.json"])
def test_engine_detects_changed_files(name: str, own_run: Path) -> None:
    path = own_run / "exports" / "ctranslate2" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(RunError, match=f"{name} is damaged: .*saccade export .* writes it again"):
        CTranslate2Engine(own_run)


def test_engine_refuses_newer_exports(own_run: Path) -> None:
    path = own_run / "exports" / "ctranslate2" / "saccade.json"
    write_checksummed_json(path, {**read_checksummed_json(path), "format": 2, "saccade": "9.1"})
    with pytest.raises(RunError, match=r"was written by saccade 9\.1, which is newer than this"):
        CTranslate2Engine(own_run)


@pytest.mark.parametrize("value", [None, -1, 1.5, 10**30, "x", [], {}, {"../../run.toml": "x"}])
@pytest.mark.parametrize("key", ["format", "saccade", "weights", "quantization", "places", "files"])
def test_engine_refuses_metadata_of_another_structure(
    key: str, value: object, own_run: Path
) -> None:
    if (key, value) == ("saccade", "x"):
        value = 3  # any text is a version
    path = own_run / "exports" / "ctranslate2" / "saccade.json"
    saved = read_checksummed_json(path)
    changed = {name: part for name, part in saved.items() if name != key}
    write_checksummed_json(path, changed if value is None else {**changed, key: value})
    with pytest.raises(RunError):
        CTranslate2Engine(own_run)
    assert not engines.is_verified_export(own_run)


def test_missing_ctranslate2_names_the_extra(
    loud_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'saccade\[ctranslate2\]'"):
        CTranslate2Engine(loud_run)


def test_compute_type_needs_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(machine: str, flags: str) -> str:
        monkeypatch.setattr(engines.platform, "machine", lambda: machine)
        monkeypatch.setattr(engines, "_cpu_info", lambda: f"flags : sse {flags} avx2\n")
        assert compute_type("float32") == "float32"
        return compute_type("int8")

    assert on("x86_64", "") == on("AMD64", "") == "float32"
    assert on("x86_64", "avx512_vnni") == on("arm64", "") == "int8"


def test_engine_int8_is_close(own_run: Path) -> None:
    run = load_run(own_run)
    sources = [run.preprocessor.source.encode(word) for word in words()]
    exact = CTranslate2Engine(own_run).score(sources, sources)
    run.export("ctranslate2", quantization="int8")
    rounded = CTranslate2Engine(own_run).score(sources, sources)
    assert [len(row) for row in rounded] == [len(ids) + 1 for ids in sources]
    off = torch.tensor(sum(exact, [])) - torch.tensor(sum(rounded, []))
    assert 1e-4 < off.abs().mean() < 0.2


# --- no torch -------------------------------------------------------------------------------------


def test_engine_imports_no_torch(loud_run: Path) -> None:
    code = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "from saccade.interop.ctranslate2.engine import CTranslate2Engine\n"
        f"found = CTranslate2Engine(Path({str(loud_run)!r})).predict(['abc', 'fed'], beam=2)\n"
        "print(json.dumps([[a.text for a in found], 'torch' in sys.modules,"
        " 'numpy' in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    texts, has_torch, _ = json.loads(done.stdout)
    assert not has_torch
    assert texts == [a.text for a in CTranslate2Engine(loud_run).predict(["abc", "fed"], beam=2)]
