"""Environments: interaction in, episodes out."""
