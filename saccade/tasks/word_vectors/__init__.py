"""Word vectors. Does not import torch."""
