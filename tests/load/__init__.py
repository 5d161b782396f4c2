"""The load: mixed work in several threads of several processes for a long time, and what it costs.

    python3 -m tests --load --minutes 30

Each process runs worker.py and reports what it found as JSON; test_load.py starts them, checks the reports and prints
the figures.
"""
