"""Puts captures into tunnels and onto other links, and compares the counts of decode and tshark.

decode_captures.py FOLDER PROGRAM NAME

FOLDER has pcap files of raw IP packets, PROGRAM is anabranch, NAME is a part of a capture's name (empty for all). Prints a table;
exits with 1 if a difference has no known reason.
"""

import json
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

CHUNKS = {0: "DATA", 1: "INIT", 2: "INIT ACK", 3: "SACK", 4: "HEARTBEAT", 5: "HEARTBEAT ACK", 6: "ABORT",
          7: "SHUTDOWN", 8: "SHUTDOWN ACK", 9: "ERROR", 10: "COOKIE ECHO", 11: "COOKIE ACK",
          14: "SHUTDOWN COMPLETE", 64: "I-DATA", 192: "FORWARD-TSN"}
# The size of the headers before the user data in DATA and I-DATA chunks.
HEADERS = {"0": 16, "64": 20}
MAC = bytes.fromhex("020202020202040404040404")


def read(path):
    """(time in nanoseconds, packet) pairs of a pcap file."""
    data, at, packets = path.read_bytes(), 24, []
    while at + 16 <= len(data):
        seconds, nanos, kept, length = struct.unpack_from("<4I", data, at)
        packets.append((seconds * 10**9 + nanos, data[at + 16:at + 16 + kept]))
        at += 16 + kept
    return packets


def write(path, link_type, packets, snap=1 << 18):
    out = [struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, snap, link_type)]
    for at, packet in packets:
        kept = packet[:snap]
        out += [struct.pack("<4I", at // 10**9, at % 10**9, len(kept), len(packet)), kept]
    path.write_bytes(b"".join(out))


def total(words):
    """The folded sum of RFC 1071, before its complement."""
    words += b"\0" * (len(words) % 2)
    sum_ = sum(struct.unpack(f">{len(words) // 2}H", words))
    while sum_ > 0xFFFF:
        sum_ = (sum_ & 0xFFFF) + (sum_ >> 16)
    return sum_


def v4(protocol, payload, source=b"\x0a\x09\0\1", target=b"\x0a\x09\0\2"):
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0) + source + target
    return header[:10] + struct.pack(">H", 0xFFFF - total(header)) + header[12:] + payload


def v6(protocol, payload):
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\1" + \
        b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\2" + payload


def udp(port, payload):
    return v4(17, struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload)


def frame(kind, payload):
    return MAC + struct.pack(">H", kind) + payload


LABELS = bytes.fromhex("0001004000020140")
GENEVE = bytes.fromhex("0200655800000900") + bytes.fromhex("0102030100000007")
# Link type of the capture, and the function that encapsulates a raw IP packet.
TUNNELS = {
    "gtp-u": (101, lambda p: udp(2152, bytes.fromhex("30ff") + struct.pack(">HI", len(p), 7) + p)),
    "gtp-u, extensions": (101, lambda p: udp(2152, bytes.fromhex("36ff") + struct.pack(">HI", len(p) + 8, 7)
                                             + bytes.fromhex("0007008501000900") + p)),
    "vxlan": (1, lambda p: frame(0x800, udp(4789, bytes.fromhex("0800000000000900") + frame(0x800, p)))),
    "geneve, options": (1, lambda p: frame(0x800, udp(6081, GENEVE + frame(0x800, p)))),
    "gre": (101, lambda p: v4(47, bytes.fromhex("00000800") + p)),
    "gre, key and sequence": (101, lambda p: v4(47, bytes.fromhex("300008000000000700000001") + p)),
    "nvgre": (101, lambda p: v4(47, bytes.fromhex("2000655800000901") + frame(0x800, p))),
    "gre over mpls": (101, lambda p: v4(47, bytes.fromhex("00008847") + LABELS + p)),
    "4in4": (101, lambda p: v4(4, p)),
    "4in6": (101, lambda p: v6(4, p)),
    "mpls": (1, lambda p: frame(0x8847, LABELS + p)),
    "mpls in udp": (101, lambda p: udp(6635, LABELS + p)),
    "pppoe": (1, lambda p: frame(0x8864, struct.pack(">BBHHH", 0x11, 0, 1, len(p) + 2, 0x21) + p)),
    "qinq": (1, lambda p: MAC + bytes.fromhex("88a80001810000050800") + p),
    "gtp-u in vxlan": (1, lambda p: frame(0x800, udp(4789, bytes.fromhex("0800000000000900") + frame(
        0x800, udp(2152, bytes.fromhex("30ff") + struct.pack(">HI", len(p), 7) + p))))),
    "ppp": (9, lambda p: bytes.fromhex("ff030021") + p),
    "cisco hdlc": (104, lambda p: bytes.fromhex("0f000800") + p),
    "nflog": (239, lambda p: bytes.fromhex("02000001") + bytes.fromhex("0800010008000300")
              + struct.pack("<HH", len(p) + 4, 9) + p + b"\0" * (-len(p) % 4)),
    "cooked": (113, lambda p: bytes.fromhex("00000001000600000000000000000800") + p),
    "cooked 2": (276, lambda p: bytes.fromhex("0800000000000002000100060000000000000000") + p),
    "sctp without ip": (248, lambda p: p[20:]),
}


def partial(packet):
    """The packet with a checksum that is left to the network card: for TCP the pseudo-header's sum, for SCTP zero."""
    payload = packet[20:]
    if packet[9] == 132:
        return packet[:28] + b"\0\0\0\0" + packet[32:]
    pseudo = packet[12:20] + struct.pack(">HH", packet[9], len(payload))
    return packet[:36] + struct.pack(">H", total(pseudo)) + packet[38:]


def other_address(packet):
    """The packet with another destination address."""
    packet = packet[:10] + b"\0\0" + packet[12:19] + bytes([packet[19] ^ 64]) + packet[20:]
    return packet[:10] + struct.pack(">H", 0xFFFF - total(packet[:20])) + packet[12:]


def twice(direction, at, packet):
    """The packet with a Linux cooked header; direction is 0 for an incoming and 4 for an outgoing packet."""
    return (at, struct.pack(">HHH", direction, 1, 6) + b"\0" * 8 + b"\x08\0" + packet)


def captures(folder):
    """Yields the name and the file of each capture, and which differences it may have ("as NAME": none from NAME)."""
    for path in sorted((Path(__file__).parent.parent / "captures").glob("*.pcap")):
        yield f"tcpdump's {path.stem}", path, "public"
    races = sorted(folder.glob("*-*.pcap"))
    for race in races:
        packets = read(race)
        yield race.stem, race, None
        if race.stem == "loss-sctp" or race.stem == "loss-tcp":
            for name, (link_type, change) in TUNNELS.items():
                if link_type == 248 and race.stem == "loss-tcp":
                    continue
                path = folder / f"{race.stem}.{name.replace(' ', '_')}.cap"
                write(path, link_type, [(at, change(packet)) for at, packet in packets])
                yield f"{race.stem}, {name}", path, "as " + race.stem
        if race.stem.startswith("corrupt"):
            continue
        path = folder / f"{race.stem}.offload.cap"
        client = packets[0][1][12:16]
        write(path, 101, [(at, partial(p) if p[12:16] == client else p) for at, p in packets])
        yield f"{race.stem}, checksums left", path, "as " + race.stem
        if race.stem.endswith("tcp"):
            path = folder / f"{race.stem}.length.cap"
            write(path, 101, [(at, p[:2] + b"\0\0" + p[4:] if len(p) > 1000 else p) for at, p in packets])
            yield f"{race.stem}, lengths left", path, "as " + race.stem
        path = folder / f"{race.stem}.snap.cap"
        write(path, 101, packets, 96)
        yield f"{race.stem}, 96 bytes kept", path, "cut"
        path = folder / f"{race.stem}.twice.cap"
        write(path, 113, sorted(twice(direction, at + 20_000 * (direction > 0), packet)
                                for at, packet in packets for direction in (0, 4)))
        yield f"{race.stem}, captured twice", path, "twice"
        if race.stem.endswith("sctp"):
            path = folder / f"{race.stem}.middle.cap"
            write(path, 101, packets[len(packets) // 3:])
            yield f"{race.stem}, from the middle", path, "middle"
            path = folder / f"{race.stem}.other.cap"
            middle = [(at, p if p[12:16] == client else other_address(p)) for at, p in packets[len(packets) // 3:]]
            write(path, 101, middle)
            yield f"{race.stem}, other addresses for each direction", path, "middle"


FIELDS = ["sctp.assoc_index", "sctp.verification_tag", "sctp.chunk_type", "sctp.chunk_length", "sctp.data_tsn_raw",
          "tcp.stream", "tcp.srcport", "tcp.seq_raw", "tcp.len"]


def tshark(path):
    # HTTP and TCP reassembly are off, because the payload is not needed.
    # By default tshark does not number SCTP associations.
    command = ["tshark", "-r", str(path), "-o", "tcp.desegment_tcp_streams:FALSE", "--disable-protocol", "http",
               "-o", "sctp.association_index:TRUE", "-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    counts, chunks, tsns, associations, streams, bytes_ = Counter(), Counter(), {}, set(), set(), {}
    for line in lines:
        cells = line.split("|")
        association, tag, types, lengths, numbers, stream, port, seq, length = cells
        counts["frames"] += 1
        if types:
            counts["packets"] += 1
            associations.add(association)
            numbers = iter(int(n) for n in numbers.split(",") if n)
            for kind, size in zip(types.split(","), lengths.split(",")):
                chunks[CHUNKS.get(int(kind), kind)] += 1
                if kind in HEADERS:
                    tsns[tag, next(numbers)] = int(size) - HEADERS[kind]
        elif stream:
            counts["packets"] += 1
            streams.add(stream)
            if int(length):
                start = int(seq)
                bytes_.setdefault((stream, port), []).append((start, start + int(length)))
    counts["associations"], counts["connections"] = len(associations), len(streams)
    counts["user bytes"] = sum(tsns.values()) + sum(map(covered, bytes_.values()))
    counts.update({f"{name} chunks": count for name, count in chunks.items()})
    return counts


def covered(ranges):
    """The count of numbers in at least one of the ranges; sequence numbers in these captures do not wrap."""
    count, end = 0, 0
    for start, until in sorted(ranges):
        count += max(0, until - max(start, end))
        end = max(end, until)
    return count


def decode(program, path):
    """The counts of decode, and its counts of packets with a special treatment."""
    text = subprocess.run([program, "decode", path, "-q", "--json", "-"], check=True, capture_output=True).stdout
    found = json.loads(text)
    counts, aside = Counter(frames=found["packets"]), Counter()
    for conversation in found["conversations"]:
        counts["associations" if conversation["transport"] == "sctp" else "connections"] += 1
        for way in conversation["directions"]:
            counts["packets"] += way["packets"]
            counts["user bytes"] += way["bytes"]
            for name, count in way["chunks"].items():
                counts[f"{name} chunks"] += count
            for name in ("copies", "captured_twice", "damaged", "checksums_left"):
                aside[name] += way[name]
    return counts, aside


def main():
    folder, program, part = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    rows, failed, plain = [], 0, {}
    for name, path, special in captures(folder):
        counts, aside = decode(program, path)
        plain[name] = counts
        if part not in name:
            continue
        seen = tshark(path)
        notes, same = [], 0
        for what in sorted(set(seen) | set(counts)):
            theirs, ours = seen[what], counts[what]
            if theirs == ours:
                same += 1
                continue
            reason = None
            if what == "packets" and theirs == ours + aside["copies"] + aside["damaged"]:
                reason = f"{aside['copies']} copies and {aside['damaged']} damaged packets are left out"
            elif what.endswith("chunks") and special == "twice" and theirs == 2 * ours:
                reason = "each was captured twice"
            elif what.endswith("chunks") and theirs > ours and aside["copies"] + aside["damaged"] > 0:
                reason = "of copies and damaged packets"
            elif special == "cut" and counts["associations"]:
                reason = "tshark takes no chunk that is cut"
            elif what == "associations" and special == "middle" and ours == 1:
                reason = "tshark takes each pair of addresses for an association of its own"
            if reason is None:
                failed += 1
            notes.append(f"{what} {theirs} : {ours} ({reason or 'NOT EXPLAINED'})")
        if special and special.startswith("as ") and counts - Counter(frames=0) != plain[special[3:]]:
            failed += 1
            notes.append("decode counts something else than in the plain capture: NOT EXPLAINED")
        if "checksums left" in name:
            notes.append(f"{aside['checksums_left']} checksums left to the network card")
            failed += aside["checksums_left"] == 0 or aside["damaged"] > 0
        if special == "twice":
            notes.append(f"{aside['captured_twice']} packets captured twice")
            failed += aside["captured_twice"] != counts["packets"]
        units = counts["associations"] + counts["connections"]
        rows.append((name, str(counts["packets"]), str(units), str(counts["user bytes"]), str(same), "; ".join(notes)))
    heads = ("capture", "packets", "conversations", "user bytes", "equal counts", "tshark : decode, where they differ")
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(5)]
    for row in [heads, *rows]:
        cells = [row[0].ljust(widths[0])] + [row[n].rjust(widths[n]) for n in range(1, 5)]
        print("  ".join([*cells, row[5]]).rstrip())
    if failed:
        sys.exit(f"decode: {failed} differences without a reason")
    if not rows:
        sys.exit("decode: no such capture")


main()
