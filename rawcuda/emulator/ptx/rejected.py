"""The one way in which PTX is refused: a CUresult and a log that reads like the JIT compiler's.

A log line has ptxas' own form, so that whoever reads logs by line number can:

    ptxas application ptx input, line 7; error   : Unknown instruction 'addd'

Read next    lexer.py
"""

from __future__ import annotations

__all__ = ["INVALID_IMAGE", "INVALID_PTX", "NO_BINARY_FOR_GPU", "OUT_OF_MEMORY", "Rejected", "UNSUPPORTED_VERSION"]

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
INVALID_IMAGE = 200  # CUDA_ERROR_INVALID_IMAGE
NO_BINARY_FOR_GPU = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
INVALID_PTX = 218  # CUDA_ERROR_INVALID_PTX
UNSUPPORTED_VERSION = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION


class Rejected(Exception):
    """Refuse an image.

    shape   code: the CUresult; log: what the JIT error log would hold; line: where, or None
    """

    def __init__(self, code: int, log: str, line: int | None = None) -> None:
        super().__init__(code, log, line)
        self.code = code
        self.log = log
        self.line = line

    def __str__(self) -> str:
        return self.log

    @classmethod
    def at(cls, line: int, message: str, code: int = INVALID_PTX) -> Rejected:
        """Make a rejection that names a line of the text."""
        log = (
            f"ptxas application ptx input, line {line}; error   : {message}\n"
            "ptxas fatal   : Ptx assembly aborted due to errors"
        )
        return cls(code, log, line)
