"""The tests, in a folder for each set of requirements; `python3 -m tests` runs them in an environment of its own."""
