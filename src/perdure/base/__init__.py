"""Errors, identifiers, time, JSON values, names: what knows nothing of runs."""
