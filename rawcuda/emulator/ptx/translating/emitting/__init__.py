"""The writers of Python source, one for each family of instructions."""
