"""What the doctor says of healthy models."""
