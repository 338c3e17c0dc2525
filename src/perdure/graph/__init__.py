"""Notation 1: DOT graphs."""
