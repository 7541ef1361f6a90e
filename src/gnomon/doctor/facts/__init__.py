"""What is known of a case beyond `case.py`: functions of it, in a room for each part."""
