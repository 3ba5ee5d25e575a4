"""Data channels in aiortc, as a client or as a server of HTTP.

Commands come on standard input, as ../src/field/program.rs describes. Arguments are KEY=VALUE; reports go to standard output.
DTLS runs over a UDP socket without ICE. Each channel is negotiated out of band, without RFC 8832, so that stream N is channel N.
With role=listen, requests on 64 channels are answered, each in messages of the type of the request.
"""

import asyncio
import os
import sys

from aiortc import RTCCertificate, RTCDataChannel, RTCDataChannelParameters, RTCDtlsTransport, RTCSctpTransport
from aiortc import RTCDtlsFingerprint, RTCDtlsParameters, RTCSctpCapabilities
from OpenSSL import SSL

MESSAGE = 7
PORT = 5000
STRING = 51
# The most that a message holds.
LARGEST = 65536


def word(key, otherwise):
    found = [one[len(key) + 1:] for one in sys.argv[1:] if one.startswith(key + "=")]
    return found[-1] if found else otherwise


def report(text):
    print(": " + text, flush=True)


def right(path, size):
    """The expected body of the object at a path."""
    if path.startswith("/text/"):
        return b"x" * size
    body = bytearray((at + (at >> 8) + 7 * MESSAGE) & 0xFF for at in range(size))
    body[:4] = MESSAGE.to_bytes(4, "big")
    return bytes(body)


class Socket(asyncio.DatagramProtocol):
    """A UDP socket with the interface of aiortc's ICE transport."""

    role = "controlling"
    state = "completed"

    def __init__(self):
        self.came = asyncio.Queue()

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.peer = addr
        self.came.put_nowait(data)

    def error_received(self, exc):
        pass

    async def _recv(self):
        return await self.came.get()

    async def _send(self, data):
        # A server learns its client's address from the first datagram.
        self.transport.sendto(data, None if self.transport.get_extra_info("peername") else self.peer)


class Certificate(RTCCertificate):
    """One that does not ask the peer for its own."""

    def _create_ssl_context(self, srtp_profiles):
        context = super()._create_ssl_context(srtp_profiles)
        context.set_verify(SSL.VERIFY_NONE)
        return context


class Sctp(RTCSctpTransport):
    """Waits for the INIT of a client, and answers at the port that it comes from. In WebRTC both ends begin, at ports that were
    agreed on (RFC 8841 section 9.3)."""

    async def _init(self):
        pass

    async def _handle_data(self, data):
        self._remote_port = int.from_bytes(data[:2], "big")
        await super()._handle_data(data)


class Dtls(RTCDtlsTransport):
    """DTLS without media, which accepts any certificate."""

    def _validate_peer_identity(self, parameters):
        pass

    def _setup_srtp(self):
        pass


class Channel:
    """A data channel, and the received part of a response."""

    def __init__(self, sctp, number, kind):
        self.number, self.kind, self.flow, self.path = number, kind, b"", ""
        parameters = RTCDataChannelParameters(label=str(number), negotiated=True, id=number)
        self.channel = RTCDataChannel(sctp, parameters)
        self.channel.on("message", self.message)

    def get(self, path):
        self.path = path
        request = f"GET {path} HTTP/1.1\r\nHost: interop\r\n\r\n"
        self.channel.send(request if self.kind == STRING else request.encode())

    def message(self, message):
        if isinstance(message, str) != (self.kind == STRING):
            report(f"fault an answer in messages of another kind than {self.kind}")
        self.flow += message.encode() if isinstance(message, str) else message
        head, found, body = self.flow.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        size = int(fields.get("content-length", 0))
        if len(body) < size:
            return
        verdict = "ok" if body == right(self.path, size) else "wrong"
        report(f"body {self.number} {lines[0].split()[1]} {size} {verdict}")
        self.flow = b""


class Answers(Channel):
    """A stream of a server: answers each request on it."""

    def message(self, message):
        string = isinstance(message, str)
        self.flow += message.encode() if string else message
        while b"\r\n\r\n" in self.flow:
            head, _, self.flow = self.flow.partition(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            body = right(path, int(path.rsplit("/", 1)[1]))
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            for start in range(0, len(answer), LARGEST):
                piece = answer[start:start + LARGEST]
                self.channel.send(piece.decode() if string else piece)


async def main():
    loop = asyncio.get_running_loop()
    port, kind = int(word("encap", "4433")), int(word("ppid", "53"))
    here, there = (word("local", "127.0.0.1"), 0), (word("peer", "127.0.0.1"), port)
    listens = word("role", "connect") == "listen"
    if listens:
        here, there = (here[0], port), None
    _, socket = await loop.create_datagram_endpoint(Socket, local_addr=here, remote_addr=there)
    report("ready")
    dtls = Dtls(socket, [Certificate.generateCertificate()])
    dtls._set_role("server" if listens else "client")
    await dtls.start(RTCDtlsParameters(fingerprints=[RTCDtlsFingerprint(algorithm="sha-256", value="")]))
    report(f"dtls {dtls.state}")
    sctp = (Sctp if listens else RTCSctpTransport)(dtls, int(word("port", str(PORT))))
    channels = {}
    if listens:
        channels = {number: Answers(sctp, number, kind) for number in range(64)}
    await sctp.start(RTCSctpCapabilities(maxMessageSize=LARGEST), int(word("peer_port", str(PORT))))
    while sctp.state == "connecting":
        await asyncio.sleep(0.01)
    if sctp.state != "connected":
        report(f"fault SCTP is {sctp.state}")
        return
    report("connected")
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        report("took")
        words = line.decode().split()
        if words[:1] == ["get"]:
            number = int(words[1])
            if number not in channels:
                channels[number] = Channel(sctp, number, kind)
            channels[number].get(words[2])
        elif words[:1] == ["die"]:
            os.kill(os.getpid(), 9)
        elif words[:1] == ["quit"]:
            return
        elif words:
            report(f"fault not understood: {line.decode().strip()}")


asyncio.run(main())
