"""Records: rows with named columns, read in chunks from any tabular file or object."""
