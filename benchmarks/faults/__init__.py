"""A public catalogue of seeded Transformer faults, the models they are seeded in, and a runner."""
