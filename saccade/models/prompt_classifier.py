r"""Classification by a prompt: the words that a masked language model predicts for [MASK].

A template puts a text x before a mask: "x It was [MASK].", and each label y has words V_y (Schick
and Schütze 2021). With m the position of the mask and E, b_V the output layer of the model,

    z_w     = E_w · LayerNorm(gelu(W h_m + b)) + b_{V,w}
    logit_y = 1/|V_y| Σ_{w ∈ V_y} z_w

The mean log-probability of the words of a label is logit_y − log Σ_v exp(z_v). The second term is
the same for all labels, so that the softmax over the labels does not depend on it, and only the
rows of E of the words are multiplied.

P-tuning (Liu et al. 2021, "GPT understands, too", section 3.2): the input vectors of pseudo-tokens
[P_1] … [P_n] of the template are learned,

    p_i = MLP([h_i→; h_i←]),    h = BiLSTM(e_1 … e_n)

with the weights of the encoder frozen or not.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.bert_config import PromptClassifierConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.models.text_classifiers import TextNetwork
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden, Lengths, TokenIds

PROMPT_LAYERS = 2  # of the BiLSTM, as in the authors' code


class PromptEncoder(nn.Module):
    """Input vectors of pseudo-tokens: embeddings, a BiLSTM over them and a perceptron."""

    def __init__(self, width: int, count: int):
        super().__init__()
        hidden = max(1, width // 2)
        self.embedding = nn.Embedding(count, width)
        self.lstm = RNN("lstm", width, hidden, PROMPT_LAYERS, bidirectional=True)
        self.output = nn.Sequential(
            nn.Linear(2 * hidden, width), nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self) -> Float[Tensor, "N D"]:
        """Return the vector of each pseudo-token."""
        return self.output(self.lstm(self.embedding.weight[None]).outputs[0])


class PromptClassifier(TextNetwork):
    """A masked language model whose scores of words at [MASK] are the logits of labels.

    Ids from `vocab_size` on are pseudo-tokens, in the order of the template.
    """

    def __init__(self, config: PromptClassifierConfig):
        super().__init__()
        self.language_model = BertPretraining(config.with_values(pooler=False))
        self.language_model.requires_grad_(not config.is_frozen)
        self.vocab_size, self.mask_position = config.vocab_size, config.mask_position
        self.word_counts = config.word_counts
        count = config.num_pseudo_tokens
        self.prompt = PromptEncoder(config.width, count) if count else None
        word_ids = torch.tensor(config.word_ids, dtype=torch.long)
        self.register_buffer("word_ids", word_ids, persistent=False)
        self.register_buffer("averages", _averages(config.word_counts), persistent=False)
        self.word_ids: Int[Tensor, " W"]
        self.averages: Float[Tensor, "W V"]

    @property
    def num_labels(self) -> int:
        """Number of labels."""
        return len(self.word_counts)

    @property
    def word_vectors(self) -> Float[Tensor, "N D"]:
        """The vector of each token, without its position."""
        return self.language_model.encoder.table.weight

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the first layer, with the vectors of the pseudo-tokens."""
        encoder = self.language_model.encoder
        if self.prompt is None:
            return encoder.embed(ids)
        pseudo = ids - self.vocab_size
        vectors = encoder.table(ids.clamp(max=self.vocab_size - 1))
        made = self.prompt()[pseudo.clamp(min=0)].to(vectors.dtype)
        return encoder.embed_vectors(torch.where((pseudo >= 0)[..., None], made, vectors))

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded prompts."""
        model = self.language_model
        hidden = model.encoder.encode(x, lengths)
        rows = torch.arange(len(x), device=x.device)
        at_mask = hidden[rows, self.mask_positions(x, lengths)]
        weight, bias = model.output_layer
        scores = model.pre_logits(at_mask) @ weight[self.word_ids].T
        if bias is not None:
            scores = scores + bias[self.word_ids]
        return scores @ self.averages.to(scores.dtype)

    def mask_positions(self, x: Hidden, lengths: Lengths | None) -> Int[Tensor, " B"]:
        """Return the position of [MASK] in each row; a template has it at a fixed distance."""
        length = x.shape[1]
        ends = torch.full((len(x),), length, device=x.device) if lengths is None else lengths
        first = ends if self.mask_position < 0 else torch.zeros_like(ends)
        return (first + self.mask_position).clamp(0, length - 1)


def _averages(counts: tuple[int, ...]) -> Float[Tensor, "W V"]:
    """Return the matrix that takes the mean over the words of each label."""
    numbers, total = torch.tensor(counts, dtype=torch.long), sum(counts)
    return (torch.eye(len(counts)) / numbers).repeat_interleave(numbers, 0, output_size=total)


def copy_language_model(model: nn.Module, other: nn.Module) -> None:
    """Copy a pretrained BERT with its head for masked tokens into a classifier by a prompt."""
    assert isinstance(model, PromptClassifier)
    own = model.language_model.state_dict()
    weights = other.state_dict()
    with torch.no_grad():
        model.language_model.load_state_dict({name: weights[name] for name in own})
