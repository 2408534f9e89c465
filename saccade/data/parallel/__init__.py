"""Sentence pairs: reading, splitting, tokenizing."""
