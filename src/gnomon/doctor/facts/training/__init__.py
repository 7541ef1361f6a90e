"""Optimizer, schedule, the user's step, the recipe."""
