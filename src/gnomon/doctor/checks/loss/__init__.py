"""Initialisation and loss."""
