#!/usr/bin/env python3
"""aioquic as a peer of the HTTP/3 cases: a client and a server.

    aioquic_end.py server CASE ADDRESS PORT CERT KEY SITE
    aioquic_end.py client CASE ADDRESS PORT AUTHORITIES TARGET PATH..

CASE is the name in the QUIC interop runner; most cases are plain transfers. The server prints the address on which it
listens. The client writes the files to TARGET and prints one line per handshake; its exit code is 0 if all files
arrived. SSLKEYLOGFILE names the file for the secrets of sessions.
"""

import asyncio
import os
import ssl
import sys
import time
from functools import partial

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, StreamReset
from aioquic.quic.packet import QuicProtocolVersion

# A version that no implementation supports (RFC 9000 section 15).
RESERVED = 0x1A2A3A4A
VERSIONS = [QuicProtocolVersion.VERSION_1]


def configuration(case, is_client):
    secrets = os.environ.get("SSLKEYLOGFILE")
    config = QuicConfiguration(
        is_client=is_client,
        alpn_protocols=H3_ALPN,
        supported_versions=VERSIONS,
        secrets_log_file=open(secrets, "a", buffering=1) if secrets else None,
        idle_timeout=30.0,
    )
    if case == "transfer" and is_client:
        # Windows that have to grow during a transfer.
        config.max_data, config.max_stream_data = 1 << 17, 1 << 16
    if case == "windows" and is_client:
        # Windows that limit a transfer.
        config.max_stream_data = 1 << 9
    return config


class Server(QuicConnectionProtocol):
    def __init__(self, *words, site, case, **named):
        super().__init__(*words, **named)
        self.http, self.site, self.case = None, site, case
        if case == "streams":
            # The client has to wait for streams. aioquic has no setting for their number.
            limit = self._quic._local_max_streams_bidi
            limit.value = limit.sent = 8

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for event in self.http.handle_event(event):
            if isinstance(event, HeadersReceived):
                self.answer(event.stream_id, dict(event.headers))
        self.transmit()

    def answer(self, stream, fields):
        path = fields.get(b":path", b"/").decode().lstrip("/")
        try:
            with open(os.path.join(self.site, os.path.basename(path)), "rb") as file:
                status, body = b"200", file.read()
        except OSError:
            status, body = b"404", b""
        length = str(len(body)).encode()
        self.http.send_headers(stream, [(b":status", status), (b"content-length", length)])
        if self.case == "keyupdate":
            # A key update requires a confirmed handshake, which a server has as soon as the handshake is complete.
            self._quic.request_key_update()
        self.http.send_data(stream, body, end_stream=True)


async def server(case, address, port, cert, key, site):
    config = configuration(case, is_client=False)
    config.load_cert_chain(cert, key)
    if case == "versionnegotiation-only":
        config.supported_versions = [RESERVED, QuicProtocolVersion.VERSION_2]
    tickets = {}
    named = {}
    if case in ("resumption", "zerortt"):
        named["session_ticket_fetcher"] = lambda label: tickets.pop(label, None)
        named["session_ticket_handler"] = lambda ticket: tickets.update({ticket.ticket: ticket})
    listening = await serve(
        address,
        int(port),
        configuration=config,
        create_protocol=partial(Server, site=site, case=case),
        retry=case == "retry",
        **named,
    )
    host, port = listening._transport.get_extra_info("sockname")[:2]
    print(f"listening {host}:{port}", flush=True)
    await asyncio.Event().wait()


class Client(QuicConnectionProtocol):
    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.http = H3Connection(self._quic)
        self.streams = {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for done, *_ in self.streams.values():
                if not done.done():
                    done.set_exception(ConnectionError(f"closed: {event.error_code:#x} {event.reason_phrase}"))
        if isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id][0].set_exception(ConnectionError("reset"))
        for event in self.http.handle_event(event):
            done, head, body = self.streams.get(getattr(event, "stream_id", None), (None, None, None))
            if done is None:
                continue
            if isinstance(event, HeadersReceived) and not head:
                head.update(event.headers)
            if isinstance(event, DataReceived):
                body.append(event.data)
            if event.stream_ended and not done.done():
                done.set_result((head, b"".join(body)))

    def ask(self, authority, path):
        stream = self._quic.get_next_available_stream_id()
        done = self._loop.create_future()
        self.streams[stream] = (done, {}, [])
        self.http.send_headers(
            stream,
            [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", path.encode())],
            end_stream=True,
        )
        return done


async def get(case, config, address, port, target, paths, tickets, wait=True):
    """Gets all paths in parallel over one connection."""
    begun = time.monotonic()
    made = connect(
        address,
        port,
        configuration=config,
        create_protocol=Client,
        session_ticket_handler=tickets.append,
        wait_connected=wait,
    )
    async with made as client:
        answers = [client.ask(f"{address}:{port}".encode(), path) for path in paths]
        client.transmit()
        if case == "keyupdate":
            await client.ping()
            client.request_key_update()
        for path, answer in zip(paths, answers):
            head, body = await answer
            if head.get(b":status") != b"200":
                raise ConnectionError(f"{path}: {head}")
            with open(os.path.join(target, os.path.basename(path)), "wb") as file:
                file.write(body)
        tls = client._quic.tls
        took = round((time.monotonic() - begun) * 1e3)
        print(f"handshake resumed={tls.session_resumed} early={tls.early_data_accepted} took={took}ms", flush=True)
        # A ticket may arrive after the answer.
        for _ in range(100):
            if tickets or case not in ("resumption", "zerortt"):
                break
            await asyncio.sleep(0.02)


async def client(case, address, port, authorities, target, *paths):
    config = configuration(case, is_client=True)
    config.load_verify_locations(authorities)
    config.verify_mode = ssl.CERT_REQUIRED
    config.server_name = "localhost"
    if case == "versionnegotiation":
        config.supported_versions = [RESERVED, *VERSIONS]
    port, tickets = int(port), []
    if case in ("resumption", "zerortt"):
        await get(case, config, address, port, target, paths[:1], tickets)
        if not tickets:
            raise ConnectionError("no ticket came")
        config.session_ticket = tickets[0]
        paths = paths[1:]
    await get(case, config, address, port, target, paths, tickets, wait=case != "zerortt")


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    try:
        asyncio.run({"server": server, "client": client}[role](*words))
    except (ConnectionError, OSError) as error:
        sys.exit(f"aioquic: {type(error).__name__} {error}")
