"""Converts keywords to flags of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Flags that are repeated for each item of a list. Any other list becomes the levels of a factor, joined by commas.
REPEATED = {"transport", "path", "fail", "set", "table", "also"}


def text(flag: str, value: Any) -> str:
    """Returns a value as the command line reads it."""
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"{flag}: must be text, a number, or a list of these, not {type(value).__name__}")


def flags(keywords: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the flag and the value of each keyword that is not None."""
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
