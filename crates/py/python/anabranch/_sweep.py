"""Sweeps: the points of a plan on all cores of this machine or on a Dask cluster, into one Parquet dataset.

A part of the dataset is a shard: consecutive points. The size of a shard depends only on the number of points, so any number of
workers writes the same files. A part appears only when it is complete. Existing parts are not run again.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native
from ._flags import flags
from ._table import Table

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

Flags = list[tuple[str, str]]
#: Population, region, access, loss and number.
Person = tuple[str, str, str, str, int]
#: Maximum number of parts of a table; parts that many workers share well; points that justify the transfer of a part.
PARTS, SHARED, WORTH = 1000, 64, 8
TABLES = ("summary", "comparisons", "runs", "objects", "causes", "changes")
#: How often a shard is run again if its worker dies.
TRIES = 5


class Swept:
    """The dataset of a sweep: a folder of Parquet files for each table."""

    def __init__(self, path: Path, populations: Iterable[str] = (), command: str = "") -> None:
        self.path = path
        self._populations = list(populations)
        self._command = command

    def dataset(self, table: str = "summary") -> pyarrow.dataset.Dataset:
        """Returns a table as a dataset of pyarrow, which reads the files only when they are needed."""
        import pyarrow.dataset

        return pyarrow.dataset.dataset(self.path / table, format="parquet")

    def to_arrow(self, table: str = "summary") -> pyarrow.Table:
        """Returns a whole table, in the order of the points."""
        return self.dataset(table).to_table()

    def people(self) -> People:
        """Counts the people for whom each contestant is fastest, if the plan has a ``population``."""
        import pyarrow.dataset

        found = self.dataset("summary")
        if "person" not in found.schema.names:
            raise ValueError(f"{self.path}: its points are not people; sweep a plan with a population")
        if not (self.path / "comparisons").exists():
            raise ValueError(f"{self.path}: has no table of comparisons; sweep with tables=('summary', 'comparisons', 'causes')")
        counted = _native.People()
        for one, rows in self._by_person("summary", ["contestant", "failed", "geometric_mean"]):
            counted.add(*one, [(row["contestant"], None if row["failed"] else row["geometric_mean"]) for row in rows])
        for one, rows in self._by_person("comparisons", ["a", "b", "verdict"]):
            counted.decide(*one, [(row["a"], row["b"], row["verdict"]) for row in rows])
        if (self.path / "causes").exists():
            what = ("winner", "loser", "factor", "change", "effect", "holds_back")
            for batch in self.dataset("causes").to_batches():
                for row in batch.to_pylist():
                    counted.add_cause(row.get("population", ""), int(row["person"]), *(row[name] for name in what))
        return People(counted, self._command, self._populations)

    def _by_person(self, table: str, columns: list[str]) -> Iterator[tuple[Person, list[dict[str, Any]]]]:
        """Yields each person, with the rows of a table about the page time."""
        import pyarrow.dataset

        found = self.dataset(table)
        place = ["population"] if "population" in found.schema.names else []
        whole = ["person", "region", "access", "loss", *place, *columns]
        whose: Optional[Person] = None
        rows: list[dict[str, Any]] = []
        for batch in found.to_batches(columns=whole, filter=pyarrow.dataset.field("metric") == "page_ms"):
            for row in batch.to_pylist():
                one = (row.get("population", ""), row["region"], row["access"], row["loss"], int(row["person"]))
                if whose is not None and one != whose:
                    yield whose, rows
                    rows = []
                whose = one
                rows.append(row)
        if whose is not None:
            yield whose, rows

    def __repr__(self) -> str:
        return f"<anabranch sweep: {self.path}>"


class People:
    """The share of people for whom each contestant is fastest, where, by how much, and why."""

    def __init__(self, counted: _native.People, command: str, populations: list[str]) -> None:
        self._counted = counted
        self._command = command
        self._populations = populations

    def __len__(self) -> int:
        return self._counted.count

    def report(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the report as a page of HTML."""
        self._counted.report(os.fspath(path), self._command, self._populations)

    def _repr_html_(self) -> str:
        return self._counted.html(self._command, self._populations)

    def __str__(self) -> str:
        return self._counted.text()


@lru_cache(maxsize=1)
def understood(given: tuple[tuple[str, str], ...], plan: Optional[tuple[str, str]]) -> _native.Points:
    """Returns the plan. Each process reads it once, for all of its shards."""
    if plan is None:
        return _native.Points(given)
    name, text = plan
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, Path(name).name)
        path.write_text(text)
        return _native.Points(given, str(path))


def shard(given: Flags, plan: Optional[tuple[str, str]], points: range, tables: tuple[str, ...]) -> dict[str, Any]:
    """Runs consecutive points on one thread, and returns a table of pyarrow for each name."""
    import pyarrow

    plan_points = understood(tuple(given), plan)
    found: dict[str, list[pyarrow.Table]] = {name: [] for name in tables}
    for point in points:
        race = plan_points.race(point)
        for name, rows in found.items():
            table = pyarrow.table(Table(getattr(race, name)()))
            number = pyarrow.array([point] * table.num_rows, pyarrow.uint64())
            rows.append(table.add_column(0, "point", number))
    # A column that is empty at one point may have values at another.
    return {name: pyarrow.concat_tables(rows, promote_options="permissive") for name, rows in found.items()}


def sweep(
    plan: Union[str, os.PathLike[str], None] = None,
    *,
    out: Union[str, os.PathLike[str]],
    client: Any = None,
    tables: Iterable[str] = ("summary", "comparisons", "runs", "causes"),
    threads: Optional[int] = None,
    progress: Optional[Callable[[int, int], object]] = None,
    **keywords: Any,
) -> Swept:
    """Races every point of a plan, and writes the results to ``out``: a folder of Parquet files for each table.

    Without ``client`` the points run on all cores of this machine, or on ``threads`` of them. With a ``dask.distributed.Client``
    they run on its workers: here, by Slurm (``dask-jobqueue``) or in Kubernetes. A shard whose worker died is run again. The
    files are the same in all cases.

    ``tables`` are of ``summary``, ``comparisons``, ``runs``, ``objects``, ``causes``, ``changes``, each with the number of its point before the
    factors. ``progress`` is called with two numbers: finished points, and all points. Finished parts of the same sweep are kept;
    a folder with another sweep is refused. If the plan names other files, all workers need them. Needs pyarrow.

    Raises PlanError as ``race`` does.
    """
    given = flags({("preset" if name == "network" else name): value for name, value in keywords.items()})
    names = tuple(tables)
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise ValueError(f"tables: {unknown[0]!r} is none of {', '.join(TABLES)}")
    file = None if plan is None else os.fspath(plan)
    plan_points = _native.Points(given, file)
    count = plan_points.count
    text = None if file is None else (file, Path(file).read_text())
    place = prepared(Path(out), given, text, names)
    size = max(-(-count // PARTS), min(-(-count // SHARED), WORTH))
    shards = [range(first, min(first + size, count)) for first in range(0, count, size)]
    left = [points for points in shards if not all(part(place, name, points).exists() for name in names)]
    done = count - sum(map(len, left))
    if progress is not None:
        progress(done, count)
    work = on_cluster(client, given, text, left, names) if client is not None else here(threads, given, text, left, names)
    for points, found in work:
        for name, rows in found.items():
            written(part(place, name, points), rows)
        done += len(points)
        if progress is not None:
            progress(done, count)
    words = [] if file is None else [file]
    command = shlex.join(["anabranch", "race", *words, *(word for name, value in given for word in (f"--{name}", value))])
    return Swept(place, plan_points.populations, command)


def prepared(place: Path, given: Flags, text: Optional[tuple[str, str]], names: tuple[str, ...]) -> Path:
    """Returns the folder. It must be empty, or hold parts of the same sweep."""
    own = json.dumps(
        {"anabranch": version("anabranch"), "flags": given, "plan": text and text[1], "tables": names}, indent=1
    )
    note = place / "sweep.json"
    if place.exists() and any(place.iterdir()):
        if not note.exists() or note.read_text() != own:
            raise ValueError(f"{place}: does not belong to this sweep; name another folder, or remove it")
    for name in names:
        (place / name).mkdir(parents=True, exist_ok=True)
    note.write_text(own)
    return place


def part(place: Path, table: str, points: range) -> Path:
    """Returns the path of a shard's file."""
    return place / table / f"part-{points.start:08}.parquet"


def written(path: Path, rows: Any) -> None:
    """Writes a file under its name only when it is complete."""
    import pyarrow.parquet

    part = path.with_name(f".{path.name}.part")
    pyarrow.parquet.write_table(rows, part)
    part.replace(path)


Work = Iterator[tuple[range, dict[str, Any]]]


def here(threads: Optional[int], given: Flags, text: Optional[tuple[str, str]], left: list[range], names: tuple[str, ...]) -> Work:
    """Runs shards on threads of this process. The interpreter is free while a point runs."""
    workers = threads or len(os.sched_getaffinity(0))
    rest = iter(left)
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[dict[str, Any]], range] = {}

        def begin() -> None:
            # At most as many results wait as there are threads.
            for points in rest:
                running[pool.submit(shard, given, text, points, names)] = points
                if len(running) >= 2 * workers:
                    break

        begin()
        try:
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield running.pop(future), future.result()
                    begin()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def on_cluster(client: Any, given: Flags, text: Optional[tuple[str, str]], left: list[range], names: tuple[str, ...]) -> Work:
    """Runs shards as futures of a Dask cluster. Only as many are submitted as keep the workers busy."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    rest = iter(left)
    running: dict[Any, tuple[range, int]] = {}

    def submitted(points: range, tries: int) -> Any:
        future = client.submit(shard, given, text, points, names, pure=False, retries=TRIES)
        running[future] = (points, tries)
        return future

    enough = max(4, 3 * sum(client.nthreads().values()))
    ended = as_completed([submitted(points, 1) for _, points in zip(range(enough), rest)])
    try:
        for future in ended:
            points, tries = running.pop(future)
            try:
                found = future.result()
            except KilledWorker:
                # A worker may die for a reason other than this shard. After several deaths, the shard is the reason.
                if tries >= TRIES:
                    raise
                ended.add(submitted(points, tries + 1))
                continue
            yield points, found
            # Lets the cluster free the result.
            future.release()
            for points in rest:
                ended.add(submitted(points, 1))
                break
    except BaseException:
        client.cancel(list(running))
        raise
