"""Measurements of this package beside its peers: python3 -m benchmarks."""
