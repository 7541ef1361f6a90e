"""Recipes, runs, and what happens while a model trains."""
