"""Contrastive learning: features of images from pairs of their views, without labels."""
