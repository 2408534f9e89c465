"""Observations of a model as data: attention capture, signal propagation, checks, figures."""
