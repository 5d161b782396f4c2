"""The table of opcodes: for each, the forms that are accepted and the writer of its source."""
