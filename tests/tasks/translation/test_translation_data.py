"""Parallel text as a recipe names it: splits, limits, vocabularies."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from saccade.data.batching import encode_pairs
from saccade.data.datasets import PAIR_DATASETS
from saccade.data.parallel.config import PairsConfig, TokenizerConfig
from saccade.data.parallel.pairs import SentencePairs, assign_split
from saccade.data.tokenizers import normalise
from saccade.errors import ConfigError, DataError, RunError
from saccade.tasks.translation import data as translation_data
from saccade.tasks.translation.data import (
    TokenizerPair,
    drop_too_long,
    load_pair_splits,
    train_tokenizers,
)

WORDS = ["Haus", "Katze", "Tür", "Straße", "né", "ne\u0301", "word"]


def no_progress(*counts):
    return None


def write(folder, name, pairs):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def numbered(count, word="line"):
    return [(f"{word} {number}", str(number)) for number in range(count)]


# --- splits -------------------------------------------------------------------------------------


def test_load_pair_splits_assigns_each_pair_by_its_source(tmp_path):
    pairs = numbered(600)
    path = write(tmp_path, "pairs.tsv", pairs)
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0.2, test_share=0.1), no_progress)
    sides = {name: list(part) for name, part in splits.pairs.items()}
    assert sorted(sides["train"] + sides["dev"] + sides["test"]) == sorted(pairs)
    for name, part in sides.items():
        assert all(assign_split(source, 0.2, 0.1) == name for source, _ in part)
    assert 80 < len(sides["dev"]) < 160
    assert 35 < len(sides["test"]) < 85
    assert splits.notes[2:] == [
        f"{len(sides[name])} pairs are held out for {name}, by a hash of the source."
        for name in ("dev", "test")
    ]


def test_load_pair_splits_keeps_equal_sources_together(tmp_path):
    often = [
        (f"{word} {n}", f"{n} {time}") for time in range(3) for n in range(60) for word in WORDS
    ]
    shares = {"dev_share": 0.2, "test_share": 0.2}
    first = load_pair_splits(
        PairsConfig(path=write(tmp_path, "a.tsv", often), **shares), no_progress
    )
    turned = load_pair_splits(
        PairsConfig(path=write(tmp_path, "b.tsv", often[::-1]), **shares), no_progress
    )
    side = {}
    for name in ("train", "dev", "test"):
        assert sorted(first.pairs[name]) == sorted(turned.pairs[name])
        for source in first.pairs[name].sources():
            # composed and decomposed forms are the same source
            assert side.setdefault(normalise(source), name) == name
    assert set(side.values()) == {"train", "dev", "test"}


def test_load_pair_splits_keeps_line_numbers(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(200))
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0.3), no_progress)
    for part in splits.pairs.values():
        for index, (_, target) in enumerate(part):
            assert part.line(index) == int(target) + 1


def test_load_pair_splits_limits_held_out_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(translation_data, "MAX_HELD_OUT_PAIRS", 30)
    path = write(tmp_path, "pairs.tsv", numbered(3000))
    splits = load_pair_splits(PairsConfig(path=path), no_progress)
    for name in ("dev", "test"):
        assert 10 < len(splits.pairs[name]) < 60


def test_load_pair_splits_uses_given_dev_and_test_files(tmp_path):
    path = write(tmp_path, "train.tsv", numbered(300))
    dev = write(tmp_path, "dev.tsv", numbered(4, "dev"))
    test = write(tmp_path, "test.tsv", numbered(3, "test"))
    splits = load_pair_splits(PairsConfig(path=path, dev=dev, test=test), no_progress)
    assert list(splits.pairs["train"]) == numbered(300)
    assert list(splits.pairs["dev"]) == numbered(4, "dev")
    assert list(splits.pairs["test"]) == numbered(3, "test")
    assert splits.notes == [
        f"{path}: TSV, UTF-8, source TAB target in each line, without a header.",
        f"{path}: 300 pairs, 300 of them for training.",
    ]


def test_load_pair_splits_holds_out_the_split_without_a_file(tmp_path):
    path = write(tmp_path, "train.tsv", numbered(300))
    dev = write(tmp_path, "dev.tsv", numbered(4, "dev"))
    splits = load_pair_splits(PairsConfig(path=path, dev=dev, test_share=0.2), no_progress)
    assert len(splits.pairs["dev"]) == 4
    assert len(splits.pairs["train"]) + len(splits.pairs["test"]) == 300
    assert [note for note in splits.notes if "dev" in note] == []


@given(count=st.integers(1, 5), first=st.integers(0, 10_000))
@example(count=1, first=8)
@settings(deadline=None, max_examples=30)
def test_load_pair_splits_trains_on_a_handful_of_pairs_with_a_note(tmp_path_factory, count, first):
    pairs = [(f"line {number}", "x") for number in range(first, first + count)]
    path = write(tmp_path_factory.mktemp("few"), "pairs.tsv", pairs)
    splits = load_pair_splits(PairsConfig(path=path), no_progress)
    assert all(len(splits.pairs[name]) for name in ("train", "dev", "test"))
    seen = {pair for part in splits.pairs.values() for pair in part}
    assert seen == set(pairs)
    used_twice = sum(map(len, splits.pairs.values())) > count
    assert any("its scores are not meaningful" in note for note in splits.notes) == used_twice


def test_load_pair_splits_notes_empty_held_out_splits(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(3))
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0, test_share=0), no_progress)
    assert list(splits.pairs["train"]) == list(splits.pairs["dev"]) == numbered(3)
    assert splits.notes[2:] == [
        "No pairs are held out for dev; those of train are used: its scores are not meaningful.",
        "No pairs are held out for test; those of dev are used: its scores are not meaningful.",
    ]


def test_load_pair_splits_passes_on_the_notes_of_the_reader(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n\n" + "".join(f"{n}\tx\n" for n in range(50)), encoding="utf-8")
    splits = load_pair_splits(PairsConfig(path=str(path)), no_progress)
    assert any("1 empty line was left out (line 2)" in note for note in splits.notes)


# --- synthetic pairs ----------------------------------------------------------------------------


def test_load_pair_splits_generates_synthetic_pairs_with_progress():
    progress = []
    config = PairsConfig(synthetic="reverse", size=500)
    splits = load_pair_splits(config, lambda done, total: progress.append((done, total)))
    assert len(splits.pairs["train"]) == 500
    assert all(target == source[::-1] for source, target in splits.pairs["test"])
    sources = [set(part.sources()) for part in splits.pairs.values()]
    assert not sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2]
    assert progress[-1][0] == progress[-1][1]
    assert splits.pairs["dev"].name == "reverse (dev)"


def test_load_pair_splits_rejects_an_unknown_synthetic_set():
    with pytest.raises(
        ConfigError, match="no built-in set of sentence pairs 'revers'. Did you mean 'reverse'"
    ):
        load_pair_splits(PairsConfig(synthetic="revers"), no_progress)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"synthetic": "reverse", "path": "pairs.tsv"},
        {"synthetic": "reverse", "dataset": "multi30k"},
        {"dataset": "multi30k", "path": "pairs.tsv"},
    ],
)
def test_load_pair_splits_needs_exactly_one_source(given):
    got = " and ".join(f"data.{name}={value!r}" for name, value in given.items())
    with pytest.raises(
        ConfigError, match=f"got {got or 'no data source'} .* exactly one of data.synthetic"
    ):
        load_pair_splits(PairsConfig(**given), no_progress)


# --- published datasets -------------------------------------------------------------------------


def lay_out(folder, name, files):
    """A published set in small, and its place in SACCADE_DATA."""
    (folder / name).mkdir()
    for file, lines in files.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name / file).write_text(text, encoding="utf-8")


@pytest.fixture
def captions(tmp_path, monkeypatch):
    """multi30k with 30, 4 and 3 lines."""
    counts = {"train": 30, "val": 4, "test_2016_flickr": 3}
    small = tuple(
        replace(file, lines=counts[file.name.partition(".")[0]])
        for file in PAIR_DATASETS["multi30k"].files
    )
    monkeypatch.setitem(PAIR_DATASETS, "multi30k", replace(PAIR_DATASETS["multi30k"], files=small))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    sides = {"en": "a dog", "de": "ein Hund"}
    lay_out(
        tmp_path,
        "multi30k",
        {
            f"{split}.{side}": [f"{words} {split} {line % 7}" for line in range(count)]
            for split, count in counts.items()
            for side, words in sides.items()
        },
    )


@pytest.fixture
def table(tmp_path, monkeypatch):
    """fra-eng with 4,000 lines: 1,500 English sentences, some of their translations twice."""
    [file] = PAIR_DATASETS["fra-eng"].files
    small = (replace(file, lines=1000),)
    monkeypatch.setitem(PAIR_DATASETS, "fra-eng", replace(PAIR_DATASETS["fra-eng"], files=small))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    ends = (".", "!", " ?", "…")
    lines = [
        f"Go {line % 1500}{ends[line % 4]}\tDis {line % 1700} !"
        + ("\tCC-BY 2.0 (France)" if line % 2 else "")
        for line in range(4000)
    ]
    lay_out(tmp_path, "fra-eng", {"fra.txt": lines})
    return tmp_path / "fra-eng" / "fra.txt"


def load(name, direction=None, **more):
    return load_pair_splits(PairsConfig(dataset=name, direction=direction, **more), no_progress)


@pytest.mark.parametrize(("direction", "first"), [(None, 0), ("en-de", 0), ("de-en", 1)])
def test_published_pairs_are_read_in_either_direction(captions, direction, first):
    splits = load("multi30k", direction)
    assert {name: len(part) for name, part in splits.pairs.items()} == {
        "train": 30,
        "dev": 4,
        "test": 3,
    }
    pair = ("a dog val 2", "ein Hund val 2")
    assert splits.pairs["dev"][2] == (pair[first], pair[1 - first])
    expected = direction or "en-de"
    counts = "30 for train, 4 for dev, 3 for test"
    assert splits.notes == [f"multi30k, {expected}: {counts}, split by the publisher."]


def test_published_pairs_reject_an_unknown_direction(captions):
    with pytest.raises(ConfigError, match="no direction of multi30k 'en-fr'. Did you mean 'en-de'"):
        load("multi30k", "en-fr")


def test_published_pairs_reject_an_unknown_dataset():
    with pytest.raises(
        ConfigError, match="no published set of sentence pairs 'multi30'. Did you mean 'multi30k'"
    ):
        load("multi30")


def test_load_pair_splits_rejects_a_direction_for_files(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(9))
    with pytest.raises(ConfigError, match="got data.direction='en-de' without data.dataset"):
        load_pair_splits(PairsConfig(path=path, direction="en-de"), no_progress)


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
def test_shared_vocabulary_is_the_same_in_both_directions(captions, kind):
    config = TokenizerConfig(kind=kind, size=400, shared=True)
    learned = [
        train_tokenizers(config, load("multi30k", direction).pairs["train"], "collapse").to_json()
        for direction in ("en-de", "de-en")
    ]
    assert learned[0] == learned[1]


def gist(text):
    return re.sub(r"\W", "", text).lower()


@pytest.mark.parametrize("direction", ["en-fr", "fr-en"])
def test_published_table_splits_share_no_sentence(table, direction):
    splits = load("fra-eng", direction, dev_share=0.2, test_share=0.2)
    for side in (0, 1):
        seen = [{gist(pair[side]) for pair in part} for part in splits.pairs.values()]
        assert all(seen)
        assert not seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2]


def test_published_table_splits_do_not_depend_on_the_direction(table):
    there, back = (load("fra-eng", d) for d in ("en-fr", "fr-en"))
    lines = table.read_text(encoding="utf-8").splitlines()
    for name, part in there.pairs.items():
        assert [(b, a) for a, b in part] == list(back.pairs[name])
        for index, (english, french) in enumerate(part):
            assert assign_split(english[:-1].rstrip("…? ").lower(), 0.05, 0.05) == name
            assert lines[part.line(index) - 1].split("\t")[:2] == [english, french]


def test_published_table_note_adds_up(table):
    splits = load("fra-eng", "fr-en", dev_share=0.2, test_share=0.2)
    [note] = splits.notes
    numbers = [int(n.replace(",", "")) for n in re.findall(r"(\d[\d,]*) (?:for|held-out)", note)]
    assert numbers[:3] == [len(splits.pairs[name]) for name in ("train", "dev", "test")]
    assert sum(numbers) == 4000
    assert numbers[3] > 0
    assert note.startswith("fra-eng, fr-en: ")
    assert "by a hash of the en side" in note


def test_published_table_rejects_an_empty_split(table):
    with pytest.raises(ConfigError, match="got no pair for dev; expected at least one in each"):
        load("fra-eng", dev_share=0)


def test_published_table_reports_the_line_of_a_bad_row(table):
    lines = table.read_text(encoding="utf-8").splitlines()
    for wrong in ("Go.", "Go.\t", "\tVa !", "a\tb\tc\td"):
        table.write_text("\n".join([*lines[:2], wrong, *lines[3:]]), encoding="utf-8")
        with pytest.raises(DataError, match="fra.txt, line 3: got .*; expected en TAB fr, with or"):
            load("fra-eng")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("multi30k", (29_000, 1014, 1000)),
        # the file of 2019-04-07; half a minute, each of the many small calls being checked
        pytest.param("fra-eng", (162_242, 2131, 2219), marks=pytest.mark.long),
    ],
)
def test_published_pairs_have_their_published_sizes(dataset, name, counts):
    dataset(name)
    splits = load_pair_splits(PairsConfig(dataset=name), no_progress)
    assert tuple(len(splits.pairs[split]) for split in ("train", "dev", "test")) == counts


# --- maximum length -----------------------------------------------------------------------------


def encoded_of(sizes):
    pairs = SentencePairs.from_strings(
        [("a" * source, "b" * target) for source, target in sizes], "pairs.tsv"
    )
    tokenizers = train_tokenizers(TokenizerConfig(), pairs)
    return encode_pairs(pairs, tokenizers.source, tokenizers.target, no_progress)


def test_drop_too_long_keeps_pairs_within_the_limit():
    encoded = encoded_of([(3, 1), (1, 3)])
    assert drop_too_long(encoded, PairsConfig(max_length=3)) == (encoded, [])


def test_drop_too_long_reports_lines_and_settings():
    encoded = encoded_of([(3, 1), (2, 1300), (1, 1)])
    with pytest.raises(DataError) as caught:
        drop_too_long(encoded, PairsConfig(max_length=5))
    assert str(caught.value) == (
        "pairs.tsv: got 1 pair with a side of more than 5 tokens (line 2; the longest has 1,300); "
        "shorten them, raise the limit (--set data.max_length=1300), or leave them out "
        "(--set data.on_too_long=skip)."
    )


def test_drop_too_long_lists_the_first_lines_only():
    encoded = encoded_of([(9, 1)] * 4 + [(1, 1)] + [(1, 7)] * 4)
    with pytest.raises(DataError, match=r"got 8 pairs with .*\(line 1, 2, 3, 4, 6 and 3 more; "):
        drop_too_long(encoded, PairsConfig(max_length=5))


def test_drop_too_long_skips_if_set():
    encoded = encoded_of([(3, 1), (9, 1), (1, 3), (1, 8)])
    kept, notes = drop_too_long(encoded, PairsConfig(max_length=3, on_too_long="skip"))
    assert kept.lines.tolist() == [1, 3]
    assert kept.source.lengths.tolist() == [3, 1]
    assert kept.target.lengths.tolist() == [1, 3]
    assert notes == [
        "pairs.tsv: got 2 pairs with a side of more than 3 tokens (line 2, 4; the longest has 9): "
        "left out."
    ]


# --- tokenizers ---------------------------------------------------------------------------------

TEXTS = [("der Hund", "the dog"), ("die Katze", "the cat"), ("der Tag", "the day")] * 3


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_tokenizer_pair_json_round_trip(kind, shared):
    size = 300 if kind == "bpe" else None
    config = TokenizerConfig(kind=kind, size=size, shared=shared)
    tokenizers = train_tokenizers(config, SentencePairs.from_strings(TEXTS, "pairs.tsv"))
    back = TokenizerPair.from_json(json.loads(json.dumps(tokenizers.to_json())))
    assert back.shared == tokenizers.shared == shared
    for source, target in [*TEXTS, ("Ärger", "trouble")]:
        assert back.source.encode(source) == tokenizers.source.encode(source)
        assert back.target.encode(target) == tokenizers.target.encode(target)
    assert back.source.vocab_size == tokenizers.source.vocab_size


@pytest.mark.parametrize("shared", [True, False])
def test_train_tokenizers_collapse_whitespace_unless_kept(shared):
    pairs = SentencePairs.from_strings([("a\u00a0 b", " b\t a"), ("a b", "b a ")], "pairs.tsv")
    config = TokenizerConfig(shared=shared)
    one = train_tokenizers(config, pairs, "collapse")
    kept = train_tokenizers(config, pairs, "keep")
    back = TokenizerPair.from_json(json.loads(json.dumps(one.to_json())))
    for tokenizers in (one, back):
        assert tokenizers.source.encode("a\u00a0 b") == tokenizers.source.encode("a b")
        assert tokenizers.target.decode(tokenizers.target.encode(" b\t a")) == "b a"
    assert kept.source.encode("a\u00a0 b") != kept.source.encode("a b")
    assert one.source.vocab_size == 4 + len({"a", "b", " "})
    assert kept.source.vocab_size == 4 + len(
        {"a", "b", " ", "\u00a0"} | ({"\t"} if shared else set())
    )


def test_train_tokenizers_shared_or_separate_vocabulary():
    pairs = SentencePairs.from_strings([("aab", "xxy")], "pairs.tsv")
    shared = train_tokenizers(TokenizerConfig(shared=True), pairs)
    separate = train_tokenizers(TokenizerConfig(), pairs)
    assert shared.source is shared.target
    assert shared.source.decode(shared.source.encode("abxy")) == "abxy"
    assert separate.source.decode(separate.source.encode("abxy")) == "ab��"
    assert separate.target.decode(separate.target.encode("abxy")) == "��xy"


def test_train_tokenizers_sample_rows_evenly(monkeypatch):
    monkeypatch.setattr(translation_data, "TOKENIZER_SAMPLE_SIZE", 3)
    pairs = SentencePairs.from_strings([(letter, letter) for letter in "abcde"], "pairs.tsv")
    tokenizer = train_tokenizers(TokenizerConfig(), pairs).source
    known = [letter for letter in "abcde" if tokenizer.decode(tokenizer.encode(letter)) == letter]
    assert known == ["a", "c", "e"]


def test_tokenizer_pair_rejects_other_json():
    with pytest.raises(RunError, match="not a tokenizer that Saccade wrote"):
        TokenizerPair.from_json({"shared": {"kind": "pickle"}})


def test_encode_pairs_keeps_pairs_and_lines_together(tmp_path):
    path = write(tmp_path, "pairs.tsv", [(f"{n:03}", f"{n:03}"[::-1]) for n in range(300)])
    config = PairsConfig(path=path, dev_share=0.3)
    pairs = load_pair_splits(config, no_progress).pairs["dev"]
    tokenizers = train_tokenizers(config.tokenizer, pairs)
    encoded = encode_pairs(pairs, tokenizers.source, tokenizers.target, no_progress)
    rows = np.arange(len(encoded))
    for row, ids in zip(rows, encoded.source.padded(rows), strict=True):
        assert int(tokenizers.source.decode(ids.tolist())) + 1 == encoded.lines[row]
