"""The run folder: layout, training into it, opening it, exporting from it."""
