"""Files, text and worlds in, batches out."""
