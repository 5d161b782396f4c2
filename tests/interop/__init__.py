"""Tests with real libraries, in both directions. Libraries that are not installed are skipped by name."""
