"""Errors that a user can cause: one line each, shown by the command line without a traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend. The message is one line that says what is wrong and what is expected."""


def unknown(kind: str, name: str, names: Iterable[str]) -> UserError:
    """The error for an unknown name: the nearest known one, then all of them."""
    known = sorted(names)
    lowered = {n.lower(): n for n in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    hint = f"; did you mean {lowered[near[0]]!r}?" if near else ";"
    return UserError(f"unknown {kind} {name!r}{hint} known: {', '.join(known)}")
