"""Registry of synthetic sentence pairs; Babel and num2words are imported with the set they make."""

from collections.abc import Callable

from saccade.data.synthetic.base import SyntheticPairs
from saccade.registry import LazyRegistry

SYNTHETIC_PAIRS: LazyRegistry[Callable[..., SyntheticPairs]] = LazyRegistry(
    {
        "dates": "saccade.data.synthetic.dates:generate_dates",
        "numbers": "saccade.data.synthetic.spelled_numbers:generate_spelled_numbers",
        "reverse": "saccade.data.synthetic.sequences:generate_reverse",
        "copy": "saccade.data.synthetic.sequences:generate_copy",
    }
)
