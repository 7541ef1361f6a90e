"""Norms, residuals and feed-forward."""
