"""The loss, what it asks of each position, how far it can fall."""
