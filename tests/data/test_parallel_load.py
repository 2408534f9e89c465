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
from saccade.data.parallel import load as parallel
from saccade.data.parallel.load import (
    PairsConfig,
    TokenizerConfig,
    TokenizerPair,
    drop_too_long,
    load_pair_splits,
    train_tokenizers,
)
from saccade.data.parallel.pairs import SentencePairs, assign_split
from saccade.data.tokenizers import normalise
from saccade.errors import ConfigError, DataError, RunError

WORDS = ["Haus", "Katze", "Tür", "Straße", "né", "ne\u0301", "word"]


def nothing(*counts):
    return None


def write(folder, name, pairs):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def numbered(count, word="line"):
    return [(f"{word} {number}", str(number)) for number in range(count)]


# --- splits -------------------------------------------------------------------------------------


def test_each_pair_is_on_one_side_the_one_that_its_source_says(tmp_path):
    pairs = numbered(600)
    path = write(tmp_path, "pairs.tsv", pairs)
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0.2, test_share=0.1), nothing)
    sides = {name: list(part) for name, part in splits.pairs.items()}
    assert sorted(sides["train"] + sides["dev"] + sides["test"]) == sorted(pairs)
    for name, part in sides.items():
        assert all(assign_split(source, 0.2, 0.1) == name for source, _ in part)
    assert 80 < len(sides["dev"]) < 160
    assert 35 < len(sides["test"]) < 85
    assert splits.notes == [
        f"{len(sides[name])} pairs are held out for {name}, by a hash of the source."
        for name in ("dev", "test")
    ]


def test_the_same_source_is_on_the_same_side_however_often_and_wherever_it_stands(tmp_path):
    often = [
        (f"{word} {n}", f"{n} {time}") for time in range(3) for n in range(60) for word in WORDS
    ]
    shares = {"dev_share": 0.2, "test_share": 0.2}
    first = load_pair_splits(PairsConfig(path=write(tmp_path, "a.tsv", often), **shares), nothing)
    turned = load_pair_splits(
        PairsConfig(path=write(tmp_path, "b.tsv", often[::-1]), **shares), nothing
    )
    side = {}
    for name in ("train", "dev", "test"):
        assert sorted(first.pairs[name]) == sorted(turned.pairs[name])
        for source in first.pairs[name].sources():
            # one letter may be written in two ways: it is the same source
            assert side.setdefault(normalise(source), name) == name
    assert set(side.values()) == {"train", "dev", "test"}


def test_lines_are_those_of_the_file_on_every_side(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(200))
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0.3), nothing)
    for part in splits.pairs.values():
        for index, (_, target) in enumerate(part):
            assert part.line(index) == int(target) + 1


def test_of_a_large_file_only_so_many_are_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "MAX_HELD_OUT_PAIRS", 30)
    path = write(tmp_path, "pairs.tsv", numbered(3000))
    splits = load_pair_splits(PairsConfig(path=path), nothing)
    for name in ("dev", "test"):
        assert 10 < len(splits.pairs[name]) < 60


def test_files_given_for_dev_and_test_are_used_whole_and_nothing_is_held_out(tmp_path):
    path = write(tmp_path, "train.tsv", numbered(300))
    dev = write(tmp_path, "dev.tsv", numbered(4, "dev"))
    test = write(tmp_path, "test.tsv", numbered(3, "test"))
    splits = load_pair_splits(PairsConfig(path=path, dev=dev, test=test), nothing)
    assert list(splits.pairs["train"]) == numbered(300)
    assert list(splits.pairs["dev"]) == numbered(4, "dev")
    assert list(splits.pairs["test"]) == numbered(3, "test")
    assert splits.notes == []


def test_one_file_given_leaves_the_other_to_be_held_out(tmp_path):
    path = write(tmp_path, "train.tsv", numbered(300))
    dev = write(tmp_path, "dev.tsv", numbered(4, "dev"))
    splits = load_pair_splits(PairsConfig(path=path, dev=dev, test_share=0.2), nothing)
    assert len(splits.pairs["dev"]) == 4
    assert len(splits.pairs["train"]) + len(splits.pairs["test"]) == 300
    assert [note for note in splits.notes if "dev" in note] == []


@given(count=st.integers(1, 5), first=st.integers(0, 10_000))
@example(count=1, first=8)
@settings(deadline=None, max_examples=30)
def test_a_handful_of_pairs_can_be_trained_on_with_a_note(tmp_path_factory, count, first):
    pairs = [(f"line {number}", "x") for number in range(first, first + count)]
    path = write(tmp_path_factory.mktemp("few"), "pairs.tsv", pairs)
    splits = load_pair_splits(PairsConfig(path=path), nothing)
    assert all(len(splits.pairs[name]) for name in ("train", "dev", "test"))
    seen = {pair for part in splits.pairs.values() for pair in part}
    assert seen == set(pairs)
    used_twice = sum(map(len, splits.pairs.values())) > count
    assert any("its figures say little" in note for note in splits.notes) == used_twice


def test_a_file_that_is_used_up_by_its_shares_says_so(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(3))
    splits = load_pair_splits(PairsConfig(path=path, dev_share=0, test_share=0), nothing)
    assert list(splits.pairs["train"]) == list(splits.pairs["dev"]) == numbered(3)
    nothing_for = "There is nothing to hold out for"
    assert splits.notes == [
        f"{nothing_for} dev, so it is the training pairs: its figures say little.",
        f"{nothing_for} test, so it is the dev pairs: its figures say little.",
    ]


def test_notes_of_the_reader_are_passed_on(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n\n" + "".join(f"{n}\tx\n" for n in range(50)), encoding="utf-8")
    splits = load_pair_splits(PairsConfig(path=str(path)), nothing)
    assert any("1 empty line was left out (line 2)" in note for note in splits.notes)


# --- made data ----------------------------------------------------------------------------------


def test_made_pairs_come_in_three_splits_and_tell_how_far_they_are():
    told = []
    config = PairsConfig(synthetic="reverse", size=500)
    splits = load_pair_splits(config, lambda done, total: told.append((done, total)))
    assert len(splits.pairs["train"]) == 500
    assert all(target == source[::-1] for source, target in splits.pairs["test"])
    sources = [set(part.sources()) for part in splits.pairs.values()]
    assert not sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2]
    assert told[-1][0] == told[-1][1]
    assert splits.pairs["dev"].name == "reverse (dev)"


def test_a_made_set_that_does_not_exist():
    with pytest.raises(ConfigError, match="no made data 'revers'. Did you mean 'reverse'"):
        load_pair_splits(PairsConfig(synthetic="revers"), nothing)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"synthetic": "reverse", "path": "pairs.tsv"},
        {"synthetic": "reverse", "dataset": "multi30k"},
        {"dataset": "multi30k", "path": "pairs.tsv"},
    ],
)
def test_one_place_and_no_more(given):
    has = ", ".join(f"{name}={given.get(name)!r}" for name in ("synthetic", "dataset", "path"))
    with pytest.raises(ConfigError, match=f"needs one of data.synthetic .*; it has {has}."):
        load_pair_splits(PairsConfig(**given), nothing)


# --- published sets -----------------------------------------------------------------------------


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
    """fra-eng with 4,000 lines: 1,500 English sentences, some of their French said twice."""
    [file] = PAIR_DATASETS["fra-eng"].files
    small = (replace(file, lines=1000),)
    monkeypatch.setitem(PAIR_DATASETS, "fra-eng", replace(PAIR_DATASETS["fra-eng"], files=small))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    ends = (".", "!", " ?", "…")
    lines = [
        f"Say {line % 1500}{ends[line % 4]}\tDis {line % 1700} !"
        + ("\tCC-BY 2.0 (France)" if line % 2 else "")
        for line in range(4000)
    ]
    lay_out(tmp_path, "fra-eng", {"fra.txt": lines})
    return tmp_path / "fra-eng" / "fra.txt"


def load(name, direction=None, **more):
    return load_pair_splits(PairsConfig(dataset=name, direction=direction, **more), nothing)


@pytest.mark.parametrize(("direction", "first"), [(None, 0), ("en-de", 0), ("de-en", 1)])
def test_a_set_of_two_languages_is_read_in_either_direction(captions, direction, first):
    splits = load("multi30k", direction)
    assert {name: len(part) for name, part in splits.pairs.items()} == {
        "train": 30,
        "dev": 4,
        "test": 3,
    }
    pair = ("a dog val 2", "ein Hund val 2")
    assert splits.pairs["dev"][2] == (pair[first], pair[1 - first])
    shown = direction or "en-de"
    counts = "30 for train, 4 for dev, 3 for test"
    assert splits.notes == [f"multi30k, {shown}: {counts}, as its publisher has split them."]


def test_a_direction_that_does_not_exist(captions):
    with pytest.raises(ConfigError, match="no direction of multi30k 'en-fr'. Did you mean 'en-de'"):
        load("multi30k", "en-fr")


def test_a_published_set_that_does_not_exist():
    with pytest.raises(ConfigError, match="no published set 'multi30'. Did you mean 'multi30k'"):
        load("multi30")


def test_a_file_has_no_direction_to_be_turned(tmp_path):
    path = write(tmp_path, "pairs.tsv", numbered(9))
    with pytest.raises(ConfigError, match="data.direction is 'en-de', but only a published set"):
        load_pair_splits(PairsConfig(path=path, direction="en-de"), nothing)


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
def test_both_directions_learn_the_same_shared_vocabulary(captions, kind):
    config = TokenizerConfig(kind=kind, size=400, shared=True)
    learned = [
        train_tokenizers(config, load("multi30k", direction).pairs["train"], "collapse").to_json()
        for direction in ("en-de", "de-en")
    ]
    assert learned[0] == learned[1]


def gist(text):
    return re.sub(r"\W", "", text).lower()


@pytest.mark.parametrize("direction", ["en-fr", "fr-en"])
def test_no_sentence_of_either_language_is_in_two_splits(table, direction):
    splits = load("fra-eng", direction, dev_share=0.2, test_share=0.2)
    for side in (0, 1):
        seen = [{gist(pair[side]) for pair in part} for part in splits.pairs.values()]
        assert all(seen)
        assert not seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2]


def test_a_pair_is_on_the_side_that_its_english_says_whichever_way_it_is_learned(table):
    there, back = (load("fra-eng", d) for d in ("en-fr", "fr-en"))
    lines = table.read_text(encoding="utf-8").splitlines()
    for name, part in there.pairs.items():
        assert [(b, a) for a, b in part] == list(back.pairs[name])
        for index, (english, french) in enumerate(part):
            assert assign_split(english[:-1].rstrip("…? ").lower(), 0.05, 0.05) == name
            assert lines[part.line(index) - 1].split("\t")[:2] == [english, french]


def test_the_split_is_stated_and_adds_up(table):
    splits = load("fra-eng", "fr-en", dev_share=0.2, test_share=0.2)
    [note] = splits.notes
    numbers = [int(n.replace(",", "")) for n in re.findall(r"(\d[\d,]*) (?:for|held-out)", note)]
    assert numbers[:3] == [len(splits.pairs[name]) for name in ("train", "dev", "test")]
    assert sum(numbers) == 4000
    assert numbers[3] > 0
    assert note.startswith("fra-eng, fr-en: ")
    assert "by a hash of the en side" in note


def test_shares_of_nothing_are_refused(table):
    with pytest.raises(ConfigError, match="no pair falls on dev; .* must leave some for each"):
        load("fra-eng", dev_share=0)


def test_a_line_of_the_table_that_is_no_pair_is_named(table):
    lines = table.read_text(encoding="utf-8").splitlines()
    for wrong in ("Go.", "Go.\t", "\tVa !", "a\tb\tc\td"):
        table.write_text("\n".join([*lines[:2], wrong, *lines[3:]]), encoding="utf-8")
        with pytest.raises(DataError, match="fra.txt, line 3: .* is not en TAB fr, with or"):
            load("fra-eng")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("multi30k", (29_000, 1014, 1000)),
        # the file of 2019-04-07; half a minute, each of the many small calls being checked
        pytest.param("fra-eng", (162_242, 2131, 2219), marks=pytest.mark.long),
    ],
)
def test_the_published_sets_as_they_are(dataset, name, counts):
    dataset(name)
    splits = load_pair_splits(PairsConfig(dataset=name), nothing)
    assert tuple(len(splits.pairs[split]) for split in ("train", "dev", "test")) == counts


# --- the longest pair ---------------------------------------------------------------------------


def encoded_of(sizes):
    pairs = SentencePairs.from_strings(
        [("a" * source, "b" * target) for source, target in sizes], "pairs.tsv"
    )
    tokenizers = train_tokenizers(TokenizerConfig(), pairs)
    return encode_pairs(pairs, tokenizers.source, tokenizers.target, nothing)


def test_pairs_within_the_limit_are_left_as_they_are():
    encoded = encoded_of([(3, 1), (1, 3)])
    assert drop_too_long(encoded, PairsConfig(max_length=3)) == (encoded, [])


def test_a_pair_over_the_limit_is_refused_with_its_line_and_what_to_do():
    encoded = encoded_of([(3, 1), (2, 1300), (1, 1)])
    with pytest.raises(DataError) as caught:
        drop_too_long(encoded, PairsConfig(max_length=5))
    assert str(caught.value) == (
        "pairs.tsv: 1 pair has a side of more than 5 tokens (line 2; the longest has 1,300). "
        "Shorten them, raise the limit (--set data.max_length=1300), or leave them out "
        "(--set data.on_too_long=skip)."
    )


def test_only_the_first_lines_are_named():
    encoded = encoded_of([(9, 1)] * 4 + [(1, 1)] + [(1, 7)] * 4)
    with pytest.raises(DataError, match=r"8 pairs have .*\(line 1, 2, 3, 4, 6 and 3 more; "):
        drop_too_long(encoded, PairsConfig(max_length=5))


def test_what_is_too_long_is_left_out_when_asked_for():
    encoded = encoded_of([(3, 1), (9, 1), (1, 3), (1, 8)])
    kept, notes = drop_too_long(encoded, PairsConfig(max_length=3, on_too_long="skip"))
    assert kept.lines.tolist() == [1, 3]
    assert kept.source.lengths.tolist() == [3, 1]
    assert kept.target.lengths.tolist() == [1, 3]
    assert notes == [
        "pairs.tsv: 2 pairs have a side of more than 3 tokens (line 2, 4; the longest has 9): "
        "left out."
    ]


# --- vocabularies -------------------------------------------------------------------------------

TEXTS = [("der Hund", "the dog"), ("die Katze", "the cat"), ("der Tag", "the day")] * 3


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_tokenizers_come_back_from_json(kind, shared):
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
def test_spaces_are_one_in_training_and_answering_unless_they_are_kept(shared):
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


def test_a_shared_vocabulary_knows_both_sides_and_one_apart_only_its_own():
    pairs = SentencePairs.from_strings([("aab", "xxy")], "pairs.tsv")
    shared = train_tokenizers(TokenizerConfig(shared=True), pairs)
    apart = train_tokenizers(TokenizerConfig(), pairs)
    assert shared.source is shared.target
    assert shared.source.decode(shared.source.encode("abxy")) == "abxy"
    assert apart.source.decode(apart.source.encode("abxy")) == "ab��"
    assert apart.target.decode(apart.target.encode("abxy")) == "��xy"


def test_of_many_pairs_some_are_learned_from_spread_over_the_file(monkeypatch):
    monkeypatch.setattr(parallel, "TOKENIZER_SAMPLE_SIZE", 3)
    pairs = SentencePairs.from_strings([(letter, letter) for letter in "abcde"], "pairs.tsv")
    tokenizer = train_tokenizers(TokenizerConfig(), pairs).source
    known = [letter for letter in "abcde" if tokenizer.decode(tokenizer.encode(letter)) == letter]
    assert known == ["a", "c", "e"]


def test_what_is_no_tokenizer_is_refused():
    with pytest.raises(RunError, match="not a tokenizer that Saccade wrote"):
        TokenizerPair.from_json({"shared": {"kind": "pickle"}})


def test_encoding_a_split_keeps_the_pairs_and_their_lines_together(tmp_path):
    path = write(tmp_path, "pairs.tsv", [(f"{n:03}", f"{n:03}"[::-1]) for n in range(300)])
    config = PairsConfig(path=path, dev_share=0.3)
    pairs = load_pair_splits(config, nothing).pairs["dev"]
    tokenizers = train_tokenizers(config.tokenizer, pairs)
    encoded = encode_pairs(pairs, tokenizers.source, tokenizers.target, nothing)
    rows = np.arange(len(encoded))
    for row, ids in zip(rows, encoded.source.padded(rows), strict=True):
        assert int(tokenizers.source.decode(ids.tolist())) + 1 == encoded.lines[row]
