"""Captures transfers between programs of others, and compares what decode and tshark find inside the encryption.

encrypted_captures.py FOLDER PROGRAM NAME

Captures and key logs go to FOLDER, PROGRAM is anabranch, NAME is a part of a transfer's name (empty for all). Prints a table.
Exits with 1 if a count differs and tshark does not have the limit that the table names.
"""

import json
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import encrypted_programs as programs

# The frame types of QUIC by the names of qlog (RFC 9000 section 19).
FRAMES = {1: "ping", 2: "ack", 3: "ack", 4: "reset_stream", 5: "stop_sending", 6: "crypto", 7: "new_token",
          **dict.fromkeys(range(8, 16), "stream"), 16: "max_data", 17: "max_stream_data", 18: "max_streams", 19: "max_streams",
          20: "data_blocked", 21: "stream_data_blocked", 22: "streams_blocked", 23: "streams_blocked", 24: "new_connection_id",
          25: "retire_connection_id", 26: "path_challenge", 27: "path_response", 28: "connection_close",
          29: "connection_close", 30: "handshake_done"}
CHUNKS = {0: "DATA", 1: "INIT", 2: "INIT ACK", 3: "SACK", 4: "HEARTBEAT", 5: "HEARTBEAT ACK", 6: "ABORT",
          7: "SHUTDOWN", 8: "SHUTDOWN ACK", 9: "ERROR", 10: "COOKIE ECHO", 11: "COOKIE ACK",
          14: "SHUTDOWN COMPLETE", 64: "I-DATA", 130: "RE-CONFIG", 192: "FORWARD-TSN"}


def fields(path, keys, names, only=None, extra=()):
    """The values of these fields in each packet, each a list."""
    command = ["tshark", "-r", path, "-o", f"tls.keylog_file:{keys}", "-T", "fields", "-E", "separator=|", *extra]
    if only:
        command += ["-Y", only]
    for name in names:
        command += ["-e", name]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        yield [cell.split(",") if cell else [] for cell in line.split("|")]


class Covered:
    """The number of bytes of each stream, each counted once."""

    def __init__(self):
        self.ranges = {}

    def add(self, key, start, length):
        self.ranges.setdefault(key, []).append((start, start + length))

    def total(self, keys=None):
        count = 0
        for key, ranges in self.ranges.items():
            end = 0
            for start, until in sorted(ranges) if keys is None or keys(key) else ():
                count += max(0, until - max(start, end))
                end = max(end, until)
        return count


def tls(path, keys):
    """What tshark finds in TLS: HTTP/2 frames, requests, their heads, and the bytes of bodies."""
    counts, requests, connections = Counter(), {}, set()
    names = ["tcp.stream", "http2.type", "http2.streamid", "http2.length", "http2.headers.method", "http2.headers.path",
             "http2.headers.status"]
    for stream, types, ids, lengths, methods, paths, codes in fields(path, keys, names, "http2"):
        connections.add(stream[0])
        heads = iter(ids_of for kind, ids_of in zip(types, ids[-len(types):]) if kind == "1")
        for kind, length in zip(types, lengths):
            counts["body bytes"] += int(length) if kind == "0" else 0
        for head in heads:
            if methods:
                requests[stream[0], head] = [methods.pop(0), paths.pop(0)]
            elif codes:
                requests[stream[0], head].append(codes.pop(0))
    names = ["tcp.stream", "http.request.method", "http.request.uri", "http.response.code", "http.content_length"]
    number = 0
    for stream, methods, paths, codes, length in fields(path, keys, names, "tls && http"):
        connections.add(stream[0])
        if methods:
            requests[stream[0], number] = [methods[0], paths[0]]
        else:
            requests[stream[0], number].append(codes[0])
            counts["body bytes"] += int(length[0])
            number += 1
    names = ["tls.record.content_type", "tls.record.opaque_type", "tls.handshake.type", "tls.alert_message.desc"]
    for clear, opaque, messages, alerts in fields(path, keys, names, "tls && tcp"):
        # TLS 1.3 hides the type of encrypted records. In TLS 1.2 they are data, Finished messages and alerts.
        counts["records"] += len(opaque) or clear.count("23") + messages.count("20") + len(alerts)
    for request in requests.values():
        counts["request " + " ".join(request)] += 1
    counts["connections"] = len(connections)
    return counts


def quic(path, keys):
    """What tshark finds in QUIC: packets, frames by type, streams with their bytes, and HTTP/3 frames."""
    counts, streams, connections = Counter(), Covered(), set()
    names = ["quic.connection.number", "udp.srcport", "quic.packet_number", "quic.frame_type", "quic.stream.stream_id",
             "quic.stream.offset", "quic.stream.length", "quic.stream_data"]
    for connection, port, numbers, types, ids, offsets, lengths, data in fields(path, keys, names, "quic && !icmp && !icmpv6"):
        connections.add(connection[0])
        counts["packets"] += len(numbers)
        for kind in map(int, types):
            if kind:
                counts[FRAMES.get(kind, str(kind)) + " frames"] += 1
            if not 8 <= kind < 16:
                continue
            offset = int(offsets.pop(0)) if kind & 4 else 0
            # Without a length, the frame ends with its packet.
            length = int(lengths.pop(0)) if kind & 2 else None
            content = data.pop(0).removeprefix("<MISSING>") if data else ""
            length = len(content) // 2 if length is None else length
            streams.add((connection[0], port[0], int(ids.pop(0))), offset, length)
    counts["connections"], counts["streams"] = len(connections), len(streams.ranges)
    counts["stream bytes"] = streams.total()
    return counts


def dtls(path, keys, folder):
    """What tshark finds in SCTP: it opens DTLS 1.2, and then reads the packets as a capture of SCTP without IP."""
    out, numbers, records = [struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 248)], Counter(), 0
    names = ["dtls.record.content_type", "dtls.handshake.type", "dtls.alert_message.desc", "data.data"]
    for kinds, messages, alerts, packets in fields(path, keys, names, "dtls && !icmp && !icmpv6"):
        records += kinds.count("23") + messages.count("20") + len(alerts)
        for packet in map(bytes.fromhex, packets):
            out += [struct.pack("<4I", len(out), 0, len(packet), len(packet)), packet]
    inner = folder / "inner.pcap"
    inner.write_bytes(b"".join(out))
    counts, tsns = Counter(records=records), {}
    names = ["sctp.verification_tag", "sctp.chunk_type", "sctp.chunk_length", "sctp.data_tsn_raw", "sctp.data_sid"]
    for tag, kinds, lengths, raw, ids in fields(inner, keys, names, "sctp"):
        counts["packets"] += 1
        for kind, length in zip(kinds, lengths):
            counts[CHUNKS.get(int(kind), kind) + " chunks"] += 1
            if kind in ("0", "64"):
                tsns[tag[0], raw.pop(0)] = (int(length) - (16 if kind == "0" else 20), ids.pop(0))
    counts["user bytes"] = sum(length for length, _ in tsns.values())
    counts["streams"] = len({(tag, stream) for (tag, _), (_, stream) in tsns.items()})
    return counts


def decode(program, path, keys, folder, kind):
    """The same counts of decode, the number of records or packets that it could not open, and its findings."""
    logs = folder / "qlog"
    shutil.rmtree(logs, ignore_errors=True)
    command = [program, "decode", path, "--keylog", keys, "-q", "--json", "-", "--qlog", logs]
    found = json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True).stdout)
    counts, sealed, findings = Counter(), 0, []
    transports = {"tls": ["tcp"], "quic": ["quic"], "dtls": ["dtls", "sctp"]}[kind]
    for conversation in found["conversations"]:
        security, transport = conversation["security"], conversation["transport"]
        if transport not in transports or transport == "tcp" and not security:
            continue
        findings += [finding["rule"] for finding in conversation["findings"]]
        counts["connections"] += transport != "sctp"
        if security:
            sealed += security["sealed"]
            counts["packets" if kind == "quic" else "records"] += security["opened"]
        for request in conversation["requests"]:
            counts[f"request {request['method']} {request['target']} {request['status']}"] += 1
            counts["requests"] += request["method"] is not None
            counts["body bytes"] += sum(request["bytes"])
        for channel in conversation["channels"]:
            counts["messages"] += sum(channel["messages"])
            counts["message bytes"] += sum(channel["bytes"])
        for way in conversation["directions"] if transport in ("sctp", "quic") else ():
            # Of QUIC, packets are those that were decrypted. Copies of datagrams are left out.
            counts["packets"] += way["packets"] if kind == "dtls" else way["copies"]
            counts["streams"] += len(way["streams"])
            counts["user bytes" if kind == "dtls" else "stream bytes"] += way["bytes"]
            counts["retransmitted"] += sum(way["repairs"][cause] for cause in ("fast", "timeout", "other"))
            counts.update({f"{name} chunks": count for name, count in way["chunks"].items()})
            if transport == "sctp" and not conversation["channels"]:
                counts["messages"] += way["messages"]
                counts["message bytes"] += way["bytes"]
    for log in logs.glob("*.sqlog"):
        for event in log.read_text().split("\x1e")[2:]:
            names = [frame["frame_type"] for frame in json.loads(event)["data"]["frames"]]
            counts.update(f"{name} frames" for name in names if name != "padding")
    return counts, sealed, findings


def capture(transfer, path, keys, folder):
    recorder = subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-w", str(path)], stderr=subprocess.DEVNULL)
    try:
        while not path.exists() or not path.stat().st_size:
            if recorder.poll() is not None:
                raise RuntimeError("dumpcap cannot capture on loopback: needs root")
            time.sleep(0.02)
        time.sleep(0.2)
        transfer(folder, keys)
        time.sleep(0.5)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


def compare(name, transfer, counts, sealed, findings, theirs):
    """The row of a transfer, and the number of differences without a reason."""
    kind, notes, same, failed = transfer.kind, [], 0, 0
    own = {what for what in counts if what in theirs or what.endswith((" frames", " chunks"))
           or kind == "tls" and what.startswith("request ")}
    for what in sorted(set(theirs) | own):
        if theirs[what] == counts[what]:
            same += 1
        elif transfer.limit and theirs[what] < counts[what]:
            notes.append(f"{what} {theirs[what]} : {counts[what]}")
        else:
            failed += 1
            notes.append(f"{what} {theirs[what]} : {counts[what]} (NOT EXPLAINED)")
    if transfer.limit:
        notes.insert(0, f"tshark does not open {transfer.limit}:" if notes else f"tshark opens {transfer.limit}, too")
    for what, count in transfer.known.items():
        if counts[what] != count:
            failed += 1
            notes.append(f"{what} of the programs {count} : {counts[what]} (NOT EXPLAINED)")
    # On loopback, packets are lost only where a receive buffer is full.
    is_wrong = transfer.finding not in findings if transfer.finding else bool(findings) and not counts["retransmitted"]
    if findings or is_wrong:
        failed += is_wrong
        notes.append(f"--why: {' '.join(findings) or 'nothing'}{' (NOT EXPLAINED)' * is_wrong}")
    if sealed:
        failed += 1
        notes.append(f"{sealed} not decrypted (NOT EXPLAINED)")
    unit = "packets" if kind == "quic" else "records"
    size = counts["message bytes"] if kind == "dtls" else counts["body bytes"]
    done = counts["messages"] if kind == "dtls" else counts["requests"]
    return [name, str(counts[unit]), str(done), str(size), str(same), ", ".join(notes).replace(":,", ":")], failed


def main():
    folder, program, part = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    programs.prepare(folder)
    rows, failed = [], 0
    for number, (name, transfer) in enumerate(programs.ALL.items()):
        if part not in name:
            continue
        path, keys = folder / f"{number}.pcapng", folder / f"{number}.keys"
        try:
            if not path.exists():
                capture(transfer.run, path, keys, folder)
        except programs.Missing as missing:
            rows.append([name, "-", "-", "-", "-", f"skipped: {missing}"])
            continue
        theirs = {"tls": tls, "quic": quic, "dtls": lambda *of: dtls(*of, folder)}[transfer.kind](path, keys)
        counts, sealed, findings = decode(program, path, keys, folder, transfer.kind)
        row, wrong = compare(name, transfer, counts, sealed, findings, theirs)
        rows.append(row)
        failed += wrong
    heads = ["programs", "decrypted", "requests or messages", "bytes", "equal counts", "tshark : decode, where they differ"]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(5)]
    for row in [heads, *rows]:
        cells = [row[0].ljust(widths[0])] + [row[n].rjust(widths[n]) for n in range(1, 5)]
        print("  ".join([*cells, row[5]]).rstrip())
    if failed:
        sys.exit(f"encrypted: {failed} differences without a reason")
    if not rows:
        sys.exit("encrypted: no such transfer")


if __name__ == "__main__":
    main()
