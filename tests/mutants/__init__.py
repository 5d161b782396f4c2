"""Mutation tests: does a test fail when one operation of the package is wrong? `python3 -m tests --mutants`."""
