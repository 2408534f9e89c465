"""Names of columns in one form."""

import re

from saccade.io.normalisation import normalise_unicode


def normalise_name(name: str) -> str:
    """Return a column's name in lower case with underscores: "ReviewText" is "review_text"."""
    name = normalise_unicode(name, "NFKC").strip()
    name = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")
