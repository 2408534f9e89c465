"""Fast paths of layers, each with its reference implementation beside it."""
