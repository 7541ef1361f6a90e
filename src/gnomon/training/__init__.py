"""Batches → weights: objective, schedule, optimizer, precision, the loop and its checkpoints.

The loop drives anything that has the shape of `task.Task`; it never learns what a translation or
a tokenizer is. Validation, progress bars and logs reach it as callables and listeners, so nothing
here may import a room that lies above (recipes, api, cli).
"""
