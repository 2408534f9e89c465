"""Recipe for answering questions."""

from saccade.tasks.answering.config import AnswerRecipe


def answer_recipe(model: str = "bert") -> AnswerRecipe:
    """Find answers in contexts of your own (--data squad.json), or generated ones: a minute."""
    return AnswerRecipe(
        data={"synthetic": "facts"},
        model={"name": model},
        train={"batch_tokens": 1024, "patience": 6},
    )
