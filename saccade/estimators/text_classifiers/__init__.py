"""Linear text classifiers that fit themselves: bags of hashed n-grams. Imports no numba."""
