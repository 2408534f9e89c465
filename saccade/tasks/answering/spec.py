"""The answering task. Does not import torch."""

from saccade.data.datasets import ANSWER_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.models.registry import ANSWER_MODELS
from saccade.registry import import_when_called
from saccade.tasks.answering.config import AnswerRecipe
from saccade.tasks.answering.data import SYNTHETIC_QUESTIONS, load_questions, prepare_questions
from saccade.tasks.base import AnyTaskSpec, TaskSpec, Transfer
from saccade.tasks.embedding.spec import keep_tokenizer, read_wordpiece, wordpiece_sizes

ANSWERING: AnyTaskSpec = TaskSpec(
    name="answer",
    summary="questions: find the answer in a context, or that it has none (SQuAD)",
    recipe=AnswerRecipe,
    models=ANSWER_MODELS,
    synthetic=SYNTHETIC_QUESTIONS,
    datasets=ANSWER_DATASETS,
    prepare=prepare_questions,
    load_split=load_questions,
    model_sizes=wordpiece_sizes,
    read_preprocessor=read_wordpiece,
    components=import_when_called("saccade.tasks.answering.components:answer_components"),
    roles=TASK_ROLES["answer"],
    transferable_data_settings=(),
    transfers={
        "bert": Transfer(
            keep_tokenizer, own_model_settings=("dropout", "pooler", "pretraining_heads")
        )
    },
)
