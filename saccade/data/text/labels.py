"""Labels in fastText's format, "__label__NAME text". Does not import NumPy."""

import re

LABEL_PREFIX = "__label__"

match_prefixed_labels = re.compile(rf"(?:{LABEL_PREFIX}\S*\s*)+").match
