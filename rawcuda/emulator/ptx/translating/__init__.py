"""From syntax to Python source: the table of instructions and its check, the control flow, and the emitters of each family."""
