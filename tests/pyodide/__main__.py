"""What `python3 -m tests --pyodide` starts in the environment of the tests."""

from __future__ import annotations

import sys

from .command import main

sys.exit(main(sys.argv[1:]))
