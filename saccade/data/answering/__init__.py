"""Questions with answers that are spans of a context: files, and a generated set."""
