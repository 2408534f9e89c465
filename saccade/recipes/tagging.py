"""Recipe for tagging."""

from typing import Any

from saccade.tasks.tagging.config import TagRecipe


def tag_recipe(model: str = "bilstm_tagger") -> TagRecipe:
    """Tag your own sentences (--data train.conll), or generated ones: half a minute."""
    train: dict[str, Any] = {"batch_tokens": 512, "patience": 6}
    if model != "bert":  # whose rate follows from its width
        train["learning_rate"] = 3e-3
    return TagRecipe(data={"synthetic": "names"}, model={"name": model}, train=train)
