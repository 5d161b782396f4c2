"""Tests that need no driver."""
