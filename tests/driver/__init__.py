"""Tests that run unchanged on every driver: on the emulator, and with --driver nvidia on a GPU."""
