"""Support vector machines by sequential minimal optimisation."""
