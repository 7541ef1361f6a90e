"""Examines models, data and training; see `diagnose`."""
