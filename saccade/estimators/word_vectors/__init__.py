"""Word vectors: word2vec, GloVe, fastText and baselines."""
