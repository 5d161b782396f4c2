"""Tests of the emulator itself: its entry points, its PTX, its executors and checkers, and its stand-ins."""
