"""The answering task: spans of a context that answer questions."""
