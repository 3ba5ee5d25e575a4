"""Recreates faults of public bug reports between programs that have them, and checks that `decode --why` names them.

faults.py FOLDER PROGRAM NAME

Captures go to FOLDER with their keys, PROGRAM is anabranch, NAME is a part of a fault's name (empty for all). Exits with 1
if a rule does not find its fault. A relay between the ends delays packets, and loses those that a fault needs.
"""

import asyncio
import heapq
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import encrypted_programs as programs

PORT = 4433
# RFC 6951: the UDP port of SCTP without encryption.
ENCAPSULATION = 9899
SERVER, CLIENT, RELAY = "127.0.0.1", "127.0.0.2", "127.0.0.3"


class Relay(threading.Thread):
    """Forwards datagrams between the server and the client. While it is cut, it loses those of the client."""

    def __init__(self, delay, port):
        super().__init__(daemon=True)
        self.delay, self.is_cut, self.server = delay, False, (SERVER, port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((RELAY, port))
        self.socket.setblocking(False)
        self.is_over = False

    def run(self):
        waiting, number, client = [], 0, None
        while not self.is_over:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, datagram, to = heapq.heappop(waiting)
                self.socket.sendto(datagram, to)
            wait = min(0.1, waiting[0][0] - now) if waiting else 0.1
            if not select.select([self.socket], [], [], max(0, wait))[0]:
                continue
            try:
                datagram, source = self.socket.recvfrom(65_536)
            except ConnectionError:
                continue
            is_client = source != self.server
            client = source if is_client else client
            if client and not (is_client and self.is_cut):
                number += 1
                to = self.server if is_client else client
                heapq.heappush(waiting, (time.monotonic() + self.delay, number, datagram, to))

    def stop(self):
        self.is_over = True
        self.join()
        self.socket.close()


@contextmanager
def relay(delay, port=PORT):
    one = Relay(delay, port)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def file(name):
    return programs.program(str(Path(os.environ.get("FIELD_PROGRAMS", "")) / name))


@contextmanager
def ends(name, *words, keys=None, server=()):
    """Two ends of an SCTP program. The client reaches the server through the relay."""
    environment = {**os.environ, **({"SSLKEYLOGFILE": str(keys)} if keys else {})}

    def begin(role, local, peer, *more):
        command = [file(name), f"encap={PORT}", f"role={role}", f"local={local}", f"peer={peer}", *words, *more]
        return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)

    both = [begin("listen", SERVER, RELAY, *server)]
    try:
        programs.await_report(both[0], "ready")
        both.append(begin("connect", CLIENT, RELAY))
        for end in both:
            programs.await_report(end, "connected")
        yield both
    finally:
        for end in both:
            end.kill()
            end.wait()


def say(end, line):
    print(line, file=end.stdin, flush=True)


def forward_tsns(folder, keys):
    """pion sends many small messages that are never retransmitted, over a link without loss."""
    with relay(0.02), ends("pion", "dtls=1", keys=keys) as (_, client):
        for number in range(80):
            say(client, f"send {number} 1 100 u r 0")
            time.sleep(0.002)
        time.sleep(0.5)


def last_fragment(folder, keys):
    """The last fragment of a message does not fit into the receive buffer of webrtc-rs, which holds the rest of it."""
    with relay(0.01, ENCAPSULATION):
        server = subprocess.Popen([file("webrtc-rs"), "listen", f"{SERVER}:{ENCAPSULATION}", "12000"],
                                  stdout=subprocess.PIPE, text=True)
        programs.await_report(server, "ready")
        client = subprocess.Popen(
            [file("webrtc-rs"), "connect", f"{CLIENT}:{ENCAPSULATION}", f"{RELAY}:{ENCAPSULATION}", "13500"],
            stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(8)
        finally:
            for end in (server, client):
                end.kill()
                end.wait()


def lost_twice(folder, keys):
    """usrsctp loses a chunk of a large message and its retransmission. The receive window closes until a timeout."""
    words = ("rto_min=1000", "rto_max=2000", "lose=12")
    with relay(0.01), ends("usrsctp-dtls12", *words, keys=keys, server=["receive_buffer=20000"]) as (server, client):
        say(client, "send 1 1 60000 o f 0")
        programs.await_report(server, "message")
        time.sleep(0.3)


def no_timer(folder, keys):
    """The retransmission timer of usrsctp does not run when data is lost. Both sides go on to acknowledge."""
    with relay(0.01) as link, ends("usrsctp-dtls12", "own_timers=1", keys=keys) as (server, client):
        say(client, "send 1 1 5000 o f 0")
        programs.await_report(server, "message")
        time.sleep(0.3)
        say(client, "stop_timers")
        time.sleep(0.1)
        link.is_cut = True
        say(client, "send 2 1 2000 o f 0")
        time.sleep(0.1)
        link.is_cut = False
        for number in range(3, 16):
            say(server, f"send {number} 2 200 o f 0")
            programs.await_report(client, "message")
            time.sleep(1)


def aioquic(folder, keys, case, paths, delay):
    """A client of aioquic gets these paths at once."""
    script, got = programs.PEERS / "aioquic_end.py", folder / "got"
    got.mkdir(exist_ok=True)
    start = [sys.executable, script]
    server = programs.running(*start, "server", case, SERVER, PORT, folder / "cert.pem", folder / "key.pem", folder / "site",
                              port=PORT, udp=True)
    with server, relay(delay):
        programs.run(*start, "client", case, RELAY, PORT, folder / "cert.pem", got, *paths, keys=keys)


def small_windows(folder, keys):
    """An HTTP/3 client allows so few bytes that each round trip carries little of a download."""
    aioquic(folder, keys, "windows", ["/d"], 0.04)


def few_streams(folder, keys):
    """An HTTP/3 client has more requests than the server allows streams."""
    aioquic(folder, keys, "streams", ["/f"] * 60, 0.04)


@dataclass
class Fault:
    """A fault: the function that recreates it, the public report, the rule that finds it, and the packets to capture."""

    run: Callable
    report: str
    rule: str
    packets: str = f"host {CLIENT}"
    encrypted: bool = True


# aioquic does not bind an address of its own.
OF_AIOQUIC = f"host {RELAY} and not (src port {PORT} and dst port {PORT})"


ALL = {
    "pion-forward-tsn": Fault(forward_tsns, "pion/sctp #505", "forward_tsn_ping_pong"),
    "webrtc-rs-last-fragment": Fault(last_fragment, "webrtc-rs/webrtc #822", "window_closed", encrypted=False),
    "usrsctp-lost-twice": Fault(lost_twice, "sctplab/usrsctp #492", "head_of_line_blocking"),
    "usrsctp-no-timer": Fault(no_timer, "sctplab/usrsctp #750", "not_retransmitted"),
    "aioquic-small-windows": Fault(small_windows, "curl/curl #6494", "flow_control_limited", OF_AIOQUIC),
    "aioquic-few-streams": Fault(few_streams, "dotnet/runtime #95104", "streams_limited", OF_AIOQUIC),
}


def capture(fault, path, folder):
    keys, raw = path.with_suffix(".keys"), path.with_suffix(".raw")
    recorder = subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-f", f"udp and {fault.packets}", "-w", str(raw)],
                                stderr=subprocess.DEVNULL)
    try:
        while not raw.exists() or not raw.stat().st_size:
            if recorder.poll() is not None:
                raise RuntimeError("dumpcap cannot capture on loopback: needs root")
            time.sleep(0.02)
        time.sleep(0.2)
        fault.run(folder, keys)
        time.sleep(0.5)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()
    secrets = ["--inject-secrets", f"tls,{keys}"] if fault.encrypted else []
    subprocess.run(["editcap", *secrets, raw, path], check=True)
    for used in (keys, raw):
        used.unlink(missing_ok=True)


def findings(program, path):
    command = [program, "decode", str(path), "-q", "--json", "-"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return [finding for conversation in found["conversations"] for finding in conversation["findings"]]


def main():
    folder, program, part = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    programs.prepare(folder)
    failed = 0
    for name, fault in ALL.items():
        if part not in name:
            continue
        path = folder / f"{name}.pcapng"
        try:
            capture(fault, path, folder)
        except programs.Missing as missing:
            print(f"{fault.report:24}{name:26}skipped: {missing}")
            continue
        found = findings(program, path)
        text = next((finding["text"] for finding in found if finding["rule"] == fault.rule), None)
        failed += text is None
        rules = " ".join(finding["rule"] for finding in found) or "nothing"
        print(f"{fault.report:24}{name:26}{rules}\n    {text or f'NOT FOUND: {fault.rule}'}")
    if failed:
        sys.exit(f"faults: {failed} not found")


if __name__ == "__main__":
    main()
