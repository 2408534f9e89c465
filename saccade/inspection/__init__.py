"""What a model does, as data: attention capture, signal propagation, invariance checks."""
