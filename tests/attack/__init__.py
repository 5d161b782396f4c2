"""The campaign: random programs, objects and inputs against what is promised, for as long as one wants.

    python3 -m tests --attack --minutes 10 [-- --attack-seed 5]

Each test gets an equal part of the time, prints its seed, and reports what it did. A failure shows the seed with which
it comes again.
"""
