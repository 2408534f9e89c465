"""Translation: sequence-to-sequence models on pairs of texts."""
