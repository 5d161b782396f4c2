"""Entry points that newer ones replace, and that programs still call.

What it is   rooms of entry points: names.py, launching.py.
"""
