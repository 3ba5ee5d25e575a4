"""Which transport carries this traffic best on this network, and why?

Races of TCP, SCTP, HTTP/2 and QUIC in a deterministic virtual network, studies that redo papers, captures, a server and links.
Keywords are the flags of the command line with ``_`` for ``-``. Times, rates and sizes are text with their unit: ``"60ms"``,
``"10mbit"``, ``"10kB"``. What is wrong with them is said in the command line's own sentence, as an exception.
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
