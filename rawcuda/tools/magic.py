"""The cell magic %%cuda: compile a cell of CUDA C, launch one of its kernels, and show the reports of the emulator.

What it is   `load`, which IPython calls for `%load_ext`. The line of %%cuda contains a launch, written as a call:
                 %%cuda saxpy(1000, 2.5, x, y, grid=4, block=256)
             Its arguments are expressions in the notebook. Without it, the cell is only compiled. Each kernel of the
             cell becomes a variable of the notebook, so that later cells can launch it.
What not     it uploads nothing: as in any launch, arrays in host memory are refused.
Source       IPython, "Defining custom magics"
Read next    pictures/page.py
"""

from __future__ import annotations

import ast

from ..driver import current
from ..errors import RawCudaError, shown
from ..gpu.devices.device import Device
from .pictures.page import text_block
from .terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load"]


def load(shell: Any) -> None:
    """Add the magic to a running IPython."""

    def cuda(line: str, cell: str) -> None:
        """Compile the cell as CUDA C, and launch the kernel that the line calls.

        %%cuda KERNEL(ARGUMENTS, grid=..., block=...)
        """
        try:
            _run(shell, line.strip(), cell)
        except (RawCudaError, SyntaxError) as error:
            import IPython  # type: ignore[import-not-found, unused-ignore]

            _show(str(error))
            # it is shown without a traceback, and a run of all cells stops
            raise IPython.core.error.UsageError(str(error).splitlines()[0]) from None

    shell.register_magic_function(cuda, magic_kind="cell", magic_name="cuda")


def _run(shell: Any, line: str, cell: str) -> None:
    call = _parsed(line)
    device = Device(0)
    module = device.compile(cell)
    shell.push({name: module[name] for name in module if name.isidentifier()})
    if call is None:
        say("compiled: " + ", ".join(module))
        return
    before = _reports()
    seen = set(map(id, before))  # (of the newest thousand, each of which stays as long as `before`)
    arguments = [_value(shell, each) for each in call.args]
    options = {str(each.arg): _value(shell, each.value) for each in call.keywords}
    module[ast.unparse(call.func)].launch(*arguments, **options)
    device.synchronize()
    reports = [each for each in _reports() if id(each) not in seen]
    if reports:
        _show("\n\n".join(reports))


def _parsed(line: str) -> ast.Call | None:
    """Return the call in the line after the magic, or None if there is none.

    raises  SyntaxError  it is something else
    """
    if not line:
        return None
    found = ast.parse(line, mode="eval").body
    if not isinstance(found, ast.Call) or any(keyword.arg is None for keyword in found.keywords):
        raise SyntaxError(f"%%cuda {line}: write a launch as a call, such as saxpy(1000, 2.5, x, y, grid=4, block=256)")
    return found


def _value(shell: Any, node: ast.expr) -> Any:
    return shell.ev(ast.unparse(node))


def _reports() -> list[str]:
    """Return what the emulator has reported so far; a GPU reports nothing."""
    return list(getattr(current().libcuda, "reports", []))


def _show(text: str) -> None:
    """Show a report below the cell."""
    import IPython  # type: ignore[import-not-found, unused-ignore]

    forms = {"text/html": text_block(text, wrapped=True), "text/plain": shown(text)}  # a terminal shows the second
    IPython.display.display(forms, raw=True)
