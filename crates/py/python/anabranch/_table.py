"""Tables, which other libraries read through the Arrow C Data Interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """A table of results. ``pyarrow.table(t)``, ``polars.DataFrame(t)`` and DuckDB read it without conversion."""

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._native.num_rows

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self._native.column_names

    def to_arrow(self) -> pyarrow.Table:
        """Returns a table of pyarrow, which must be installed."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a data frame of pandas. pandas and pyarrow must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Returns a data frame of polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return repr(self._native)
