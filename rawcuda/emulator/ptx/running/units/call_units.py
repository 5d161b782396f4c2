"""The functions of this folder that generated code calls.

Read next    late_units.py
"""

from __future__ import annotations

from .bulk import bulk_in, bulk_out, packed_as
from .late_units import started
from .small_units import SMALL, to_half_randomly
from .span_units import fetch_fragment, fetch_row, store_fragment, store_poison, store_row, store_zeros
from .tensors import tensor_in, tensor_map_copy, tensor_map_replace, tensor_out
from .video import VIDEO

__all__ = [
    "SMALL", "VIDEO", "bulk_in", "bulk_out", "fetch_fragment", "fetch_row", "packed_as", "started", "store_fragment",
    "store_poison", "store_row", "store_zeros", "tensor_in", "tensor_map_copy", "tensor_map_replace", "tensor_out",
    "to_half_randomly",
]  # fmt: skip
