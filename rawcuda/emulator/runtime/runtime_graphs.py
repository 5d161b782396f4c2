"""Functions: nodes of graphs whose parameters differ from those of the driver: kernels, copies, fills.

What not     the other functions of graphs, which are those of the driver; prototypes.py lists them.
Source       CUDA Runtime API, "Graph Management"
Read next    serving.py
"""

from __future__ import annotations

import ctypes
import struct

from ..entries.code.modules import LibraryKernel
from ..interface.thunks import MEMCPY3D, get_word, out, put_bytes, put_word
from .code import kernel_of
from .runtime_copies import INTO, OUT_OF, copy_words, memory_side, parameters_of, symbol_place, types_of, words_of
from .state import Runtime, runtime

__all__ = ["node_of"]

_NODE = 56  # the size of cudaKernelNodeParams; CUDA_KERNEL_NODE_PARAMS_v1 has the same members
_KERNEL, _COPY, _FILL, _ALLOCATION, _CONDITIONAL = 0, 1, 2, 10, 13  # cudaGraphNodeType
_PARAMETERS, _UNION = 256, 16  # the size of cudaGraphNodeParams, and where its union is
_COPY_AT = 16  # where cudaMemcpyNodeParams has its cudaMemcpy3DParms


def node_of(state: Runtime, address: int) -> ctypes.Array[ctypes.c_char]:
    """Return the parameters of a kernel node in the form of the driver."""
    out(address)
    content = ctypes.string_at(address, _NODE)
    kernel = struct.pack("<Q", kernel_of(state, get_word(address)))
    return ctypes.create_string_buffer(kernel + content[8:], _NODE)


def _context(state: Runtime) -> int:
    return state.machine.context().handle


@runtime("cudaGraphKernelNodeGetParams")
def get_kernel_node(state: Runtime, node: int, address: int) -> None:
    """Write the parameters of a kernel node, with the kernel's address on the host."""
    out(address)
    words = ctypes.create_string_buffer(_NODE)
    state.do("cuGraphKernelNodeGetParams", node, words)
    put_bytes(address, words.raw)
    function = state.machine.handles.get(get_word(address))
    for host, kernel in state.kernels.items():
        loaded = state.machine.handles.get(kernel.handle)
        if isinstance(loaded, LibraryKernel) and function in (loaded, loaded.function()):
            put_word(address, host)


# -- copies


@runtime("cudaGraphAddMemcpyNode")
def add_copy(state: Runtime, node: int, graph: int, before: int, count: int, copy: int) -> None:
    """Add a copy of a box."""
    words = words_of(state, copy)
    state.do("cuGraphAddMemcpyNode", node, graph, before, count, words, _context(state))


@runtime("cudaGraphMemcpyNodeGetParams")
def get_copy(state: Runtime, node: int, address: int) -> None:
    """Write the parameters of a copy."""
    out(address)
    words = ctypes.create_string_buffer(MEMCPY3D.size)
    state.do("cuGraphMemcpyNodeGetParams", node, words)
    put_bytes(address, bytes(parameters_of(state, words)))


@runtime("cudaGraphMemcpyNodeSetParams")
def set_copy(state: Runtime, node: int, copy: int) -> None:
    """Change a copy."""
    state.do("cuGraphMemcpyNodeSetParams", node, words_of(state, copy))


@runtime("cudaGraphExecMemcpyNodeSetParams")
def set_executable_copy(state: Runtime, executable: int, node: int, copy: int) -> None:
    """Change a copy of an executable graph."""
    words = words_of(state, copy)
    state.do("cuGraphExecMemcpyNodeSetParams", executable, node, words, _context(state))


def _bytes(target: int, source: int, size: int, kind: int) -> ctypes.Array[ctypes.c_char]:
    """Return the CUDA_MEMCPY3D of a copy of bytes."""
    types = types_of(kind)
    return copy_words(memory_side(source, 0, types[0]), memory_side(target, 0, types[1]), (size, 1, 1))


@runtime("cudaGraphAddMemcpyNode1D")
def add_bytes(
    state: Runtime, node: int, graph: int, before: int, count: int, target: int, source: int, size: int, kind: int
) -> None:
    """Add a copy of bytes."""
    words = _bytes(target, source, size, kind)
    state.do("cuGraphAddMemcpyNode", node, graph, before, count, words, _context(state))


@runtime("cudaGraphMemcpyNodeSetParams1D")
def set_bytes(state: Runtime, node: int, target: int, source: int, size: int, kind: int) -> None:
    """Change a copy of bytes."""
    state.do("cuGraphMemcpyNodeSetParams", node, _bytes(target, source, size, kind))


@runtime("cudaGraphExecMemcpyNodeSetParams1D")
def set_executable_bytes(
    state: Runtime, executable: int, node: int, target: int, source: int, size: int, kind: int
) -> None:
    """Change a copy of bytes of an executable graph."""
    words = _bytes(target, source, size, kind)
    state.do("cuGraphExecMemcpyNodeSetParams", executable, node, words, _context(state))


@runtime("cudaGraphAddMemcpyNodeToSymbol")
def add_to_symbol(
    state: Runtime,
    node: int,
    graph: int,
    before: int,
    count: int,
    symbol: int,
    source: int,
    size: int,
    offset: int,
    kind: int,
) -> None:
    """Add a copy into a variable."""
    target = symbol_place(state, symbol, size, offset, kind, INTO)
    add_bytes(state, node, graph, before, count, target, source, size, kind)


@runtime("cudaGraphAddMemcpyNodeFromSymbol")
def add_from_symbol(
    state: Runtime,
    node: int,
    graph: int,
    before: int,
    count: int,
    target: int,
    symbol: int,
    size: int,
    offset: int,
    kind: int,
) -> None:
    """Add a copy out of a variable."""
    source = symbol_place(state, symbol, size, offset, kind, OUT_OF)
    add_bytes(state, node, graph, before, count, target, source, size, kind)


@runtime("cudaGraphMemcpyNodeSetParamsToSymbol")
def set_to_symbol(state: Runtime, node: int, symbol: int, source: int, size: int, offset: int, kind: int) -> None:
    """Change a copy into a variable."""
    set_bytes(state, node, symbol_place(state, symbol, size, offset, kind, INTO), source, size, kind)


@runtime("cudaGraphMemcpyNodeSetParamsFromSymbol")
def set_from_symbol(state: Runtime, node: int, target: int, symbol: int, size: int, offset: int, kind: int) -> None:
    """Change a copy out of a variable."""
    set_bytes(state, node, target, symbol_place(state, symbol, size, offset, kind, OUT_OF), size, kind)


@runtime("cudaGraphExecMemcpyNodeSetParamsToSymbol")
def set_executable_to_symbol(
    state: Runtime, executable: int, node: int, symbol: int, source: int, size: int, offset: int, kind: int
) -> None:
    """Change a copy into a variable of an executable graph."""
    target = symbol_place(state, symbol, size, offset, kind, INTO)
    set_executable_bytes(state, executable, node, target, source, size, kind)


@runtime("cudaGraphExecMemcpyNodeSetParamsFromSymbol")
def set_executable_from_symbol(
    state: Runtime, executable: int, node: int, target: int, symbol: int, size: int, offset: int, kind: int
) -> None:
    """Change a copy out of a variable of an executable graph."""
    source = symbol_place(state, symbol, size, offset, kind, OUT_OF)
    set_executable_bytes(state, executable, node, target, source, size, kind)


# -- fills, whose structure is that of the driver


@runtime("cudaGraphAddMemsetNode")
def add_fill(state: Runtime, node: int, graph: int, before: int, count: int, fill: int) -> None:
    """Add a fill."""
    state.do("cuGraphAddMemsetNode", node, graph, before, count, fill, _context(state))


@runtime("cudaGraphExecMemsetNodeSetParams")
def set_executable_fill(state: Runtime, executable: int, node: int, fill: int) -> None:
    """Change a fill of an executable graph."""
    state.do("cuGraphExecMemsetNodeSetParams", executable, node, fill, _context(state))


# -- nodes of any kind


def _parameters(state: Runtime, address: int) -> bytearray:
    """Return a cudaGraphNodeParams in the form of the driver, which names contexts and has other copies."""
    out(address)
    made = bytearray(ctypes.string_at(address, _PARAMETERS))
    (kind,) = struct.unpack_from("<i", made)
    context = struct.pack("<Q", _context(state))
    if kind == _KERNEL:
        made[_UNION : _UNION + 8] = struct.pack("<Q", kernel_of(state, get_word(address + _UNION)))
        made[_UNION + 56 : _UNION + 72] = bytes(16)
    elif kind == _COPY:
        made[_UNION + 8 : _UNION + 16] = context
        made[_UNION + 16 : _UNION + 16 + MEMCPY3D.size] = words_of(state, address + _UNION + _COPY_AT).raw
    elif kind == _FILL:
        made[_UNION + 40 : _UNION + 48] = context
    elif kind == _CONDITIONAL:
        made[_UNION + 24 : _UNION + 32] = context
    return made


def _of_any_kind(state: Runtime, name: str, *arguments: int) -> None:
    """Call a function of the driver whose last argument is a cudaGraphNodeParams, and write its results into that."""
    *others, address = arguments
    made = _parameters(state, address)
    words = (ctypes.c_char * len(made)).from_buffer(made)
    state.do(name, *others, words)
    if struct.unpack_from("<i", made)[0] in (_ALLOCATION, _CONDITIONAL):
        put_bytes(address, bytes(made))


@runtime("cudaGraphAddNode", "cudaGraphAddNode_v2")
def add_node(state: Runtime, *arguments: int) -> None:
    """Add a node of any kind; the forms with the data of edges have one more parameter."""
    _of_any_kind(state, "cuGraphAddNode" if len(arguments) == 5 else "cuGraphAddNode_v2", *arguments)


@runtime("cudaGraphNodeSetParams")
def set_node(state: Runtime, node: int, parameters: int) -> None:
    """Change a node of any kind."""
    _of_any_kind(state, "cuGraphNodeSetParams", node, parameters)


@runtime("cudaGraphExecNodeSetParams")
def set_executable_node(state: Runtime, executable: int, node: int, parameters: int) -> None:
    """Change a node of any kind of an executable graph."""
    _of_any_kind(state, "cuGraphExecNodeSetParams", executable, node, parameters)


@runtime("cudaGraphConditionalHandleCreate")
def create_condition(state: Runtime, address: int, graph: int, value: int, flags: int) -> None:
    """Create the condition of a conditional node."""
    state.do("cuGraphConditionalHandleCreate", address, graph, _context(state), value, flags)
