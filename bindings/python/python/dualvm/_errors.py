"""Exceptions: what went wrong, for programs and for people, and where."""

from typing import NamedTuple


class Place(NamedTuple):
    """A place in a program. What isn't known is empty, or 0."""

    file: str = ""
    """The file, as it was named when the program was compiled."""
    line: int = 0
    """The line, from 1."""
    column: int = 0
    """The column in characters, from 1."""
    function: str = ""
    """The function in whose code it is."""
    message: str = ""
    """What is to be said about this place, on one line."""


class Error(Exception):
    """Whatever dualvm refuses. After an error everything is as good as before.

    `str(error)` is for people: several lines where there is that much to say, with the lines of the program that it is
    about, and a caret below the place.
    """

    summary: str
    """The same on one line, without places."""
    places: tuple[Place, ...]
    """The places of all mistakes in a program's text, or the calls that led to where it has stopped, the innermost
    first."""

    def __init__(
        self, message: str, summary: str | None = None, places: tuple[Place, ...] = (), limit: str | None = None
    ) -> None:
        super().__init__(message)
        self.summary = message if summary is None else summary
        self.places = places


class CompileError(Error):
    """A program's text has errors. Show it to who wrote it."""


class ModuleError(Error):
    """Bytes are no module in binary form, or break rules of the verifier. Refuse them."""


class NotFoundError(Error, LookupError):
    """There is no function or parameter of this name, or it can't be used so."""


class ArgumentError(Error, TypeError):
    """Arguments, tangents or cotangents are not those of the function. It says which, what was expected and found."""


class NotScalarError(Error, TypeError):
    """A gradient was asked of a function whose result is not one real."""


class ResultError(Error, ValueError):
    """The program has run, and its result can't be handed over: it nests too deep, say."""


class Trap(Error):
    """The program stopped itself, or did what can't be done: an index out of bounds, an integer divided by zero."""


class LimitError(Error):
    """The program, or its compilation, has reached a limit."""

    limit: str | None
    """Which one, as `Limits` calls it; `None`: one of the engine or of the system."""

    def __init__(
        self, message: str, summary: str | None = None, places: tuple[Place, ...] = (), limit: str | None = None
    ) -> None:
        super().__init__(message, summary, places)
        self.limit = limit


class Cancelled(Error):
    """The program, or its compilation, was cancelled by a handle."""


class BusyError(Error, RuntimeError):
    """A pullback is used by two threads at a time."""


class InternalError(Error, RuntimeError):
    """A mistake of dualvm. Please report it."""
