"""Ties, and what was saved and loaded."""
