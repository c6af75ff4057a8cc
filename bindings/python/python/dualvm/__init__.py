"""Programs in dualvm's language, from Python: called like functions, and differentiated.

>>> import dualvm
>>> area = dualvm.compile("def area (w : Real) (h : Real) : Real = w * h")
>>> area(3, 4)
12.0
>>> area.value_and_grad(3, 4)
(12.0, (4.0, 3.0))
"""

import os as _os

from ._dualvm import (
    CancelHandle,
    Engine,
    Function,
    HostFunction,
    Limits,
    Module,
    Pullback,
    __version__,
    _after_fork,
    compile,
    load,
)
from ._errors import (
    ArgumentError,
    BusyError,
    Cancelled,
    CompileError,
    Error,
    InternalError,
    LimitError,
    ModuleError,
    NotFoundError,
    NotScalarError,
    Place,
    ResultError,
    Trap,
)

__all__ = [
    "ArgumentError",
    "BusyError",
    "CancelHandle",
    "Cancelled",
    "CompileError",
    "Engine",
    "Error",
    "Function",
    "HostFunction",
    "InternalError",
    "LimitError",
    "Limits",
    "Module",
    "ModuleError",
    "NotFoundError",
    "NotScalarError",
    "Place",
    "Pullback",
    "ResultError",
    "Trap",
    "__version__",
    "compile",
    "load",
]

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
