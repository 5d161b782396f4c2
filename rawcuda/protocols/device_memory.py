"""The one import that leads from arrays up to the driver: what memory on a device needs.

What it is   `gpu`: the names of gpu/for_arrays.py, which is imported when memory on a device is first met. So views of
             host memory work without a driver, and without the files that know one.
What not     no other import leads from arrays or protocols to gpu/; tests/null/test_layers.py checks that.
Read next    gpu/for_arrays.py
"""

from __future__ import annotations

from ..late import Late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["gpu"]


@Late
def gpu() -> ModuleType:
    """Return gpu/for_arrays.py: everything that views, exports and copies need for device memory."""
    from ..gpu import for_arrays

    return for_arrays  # type: ignore[no-any-return,unused-ignore]
