"""Values that travel between packages: the legend of shapes, predictions and evaluations."""
