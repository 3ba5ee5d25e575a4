"""Keywords as flags of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Flags that a keyword's list repeats; a list of any other flag is levels of a factor, with commas between them.
REPEATED = {"transport", "path", "fail", "set", "table", "also"}


def text(flag: str, value: Any) -> str:
    """A value as the command line takes it."""
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"{flag}: text, a number, or a list of these, and not {type(value).__name__}")


def flags(keywords: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Flag and value of each keyword that is not None."""
    found: list[tuple[str, str]] = []
    for keyword, value in keywords.items():
        flag = keyword.rstrip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, Iterable) and not isinstance(value, str):
            values = [text(keyword, one) for one in value]
            if flag in REPEATED:
                found.extend((flag, one) for one in values)
            else:
                found.append((flag, ",".join(values)))
        else:
            found.append((flag, text(keyword, value)))
    return found
