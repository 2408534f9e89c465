"""Recipe for tagging."""

from saccade.tasks.tagging.config import TagRecipe


def tag_recipe(model: str = "bilstm_tagger") -> TagRecipe:
    """Tag your own sentences (--data train.conll), or generated ones: half a minute."""
    return TagRecipe(
        data={"synthetic": "names"},
        model={"name": model},
        train={"batch_tokens": 512, "learning_rate": 3e-3, "patience": 6},
    )
