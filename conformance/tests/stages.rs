//! Tests stages, which give the peer of a script further addresses, and mistakes in the table of stages.

use crate::mutate::mutate;
use anabranch_conformance::{Outcome, Stage, Stages, check_on};

/// A script whose peer has two addresses. Each address has its own RTO and error counter, and the eleventh timeout ends
/// the association (RFC 9260 §6.3.3 E2, §6.4.1, §8.1).
const TURNS: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, {srto_initial=100, srto_max=800, srto_min=100}, 16) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, {spp_flags=SPP_HB_DISABLE}, 152) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > sctp: INIT[flgs=0, tag=11, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0 < sctp: INIT_ACK[flgs=0, tag=22, a_rwnd=8000, os=5, is=5, tsn=1, STATE_COOKIE[len=4, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...]
+0 < sctp: COOKIE_ACK[flgs=0]
+0 write(3, ..., 500) = 500
+0 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.1 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.1 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.2 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.2 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.4 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.4 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.8 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.8 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.8 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.8 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.7 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
+0.1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0
";

fn stage(towards: &[u8]) -> Stage {
    let (script, reason) = ("turns".to_owned(), "a test".to_owned());
    Stage { script, peer_addresses: 2, destinations: towards.to_vec(), reason }
}

#[track_caller]
fn passes(stage: &Stage, text: &str) {
    let outcome = check_on(stage, "script", text);
    assert!(outcome.is_pass(), "{outcome}\n{}", outcome.log().join("\n"));
}

#[track_caller]
fn fails(stage: &Stage, text: &str, line: usize, why: &str, expects: &str, sees: &str) {
    let outcome = check_on(stage, "script", text);
    let Outcome::Fail { location, reason, expected, observed, .. } = &outcome else { panic!("{outcome}") };
    assert_eq!(location, &format!("script:{line}"), "{outcome}");
    assert!(reason.contains(why) && expected.contains(expects) && observed.contains(sees), "{outcome}");
}

#[test]
fn retransmissions_take_turns_between_two_addresses() {
    let turns = stage(&[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]);
    passes(&turns, TURNS);
    passes(&stage(&[]), TURNS);
    // With only one address, the RTO doubles at each retransmission, so the script fails.
    fails(&Stage::default(), TURNS, 14, "no packet was sent", "DATA[", "nothing up to");
    // Each of these mistakes makes the script fail: a wrong time, a wrong field, and an additional packet.
    let (head, tail) = TURNS.split_at(TURNS.find("+0.4").expect("a line"));
    let later = format!("{head}{}", tail.replacen("+0.4", "+0.5", 1));
    fails(&turns, &later, 17, "expected at 1.100000", "DATA[", "at 1.000000");
    let other = format!("{head}{}", tail.replacen("ssn=0", "ssn=1", 1));
    fails(&turns, &other, 17, "ssn=1 is expected, 0 seen", "ssn=1", "ssn=0");
    let more = format!("{TURNS}+0.1 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]\n");
    fails(&turns, &more, 25, "DATA is expected, ABORT seen", "DATA[", "ABORT[");
}

#[test]
fn data_to_an_unlisted_address_is_reported() {
    let wrong = stage(&[1, 2, 1, 1, 1, 2, 1, 2, 1, 2, 1]);
    fails(&wrong, TURNS, 15, "packet 4 with DATA", "towards 1 (192.0.2.1)", "towards 2 (192.0.2.2)");
    let short = stage(&[1, 2, 1]);
    fails(&short, TURNS, 15, "no turn", "3 packets with DATA, towards [1, 2, 1]", "towards 2 (192.0.2.2)");
    let long = stage(&[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    fails(&long, TURNS, 24, "before the turns", "12 packets with DATA", "11 packets with DATA");
}

/// A listening socket must learn the peer's addresses from the INIT, with IPv4 and with IPv6.
#[test]
fn a_peer_that_asks_has_further_addresses_too() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=22, a_rwnd=8000, os=5, is=5, tsn=1]
+0 > sctp: INIT_ACK[flgs=0, tag=11, a_rwnd=..., os=5, is=..., tsn=1, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 500) = 500
+0 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+1 > sctp: DATA[flgs=BE, len=516, tsn=1, sid=0, ssn=0, ppid=0]
+0.1 < sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=8000, gaps=[], dups=[]]
";
    let stage = Stage { peer_addresses: 3, ..stage(&[1, 2]) };
    passes(&stage, text);
    passes(&stage, &format!("--ip_version=ipv6\n{text}"));
    // If the script itself lists addresses in the INIT, the peer has only those addresses.
    let lists = text
        .replace("tsn=1]\n+0 > sctp: INIT_ACK", "tsn=1, IPV4_ADDRESS[addr=10.9.8.7]]\n+0 > sctp: INIT_ACK");
    fails(&stage, &lists, 12, "packet 2 with DATA", "towards 2 (192.0.2.2)", "towards 1 (192.0.2.1)");
    // A script on a stage must not name addresses.
    let names = text.replace("+1 > sctp", "+1 > 192.168.0.1 > 10.9.8.7 sctp");
    let outcome = check_on(&stage, "script", &names);
    assert!(matches!(&outcome, Outcome::Error { location, .. } if location == "script:12"), "{outcome}");
}

const TABLE: &str = "# Stages.
[[stage]]
script = \"turns\"
peer_addresses = 2
towards = [1, 2]
reason = \"a test\"
";

#[test]
fn the_list_is_read() {
    assert_eq!(Stages::read(TABLE).expect("a table").of("turns"), &stage(&[1, 2]));
    assert_eq!(Stages::read("").expect("an empty table").of("turns"), &Stage::default());
    let known = Stages::known();
    assert_eq!(known.listed("sctp-rt-i-11-3").map(|stage| stage.peer_addresses), Some(2));
    assert_eq!(known.listed("sctp-rt-i-11-2"), None);
}

#[test]
fn a_mistake_in_the_list_is_one_line_with_its_place() {
    let twice = format!("{TABLE}{}", TABLE.replace("= 2\n", "= 3\n"));
    for (text, line, words) in [
        (TABLE.replace("peer_addresses = 2", "peer_addresses = 1"), 4, "it may be 2 to 8"),
        (TABLE.replace("peer_addresses = 2", "peer_addresses = -3"), 4, "it may be 2 to 8"),
        (TABLE.replace("peer_addresses = 2", "peer_addresses = 9"), 4, "it may be 2 to 8"),
        (TABLE.replace("peer_addresses = 2", "peer_addresses = \"two\""), 4, "expected i64"),
        (TABLE.replace("peer_addresses = 2\n", ""), 2, "missing field `peer_addresses`"),
        (TABLE.replace("[1, 2]", "[1,\n 3]"), 6, "numbered 1 to 2"),
        (TABLE.replace("[1, 2]", "[0]"), 5, "numbered 1 to 2"),
        (TABLE.replace("[1, 2]", "\"back and forth\""), 5, "expected a sequence"),
        (
            TABLE.replace("towards", "turns"),
            5,
            "expected one of `script`, `peer_addresses`, `towards`, `reason`",
        ),
        (TABLE.replace("\"turns\"", "\" \""), 3, "without .pkt"),
        (TABLE.replace("\"turns\"", "\"turns.pkt\""), 3, "without .pkt"),
        (TABLE.replace("\"a test\"", "\"\""), 6, "why the script needs the stage"),
        (TABLE.replace("\"a test\"", "\"a test"), 6, ""),
        (TABLE.replace("[[stage]]", "[stage"), 2, ""),
        (twice, 9, "has a stage already"),
    ] {
        let why = Stages::read(&text).expect_err(&text);
        let (location, what) = why.split_once(": ").expect("a place");
        assert_eq!(location, line.to_string(), "{why}\n{text}");
        assert!(what.contains(words) && !what.is_empty() && !what.contains('\n'), "{why}");
    }
}

/// Random mistakes are made in a table. It must be read, or be refused with one line that has a line number.
#[test]
fn malformed_tables_never_panic() {
    let mut rng = anabranch_base::Rng::new(11);
    for _ in 0..3_000 {
        let text = mutate(TABLE, "0123456789-+.e_[]{}\"'=,# \n\u{e9}\u{0}stage", &mut rng);
        match Stages::read(&text) {
            Ok(stages) => drop(check_on(stages.of("turns"), "script", &TURNS[..900])),
            Err(why) => {
                let location = why.split(':').next().and_then(|line| line.parse::<usize>().ok());
                assert!(location.is_some_and(|line| line > 0) && !why.contains('\n'), "{why}");
            }
        }
    }
}
