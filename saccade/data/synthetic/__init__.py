"""Generated data sets that need no files."""
