"""One check a file, in the folder of its group; found by being there."""
