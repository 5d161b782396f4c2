"""What needs no driver at all."""
