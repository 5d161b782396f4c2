"""Real libraries: each consumes our views, and is consumed. What is not installed is skipped, by name."""
