"""Studies, which redo papers. Each published value stands beside ours, and runs decide each claim."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._program import carried_out, spelt, words
from ._table import Table


class Study:
    """The result of a study: tables of cells, claims and causes, the page, and the text that the command prints."""

    def __init__(self, name: str, text: str, place: Path) -> None:
        folder = place / name
        self.name = name
        self.text = text
        self.cells = Table(_native.read_csv(str(folder / "cells.csv")))
        self.claims = Table(_native.read_csv(str(folder / "claims.csv")))
        self.causes = Table(_native.read_csv(str(folder / "causes.csv")))
        self.html = (folder / "study.html").read_text()

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0" title="Study"></iframe>'


def study(
    name: str, *, out: Optional[Union[str, os.PathLike[str]]] = None, set: Optional[dict[str, Any]] = None, **keywords: Any
) -> Study:
    """Runs a study: one of ``anabranch study list``, or a folder with a study of your own.

    ``quick=True`` runs few seeds. ``set={"rtt": "160ms"}`` changes assumptions. ``out`` is a folder that keeps the files. Other
    keywords are flags of ``anabranch study run``.
    """
    changes = [f"{key}={value}" for key, value in (set or {}).items()]
    with tempfile.TemporaryDirectory() as place:
        directory = Path(out if out is not None else Path(place, "study"))
        more = spelt({**keywords, "set": changes or None})
        # 1: a cause is not as the study says. The tables show which.
        text = carried_out(words("study", "run", name, "--quiet", f"--out={directory}", *more), (0, 1)).decode()
        # If `name` is a folder, the result is below the name of the study.
        folders = [one.parent.name for one in directory.glob("*/claims.csv")]
        return Study(folders[0], text, directory)
