"""Entry points that newer ones replace, and that programs still call.

What it is   older_names.py has old names and forms of calls, and launching.py has launches in several calls.
Order        launching, older_names
"""
