"""What one GPU makes of gnomon; see benchmarks/gpu.sh."""
