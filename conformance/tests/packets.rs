//! Tests how scripts describe packets: ICMP messages, IP fields, unordered lists and raw bytes.

use anabranch_conformance::{Outcome, check};

/// Script lines that establish an association on descriptor 3.
const UP: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3 +0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=9000, os=5, is=5, tsn=1, STATE_COOKIE[len=4, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...]
+0 < sctp: COOKIE_ACK[flgs=0]
";

#[track_caller]
fn passes(text: &str) {
    let outcome = check("script", text);
    assert!(outcome.is_pass(), "{outcome}\n{}", outcome.log().join("\n"));
}

#[track_caller]
fn fails(text: &str, line: usize, words: &str) {
    let outcome = check("script", text);
    let text = outcome.to_string();
    assert!(matches!(outcome, Outcome::Fail { .. }), "{text}");
    assert!(text.starts_with(&format!("script:{line}:")) && text.contains(words), "{text}");
}

#[track_caller]
fn misunderstood(text: &str, line: usize, words: &str) {
    let outcome = check("script", text);
    let Outcome::Error { location, message } = &outcome else { panic!("{outcome}") };
    assert!(*location == format!("script:{line}") && message.contains(words), "{outcome}");
}

/// RFC 9260 §7.3: an ICMP message that a packet is too big must lower the path MTU. The script language has two forms
/// of that message.
#[test]
fn icmp_packet_too_big_lowers_the_path_mtu() {
    let text = format!(
        "{UP}+0 < icmp unreachable frag_needed mtu 1400 [sctp(2)]
+0 write(3, ..., 2000) = 2000
+0 > sctp: DATA[flgs=B, len=1368, tsn=1, sid=0, ssn=0, ppid=0]
+0 > sctp: DATA[flgs=E, len=664, tsn=2, sid=0, ssn=0, ppid=0]
"
    );
    passes(&text);
    passes(&text.replace(
        "< icmp unreachable frag_needed mtu 1400 [sctp(2)]",
        "< [sctp(2)] icmp unreachable frag_needed mtu 1400",
    ));
    // RFC 9260 §10: an ICMP message that quotes a packet with another verification tag is ignored.
    fails(&text.replace("[sctp(2)]", "[sctp(3)]"), 10, "len=1368 is expected, 1468 seen");
    fails(&text.replace("mtu 1400", "mtu 1440"), 10, "len=1368 is expected, 1408 seen");
    misunderstood(&text.replace(" [sctp(2)]", ""), 8, "is to be named");
    misunderstood(&text.replace("frag_needed", "frag_wanted"), 8, "frag_wanted");
    misunderstood(&text.replace("icmp unreachable frag_needed", "icmp packet_too_big"), 8, "packet_too_big");
    misunderstood(&text.replace("< icmp", "> icmp"), 8, "sends no ICMP");
    misunderstood(&text.replace("frag_needed", "host_unreachable"), 8, "tells no MTU");
    let v6 = format!("--ip_version=ipv6\n{text}").replace("unreachable frag_needed", "packet_too_big");
    passes(&v6.replace("1368", "1348").replace("664", "684"));
    misunderstood(&v6.replace("packet_too_big", "unreachable frag_needed"), 9, "frag_needed");
}

/// RFC 9260 §10: an ICMP message that the peer's host has no SCTP must end the association. Other ICMP messages must be
/// ignored.
#[test]
fn icmp_protocol_unreachable_ends_the_association() {
    let text = format!(
        "{UP}+0 write(3, ..., 10) = 10
+0 > sctp: DATA[flgs=BE, len=26, tsn=1, sid=0, ssn=0, ppid=0]
+0 < icmp KIND [sctp(2)]
+0 < sctp: HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=8, val=[9, 8, 7, 6]]]
"
    );
    let gone = format!("{text}+0 > sctp: ABORT[flgs=T]\n");
    let alive =
        format!("{text}+0 > sctp: HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=8, val=[9, 8, 7, 6]]]\n");
    passes(&gone.replace("KIND", "unreachable protocol_unreachable"));
    for harmless in
        ["unreachable host_unreachable", "unreachable net_unreachable", "time_exceeded", "source_quench"]
    {
        passes(&alive.replace("KIND", harmless));
    }
    let gone = format!("--ip_version=ipv6\n{gone}");
    passes(&gone.replace("KIND", "parameter_problem unknown_next_header"));
    passes(&format!("--ip_version=ipv6\n{}", alive.replace("KIND", "parameter_problem header_field")));
}

/// RFC 9260 §3.3.2.1, RFC 5061 §4.2.7: the order of a list of types must not matter. A script may write types as names
/// or as numbers.
#[test]
fn lists_of_types_have_no_order() {
    let text = "`sysctl -w net.inet.sctp.pr_enable=1` 0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 setsockopt(3, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, [2], 4) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, {assoc_value=1}, 8) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=9000, os=5, is=5, tsn=1, FORWARD_TSN_SUPPORTED[], SUPPORTED_EXTENSIONS[types=[I_DATA, FORWARD_TSN, I_FORWARD_TSN]]]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=5, is=..., tsn=1, SUPPORTED_EXTENSIONS[types=[LIST]], FORWARD_TSN_SUPPORTED[], STATE_COOKIE[...]]
";
    for list in
        ["FORWARD_TSN, I_DATA, I_FORWARD_TSN", "I_FORWARD_TSN, FORWARD_TSN, I_DATA", "64, 0xc2, FORWARD_TSN"]
    {
        passes(&text.replace("LIST", list));
    }
    for list in
        ["FORWARD_TSN, I_DATA", "FORWARD_TSN, I_DATA, I_FORWARD_TSN, PAD", "FORWARD_TSN, I_DATA, I_DATA", ""]
    {
        fails(&text.replace("LIST", list), 7, "types=");
    }
    misunderstood(&text.replace("STATE_COOKIE", "STATE_COOKY"), 7, "no parameter STATE_COOKY");
}

/// Fields, chunks and parameters that do not exist must be reported, even if the script gives them the value `...`.
#[test]
fn unknown_fields_are_told() {
    for (packet, words) in [
        ("< sctp: DATA[flgs=BE, len=20, tsn=1, sid=0, ssn=0, ppid=0, xyz=1]", "DATA has no field xyz"),
        ("> sctp: DATA[flgs=BE, len=20, tsn=1, sid=0, sssn=..., ppid=0]", "DATA has no field sssn"),
        ("> sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gap=[], dups=[]]", "SACK has no field gap"),
        ("> sctp: DATA[flgs=BEX, len=20, tsn=1, sid=0, ssn=0, ppid=0]", "flgs=BEX"),
        ("> sctp: DATA[flgs=BE, flgs=BE, tsn=1, sid=0, ssn=0, ppid=0]", "tells flgs twice"),
        ("> sctp: GREETING[flgs=0]", "no chunk GREETING"),
        ("< sctp: SHUTDOWN_ACK[flgs=0, IPV4_ADDRESS[addr=1.2.3.4]]", "SHUTDOWN_ACK holds no IPV4_ADDRESS"),
        ("> sctp: ABORT[flgs=0, STATE_COOKIE[...]]", "no cause STATE_COOKIE"),
        ("> (tos 0x2, colour 3) sctp: SACK[flgs=0, ...]", "'colour' means nothing"),
        ("> [sctp(2)] sctp: SACK[flgs=0, ...]", "'icmp' is expected"),
        ("< sctp(crc=3): SHUTDOWN_ACK[flgs=0]", "'crc' means nothing"),
    ] {
        let outcome = check("script", &format!("{UP}+0 {packet}\n"));
        let Outcome::Error { location, message } = &outcome else { panic!("{outcome}") };
        assert!(location == "script:8" && message.contains(words), "{outcome}");
    }
}

/// A script chooses the IP fields of the packets that it injects, and compares those of the packets that are sent.
#[test]
fn ip_fields_are_compared() {
    let text = format!(
        "{UP}+0 < [ect0] sctp: DATA[flgs=BE, len=20, tsn=1, sid=0, ssn=0, ppid=0]
+0 > (ttl 64, tos 0x0) sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[], dups=[]]
+0 < (ttl 3, dscp ef, ecn noecn) 8080 > 8080 sctp: HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=8, val=[9, 8, 7, 6]]]
+0 > [noecn] 8080 > 8080 sctp: HEARTBEAT_ACK[flgs=0, ...]
"
    );
    passes(&text);
    fails(&text.replace("ttl 64", "ttl 63"), 9, "ttl 63 is expected, 64 seen");
    fails(&text.replace("tos 0x0", "tos 0xb8"), 9, "dscp 46 is expected, 0 seen");
    fails(&text.replace("tos 0x0", "tos 0x2"), 9, "ECN mark");
    fails(&text.replace("> [noecn]", "> [ect01]"), 11, "ECN mark");
    fails(
        &text.replace("> [noecn] 8080 > 8080", "> [noecn] 8080 > 8081"),
        11,
        "ports 8080 > 8081 are expected",
    );
    let other_port = text.replace("8080 > 8080 sctp: HEARTBEAT[", "8081 > 8080 sctp: HEARTBEAT[");
    // RFC 9260 §8.4: a packet from another port belongs to no association, so it is answered with an ABORT.
    fails(&other_port, 11, "HEARTBEAT_ACK is expected, ABORT seen");
    misunderstood(&text.replace("< [ect0]", "< [ect01]"), 8, "no mark of one packet");
}

/// A script can inject a packet of raw bytes, which must be processed like any other packet. A packet with a wrong
/// checksum must be dropped.
#[test]
fn raw_bytes_are_injected() {
    let init = "0x01, 0x00, 0x00, 0x14, 0, 0, 0, 9, 0, 0, 0x23, 0x28, 0, 5, 0, 5, 0, 0, 0, 1";
    let text = format!(
        "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp(bad_crc32c): [{init}]
+0 < sctp(tag=5): [{init}]
+0 > sctp: ABORT[flgs=T]
+0.1 < sctp: [{init}]
+0 > sctp(tag=9): INIT_ACK[flgs=0, tag=..., a_rwnd=..., os=5, is=..., tsn=..., ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp(tag=9): [0x0b, 0, 0, 4]
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 4) = 4
+0 > sctp: DATA[flgs=BE, len=20, tsn=..., sid=0, ssn=0, ppid=0]
"
    );
    let text = text.replace("+0 < sctp(tag=5): ", "// ").replace("+0 > sctp: ABORT[flgs=T]", "");
    passes(&text);
    fails(&text.replace("sctp(bad_crc32c)", "sctp"), 8, "expected at");
    fails(&text.replace("[0x0b, 0, 0, 4]", "[0x0b, 1, 0, 4]"), 10, "other bytes");
    fails(
        &text.replace("> sctp(tag=9): INIT_ACK", "> sctp(tag=8): INIT_ACK"),
        8,
        "tag=8 is expected, 9 seen",
    );
}

/// RFC 9260 §3.3.10.6: an ERROR must return the unrecognized chunk. The script compares the returned chunk with the
/// chunk that it has sent. Both have the TSNs of the script.
#[test]
fn a_reported_chunk_is_as_the_script_has_sent_it() {
    let text = "0 `sysctl -w net.inet.sctp.pr_enable=0`\n".to_owned()
        + UP
        + "+0 < sctp: FORWARD_TSN[cum_tsn=5, ids=[{1, 0}]]
+0 > sctp: ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=FORWARD_TSN[cum_tsn=5, ids=[{1, 0}]]]]
";
    passes(&text);
    fails(&text.replace("chk=FORWARD_TSN[cum_tsn=5", "chk=FORWARD_TSN[cum_tsn=6"), 10, "chk=");
}

/// RFC 8899 §6.2.1.1, RFC 9260 §3.3.5: the comparison of a path MTU probe uses its total size. The PAD length in the
/// script therefore need not fit the engine's Heartbeat Information.
#[test]
fn a_probe_is_compared_by_its_size() {
    let text = "`sysctl -w net.inet.sctp.plpmtud_enable=1` ".to_owned()
        + UP
        + "+0 > sctp: HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=..., val=...]]; PAD[flgs=0, len=1120, val=...]
+0.1 < sctp: HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=..., val=...]]
";
    passes(&text);
    fails(&text.replace("len=1120", "len=1124"), 8, "PAD: len=");
    fails(&text.replace("INFORMATION[len=...", "INFORMATION[len=44"), 8, "len=44 is expected");
    fails(&text.replace("plpmtud_enable=1", "plpmtud_enable=0"), 8, "no packet was sent");
}

/// RFC 3758 §3.2: a FORWARD TSN lists skipped streams in any order, and the script may repeat a stream. RFC 9260
/// §3.3.1: the SSN of an unordered message has no meaning.
#[test]
fn skipped_streams_have_no_order_and_unordered_messages_no_number() {
    let text = "`sysctl -w net.inet.sctp.pr_enable=1` ".to_owned()
        + &UP
            .replace("STATE_COOKIE[len=4, val=...]", "STATE_COOKIE[len=4, val=...], FORWARD_TSN_SUPPORTED[]")
        + "+0 setsockopt(3, IPPROTO_SCTP, SCTP_NODELAY, [1], 4) = 0
+0 sctp_sendmsg(3, ..., 10, ..., ..., htonl(1), SCTP_PR_SCTP_RTX, 1, 0, 0) = 10
+0 > sctp: DATA[flgs=BE, len=26, tsn=1, sid=1, ssn=0, ppid=1]
+0 sctp_sendmsg(3, ..., 10, ..., ..., htonl(1), SCTP_PR_SCTP_RTX, 2, 0, 0) = 10
+0 > sctp: DATA[flgs=BE, len=26, tsn=2, sid=2, ssn=0, ppid=1]
+0 sctp_sendmsg(3, ..., 10, ..., ..., htonl(1), SCTP_UNORDERED, 3, 0, 0) = 10
+0 > sctp: DATA[flgs=UBE, len=26, tsn=3, sid=3, ssn=99, ppid=1]
+0 < sctp: SACK[flgs=0, cum_tsn=0, a_rwnd=9000, gaps=[3:3], dups=[]]
* > sctp: FORWARD_TSN[cum_tsn=2, ids=[{1, 0}, {2, 0}]]
";
    passes(&text);
    fails(&text.replace("flgs=UBE, len=26, tsn=3", "flgs=BE, len=26, tsn=3"), 14, "flgs=BE");
    passes(&text.replace("{1, 0}, {2, 0}", "{2, 0}, {1, 0}"));
    passes(&text.replace("{1, 0}, {2, 0}", "{2, 0}, {1, 0}, {2, 0}"));
    fails(&text.replace("{1, 0}, {2, 0}", "{2, 0}"), 16, "ids=");
    fails(&text.replace("{1, 0}, {2, 0}", "{2, 0}, {1, 0}, {3, 0}"), 16, "ids=");
}
