"""Generation as it is used, beside full passes."""
