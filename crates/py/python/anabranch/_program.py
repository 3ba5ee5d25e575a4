"""The verbs that run in a separate process: get, decode, serve and link."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

from . import _native
from ._flags import flags
from ._table import Table

PathLike = Union[str, "os.PathLike[str]"]


class CommandError(RuntimeError):
    """A verb failed. The text is the message of the command line; ``code`` is the exit code."""

    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.code = code


def words(*more: PathLike) -> list[str]:
    """Returns the command line that runs this package."""
    return [sys.executable, "-m", "anabranch", *map(os.fspath, more)]


def spelt(keywords: dict[str, Any]) -> list[str]:
    """Returns keywords as words of a command line. True becomes a flag without a value."""
    alone = [f"--{name.replace('_', '-')}" for name, value in keywords.items() if value is True]
    rest = {name: value for name, value in keywords.items() if value is not True and value is not False}
    return alone + [f"--{flag}={value}" for flag, value in flags(rest)]


def carried_out(command: Sequence[str], codes: Iterable[int] = (0,)) -> bytes:
    """Returns what a command prints. If its exit code is not in ``codes``, raises its last line on standard error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in codes:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise CommandError(lines[-1].removeprefix("anabranch: "), done.returncode)
    return done.stdout


class Decoded:
    """A decoded capture. ``streams`` is a table; ``json`` is the output of ``anabranch decode --json``."""

    def __init__(self, text: str, streams: Table, found: Any) -> None:
        self.text = text
        self.streams = streams
        self.json = found

    def __str__(self) -> str:
        return self.text


def decode(capture: PathLike, **keywords: Any) -> Decoded:
    """Decodes a capture (pcapng or pcap) into conversations, their streams, and the reason of each retransmission."""
    with tempfile.TemporaryDirectory() as place:
        table, found = Path(place, "streams.csv"), Path(place, "decoded.json")
        command = words("decode", capture, "--csv", table, "--json", found, *spelt(keywords))
        # 1: the capture ends within a packet. The packets before it are decoded.
        text = carried_out(command, (0, 1)).decode()
        return Decoded(text, Table(_native.read_csv(str(table))), json.loads(found.read_text()))


def get(url: str, **keywords: Any) -> bytes:
    """Returns the body of an HTTP response. The URL chooses TCP, TLS, QUIC or SCTP.

    Keywords are flags of ``anabranch get``: ``trust="sha256:..."``, ``insecure=True``, ``http="2"``, ``timeout="5s"``.
    """
    return carried_out(words("get", "--quiet", "--output=-", *spelt(keywords), url))


class Server:
    """A server of a directory, for a ``with`` statement. ``urls`` has the addresses at which it listens."""

    def __init__(
        self, directory: PathLike = ".", listen: Union[str, Iterable[str]] = "tcp://127.0.0.1:0", **keywords: Any
    ) -> None:
        listens = [listen] if isinstance(listen, str) else list(listen)
        more = [word for one in listens for word in ("--listen", one)]
        self._command = words("serve", directory, *more, *spelt(keywords))
        self._process: Optional[subprocess.Popen[str]] = None
        self._count = len(listens)
        secure = ("https://", "https+sctp://", "h3://")
        self._own_certificate = "cert" not in keywords and any(one.startswith(secure) for one in listens)
        #: The URLs of the server, such as ``http://127.0.0.1:40123``. Empty before the server has started.
        self.urls: list[str] = []
        #: The fingerprint of the server's self-signed certificate, for ``trust`` of clients; None with another certificate.
        self.fingerprint: Optional[str] = None

    def __enter__(self) -> Server:
        process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._process = process
        said: list[str] = []
        assert process.stderr is not None
        while not self._is_ready():
            line = process.stderr.readline()
            if not line:
                code = process.wait()
                raise CommandError((said or ["it ended"])[-1].removeprefix("anabranch: "), code)
            said.append(line.strip())
            self._hear(line)
        return self

    def _is_ready(self) -> bool:
        return len(self.urls) == self._count and (self.fingerprint is not None or not self._own_certificate)

    def _hear(self, line: str) -> None:
        if " serving " in line:
            self.urls = [word.rstrip("/") for word in line.rsplit(" on ", 1)[-1].split()]
        elif " --trust " in line:
            self.fingerprint = line.rsplit(" --trust ", 1)[-1].strip()

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        process = self._process
        if process is None:
            return
        # The server finishes exchanges in flight. It is killed if a client keeps it waiting.
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        self._process = None


def link(command: Sequence[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command behind an emulated link, in a network namespace of its own (Linux, root or user namespaces).

    Keywords are flags of ``anabranch link``: ``rate="2mbit"``, ``rtt="80ms"``, ``loss="1%"``, ``far="..."``. The command
    finds the address of the other end in ``$ANABRANCH_FAR``.
    """
    whole = words("link", "--quiet", *spelt(keywords), "--", *command)
    return subprocess.run(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
