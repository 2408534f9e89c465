"""Pretraining of BERT: masked language modelling and next-sentence prediction."""
