"""Our weights and vocabularies in other tools' formats. Nothing is loaded until it is asked for."""
