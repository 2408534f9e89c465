"""Registries of the networks: tables name → (settings, network), one row per model.

A new model is its settings in `config` (`image_config` for images, `caption_config` for captions,
`tagging_config` for tags), a file in this package and one row here. Networks are named by import
path, so that settings can be read without torch. Estimators that a task offers next to its networks
(n-grams, SVM, kernel regression) are added in the task: this package does not import `estimators`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saccade.config import Config
from saccade.models.answer_config import BertAnswererConfig
from saccade.models.bert_config import BertClassifierConfig, BertConfig, PromptClassifierConfig
from saccade.models.caption_config import (
    AttentiveCaptionerConfig,
    CaptionTransformerConfig,
    MeanCaptionerConfig,
)
from saccade.models.config import (
    AutoregressiveForecasterConfig,
    BahdanauConfig,
    BidirectionalLMConfig,
    BiLSTMConfig,
    ConvLMConfig,
    ConvSeq2SeqConfig,
    GPTConfig,
    KernelAttentionConfig,
    LinearRegressionConfig,
    LuongConfig,
    MLPConfig,
    NNLMConfig,
    RecurrentForecasterConfig,
    RecurrentLMConfig,
    Seq2SeqConfig,
    SetClassifierConfig,
    SoftmaxRegressionConfig,
    TextCNNConfig,
    TextTransformerConfig,
    TransformerConfig,
    TransformerXLConfig,
)
from saccade.models.control_config import A2CConfig, DQNConfig, PPOConfig, ReinforceConfig
from saccade.models.elmo_config import ElmoConfig
from saccade.models.image_config import (
    AirbenchConfig,
    AlexNetConfig,
    AttentionCNNConfig,
    DenseNetConfig,
    EfficientNetLiteConfig,
    GoogLeNetConfig,
    LeNetConfig,
    NiNConfig,
    ResNetConfig,
    VGGConfig,
    VisionTransformerConfig,
)
from saccade.models.sentence_config import SentenceBertConfig, WordMeanConfig
from saccade.models.tagging_config import (
    BertTaggerConfig,
    BiLSTMTaggerConfig,
    CNNTaggerConfig,
    ElmoTaggerConfig,
)
from saccade.registry import import_attribute


@dataclass(frozen=True)
class ModelEntry:
    """One row of a registry: the settings of a model, and the class that they configure.

    The class may be given as "module:attribute", which is imported on first use. Its constructor
    takes the settings; `KernelAttention` also needs the data points. Tasks add rows of estimators,
    whose class is not a module.
    """

    config_class: type[Config]
    model: type[Any] | str
    described_by_settings: bool = False  # the class is that of several models

    @property
    def model_class(self) -> type[Any]:
        """The class of the model."""
        if isinstance(self.model, str):
            found: type[Any] = import_attribute(self.model)
            return found
        return self.model


TRANSLATION_MODELS: dict[str, ModelEntry] = {
    "bahdanau": ModelEntry(BahdanauConfig, "saccade.models.bahdanau:Bahdanau"),
    "conv_seq2seq": ModelEntry(ConvSeq2SeqConfig, "saccade.models.conv_seq2seq:ConvSeq2Seq"),
    "luong": ModelEntry(LuongConfig, "saccade.models.luong:Luong"),
    "seq2seq": ModelEntry(Seq2SeqConfig, "saccade.models.seq2seq:Seq2Seq"),
    "transformer": ModelEntry(TransformerConfig, "saccade.models.transformer:Transformer"),
}

LANGUAGE_MODELS: dict[str, ModelEntry] = {
    "bidirectional": ModelEntry(
        BidirectionalLMConfig, "saccade.models.bidirectional_lm:BidirectionalLM"
    ),
    "conv_lm": ModelEntry(ConvLMConfig, "saccade.models.conv_lm:ConvLM"),
    "elmo": ModelEntry(ElmoConfig, "saccade.models.elmo:Elmo"),
    "gpt1": ModelEntry(GPTConfig, "saccade.models.gpt:GPT"),
    "gpt2": ModelEntry(GPTConfig, "saccade.models.gpt:GPT"),
    "gpt3": ModelEntry(GPTConfig, "saccade.models.gpt:GPT"),
    "gru": ModelEntry(RecurrentLMConfig, "saccade.models.rnn_lm:RecurrentLM"),
    "gru_reset_first": ModelEntry(RecurrentLMConfig, "saccade.models.rnn_lm:RecurrentLM"),
    "lstm": ModelEntry(RecurrentLMConfig, "saccade.models.rnn_lm:RecurrentLM"),
    "nnlm": ModelEntry(NNLMConfig, "saccade.models.nnlm:NNLM"),
    "rnn": ModelEntry(RecurrentLMConfig, "saccade.models.rnn_lm:RecurrentLM"),
    "transformer_xl": ModelEntry(
        TransformerXLConfig, "saccade.models.transformer_xl:TransformerXL"
    ),
}

BERT_MODELS: dict[str, ModelEntry] = {
    "bert": ModelEntry(BertConfig, "saccade.models.bert_pretraining:BertPretraining"),
}

FORECASTING_MODELS: dict[str, ModelEntry] = {
    "autoregressive": ModelEntry(
        AutoregressiveForecasterConfig, "saccade.models.forecasting:AutoregressiveForecaster"
    ),
    "recurrent": ModelEntry(
        RecurrentForecasterConfig, "saccade.models.forecasting:RecurrentForecaster"
    ),
}

CONTROL_MODELS: dict[str, ModelEntry] = {
    "a2c": ModelEntry(A2CConfig, "saccade.models.control:PolicyNetwork"),
    "dqn": ModelEntry(DQNConfig, "saccade.models.control:QNetwork"),
    "ppo": ModelEntry(PPOConfig, "saccade.models.control:PolicyNetwork"),
    "reinforce": ModelEntry(ReinforceConfig, "saccade.models.control:PolicyNetwork"),
}

TABULAR_MODELS: dict[str, ModelEntry] = {
    "linear": ModelEntry(LinearRegressionConfig, "saccade.models.tabular:LinearRegression"),
    "mlp": ModelEntry(MLPConfig, "saccade.models.tabular:MLP"),
    "softmax": ModelEntry(SoftmaxRegressionConfig, "saccade.models.tabular:SoftmaxRegression"),
}

TEXT_CLASSIFICATION_MODELS: dict[str, ModelEntry] = {
    "bert": ModelEntry(BertClassifierConfig, "saccade.models.bert_classifier:BertClassifier"),
    "bilstm": ModelEntry(BiLSTMConfig, "saccade.models.text_classifiers:BiLSTMClassifier"),
    "cnn": ModelEntry(TextCNNConfig, "saccade.models.text_classifiers:TextCNN"),
    "prompt": ModelEntry(
        PromptClassifierConfig, "saccade.models.prompt_classifier:PromptClassifier"
    ),
    "set": ModelEntry(SetClassifierConfig, "saccade.models.text_classifiers:SetClassifier"),
    "transformer": ModelEntry(
        TextTransformerConfig, "saccade.models.text_classifiers:TextTransformer"
    ),
}

IMAGE_MODELS: dict[str, ModelEntry] = {
    "airbench": ModelEntry(AirbenchConfig, "saccade.models.airbench:Airbench"),
    "alexnet": ModelEntry(AlexNetConfig, "saccade.models.alexnet:AlexNet"),
    "attention_cnn": ModelEntry(AttentionCNNConfig, "saccade.models.attention_cnn:AttentionCNN"),
    "densenet121": ModelEntry(DenseNetConfig, "saccade.models.densenet:DenseNet"),
    "densenet169": ModelEntry(DenseNetConfig, "saccade.models.densenet:DenseNet"),
    "densenet201": ModelEntry(DenseNetConfig, "saccade.models.densenet:DenseNet"),
    "efficientnet_lite0": ModelEntry(
        EfficientNetLiteConfig, "saccade.models.efficientnet_lite:EfficientNetLite"
    ),
    "googlenet": ModelEntry(GoogLeNetConfig, "saccade.models.googlenet:GoogLeNet"),
    "lenet": ModelEntry(LeNetConfig, "saccade.models.lenet:LeNet"),
    "nin": ModelEntry(NiNConfig, "saccade.models.nin:NiN"),
    "resnet18": ModelEntry(ResNetConfig, "saccade.models.resnet:ResNet"),
    "resnet34": ModelEntry(ResNetConfig, "saccade.models.resnet:ResNet"),
    "resnet50": ModelEntry(ResNetConfig, "saccade.models.resnet:ResNet"),
    "resnet101": ModelEntry(ResNetConfig, "saccade.models.resnet:ResNet"),
    "resnet152": ModelEntry(ResNetConfig, "saccade.models.resnet:ResNet"),
    "vgg11": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg11_bn": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg13": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg13_bn": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg16": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg16_bn": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg19": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vgg19_bn": ModelEntry(VGGConfig, "saccade.models.vgg:VGG"),
    "vit": ModelEntry(
        VisionTransformerConfig, "saccade.models.vision_transformer:VisionTransformer"
    ),
}

CAPTION_MODELS: dict[str, ModelEntry] = {
    "recurrent": ModelEntry(
        AttentiveCaptionerConfig, "saccade.models.captioning:RecurrentCaptioner"
    ),
    "recurrent_mean": ModelEntry(
        MeanCaptionerConfig, "saccade.models.captioning:RecurrentCaptioner"
    ),
    "transformer": ModelEntry(
        CaptionTransformerConfig, "saccade.models.captioning:CaptionTransformer"
    ),
}

TAGGING_MODELS: dict[str, ModelEntry] = {
    "bert": ModelEntry(BertTaggerConfig, "saccade.models.bert_tagger:BertTagger"),
    "bilstm_tagger": ModelEntry(BiLSTMTaggerConfig, "saccade.models.taggers:BiLSTMTagger"),
    "cnn_tagger": ModelEntry(CNNTaggerConfig, "saccade.models.taggers:CNNTagger"),
    "elmo": ModelEntry(ElmoTaggerConfig, "saccade.models.elmo_tagger:ElmoTagger"),
}

ANSWER_MODELS: dict[str, ModelEntry] = {
    "bert": ModelEntry(BertAnswererConfig, "saccade.models.bert_answerer:BertAnswerer"),
}

SENTENCE_MODELS: dict[str, ModelEntry] = {
    "bert": ModelEntry(SentenceBertConfig, "saccade.models.sentence_encoder:SentenceBert"),
    "words": ModelEntry(WordMeanConfig, "saccade.models.sentence_encoder:WordMean"),
}

KERNEL_MODELS: dict[str, ModelEntry] = {
    "attention": ModelEntry(
        KernelAttentionConfig, "saccade.models.kernel_attention:KernelAttention"
    ),
}


def model_classes(registry: Mapping[str, ModelEntry]) -> dict[str, type[Any]]:
    """Return the model classes of a registry by name."""
    return {name: entry.model_class for name, entry in registry.items()}
