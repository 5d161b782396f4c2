"""Measurements of this package, compared with other libraries: python3 -m benchmarks."""
