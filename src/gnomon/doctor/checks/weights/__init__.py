"""What the weights themselves say."""
