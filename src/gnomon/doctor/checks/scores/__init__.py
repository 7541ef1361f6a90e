"""What attention makes of its scores."""
