"""The text that is learned from."""
