"""Kernel regression (Nadaraya–Watson), as an estimator and as attention."""
