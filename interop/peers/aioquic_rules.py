#!/usr/bin/env python3
"""Breaks the rules of RFC 9114 sections 4 to 7 and RFC 9204 sections 2 to 4, and checks how anabranch reacts.

    aioquic_rules.py client ADDRESS PORT
    aioquic_rules.py server ADDRESS PORT CERT KEY COMMAND..

The client breaks one rule after another at a server that has `/` and sends Alt-Svc. It compares the resulting error code with
the table. The server runs COMMAND for each rule, with the URL as its last argument, and answers it. The command's exit code
must be 1 if a rule is broken, otherwise 0. For a connection error it must close the connection with the code of the table.

The output is one line for each rule; the exit code is 1 if any rule is not obeyed. aioquic only provides QUIC: its HTTP/3 cannot
produce wrong bytes, so all bytes of HTTP/3 are written here.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3_ALPN
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived, StreamReset

NO_ERROR, CREATION, CRITICAL, UNEXPECTED, FRAME, ID = 0x100, 0x103, 0x104, 0x105, 0x106, 0x108
SETTING, MISSING, INCOMPLETE, MESSAGE = 0x109, 0x10A, 0x10D, 0x10E
DECOMPRESSION, ENCODER, DECODER = 0x200, 0x201, 0x202
ANSWERED = "answered"

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13


def frame(kind, payload=b""):
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


def section(*fields):
    """A field section in which all names and values are literals (RFC 9204 section 4.5.6)."""
    out = b"\0\0"
    for name, value in fields:
        length = bytes([0x20 | len(name)]) if len(name) < 7 else bytes([0x27, len(name) - 7])
        out += length + name + bytes([len(value)]) + value
    return out


GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/")]
CONTROL = b"\0" + frame(SETTINGS)
GREASE = frame(0x21, b"abc")


def head(without=None, *more):
    return frame(HEADERS, section(*[field for field in GET if field[0] != without], *more))


def response(*more):
    return frame(HEADERS, section((b":status", b"200"), *more))


def trailers():
    return frame(HEADERS, section((b"x", b"y")))


def control(*frames):
    return ("way", CONTROL + b"".join(frames), False)


def request(*frames, end=True):
    return ("request", b"".join(frames), end)


def way(data, end=False):
    return ("way", data, end)


# Rules for clients and servers, on unidirectional streams.
COMMON = [
    ("9114 6.2 an end before the type", [way(b"", True)], ANSWERED),
    ("9114 6.2.3 a reserved type", [way(b"\x21abc")], ANSWERED),
    ("9114 6.2.1 a second control stream", [control(), control()], CREATION),
    ("9114 6.2.1 the control stream ends", [way(CONTROL, True)], CRITICAL),
    ("9114 6.2.1 GOAWAY first", [way(b"\0" + frame(GOAWAY, b"\0"))], MISSING),
    ("9114 6.2.1 an unknown frame first", [way(b"\0" + GREASE)], MISSING),
    ("9114 5.2 GOAWAY grows", [control(frame(GOAWAY, b"\4"), frame(GOAWAY, b"\x08"))], ID),
    ("9114 7.1 GOAWAY without an identifier", [control(frame(GOAWAY))], FRAME),
    ("9114 7.1 GOAWAY with more", [control(frame(GOAWAY, b"\0\0"))], FRAME),
    ("9114 7.2.1 DATA on the control stream", [control(frame(DATA, b"a"))], UNEXPECTED),
    ("9114 7.2.2 HEADERS on the control stream", [control(trailers())], UNEXPECTED),
    ("9114 7.2.3 CANCEL_PUSH", [control(frame(CANCEL_PUSH, b"\0"))], ID),
    ("9114 7.2.4 SETTINGS twice", [control(frame(SETTINGS))], UNEXPECTED),
    ("9114 7.2.4 a setting twice", [way(b"\0" + frame(SETTINGS, b"\6\1\6\1"))], SETTING),
    ("9114 7.2.4.1 a reserved setting", [way(b"\0" + frame(SETTINGS, b"\x21\0"))], ANSWERED),
    *[(f"9114 7.2.4.1 setting {n}", [way(b"\0" + frame(SETTINGS, bytes([n, 0])))], SETTING) for n in (0, 2, 3, 4, 5)],
    ("9114 7.1 a setting without a value", [way(b"\0" + frame(SETTINGS, b"\6"))], FRAME),
    ("9114 7.2.5 PUSH_PROMISE on the control stream", [control(frame(PUSH_PROMISE, b"\0"))], UNEXPECTED),
    *[(f"9114 7.2.8 type {n} on the control stream", [control(frame(n))], UNEXPECTED) for n in (2, 6, 8, 9)],
    ("9114 7.2.8 a reserved type on the control stream", [control(GREASE)], ANSWERED),
    ("9204 4.2 a second encoder stream", [control(), way(b"\2"), way(b"\2")], CREATION),
    ("9204 4.2 a second decoder stream", [control(), way(b"\3"), way(b"\3")], CREATION),
    ("9204 4.2 the encoder stream ends", [control(), way(b"\2", True)], CRITICAL),
    ("9204 4.2 the decoder stream ends", [control(), way(b"\3", True)], CRITICAL),
    ("9204 4.3.1 a capacity of 0", [control(), way(b"\2\x20")], ANSWERED),
    ("9204 4.3.1 a capacity beyond the limit", [control(), way(b"\2\x21")], ENCODER),
    ("9204 3.2.2 an insert with a static name", [control(), way(b"\2\xc1\1a")], ENCODER),
    ("9204 4.3.3 an insert with a literal name", [control(), way(b"\2\x41a\1a")], ENCODER),
    ("9204 4.3.4 a duplicate", [control(), way(b"\2\0")], ENCODER),
    ("9204 4.4.1 a section acknowledgment", [control(), way(b"\3\x80")], DECODER),
    ("9204 4.4.2 a stream cancellation", [control(), way(b"\3\x40")], ANSWERED),
    ("9204 4.4.3 an increment of 0", [control(), way(b"\3\0")], DECODER),
    ("9204 4.4.3 an increment beyond what was sent", [control(), way(b"\3\1")], DECODER),
]

# Field sections that cannot be decoded, each with the rule that it breaks.
SECTIONS = [
    ("9204 4.5.1.1 a required insert count", b"\2\0\x80"),
    ("9204 4.5.1.2 a negative base", b"\0\x80\xd1"),
    ("9204 3.1 beyond the static table", b"\0\0\xff\x24"),
    ("9204 4.5.2 a dynamic field line", b"\0\0\x80"),
    ("9204 4.5.3 a post-base field line", b"\0\0\x10"),
    ("9204 4.5.4 a dynamic name", b"\0\0\x40\1a"),
    ("9204 4.5.5 a post-base name", b"\0\0\0\1a"),
    ("9204 4.1.1 an integer of 63 bits", b"\0\0\xff" + b"\xff" * 8 + b"\x7f"),
    ("9204 4.1.2 half a string", b"\0\0\x51\x09/"),
    ("7541 5.2 EOS in a string", b"\0\0\x5f\x50\x84\xff\xff\xff\xff"),
    ("7541 5.2 padding of zeros", b"\0\0\x5f\x50\x81\x18"),
]

CONNECT = [(b":method", b"CONNECT"), (b":authority", b"localhost:1")]

OF_CLIENTS = [
    ("9114 4.1 a request", [control(), request(head())], ANSWERED),
    ("9114 4.1 content, trailers and unknown frames", [control(), request(GREASE, head(), GREASE, frame(DATA, b"a"), trailers(), GREASE)], ANSWERED),
    ("9114 4.1 DATA first", [control(), request(frame(DATA, b"a"))], UNEXPECTED),
    ("9114 4.1 DATA after trailers", [control(), request(head(), trailers(), frame(DATA, b"a"))], UNEXPECTED),
    ("9114 4.1 HEADERS after trailers", [control(), request(head(), trailers(), trailers())], UNEXPECTED),
    ("9114 4.1 after an early answer: SETTINGS", [control(), request(head(), end=False), ("wait",), ("more", frame(SETTINGS))], UNEXPECTED),
    ("9114 4.1 after an early answer: trailers", [control(), request(head(), end=False), ("wait",), ("more", trailers())], ANSWERED),
    *[
        (f"9114 4.1.2 after an early answer: {rule} in trailers", [control(), request(head(), end=False), ("wait",), ("more", frame(HEADERS, section(field)))], MESSAGE)
        for rule, field in [("an upper-case name", (b"X", b"y")), ("a pseudo-header field", (b":path", b"/")), ("a leading space", (b"x", b" y"))]
    ],
    ("9114 4.1 an empty stream", [control(), request()], INCOMPLETE),
    ("9114 4.1.2 content shorter than its length", [control(), request(head(None, (b"content-length", b"9")), frame(DATA, b"abc"))], MESSAGE),
    ("9114 4.1.2 content longer than its length", [control(), request(head(None, (b"content-length", b"2")), frame(DATA, b"abc"))], MESSAGE),
    ("9114 4.1.2 content of its length", [control(), request(head(None, (b"content-length", b"3")), frame(DATA, b"abc"))], ANSWERED),
    *[
        (f"9114 {rule}", [control(), request(head(without, *more))], MESSAGE)
        for rule, without, *more in [
            ("4.2 an upper-case name", None, (b"X-Y", b"z")),
            ("4.2 an empty name", None, (b"", b"z")),
            ("4.2 connection", None, (b"connection", b"close")),
            ("4.2 keep-alive", None, (b"keep-alive", b"1")),
            ("4.2 proxy-connection", None, (b"proxy-connection", b"close")),
            ("4.2 transfer-encoding", None, (b"transfer-encoding", b"chunked")),
            ("4.2 upgrade", None, (b"upgrade", b"h2c")),
            ("4.2 te: gzip", None, (b"te", b"gzip")),
            ("10.3 a value with a leading space", None, (b"x", b" y")),
            ("10.3 a value with line ends", None, (b"x", b"a\r\nb: c")),
            ("4.3 a pseudo-header field after a field", b":path", (b"x", b"y"), (b":path", b"/")),
            ("4.3 :path twice", None, (b":path", b"/1")),
            ("4.3 :method twice", None, (b":method", b"GET")),
            ("4.3 :status", None, (b":status", b"200")),
            ("4.3 an undefined pseudo-header field", None, (b":x", b"y")),
            ("4.3.1 no :method", b":method"),
            ("4.3.1 no :scheme", b":scheme"),
            ("4.3.1 no :path", b":path"),
            ("4.3.1 an empty :path", b":path", (b":path", b"")),
            ("4.3.1 neither :authority nor host", b":authority"),
            ("4.3.1 an empty :authority", b":authority", (b":authority", b"")),
            ("4.3.1 :authority and host differ", None, (b"host", b"other")),
        ]
    ],
    ("9114 4.3 a pseudo-header field in trailers", [control(), request(head(), head())], MESSAGE),
    ("9114 4.3.1 host alone", [control(), request(head(b":authority", (b"host", b"localhost")))], ANSWERED),
    ("9114 4.2 te: trailers", [control(), request(head(None, (b"te", b"trailers")))], ANSWERED),
    ("9114 4.4 CONNECT with :path", [control(), request(frame(HEADERS, section(*CONNECT, (b":path", b"/"))))], MESSAGE),
    ("9114 4.4 CONNECT with :scheme", [control(), request(frame(HEADERS, section(*CONNECT, (b":scheme", b"https"))))], MESSAGE),
    ("9114 5.2 a request beside GOAWAY", [control(frame(GOAWAY, b"\0")), request(head())], ANSWERED),
    ("9114 6.2.2 a push stream of a client", [control(), way(b"\1\0")], CREATION),
    ("9114 7.1 an end within HEADERS", [control(), request(b"\1\x20\0\0")], FRAME),
    ("9114 7.1 an end within DATA", [control(), request(head(), b"\0\x09a")], FRAME),
    *[
        (f"9114 7.2 type {n} on a request stream", [control(), request(head(), frame(n, b"\0"))], UNEXPECTED)
        for n in (2, 3, 4, 5, 6, 7, 8, 9, 13)
    ],
    ("9114 7.2.7 MAX_PUSH_ID shrinks", [control(frame(MAX_PUSH_ID, b"\x09"), frame(MAX_PUSH_ID, b"\4"))], ID),
    *[(rule, [control(), request(frame(HEADERS, lines))], DECOMPRESSION) for rule, lines in SECTIONS],
]

ABC = frame(DATA, b"abc")
INTERIM = frame(HEADERS, section((b":status", b"103"), (b"link", b"</x>")))

# Our client reports a stream error only by its exit code, because the stream is already closed at both ends.
OF_SERVERS = [
    ("9114 4.1 a response", [control(), request(response(), ABC)], ANSWERED),
    ("9114 4.1 interim responses, trailers and unknown frames", [control(), request(GREASE, INTERIM, response(), GREASE, ABC, trailers())], ANSWERED),
    ("9114 4.1 DATA first", [control(), request(ABC)], UNEXPECTED),
    ("9114 4.1 DATA after an interim response", [control(), request(INTERIM, ABC)], UNEXPECTED),
    ("9114 4.1 DATA after trailers", [control(), request(response(), trailers(), ABC)], UNEXPECTED),
    ("9114 4.1 no response", [control(), request()], MESSAGE),
    ("9114 4.1.2 content of its length", [control(), request(response((b"content-length", b"3")), ABC)], ANSWERED),
    ("9114 4.1.2 content shorter than its length", [control(), request(response((b"content-length", b"4")), ABC)], MESSAGE),
    ("9114 4.1.2 content longer than its length", [control(), request(response((b"content-length", b"2")), ABC)], MESSAGE),
    ("9114 4.2 connection", [control(), request(response((b"connection", b"close")), ABC)], MESSAGE),
    ("9114 4.2 transfer-encoding", [control(), request(response((b"transfer-encoding", b"chunked")), ABC)], MESSAGE),
    ("9114 4.2 an upper-case name", [control(), request(response((b"X", b"y")), ABC)], MESSAGE),
    ("9114 4.3 a pseudo-header field in trailers", [control(), request(response(), ABC, response())], MESSAGE),
    ("9114 4.3.2 no :status", [control(), request(trailers(), ABC)], MESSAGE),
    ("9114 4.3.2 :status twice", [control(), request(response((b":status", b"200")), ABC)], MESSAGE),
    ("9114 4.5 the status 101", [control(), request(frame(HEADERS, section((b":status", b"101"))), response(), ABC)], MESSAGE),
    ("9114 4.6 a push stream", [control(), way(b"\1\0")], ID),
    ("9114 7.2.5 PUSH_PROMISE", [control(), request(response(), frame(PUSH_PROMISE, b"\0\0\0\xd9"), ABC)], ID),
    ("9114 7.2.7 MAX_PUSH_ID", [control(frame(MAX_PUSH_ID, b"\0"))], UNEXPECTED),
    ("9114 5.2 GOAWAY names no request", [control(frame(GOAWAY, b"\5"))], ID),
    ("9114 7.1 an end within DATA", [control(), request(response(), b"\0\x09a")], FRAME),
    ("9114 7.2 SETTINGS on a request stream", [control(), request(response(), frame(SETTINGS), ABC)], UNEXPECTED),
    *[(rule, [control(), request(frame(HEADERS, lines))], DECOMPRESSION) for rule, lines in SECTIONS],
]

# A client that is done closes the connection, and stops none of these streams.
LEAVES = ("9114 6.2.1, 9204 4.2 critical streams stay open", [control(), way(b"\2"), way(b"\3"), request(response(), ABC)], ANSWERED)


def told(outcome):
    return outcome if isinstance(outcome, str) else f"{outcome:#x}"


def line(role, rule, came, expected):
    good = came == expected
    print(f"{'ok  ' if good else 'FAIL'} {role} {rule}: {told(came)}" + ("" if good else f" instead of {told(expected)}"), flush=True)
    return good


class Client(QuicConnectionProtocol):
    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.closed, self.reset, self.stopped, self.got, self.ended = None, None, None, b"", False
        self.changed, self.stream = asyncio.Event(), None

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed = event.error_code
        if isinstance(event, StreamReset) and event.stream_id == self.stream:
            self.reset = event.error_code
        if isinstance(event, StopSendingReceived) and event.stream_id == self.stream:
            self.stopped = event.error_code
        if isinstance(event, StreamDataReceived) and event.stream_id == self.stream:
            self.got += event.data
            self.ended |= event.end_stream
        self.changed.set()

    async def until(self, holds, seconds):
        """Waits until holds() is true, the connection is closed, or the time is over."""
        async def wait():
            while not holds() and self.closed is None:
                self.changed.clear()
                await self.changed.wait()

        try:
            await asyncio.wait_for(wait(), seconds)
        except asyncio.TimeoutError:
            pass

    def say(self, what, data=b"", end=False):
        if what == "way":
            self._quic.send_stream_data(self._quic.get_next_available_stream_id(is_unidirectional=True), data, end)
        elif what == "request":
            self.stream = self._quic.get_next_available_stream_id()
            self._quic.send_stream_data(self.stream, data, end)
        else:
            try:
                self._quic.send_stream_data(self.stream, data)
            except RuntimeError:
                # The server has already stopped reading from the stream.
                pass
        self.transmit()


async def client_outcome(address, port, says):
    config = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)
    async with connect(address, port, configuration=config, create_protocol=Client) as client:
        for said in says:
            if said[0] == "wait":
                await client.until(lambda: client.got, 5)
            else:
                client.say(*said)
        if client.stream is None:
            # If the error ends the connection, another request shows whether it has ended.
            await client.until(lambda: False, 0.1)
            if client.closed is None:
                client.say("request", head(), True)
        await client.until(lambda: client.ended or client.reset is not None, 5)
        # A connection error may arrive after an answer, in particular if more was sent after it.
        await client.until(lambda: False, 2 if says[-1][0] == "more" else 0.1)
        if client.closed is not None:
            return client.closed, client.got
        if client.reset is not None:
            return client.reset, client.got
        if client.stopped not in (None, NO_ERROR):
            return client.stopped, client.got
        return (ANSWERED if client.ended and client.got[:1] == b"\1" else "nothing"), client.got


async def as_client(address, port):
    good = True
    for rule, says, expected in COMMON + OF_CLIENTS:
        came, _ = await client_outcome(address, port, says)
        good &= line("client", rule, came, expected)
    # The field line of Alt-Svc refers to entry 83 of the static table.
    _, got = await client_outcome(address, port, [control(), request(head())])
    good &= line("client", "9114 3.1.1 Alt-Svc", "sent" if b"\x5f\x44" in got else "not sent", "sent")
    return good


class Server(QuicConnectionProtocol):
    says, closed, stopped = [], asyncio.Queue(), []

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.said = False

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed.put_nowait(event.error_code)
        # The streams of a server that go one way end in 3 (RFC 9000 section 2.1).
        if isinstance(event, StopSendingReceived) and event.stream_id % 4 == 3:
            self.stopped.append(event.stream_id)
        if isinstance(event, StreamDataReceived) and event.stream_id == 0 and not self.said:
            self.said = True
            answered = False
            for what, data, end in self.says:
                if what == "request":
                    answered = True
                    self._quic.send_stream_data(0, data, end)
                else:
                    self._quic.send_stream_data(self._quic.get_next_available_stream_id(is_unidirectional=True), data, end)
            if not answered:
                # If the error ends the connection, the response is sent later.
                self._loop.call_later(0.2, self.answer)

    def answer(self):
        try:
            self._quic.send_stream_data(0, response() + ABC, True)
            self.transmit()
        except Exception:
            pass


async def as_server(address, port, cert, key, command):
    config = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    config.load_cert_chain(cert, key)
    listening = await serve(address, port, configuration=config, create_protocol=Server)
    host, port = listening._transport.get_extra_info("sockname")[:2]
    good = True
    for rule, says, expected in COMMON + OF_SERVERS + [LEAVES]:
        Server.says = says
        Server.stopped.clear()
        while not Server.closed.empty():
            Server.closed.get_nowait()
        null = asyncio.subprocess.DEVNULL
        program = await asyncio.create_subprocess_exec(*command, f"h3://{host}:{port}/", stdout=null, stderr=null)
        code = await asyncio.wait_for(program.wait(), 60)
        closed = await asyncio.wait_for(Server.closed.get(), 10)
        if code == 0:
            came = "stopped" if says is LEAVES[1] and Server.stopped else ANSWERED
        elif code != 1:
            came = f"exit {code}"
        elif closed in (0x0, 0x100):
            came = MESSAGE
        else:
            came = closed
        good &= line("server", rule, came, expected)
    return good


if __name__ == "__main__":
    role, address, port, *rest = sys.argv[1:]
    if role == "client":
        obeyed = asyncio.run(as_client(address, int(port)))
    else:
        cert, key, *command = rest
        obeyed = asyncio.run(as_server(address, int(port), cert, key, command))
    sys.exit(0 if obeyed else 1)
