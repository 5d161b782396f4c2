"""The 128 bytes of a tensor map, which only this emulator reads: NVIDIA does not publish those of its driver.

Source       CUDA Driver API, CUtensorMap, CUtensorMapDataType
Read next    ../entries/texturing/tensor_maps.py, which writes them; ../ptx/running/units/tensors.py, which reads them
"""

from __future__ import annotations

import struct

__all__ = ["LAYOUT", "MAGIC", "SIZE", "SIZES"]

LAYOUT = struct.Struct("<I 7B x Q 5Q 4Q 5B 5H")
MAGIC = 0x70614D52
SIZE = 128
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # bytes of an element, by CUtensorMapDataType
