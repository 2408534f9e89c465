"""`generate`: one entry point for language models, encoder-decoders and plain modules."""

import pytest
import torch
from torch import nn

from saccade.decoding import (
    DecodingConfig,
    GenerationConfig,
    SpecialTokens,
    beam_search,
    generate,
    greedy_search,
)
from saccade.decoding.protocol import check_model
from saccade.errors import ConfigError
from saccade.models import GPT, Bahdanau, BahdanauConfig, GPTConfig, RecurrentLM, RecurrentLMConfig

VOCAB, BOS, EOS = 9, 1, 2
PROMPTS = [[3, 4, 5], [6], [7, 8, 3], [4, 4]]


def language_model(name="gpt2"):
    torch.manual_seed(0)
    if name == "gru":
        return RecurrentLM(RecurrentLMConfig(vocab_size=VOCAB, width=16)).double().eval()
    config = GPTConfig(vocab_size=VOCAB, width=16, heads=2, depth=2, context_length=8)
    return GPT(config).double().eval()


def translator():
    torch.manual_seed(0)
    config = BahdanauConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB, width=8)
    return Bahdanau(config).double().eval()


def greedy_by_hand(model, prompt, limit):
    """The argmax of the logits of the whole text, token by token."""
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) - len(prompt) < limit:
            token = int(model(torch.tensor([ids]))[0, -1].argmax())
            if token == EOS:
                break
            ids.append(token)
    return ids[len(prompt) :]


@pytest.mark.parametrize("name", ["gpt2", "gru"])
def test_generate_continues_prompts_of_any_length_greedily(name):
    model = language_model(name)
    found = generate(model, PROMPTS, eos=EOS, max_length=12)
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [
        [greedy_by_hand(model, prompt, 12)] for prompt in PROMPTS
    ]


def test_generate_accepts_a_module_with_only_a_forward():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = language_model()

        def forward(self, ids):
            return self.model(ids)

    config = DecodingConfig(beam=3, n_best=2)
    plain = generate(Plain(), PROMPTS, config, eos=EOS, max_length=6)
    cached = generate(language_model(), PROMPTS, config, eos=EOS, max_length=6)
    assert [[h.ids for h in row] for row in plain] == [[h.ids for h in row] for row in cached]


def test_generate_accepts_a_tensor_of_prompts():
    model, prompts = language_model(), torch.tensor([[3, 4], [5, 6]])
    assert generate(model, prompts, eos=EOS) == generate(model, prompts.tolist(), eos=EOS)


def test_generate_puts_bos_before_prompts_of_a_language_model():
    model = language_model()
    assert generate(model, [[3], []], bos=BOS, eos=EOS) == generate(
        model, [[BOS, 3], [BOS]], eos=EOS
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_generate_translates_padded_sources(beam):
    model = translator()
    sources, lengths = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]), torch.tensor([4, 2])
    found = generate(
        model,
        [[3, 4, 5, 2], [6, 2]],
        DecodingConfig(beam=beam, length_penalty=0.6),
        bos=BOS,
        eos=EOS,
        max_length=5,
    )
    options = {
        "special_tokens": SpecialTokens(BOS, EOS, ()),
        "max_lengths": torch.tensor([5, 5]),
        "length_penalty": 0.6,
    }
    memory = model.encode(sources, lengths)
    if beam == 1:
        assert found == [[h] for h in greedy_search(model, memory, **options)]
    else:
        assert found == beam_search(model, memory, width=3, **options)


def test_generate_samples_by_seed_and_index():
    model, config = language_model(), DecodingConfig(sample=True, seed=3, n_best=2)
    found = generate(model, PROMPTS, config, eos=EOS, max_length=6)
    assert found == generate(model, PROMPTS, config, eos=EOS, max_length=6)
    assert found[:2] == generate(model, PROMPTS[:2], config, eos=EOS, max_length=6)
    other = generate(model, PROMPTS, config.with_values(seed=4), eos=EOS, max_length=6)
    assert found != other


def test_generate_without_eos_fills_the_maximum_length():
    [[hypothesis]] = generate(language_model(), [[3]], max_length=7)
    assert len(hypothesis.ids) == 7 and not hypothesis.finished
    config = GenerationConfig(max_new_tokens=4)
    assert len(generate(language_model(), [[3]], config)[0][0].ids) == 4


def test_generate_obeys_forbidden_tokens_stop_and_callback():
    seen = []
    [[hypothesis]] = generate(
        language_model(),
        [[3]],
        max_length=9,
        forbidden=(4, 5),
        should_stop=lambda ids: len(ids) == 3,
        on_token=lambda index, ids: seen.append((index, list(ids))),
    )
    assert len(hypothesis.ids) == 3 and hypothesis.finished
    assert not {4, 5} & set(hypothesis.ids)
    assert [ids for _, ids in seen] == [hypothesis.ids[:n] for n in (1, 2, 3)]


def test_generate_of_no_prompts_is_empty():
    assert generate(language_model(), [], eos=EOS) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": DecodingConfig(n_best=3)}, "use a beam of 3 or more"),
        ({"config": DecodingConfig(top_k=3)}, "got top_k without sampling; add sample=True"),
        ({"config": GenerationConfig(stop=("x",))}, "no tokenizer; pass should_stop"),
        ({"config": DecodingConfig(beam=2, coverage=0.1)}, "without attention to a source"),
        (
            {"config": DecodingConfig(beam=2), "on_token": lambda index, ids: None},
            "leave beam and n_best out",
        ),
    ],
)
def test_generate_refuses_settings_that_do_not_fit(options, message):
    with pytest.raises(ConfigError, match=message):
        generate(language_model(), PROMPTS, eos=EOS, **options)


def test_generate_refuses_prompts_it_cannot_read():
    with pytest.raises(ValueError, match="empty prompt at index 1; .* pass bos"):
        generate(language_model(), [[3], []], eos=EOS)
    with pytest.raises(ValueError, match="encoder-decoder and no bos; pass bos"):
        generate(translator(), [[3]], eos=EOS)


def test_searches_explain_what_a_model_needs():
    with pytest.raises(TypeError, match=r"lacks init_state\(memory\) or step.* decoding.generate"):
        check_model(nn.Linear(2, 2))
    check_model(language_model())
