"""A data channel client in aiortc, which reads commands from standard input as ../src/field/program.rs describes.

Arguments are KEY=VALUE; reports go to standard output. DTLS runs over a UDP socket without ICE. Each channel is negotiated out of
band, without RFC 8832, so that stream N is channel N.
"""

import asyncio
import os
import sys

from aiortc import RTCCertificate, RTCDataChannel, RTCDataChannelParameters, RTCDtlsTransport, RTCSctpTransport
from aiortc import RTCDtlsFingerprint, RTCDtlsParameters, RTCSctpCapabilities

MESSAGE = 7
PORT = 5000
STRING = 51


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
        self.came.put_nowait(data)

    def error_received(self, exc):
        pass

    async def _recv(self):
        return await self.came.get()

    async def _send(self, data):
        self.transport.sendto(data)


class Dtls(RTCDtlsTransport):
    """DTLS of a client that accepts any certificate and has no media."""

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


async def main():
    loop = asyncio.get_running_loop()
    port, kind = int(word("encap", "4433")), int(word("ppid", "53"))
    here, there = (word("local", "127.0.0.1"), 0), (word("peer", "127.0.0.1"), port)
    _, socket = await loop.create_datagram_endpoint(Socket, local_addr=here, remote_addr=there)
    report("ready")
    dtls = Dtls(socket, [RTCCertificate.generateCertificate()])
    dtls._set_role("client")
    await dtls.start(RTCDtlsParameters(fingerprints=[RTCDtlsFingerprint(algorithm="sha-256", value="")]))
    report(f"dtls {dtls.state}")
    sctp = RTCSctpTransport(dtls, int(word("port", str(PORT))))
    channels = {}
    await sctp.start(RTCSctpCapabilities(maxMessageSize=65536), int(word("peer_port", str(PORT))))
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
