"""Tagging of tokens. Does not import torch."""
