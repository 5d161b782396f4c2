"""What runs on every driver, unchanged: the emulator, and with --driver nvidia a GPU."""
