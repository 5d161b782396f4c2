"""Other people's programs and test suites, run on the emulator: `python3 -m tests --clients`."""
