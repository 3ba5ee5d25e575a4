"""Races in this process, and their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Optional, Union

from . import _native
from ._flags import flags
from ._table import Table

Several = Union[str, Iterable[str]]


class Result:
    """The result of a race: tables, the report, JSON, and the text that the command prints."""

    def __init__(self, native: _native.Race) -> None:
        self._native = native

    @property
    def summary(self) -> Table:
        """A row for each point, contestant and metric: means, median and its 95 % interval, percentiles."""
        return Table(self._native.summary())

    @property
    def runs(self) -> Table:
        """A row for each point, contestant and seed; times in nanoseconds of the run's own clock."""
        return Table(self._native.runs())

    @property
    def objects(self) -> Table:
        """A row for each point, contestant, seed and object, with the parts of its response time."""
        return Table(self._native.objects())

    @property
    def comparisons(self) -> Table:
        """A row for each two contestants and metric: ratio of a to b on the same seeds and of their medians, 95 % intervals, verdict."""
        return Table(self._native.comparisons())

    @property
    def causes(self) -> Table:
        """A row for each setting that makes one contestant faster than another, with its effect (a ratio of times)."""
        return Table(self._native.causes())

    @property
    def changes(self) -> Table:
        """A row for each change to a point and each contestant: its median after the change, and whether another one wins."""
        return Table(self._native.changes())

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each point: who wins, and by how much."""
        return self._native.verdicts()

    @property
    def warnings(self) -> list[str]:
        """Warnings, to be read before the numbers are used."""
        return self._native.warnings()

    @property
    def command(self) -> str:
        """The command line that reproduces this result."""
        return self._native.command()

    @property
    def expectations_met(self) -> Optional[bool]:
        """Whether all expectations of the plan were met; None if the plan has none."""
        return self._native.expectations_met()

    def to_json(self) -> str:
        """Returns the JSON of ``anabranch race --json``. Only ``host.elapsed_s``, the duration of this race, differs."""
        return self._native.to_json()

    def report(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the report, one page of HTML, to a file."""
        self._native.report(os.fspath(path))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<anabranch result: {self.command}>"

    def _repr_html_(self) -> str:
        verdicts = "".join(f"<p>{escape(verdict)}</p>" for verdict in self.verdicts)
        page = escape(self._native.html(), quote=True)
        frame = f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0" title="Report"></iframe>'
        return f"{verdicts}{frame}"


def race(
    plan: Union[str, os.PathLike[str], None] = None,
    *,
    page: Optional[str] = None,
    network: Optional[str] = None,
    transport: Optional[Several] = None,
    runs: Optional[int] = None,
    threads: Optional[int] = None,
    progress: Optional[Callable[[int, int], object]] = None,
    **keywords: Any,
) -> Result:
    """Races contestants in the virtual network, and finds which one is fastest, and why.

    ``plan`` is the file of a plan (TOML) or of a page (HAR). ``network`` is a preset (``anabranch race --list presets``).
    ``transport`` has contestants such as ``"six=tcp:connections=6"``. ``runs`` is the number of seeds at each point. All other
    keywords are flags of ``anabranch race``: ``rate="10mbit"``, ``rtt="60ms"``, ``loss=["0", "1%"]``, ``objects="20x10kB"``.
    ``progress`` is called with two numbers: finished runs, and all runs.

    Raises PlanError, a ValueError, with the message of the command line if a keyword or the file is wrong.
    """
    given = {"page": page, "preset": network, "transport": transport, "runs": runs, **keywords}
    file = None if plan is None else os.fspath(plan)
    return Result(_native.race(flags(given), file, threads=threads, progress=progress))
