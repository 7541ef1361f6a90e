"""Token vectors and positions."""
