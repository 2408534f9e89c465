"""Values that travel between packages: shapes, predictions, KKT residuals, progress."""
