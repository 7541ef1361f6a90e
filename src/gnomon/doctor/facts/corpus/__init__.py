"""Parallel text, and how it is written."""
