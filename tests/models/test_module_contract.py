"""Every model of the registries is an ordinary PyTorch module with a `forward`."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

import saccade.models
from saccade.models import (
    ANSWER_MODELS,
    CAPTION_MODELS,
    FORECASTING_MODELS,
    IMAGE_MODELS,
    KERNEL_MODELS,
    LANGUAGE_MODELS,
    TABULAR_MODELS,
    TAGGING_MODELS,
    TEXT_CLASSIFICATION_MODELS,
    TRANSLATION_MODELS,
    CausalLM,
    CellName,
    EncoderDecoder,
    KernelAttention,
    ScoreName,
)
from saccade.models.bert_answerer import WindowInputs
from saccade.models.bert_tagger import PieceInputs
from saccade.models.taggers import WordInputs
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.attention_scores import ATTENTION_SCORES
from saccade.nn.init import INITS
from saccade.nn.norm import NORMS
from saccade.nn.rnn import CELLS
from saccade.optim import OPTIMIZERS, SCHEDULES
from saccade.types.names import (
    DEFAULT_INIT,
    Activation,
    InitName,
    NormName,
    OptimizerName,
    ScheduleName,
)
from saccade.types.shapes import DecoderState

VOCAB = 11
REGISTRIES = {
    "translation": TRANSLATION_MODELS,
    "language": LANGUAGE_MODELS,
    "forecasting": FORECASTING_MODELS,
    "tabular": TABULAR_MODELS,
    "text_classification": TEXT_CLASSIFICATION_MODELS,
    "image": IMAGE_MODELS,
    "caption": CAPTION_MODELS,
    "kernel": KERNEL_MODELS,
    "tagging": TAGGING_MODELS,
    "answering": ANSWER_MODELS,
}
# of the networks that differ only in depth, the shallowest
DEEPER = {f"vgg{depth}{norm}" for depth in (13, 16, 19) for norm in ("", "_bn")} | {"vgg11"}
DEEPER |= {"resnet34", "resnet50", "resnet101", "resnet152", "densenet169", "densenet201"}
ALL_MODELS = [
    (kind, name) for kind, registry in REGISTRIES.items() for name in registry if name not in DEEPER
]
SIZES: dict[str, Any] = {
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
    "vocab_size": VOCAB,
    "width": 8,
    "heads": 2,
    "context_length": 6,
    "segment_length": 4,
    "inputs": 3,
    "outputs": 2,
    "word_ids": (5, 6),
    "word_counts": (1, 1),
    "lags": 3,
}
IMAGE_SIZES = {
    "classes": 2,
    "channels": 3,
    "image_size": 32,
    "patch_size": 8,
    "hidden": 8,
    "grid": 1,
    "growth": 2,
    "depth": 2,
}


def build(kind: str, name: str) -> nn.Module:
    torch.manual_seed(0)
    entry = REGISTRIES[kind][name]
    if entry.model_class is KernelAttention:
        return KernelAttention(0.5, torch.linspace(0, 1, 6), torch.randn(6)).eval()
    known: dict[str, Any] = SIZES | (IMAGE_SIZES if kind in ("image", "caption") else {})
    if kind == "tagging":
        known["output"] = "linear"  # `forward` returns emissions, without the moves of a CRF
    sizes = {key: value for key, value in known.items() if key in entry.config_class.model_fields}
    return entry.model_class(entry.config_class(name=name, **sizes)).double().eval()


def inputs_of(kind: str, name: str = "", rows: int = 3) -> tuple[Any, ...]:
    torch.manual_seed(1)
    match kind:
        case "translation":
            return torch.randint(VOCAB, (rows, 5)), torch.randint(VOCAB, (rows, 7))
        case "language":
            return (torch.randint(VOCAB, (rows, 11)),)
        case "forecasting":
            return (torch.randn(rows, 9).double(),)
        case "tabular":
            return (torch.randn(rows, 3).double(),)
        case "text_classification":
            return (torch.randint(1, VOCAB, (rows, 7)),)
        case "answering":
            ids = torch.randint(5, VOCAB, (rows, 7))
            may = torch.ones(rows, 7, dtype=torch.bool)
            return (WindowInputs(ids, None, torch.full((rows,), 2), may, may),)  # type: ignore[arg-type]
        case "tagging" if name == "bert":
            ids = torch.randint(5, VOCAB, (rows, 7))
            first = torch.arange(7).expand(rows, -1)
            return (PieceInputs(ids, None, first, None),)  # type: ignore[arg-type]
        case "tagging":
            words = torch.randint(1, VOCAB, (rows, 7))
            spelling = torch.randint(1, 100, (VOCAB, 5))
            return (WordInputs(words, words, spelling, None),)  # type: ignore[arg-type]
        case "image":
            return (torch.randn(rows, 3, 32, 32).double(),)
        case "caption":
            images = torch.randn(rows, 3, 32, 32).double()
            return images, torch.randint(VOCAB, (rows, 7))
    return (torch.rand(rows).double(),)


def test_package_exports_every_family_and_config() -> None:
    for registry in REGISTRIES.values():
        for entry in registry.values():
            for exported in (entry.config_class, entry.model_class):
                assert getattr(saccade.models, exported.__name__) is exported
                assert exported.__name__ in saccade.models.__all__
    assert saccade.models.__all__ == sorted(saccade.models.__all__)


@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_registry_rows_accept_their_name(kind: str, name: str) -> None:
    entry = REGISTRIES[kind][name]
    assert name in get_args(entry.config_class.model_fields["name"].annotation)
    assert issubclass(entry.model_class, nn.Module)


def test_name_aliases_have_the_names_of_their_tables() -> None:
    assert get_args(CellName) == tuple(CELLS)
    assert get_args(ScoreName) == ATTENTION_SCORES
    assert get_args(Activation) == tuple(sorted(ACTIVATIONS))
    assert get_args(NormName) == tuple(NORMS)
    assert get_args(InitName) == (DEFAULT_INIT, *INITS)
    assert get_args(OptimizerName) == tuple(OPTIMIZERS)
    assert get_args(ScheduleName) == tuple(SCHEDULES)


@pytest.mark.parametrize("name", TRANSLATION_MODELS)
def test_translator_forward_equals_single_steps(name: str) -> None:
    model: Any = build("translation", name)
    source, target = inputs_of("translation")
    lengths = torch.tensor([5, 2, 4])
    with torch.no_grad():
        expected = model(source, target, lengths)
        state = model.init_state(model.encode(source, lengths))
        steps = []
        for token in target.split(1, dim=1):
            logits, state = model.step(token, state)
            assert isinstance(state, DecoderState)
            steps.append(logits)
    assert expected.shape == (*target.shape, VOCAB)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected)


@pytest.mark.parametrize("name", TRANSLATION_MODELS)
def test_translator_target_hidden_is_forward_at_the_given_positions(name: str) -> None:
    model: Any = build("translation", name)
    source, target = inputs_of("translation")
    positions = torch.tensor([0, 3, 8, 20])
    with torch.no_grad():
        logits = model(source, target).flatten(0, 1)
        some = model.target_hidden(source, None, target, positions)
        every = model.target_hidden(source, None, target)
    torch.testing.assert_close(F.linear(some, *model.output_layer), logits[positions])
    torch.testing.assert_close(F.linear(every, *model.output_layer), logits)


@pytest.mark.parametrize("name", sorted(set(LANGUAGE_MODELS) - {"bidirectional", "elmo"}))
def test_language_model_forward_equals_single_steps(name: str) -> None:
    model: Any = build("language", name)
    (ids,) = inputs_of("language")
    assert isinstance(model, CausalLM)
    with torch.no_grad():
        expected = model(ids)
        state = model.init_state(ids)
        steps = []
        for token in ids.split(1, dim=1):
            logits, state = model.step(token, state)
            steps.append(logits)
    assert expected.shape == (*ids.shape, VOCAB)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected)


def test_bidirectional_forward_ignores_padding() -> None:
    model = build("language", "bidirectional")
    (ids,) = inputs_of("language")
    with torch.no_grad():
        padded = model(ids, torch.tensor([11, 6, 3]))
        torch.testing.assert_close(padded[1:2, :6], model(ids[1:2, :6]))
    assert padded.shape == (*ids.shape, VOCAB)


@pytest.mark.parametrize("name", FORECASTING_MODELS)
def test_forecaster_forward_equals_single_steps(name: str) -> None:
    model: Any = build("forecasting", name)
    (values,) = inputs_of("forecasting")
    with torch.no_grad():
        expected, state = model(values), model.init_state(len(values))
        steps = []
        for value in values.split(1, dim=1):
            prediction, state = model.step(value, state)
            steps.append(prediction)
    assert expected.shape == values.shape
    torch.testing.assert_close(torch.cat(steps, dim=1), expected)


@pytest.fixture(scope="module")
def process_group() -> Iterator[None]:
    # no threads and no sockets, unlike gloo's, for which one process would wait
    dist.init_process_group("fake", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def keep_gradients(state: None, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """Return the gradients of a bucket as they are: their sum over one process."""
    future: Future[torch.Tensor] = Future()
    future.set_result(bucket.buffer())
    return future


@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_model_trains_under_distributed_data_parallel(
    kind: str, name: str, process_group: None
) -> None:
    model = build(kind, name).train()
    inputs = inputs_of(kind, name)
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(None, keep_gradients)
    for _ in range(2):  # a parameter without gradient would fail in the second step
        parallel(*inputs).square().sum().backward()
    missing = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing


# torch.nn's own recurrent layers keep a list of their weights, which the tracer replaces
@pytest.mark.filterwarnings("ignore:The tensor attribute")
@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_model_can_be_exported(kind: str, name: str) -> None:
    model, inputs = build(kind, name), inputs_of(kind, name)
    exported = torch.export.export(model, inputs)
    with torch.no_grad():
        torch.testing.assert_close(exported.module()(*inputs), model(*inputs))


@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_model_runs_its_forward_hooks(kind: str, name: str) -> None:
    model, inputs = build(kind, name), inputs_of(kind, name)
    shapes = []
    model.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
    with torch.no_grad():
        output = model(*inputs)
    assert shapes == [tuple(output.shape)]


@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_model_can_be_summarised_with_hooks(kind: str, name: str) -> None:
    """A table of modules, as torchinfo makes it: every parameter belongs to a module once."""
    model, inputs = build(kind, name), inputs_of(kind, name)
    called: dict[str, int] = {}
    handles = []
    for path, module in model.named_modules():

        def count(module: nn.Module, args: Any, output: Any, path: str = path) -> None:
            called[path] = called.get(path, 0) + 1

        handles.append(module.register_forward_hook(count))
    with torch.no_grad():
        model(*inputs)
    for handle in handles:
        handle.remove()
    own = {path: list(m.parameters(recurse=False)) for path, m in model.named_modules()}
    counted = {id(p): p.numel() for parameters in own.values() for p in parameters}
    assert sum(counted.values()) == sum(p.numel() for p in model.parameters())
    assert called[""] == 1


@pytest.mark.parametrize(("kind", "name"), ALL_MODELS)
def test_model_is_readable_by_torchinfo(kind: str, name: str) -> None:
    torchinfo = pytest.importorskip("torchinfo")
    if kind in ("tagging", "answering"):
        pytest.skip("torchinfo calls sum() with each field of a named tuple")
    model, inputs = build(kind, name), inputs_of(kind, name)
    summary = torchinfo.summary(model, input_data=inputs, verbose=0)
    assert summary.total_params > 0


def test_encoder_decoders_and_language_models_name_their_engine() -> None:
    assert EncoderDecoder.engine_name == CausalLM.engine_name == "torch"
