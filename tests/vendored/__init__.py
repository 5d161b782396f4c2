"""The package under another name, and two copies of it at once."""
