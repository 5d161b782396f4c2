"""The tests, foldered by what they need; `python3 -m tests` runs them in an environment that it makes itself."""
