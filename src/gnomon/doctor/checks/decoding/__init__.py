"""What comes out, token by token."""
