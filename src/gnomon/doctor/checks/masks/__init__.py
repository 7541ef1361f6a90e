"""Who may see whom."""
