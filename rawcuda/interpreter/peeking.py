"""Reading memory at an address that may be wrong.

What it is   `peek`, for addresses that another library or a user gives, and for what is only shown.
What not     it does not tell whether the memory may be used: another thread may free it at any time.
Read next    ../tools/explaining/offers.py
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["peek"]


def peek(address: int, nbytes: int) -> bytes | None:
    """Return a copy of at most 4096 bytes at an address, or None if they cannot be read.

    Reading through a bad pointer ends the process; writing from it into a pipe only returns an error.
    """
    if not (0 < nbytes <= 4096 and 0 < address < 2**63 - nbytes):
        return None
    if sys.platform == "win32":
        try:
            return ctypes.string_at(address, nbytes)  # on Windows, ctypes turns an access violation into an OSError
        except OSError:
            return None
    try:
        source, sink = os.pipe()
    except (OSError, AttributeError):  # too many open files, or a system without pipes
        return None
    try:
        if os.write(sink, (ctypes.c_char * nbytes).from_address(address)) == nbytes:
            return os.read(source, nbytes)
        return None
    except OSError:  # EFAULT
        return None
    finally:
        os.close(source)
        os.close(sink)
