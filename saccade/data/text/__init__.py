"""Plain and labelled text: corpora, token stores, language-model batches."""
