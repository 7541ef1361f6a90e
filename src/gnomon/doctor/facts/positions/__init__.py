"""What enters the first layer: tokens, positions, rotation, and their ranges."""
