"""n-gram language models and their smoothing."""
