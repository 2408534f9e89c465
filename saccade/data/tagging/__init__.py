"""Texts with a tag for each token: readers, tag schemes, generated sentences."""
