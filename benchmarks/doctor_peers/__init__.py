"""The doctor beside other checkers, on the same faults."""
