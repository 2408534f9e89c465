"""Weights and vocabularies in the formats of other tools; `registry` lists the formats."""
