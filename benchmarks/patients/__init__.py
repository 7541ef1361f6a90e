"""Healthy patients for the doctor's benchmarks: real text, small models, brief good training."""
