"""Text classification. Does not import torch."""
