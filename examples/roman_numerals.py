"""Write a file of Roman and Arabic numerals, an example of your own data: source TAB target.

python examples/roman_numerals.py roman.tsv
saccade train translate --data roman.tsv
"""

import sys
from pathlib import Path

SIGNS = {
    1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC",
    50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I",
}  # fmt: skip


def roman(number: int) -> str:
    """Return the Roman numeral of a number."""
    numeral = ""
    for value, sign in SIGNS.items():
        numeral += sign * (number // value)
        number %= value
    return numeral


if __name__ == "__main__":
    # every eleventh number is held out; every ending still occurs
    pairs = [f"{roman(n)}\t{n}\n" for n in range(1, 4000) if n % 11 != 6]
    Path(sys.argv[1]).write_text("".join(pairs), encoding="utf-8")
    print(f"{len(pairs)} pairs written to {sys.argv[1]}")
