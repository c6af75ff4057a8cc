"""What `inspect.signature` says of a function."""

import inspect
import keyword
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._dualvm import Function


def signature(function: "Function") -> inspect.Signature:
    """Parameters with their types in the language as annotations. A name that Python couldn't have, as `x'`, is given
    by its place only, and shown with `_` for what can't be written."""
    plain = all(name.isidentifier() and not keyword.iskeyword(name) for name, _ in function.parameters)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if plain else inspect.Parameter.POSITIONAL_ONLY
    parameters: list[inspect.Parameter] = []
    seen: set[str] = set()
    for name, annotation in function.parameters:
        name = re.sub(r"\W", "_", name)
        while keyword.iskeyword(name) or name in seen:
            name += "_"
        seen.add(name)
        parameters.append(inspect.Parameter(name, kind, annotation=annotation))
    return inspect.Signature(parameters, return_annotation=function.result_type)
