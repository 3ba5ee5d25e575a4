"""Recreates faults of public bug reports between programs that have them, and checks that `decode --why` names them.

faults.py FOLDER PROGRAM NAME

Captures go to FOLDER with their keys, PROGRAM is anabranch, NAME is a part of a fault's name (empty for all). Exits with 1
if a rule does not find its fault. A relay between the ends delays packets, and loses those that a fault needs.
"""

import asyncio
import heapq
import json
import os
import random
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
# A port of its own: sockets in TIME_WAIT look like a server that listens.
NGINX = 4434
# RFC 6951: the UDP port of SCTP without encryption.
ENCAPSULATION = 9899
SERVER, CLIENT, RELAY = "127.0.0.1", "127.0.0.2", "127.0.0.3"
# The UDP payload of a path with an MTU of 1280 bytes: without the headers of IPv4 and UDP, and the 37 bytes of a DTLS
# record (AES-128-GCM), which webrtc-rs has around SCTP in WebRTC and not here.
TUNNEL = 1_280 - 20 - 8 - 37
# Linux, asm-generic/socket.h; Python has no name for it.
SO_RCVBUFFORCE = 33
# Datagrams of more bytes carry data of a transfer.
LARGE = 1_000


class Relay(threading.Thread):
    """Forwards datagrams between the server and the client. While it is cut, it loses those of the client.

    It drops datagrams of more than `largest` bytes, and of the client's large ones the share `lose`. With a rate, in bytes
    per second, the client's datagrams leave one after the other.
    """

    def __init__(self, delay, port, largest, lose, rate):
        super().__init__(daemon=True)
        self.delay, self.is_cut, self.server = delay, False, (SERVER, port)
        self.largest, self.lose, self.random = largest, lose, random.Random(1)
        self.rate, self.busy_until = rate, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Bursts of packets fit, so that only the losses that are meant occur. Needs root, as the whole script does.
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
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
            if client and not self.is_lost(datagram, is_client):
                number += 1
                to = self.server if is_client else client
                leaves = time.monotonic()
                if is_client and self.rate:
                    leaves = self.busy_until = max(leaves, self.busy_until) + len(datagram) / self.rate
                heapq.heappush(waiting, (leaves + self.delay, number, datagram, to))

    def is_lost(self, datagram, is_client):
        if is_client and self.lose and len(datagram) > LARGE and self.random.random() < self.lose:
            return True
        return is_client and self.is_cut or len(datagram) > self.largest

    def stop(self):
        self.is_over = True
        self.join()
        self.socket.close()


@contextmanager
def relay(delay, port=PORT, largest=65_536, lose=0, rate=0):
    one = Relay(delay, port, largest, lose, rate)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def file(name):
    return programs.program(str(Path(os.environ.get("FIELD_PROGRAMS", "")) / name))


def begin(name, port, role, local, peer, *words, keys=None):
    """Starts an end of an SCTP program."""
    command = [file(name), f"encap={port}", f"role={role}", f"local={local}", f"peer={peer}", *words]
    environment = {**os.environ, **({"SSLKEYLOGFILE": str(keys)} if keys else {})}
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)


@contextmanager
def ends(name, *words, keys=None, server=(), port=PORT):
    """Two ends of an SCTP program. The client reaches the server through the relay."""
    both = [begin(name, port, "listen", SERVER, RELAY, *words, *server, keys=keys)]
    try:
        programs.await_report(both[0], "ready")
        both.append(begin(name, port, "connect", CLIENT, RELAY, *words, keys=keys))
        for end in both:
            programs.await_report(end, "connected")
        yield both
    finally:
        for end in both:
            end.kill()
            end.wait()


@contextmanager
def webrtc_rs(buffer, *sizes):
    """Two ends of webrtc-rs, without encryption. The client sends messages to a server with a receive buffer."""
    def begin(*words):
        return subprocess.Popen([file("webrtc-rs"), *map(str, words)], stdout=subprocess.PIPE, text=True)

    both = [begin("listen", f"{SERVER}:{ENCAPSULATION}", buffer)]
    try:
        programs.await_report(both[0], "ready")
        both.append(begin("connect", f"{CLIENT}:{ENCAPSULATION}", f"{RELAY}:{ENCAPSULATION}", *sizes))
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
    with relay(0.01, ENCAPSULATION), webrtc_rs(12_000, 13_500):
        time.sleep(8)


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


def oversized(folder, keys):
    """webrtc-rs sends larger packets than a tunnel carries that has the least MTU of IPv6, 1280 bytes."""
    with relay(0.01, ENCAPSULATION, largest=TUNNEL), webrtc_rs(1_000_000, 100, 8_000):
        time.sleep(9)


def lost_keystrokes(folder, keys):
    """pion sends small messages over a link that loses some. Nothing in flight behind them shows the losses."""
    with relay(0.03) as link, ends("pion", "dtls=1", "rto_max=60000", keys=keys) as (server, client):
        for number in range(12):
            link.is_cut = number % 3 == 2
            say(client, f"send {number} 1 100 o f 0")
            time.sleep(0.1)
            link.is_cut = False
            programs.await_report(server, "message")


def small_buffer(folder, keys):
    """pion sends over a long path to a receiver whose buffer is smaller than what the path holds."""
    words = ("receive_buffer=32768",)
    with relay(0.15, ENCAPSULATION), ends("pion", server=words, port=ENCAPSULATION) as (server, client):
        for number in range(30):
            say(client, f"send {number} 1 8000 o f 0")
        for _ in range(30):
            programs.await_report(server, "message")


def restarted_client(folder, keys):
    """A client of pion is killed, and begins again from the same port, for which the server has a connection."""
    with relay(0.01):
        with ends("pion", "dtls=1", keys=keys) as (server, client):
            say(client, "send 1 1 1000 o f 0")
            programs.await_report(server, "message")
            client.kill()
            client.wait()
            again = begin("pion", PORT, "connect", CLIENT, RELAY, "dtls=1")
            try:
                time.sleep(6)
            finally:
                again.kill()
                again.wait()


def quic_go(keys, delay, *words, server=()):
    """A client of quic-go sends requests to a server."""
    start = [file("quic-go"), "role=listen", f"local={SERVER}:{PORT}", *server]
    with programs.running(*start, port=PORT, udp=True), relay(delay):
        programs.run(file("quic-go"), "role=connect", f"local={CLIENT}", f"peer={RELAY}:{PORT}", *words, keys=keys)


def hundred_streams(folder, keys):
    """A client of quic-go has more requests than streams, of which a server allows 100 at a time by default."""
    quic_go(keys, 0.04, "requests=300", "size=10")


def small_connection_window(folder, keys):
    """A server of quic-go allows fewer bytes at a time than a long path holds."""
    quic_go(keys, 0.075, "size=60000", server=["window=9216"])


def lossy_path(folder, keys):
    """pion sends unordered messages over a path that loses 2 % of the large packets."""
    with relay(0.05, ENCAPSULATION, lose=0.02, rate=2_000_000), ends("pion", port=ENCAPSULATION) as (server, client):
        for number in range(90):
            say(client, f"send {number} 1 8000 u f 0")
        for _ in range(90):
            programs.await_report(server, "message")


def two_writes(folder, keys):
    """The HTTP server of Python writes the head and the body of each response separately, with Nagle's algorithm."""
    start = [sys.executable, "-m", "http.server", PORT, "--bind", SERVER, "--protocol", "HTTP/1.1", "--directory", folder / "site"]
    with programs.running(*start, port=PORT):
        url = f"http://{SERVER}:{PORT}/a"
        programs.run(programs.program("curl"), "--silent", "--show-error", *["--output", "/dev/null", url] * 30)


def idle_session(folder, keys):
    """A session of requests stays idle after nginx has closed its connection."""
    import requests
    (folder / "idle.conf").write_text(
        f"daemon off; worker_processes 1; user root; pid {folder}/idle.pid; error_log {folder}/idle.errors;"
        "events { worker_connections 99; } http { access_log off;"
        f"server {{ listen {SERVER}:{NGINX}; root {folder}/site; keepalive_timeout 1; }} }}")
    with programs.running(programs.program("nginx"), "-p", folder, "-c", folder / "idle.conf", port=NGINX):
        sessions = [requests.Session() for _ in range(2)]
        # The rule waits for 30 s, because a half-closed connection may be in use. The second request shows the time.
        for session, pause in zip(sessions, (33, 0)):
            answer = session.get(f"http://{SERVER}:{NGINX}/a", timeout=10)
            assert len(answer.content) == programs.SITE["a"], answer
            time.sleep(pause)
        return sessions[0]


def small_windows(folder, keys):
    """An HTTP/3 client allows so few bytes that each round trip carries little of a download.

    aioquic doubles its windows. On a busy machine, round trips take longer than here, but several of them remain.
    """
    aioquic(folder, keys, "windows", ["/d"], 0.06)


def few_streams(folder, keys):
    """An HTTP/3 client has more requests than the server allows streams."""
    aioquic(folder, keys, "streams", ["/f"] * 60, 0.04)


@dataclass
class Fault:
    """A fault: the function that recreates it, the public report, the rule that finds it, and the packets to capture.

    Of packets without encryption, the first `bytes` suffice. What `run` returns is closed after the capture.
    """

    run: Callable
    report: str
    rule: str
    packets: str = f"udp and host {CLIENT}"
    encrypted: bool = True
    bytes: int = 0


# aioquic does not bind an address of its own.
OF_AIOQUIC = f"udp and host {RELAY} and not (src port {PORT} and dst port {PORT})"


CLEAR = {"encrypted": False, "bytes": 100}


ALL = {
    "pion-forward-tsn": Fault(forward_tsns, "pion/sctp #505", "forward_tsn_ping_pong"),
    "webrtc-rs-last-fragment": Fault(last_fragment, "webrtc-rs/webrtc #822", "window_closed", encrypted=False),
    "usrsctp-lost-twice": Fault(lost_twice, "sctplab/usrsctp #492", "head_of_line_blocking"),
    "usrsctp-no-timer": Fault(no_timer, "sctplab/usrsctp #750", "not_retransmitted"),
    "webrtc-rs-oversized": Fault(oversized, "webrtc-rs/webrtc #806", "path_mtu_black_hole", **CLEAR),
    "pion-lost-keystrokes": Fault(lost_keystrokes, "pion/sctp #206", "timeouts_only"),
    "pion-small-buffer": Fault(small_buffer, "pion/sctp #218", "window_limited", **CLEAR),
    "pion-restarted-client": Fault(restarted_client, "pion/dtls #253", "handshake_retries"),
    "quic-go-hundred-streams": Fault(hundred_streams, "quic-go/quic-go #4713", "streams_limited"),
    "quic-go-small-window": Fault(small_connection_window, "libp2p/go-libp2p-quic-transport #79", "flow_control_limited"),
    "pion-lossy-path": Fault(lossy_path, "pion/sctp #354", "scattered_losses", **CLEAR),
    "python-two-writes": Fault(two_writes, "python/cpython #108736", "delayed_acknowledgements", f"tcp and port {PORT}", **CLEAR),
    "requests-idle-session": Fault(idle_session, "psf/requests #7045", "close_unfinished", f"tcp and port {NGINX}", **CLEAR),
    "aioquic-small-windows": Fault(small_windows, "curl/curl #6494", "flow_control_limited", OF_AIOQUIC),
    "aioquic-few-streams": Fault(few_streams, "dotnet/runtime #95104", "streams_limited", OF_AIOQUIC),
}


def capture(fault, path, folder):
    keys, raw = path.with_suffix(".keys"), path.with_suffix(".raw")
    recorder = subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-f", fault.packets, "-s", str(fault.bytes), "-w", str(raw)],
                                stderr=subprocess.DEVNULL)
    held = None
    try:
        while not raw.exists() or not raw.stat().st_size:
            if recorder.poll() is not None:
                raise RuntimeError("dumpcap cannot capture on loopback: needs root")
            time.sleep(0.02)
        time.sleep(0.2)
        held = fault.run(folder, keys)
        time.sleep(0.5)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()
        if held:
            held.close()
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
            print(f"{fault.report:36}{name:26}skipped: {missing}")
            continue
        found = findings(program, path)
        text = next((finding["text"] for finding in found if finding["rule"] == fault.rule), None)
        failed += text is None
        rules = " ".join(finding["rule"] for finding in found) or "nothing"
        print(f"{fault.report:36}{name:26}{rules}\n    {text or f'NOT FOUND: {fault.rule}'}")
    if failed:
        sys.exit(f"faults: {failed} not found")


if __name__ == "__main__":
    main()
