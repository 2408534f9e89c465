"""Named networks, one file per family, and their settings (`config`).

`saccade.models.registry` lists them by name. The networks are imported on first use, so that
settings can be read without torch.
"""

from typing import TYPE_CHECKING, Any

from saccade.models.answer_config import BertAnswererConfig
from saccade.models.bert_config import (
    BERT_SIZES,
    BertClassifierConfig,
    BertConfig,
    PromptClassifierConfig,
)
from saccade.models.caption_config import (
    AttentiveCaptionerConfig,
    CaptionerConfig,
    CaptionTransformerConfig,
    MeanCaptionerConfig,
)
from saccade.models.choice import ModelChoice
from saccade.models.config import (
    AutoregressiveForecasterConfig,
    BahdanauConfig,
    BidirectionalLMConfig,
    BiLSTMConfig,
    ConvLMConfig,
    ConvSeq2SeqConfig,
    GPTConfig,
    KernelAttentionConfig,
    KernelRegressionConfig,
    LanguageModelConfig,
    LinearRegressionConfig,
    LuongConfig,
    MLPConfig,
    NNLMConfig,
    RecurrentForecasterConfig,
    RecurrentLMConfig,
    Seq2SeqConfig,
    SetClassifierConfig,
    SoftmaxRegressionConfig,
    TextClassifierConfig,
    TextCNNConfig,
    TextTransformerConfig,
    TransformerConfig,
    TransformerXLConfig,
    TranslatorConfig,
)
from saccade.models.elmo_config import ElmoConfig
from saccade.models.image_config import (
    AirbenchConfig,
    AlexNetConfig,
    AttentionCNNConfig,
    DenseNetConfig,
    EfficientNetLiteConfig,
    GoogLeNetConfig,
    ImageModelConfig,
    LeNetConfig,
    NiNConfig,
    ResNetConfig,
    VGGConfig,
    VisionTransformerConfig,
)
from saccade.models.registry import (
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
    ModelEntry,
    model_classes,
)
from saccade.models.tagging_config import (
    BertTaggerConfig,
    BiLSTMTaggerConfig,
    CNNTaggerConfig,
    ElmoTaggerConfig,
    TaggerConfig,
    WordTaggerConfig,
)
from saccade.registry import import_attribute as _import_attribute
from saccade.types.names import CellName, ScoreName

if TYPE_CHECKING:
    from saccade.models.airbench import Airbench
    from saccade.models.alexnet import AlexNet
    from saccade.models.attention_cnn import AttentionCNN
    from saccade.models.bahdanau import Bahdanau
    from saccade.models.base import CausalLM, EncoderDecoder, TokenModel
    from saccade.models.bert import BertEncoder
    from saccade.models.bert_answerer import BertAnswerer
    from saccade.models.bert_classifier import BertClassifier
    from saccade.models.bert_tagger import BertTagger
    from saccade.models.bidirectional_lm import BidirectionalBase, BidirectionalLM
    from saccade.models.captioning import CaptionTransformer, RecurrentCaptioner
    from saccade.models.conv_lm import ConvLM
    from saccade.models.conv_seq2seq import ConvSeq2Seq
    from saccade.models.densenet import DenseNet
    from saccade.models.efficientnet_lite import EfficientNetLite
    from saccade.models.elmo import Elmo, ElmoLayers
    from saccade.models.elmo_tagger import ElmoTagger
    from saccade.models.forecasting import AutoregressiveForecaster, Forecaster, RecurrentForecaster
    from saccade.models.googlenet import GoogLeNet
    from saccade.models.gpt import GPT
    from saccade.models.image_base import ImageNetwork
    from saccade.models.kernel_attention import KernelAttention
    from saccade.models.lenet import LeNet
    from saccade.models.luong import Luong
    from saccade.models.nin import NiN
    from saccade.models.nnlm import NNLM
    from saccade.models.prompt_classifier import PromptClassifier
    from saccade.models.resnet import ResNet
    from saccade.models.rnn_lm import RecurrentLM
    from saccade.models.seq2seq import Seq2Seq
    from saccade.models.tabular import MLP, LinearRegression, SoftmaxRegression
    from saccade.models.taggers import BiLSTMTagger, CNNTagger, Tagger, WordTagger
    from saccade.models.text_classifiers import (
        BiLSTMClassifier,
        SetClassifier,
        TextCNN,
        TextNetwork,
        TextTransformer,
    )
    from saccade.models.transformer import Transformer
    from saccade.models.transformer_xl import TransformerXL
    from saccade.models.vgg import VGG
    from saccade.models.vision_transformer import VisionTransformer

_LAZY = {
    "Airbench": "saccade.models.airbench:Airbench",
    "AlexNet": "saccade.models.alexnet:AlexNet",
    "AttentionCNN": "saccade.models.attention_cnn:AttentionCNN",
    "AutoregressiveForecaster": "saccade.models.forecasting:AutoregressiveForecaster",
    "Bahdanau": "saccade.models.bahdanau:Bahdanau",
    "BertClassifier": "saccade.models.bert_classifier:BertClassifier",
    "BertEncoder": "saccade.models.bert:BertEncoder",
    "BertAnswerer": "saccade.models.bert_answerer:BertAnswerer",
    "BertTagger": "saccade.models.bert_tagger:BertTagger",
    "BiLSTMClassifier": "saccade.models.text_classifiers:BiLSTMClassifier",
    "BiLSTMTagger": "saccade.models.taggers:BiLSTMTagger",
    "BidirectionalBase": "saccade.models.bidirectional_lm:BidirectionalBase",
    "BidirectionalLM": "saccade.models.bidirectional_lm:BidirectionalLM",
    "CNNTagger": "saccade.models.taggers:CNNTagger",
    "CaptionTransformer": "saccade.models.captioning:CaptionTransformer",
    "CausalLM": "saccade.models.base:CausalLM",
    "ConvLM": "saccade.models.conv_lm:ConvLM",
    "ConvSeq2Seq": "saccade.models.conv_seq2seq:ConvSeq2Seq",
    "DenseNet": "saccade.models.densenet:DenseNet",
    "EfficientNetLite": "saccade.models.efficientnet_lite:EfficientNetLite",
    "Elmo": "saccade.models.elmo:Elmo",
    "ElmoLayers": "saccade.models.elmo:ElmoLayers",
    "ElmoTagger": "saccade.models.elmo_tagger:ElmoTagger",
    "EncoderDecoder": "saccade.models.base:EncoderDecoder",
    "Forecaster": "saccade.models.forecasting:Forecaster",
    "GPT": "saccade.models.gpt:GPT",
    "GoogLeNet": "saccade.models.googlenet:GoogLeNet",
    "ImageNetwork": "saccade.models.image_base:ImageNetwork",
    "KernelAttention": "saccade.models.kernel_attention:KernelAttention",
    "LeNet": "saccade.models.lenet:LeNet",
    "LinearRegression": "saccade.models.tabular:LinearRegression",
    "Luong": "saccade.models.luong:Luong",
    "MLP": "saccade.models.tabular:MLP",
    "NNLM": "saccade.models.nnlm:NNLM",
    "NiN": "saccade.models.nin:NiN",
    "PromptClassifier": "saccade.models.prompt_classifier:PromptClassifier",
    "RecurrentCaptioner": "saccade.models.captioning:RecurrentCaptioner",
    "RecurrentForecaster": "saccade.models.forecasting:RecurrentForecaster",
    "RecurrentLM": "saccade.models.rnn_lm:RecurrentLM",
    "ResNet": "saccade.models.resnet:ResNet",
    "Seq2Seq": "saccade.models.seq2seq:Seq2Seq",
    "SetClassifier": "saccade.models.text_classifiers:SetClassifier",
    "SoftmaxRegression": "saccade.models.tabular:SoftmaxRegression",
    "Tagger": "saccade.models.taggers:Tagger",
    "TextCNN": "saccade.models.text_classifiers:TextCNN",
    "TextNetwork": "saccade.models.text_classifiers:TextNetwork",
    "TextTransformer": "saccade.models.text_classifiers:TextTransformer",
    "TokenModel": "saccade.models.base:TokenModel",
    "Transformer": "saccade.models.transformer:Transformer",
    "TransformerXL": "saccade.models.transformer_xl:TransformerXL",
    "VGG": "saccade.models.vgg:VGG",
    "VisionTransformer": "saccade.models.vision_transformer:VisionTransformer",
    "WordTagger": "saccade.models.taggers:WordTagger",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _import_attribute(_LAZY[name])
    raise AttributeError(f"module 'saccade.models' has no attribute {name!r}")


__all__ = [
    "ANSWER_MODELS",
    "Airbench",
    "AirbenchConfig",
    "AlexNet",
    "AlexNetConfig",
    "AttentionCNN",
    "AttentionCNNConfig",
    "AttentiveCaptionerConfig",
    "AutoregressiveForecaster",
    "AutoregressiveForecasterConfig",
    "BERT_SIZES",
    "Bahdanau",
    "BahdanauConfig",
    "BertAnswerer",
    "BertAnswererConfig",
    "BertClassifier",
    "BertClassifierConfig",
    "BertConfig",
    "BertEncoder",
    "BertTagger",
    "BertTaggerConfig",
    "BiLSTMClassifier",
    "BiLSTMConfig",
    "BiLSTMTagger",
    "BiLSTMTaggerConfig",
    "BidirectionalBase",
    "BidirectionalLM",
    "BidirectionalLMConfig",
    "CAPTION_MODELS",
    "CNNTagger",
    "CNNTaggerConfig",
    "CaptionTransformer",
    "CaptionTransformerConfig",
    "CaptionerConfig",
    "CausalLM",
    "CellName",
    "ConvLM",
    "ConvLMConfig",
    "ConvSeq2Seq",
    "ConvSeq2SeqConfig",
    "DenseNet",
    "DenseNetConfig",
    "EfficientNetLite",
    "EfficientNetLiteConfig",
    "Elmo",
    "ElmoConfig",
    "ElmoLayers",
    "ElmoTagger",
    "ElmoTaggerConfig",
    "EncoderDecoder",
    "FORECASTING_MODELS",
    "Forecaster",
    "GPT",
    "GPTConfig",
    "GoogLeNet",
    "GoogLeNetConfig",
    "IMAGE_MODELS",
    "ImageModelConfig",
    "ImageNetwork",
    "KERNEL_MODELS",
    "KernelAttention",
    "KernelAttentionConfig",
    "KernelRegressionConfig",
    "LANGUAGE_MODELS",
    "LanguageModelConfig",
    "LeNet",
    "LeNetConfig",
    "LinearRegression",
    "LinearRegressionConfig",
    "Luong",
    "LuongConfig",
    "MLP",
    "MLPConfig",
    "MeanCaptionerConfig",
    "ModelChoice",
    "ModelEntry",
    "NNLM",
    "NNLMConfig",
    "NiN",
    "NiNConfig",
    "PromptClassifier",
    "PromptClassifierConfig",
    "RecurrentCaptioner",
    "RecurrentForecaster",
    "RecurrentForecasterConfig",
    "RecurrentLM",
    "RecurrentLMConfig",
    "ResNet",
    "ResNetConfig",
    "ScoreName",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SetClassifier",
    "SetClassifierConfig",
    "SoftmaxRegression",
    "SoftmaxRegressionConfig",
    "TABULAR_MODELS",
    "TAGGING_MODELS",
    "TEXT_CLASSIFICATION_MODELS",
    "TRANSLATION_MODELS",
    "Tagger",
    "TaggerConfig",
    "TextCNN",
    "TextCNNConfig",
    "TextClassifierConfig",
    "TextNetwork",
    "TextTransformer",
    "TextTransformerConfig",
    "TokenModel",
    "Transformer",
    "TransformerConfig",
    "TransformerXL",
    "TransformerXLConfig",
    "TranslatorConfig",
    "VGG",
    "VGGConfig",
    "VisionTransformer",
    "VisionTransformerConfig",
    "WordTagger",
    "WordTaggerConfig",
    "model_classes",
]
