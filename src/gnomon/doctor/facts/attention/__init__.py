"""What attention does: who sees whom, each head in numbers, the projections around it."""
