"""Which transport carries this traffic best on this network, and why?

The package races HTTP/1.1, HTTP/2, HTTP/3 and SCTP in a deterministic virtual network, redoes studies, decodes captures, serves
files and emulates links. Keywords are the flags of the command line with ``_`` for ``-``. Times, rates and sizes are text with
their unit: ``"60ms"``, ``"10mbit"``, ``"10kB"``. A wrong value raises an exception with the message of the command line.
"""

from ._native import PlanError
from ._program import CommandError, Server, decode, get, link
from ._race import Result, race
from ._study import Study, study
from ._sweep import sweep
from ._table import Table

__all__ = [
    "CommandError",
    "PlanError",
    "Result",
    "Server",
    "Study",
    "Table",
    "decode",
    "get",
    "link",
    "race",
    "study",
    "sweep",
]
