"""The pytest fixture ``network_link``, which runs programs of a test behind an emulated link."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ._program import link

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def network_link() -> Callable[..., Run]:
    """``network_link(rate="2mbit", rtt="80ms", loss="1%")`` returns a function that runs a command behind this link.

    The test is skipped if this host does not allow network namespaces.
    """

    def of(**keywords: Any) -> Run:
        trial = link(["true"])
        if trial.returncode == 3:
            pytest.skip(trial.stderr.strip().removeprefix("anabranch: "))

        def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            return link(command, **keywords)

        return run

    return of
