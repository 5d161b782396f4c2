"""Conditions: values that kernels set, and that decide which graph of a conditional node runs.

What else    `explained`: the errors for graphs with conditional nodes or allocations, which permit fewer calls.
Source       CUDA Driver API, cuGraphConditionalHandleCreate, CUDA_CONDITIONAL_NODE_PARAMS; CUDA Programming Guide,
             "Conditional Graph Nodes": cudaGraphSetConditional
Read next    node_parameters.py
"""

from __future__ import annotations

import ctypes
from ctypes import byref

from ...arguments import SetOnce, as_int
from ...driver import dotted
from ...errors import InvalidUse, Unsupported, unsupported, worded
from ...headers import cuda_h
from ...headers.status import INVALID_VALUE, NOT_SUPPORTED
from ..core.calls import reworded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ...driver import Driver
    from ...gpu.graphs.graph import Graph

__all__ = ["Condition", "explained", "refused"]

_NEEDED = "cuGraphConditionalHandleCreate"


def refused(driver: Driver, what: str, since: str) -> Unsupported:
    """Return the error for a driver that is too old for conditional nodes, or for some of them."""
    return unsupported(
        f"{what} need a driver of CUDA {since}, and this is one of {dotted(driver.version)}",
        call=_NEEDED,
    )


class Condition(SetOnce):
    """A value that kernels set, and by which one conditional node chooses a graph; made by create_condition().

    graph    the graph that it belongs to
    default  its value at the start of each launch; None: it is not reset
    """

    __slots__ = ("graph", "default", "_handle")
    _instead = "create another condition"

    graph: Graph
    default: int | None
    if TYPE_CHECKING:
        _handle: int

    def __init__(self, graph: Graph, default: int | None = None) -> None:
        driver = graph._primary.driver
        if not driver.has(_NEEDED) or not driver.has("cuGraphAddNode_v2"):
            raise refused(driver, "conditional nodes", "12.4")
        if default is not None:
            if isinstance(default, bool):
                default = int(default)
            default = as_int("default", default)
            if not 0 <= default < 2**32:
                raise ValueError(f"default={worded(default)}: a condition is a number from 0 to 2**32-1")
        handle = ctypes.c_uint64()
        with graph._changing(), graph._primary.current():
            graph._refuse_recording()
            context = cuda_h.CUcontext(graph._primary.handle)
            flags = 0 if default is None else 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
            driver.cuGraphConditionalHandleCreate(
                byref(handle), cuda_h.CUgraph(graph.handle), context, default or 0, flags
            )
            graph._changed()
        self.graph, self.default, self._handle = graph, default, handle.value

    @classmethod
    def _of(cls, graph: Graph, handle: int, default: int | None) -> Condition:
        made = cls.__new__(cls)
        made.graph, made._handle, made.default = graph, handle, default
        return made

    @property
    def handle(self) -> int:
        """Return the CUgraphConditionalHandle; raises Closed if the graph is closed."""
        self.graph.handle
        return self._handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(("condition", self._handle))

    def __copy__(self) -> NoReturn:
        raise TypeError("a Condition belongs to its graph and cannot be copied: create another")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Condition holds a handle of this process and cannot be pickled")

    def __index__(self) -> int:  # so that a kernel takes it as an argument
        return self.handle

    def __repr__(self) -> str:
        return f"<Condition {self._handle:#x}{'' if self.default is None else f', default {self.default}'}>"


class explained:
    """Context manager that adds to an error of the driver which nodes of a graph probably caused it.

    graph   None: the error stays as it is
    what    what such a graph cannot do, and the remedy
    """

    __slots__ = ("graph", "what")

    def __init__(self, graph: Graph | None, what: str) -> None:
        self.graph, self.what = graph, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self.graph is None or not isinstance(error, (InvalidUse, Unsupported)) or error.code not in _REFUSED:
            return
        found = sorted({node.kind for node in self.graph.nodes} & _SPECIAL)
        if found:
            message = f"{error}\nA graph with {' and '.join(found)} nodes {self.what}"
            raise reworded(error, message, type(error)) from None


_REFUSED = INVALID_VALUE, NOT_SUPPORTED
_SPECIAL = {"allocation", "free", "conditional"}
