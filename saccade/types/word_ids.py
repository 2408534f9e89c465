"""Ids of words and of their bytes, by which words are read. Does not import torch.

A word is its UTF-8 bytes between a start and an end symbol, so that no word is unknown (ELMo,
Peters et al. 2018); a known word has an id of its own as well.
"""

UNKNOWN_WORD, FIRST_WORD = 1, 2  # 0 is padding
START_WORD, END_WORD, FIRST_BYTE = 1, 2, 3  # 0 is padding
BYTE_IDS = FIRST_BYTE + 256
MAX_SPELLED_BYTES = 30  # bytes of a word that are read
