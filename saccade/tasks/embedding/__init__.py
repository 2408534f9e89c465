"""Sentence vectors by contrastive learning. Does not import torch."""
