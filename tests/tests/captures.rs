//! Tests captures of our packets with tshark. Every checksum must be valid, and no packet may be malformed. Every
//! expert message of tshark must describe normal operation or an effect of the network, such as loss or reordering.
//!
//! Needs `tshark` (Debian and Ubuntu: `apt-get install tshark`; macOS: `brew install wireshark`). Without it the tests
//! print a message and pass, unless `ANABRANCH_REQUIRE_PEERS` is set.

use anabranch_lab::run::{batch, one};
use anabranch_tests::{check, plan};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The expert messages of tshark that are allowed: the beginning of each message, and the condition under which it is
/// allowed.
type Allowed = &'static [(&'static str, ExpertReason)];

/// The reason why an expert message of tshark is allowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ExpertReason {
    /// Normal operation: connections open and close, requests are made, receive windows change.
    Always,
    /// The network lost packets or marked them, or a path failed.
    Disturbed,
    /// The network duplicated or reordered packets.
    Disordered,
}
use ExpertReason::{Always, Disordered, Disturbed};

/// The allowed messages of the severity "chat", which describe normal events.
const CHATS: Allowed = &[
    ("Connection establish request (SYN)", Always),
    ("Connection establish acknowledge (SYN+ACK)", Always),
    ("Connection finish (FIN)", Always),
    ("TCP window update", Always),
    ("GET /", Always),
    ("HTTP/1.1 200 OK", Always),
];

/// The allowed messages of the severity "note", which describe unusual events.
const NOTES: Allowed = &[
    ("This frame initiates the connection closing", Always),
    ("This frame undergoes the connection closing", Always),
    // RFC 5681 §4.2: with a duplicate ACK, the receiver names the segment for which it still waits.
    ("Duplicate ACK (#", Disturbed),
    // These two messages report retransmissions, needed or spurious.
    ("This frame is a (suspected) retransmission", Disturbed),
    ("This frame is a (suspected) fast retransmission", Disturbed),
    ("This frame is a (suspected) spurious retransmission", Disturbed),
    ("Retransmitted TSN", Disturbed),
    // If a FIN overtakes an ACK, the ACK's sequence number is one less than tshark expects, and tshark takes the ACK
    // for a keep-alive. RFC 9293 §3.10.7.4 requires an ACK in return, for which tshark prints the second of
    // these texts.
    ("TCP keep-alive segment", Disordered),
    ("ACK to a TCP keep-alive segment", Disordered),
];

/// The allowed messages of the severity "warning", which describe effects of the network as TCP's dissector sees them.
const WARNINGS: Allowed = &[
    // A packet was lost before it reached this host's interface, which leaves a gap in the capture.
    ("Previous segment(s) not captured (common at capture start)", Disturbed),
    // The segment was retransmitted, or other segments overtook it.
    ("This frame is a (suspected) out-of-order segment", Disturbed),
    // RFC 2883: the receiver reports a segment that arrived twice. The network duplicated the segment, or the sender
    // retransmitted it needlessly.
    ("D-SACK Sequence", Disturbed),
    // RFC 9293 §3.10.7.1: a late or duplicated ACK arrives after the connection has ended, and is answered by a reset.
    ("Connection reset (RST)", Disordered),
];

/// No message of the severity "error" is allowed.
const ERRORS: Allowed = &[];

/// For each severity: the number that tshark prints (`PI_CHAT`, `PI_NOTE`, `PI_WARN` or `PI_ERROR` in Wireshark's
/// source), the name, and the allowed messages.
const SEVERITIES: [(u64, &str, Allowed); 4] = [
    (0x0020_0000, "chat", CHATS),
    (0x0040_0000, "note", NOTES),
    (0x0060_0000, "warning", WARNINGS),
    (0x0080_0000, "error", ERRORS),
];

/// Returns the command for tshark; `None` if it is not installed.
fn tshark() -> Option<Command> {
    let found = Command::new("tshark").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(Command::new("tshark"));
    }
    let how = "tshark is not installed: captures were not checked (apt-get install tshark)";
    assert!(std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_none(), "{how}");
    eprintln!("{how}");
    None
}

/// tshark's report about one packet.
#[derive(Debug)]
struct Verdict {
    /// tshark's summary line for the packet, which failures of the test show.
    line: String,
    /// Whether the packet is inbound, according to the capture's flags.
    inbound: bool,
    /// The protocol layers, outermost first, as in `raw:ip:udp:sctp`.
    layers: String,
    /// The status of each IP, TCP, UDP or SCTP checksum: 0 is bad, 1 is good, and any other number is unverified.
    checksums: Vec<String>,
    /// Whether a dissector could not read the packet.
    malformed: bool,
    /// The expert messages about the packet, each with its severity.
    experts: Vec<(u64, String)>,
}

/// Reads a capture with tshark, and returns its report about each packet.
fn read(tshark: &mut Command, file: &Path) -> Vec<Verdict> {
    const FIELDS: [&str; 9] = [
        "frame.packet_flags_direction",
        "frame.protocols",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "sctp.checksum.status",
        "_ws.malformed",
        "_ws.expert.severity",
        "_ws.expert.message",
    ];
    tshark.args(["-n", "-r"]).arg(file).args(["-T", "fields", "-E", "aggregator=|"]);
    for preference in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC-32C",
        // With this setting, tshark dissects HTTP in the order of the stream, as the receiver reads it.
        "tcp.reassemble_out_of_order:TRUE",
    ] {
        tshark.args(["-o", preference]);
    }
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark on {}: {stderr}", file.display());
    let several = |text: &str| -> Vec<String> {
        text.split('|').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let verdict = |(number, line): (usize, &str)| {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), FIELDS.len(), "{line}");
        let severities = several(fields[7]).into_iter().map(|text| text.parse().expect("a severity"));
        let messages = several(fields[8]);
        let experts: Vec<(u64, String)> = severities.zip(messages).collect();
        assert_eq!(experts.len(), several(fields[7]).len(), "as many messages as severities: {line}");
        Verdict {
            line: format!("{} frame {}: {line}", file.display(), number + 1),
            inbound: fields[0] == "0x00000001" || fields[0] == "1",
            layers: fields[1].to_owned(),
            checksums: fields[2..6].iter().flat_map(|text| several(text)).collect(),
            malformed: !fields[6].is_empty(),
            experts,
        }
    };
    String::from_utf8_lossy(&output.stdout).lines().enumerate().map(verdict).collect()
}

/// Runs every contestant of `line`, and reads both hosts' captures with tshark.
fn verdicts(name: &str, line: &str) -> Option<Vec<Verdict>> {
    tshark()?;
    let plan = plan(&format!("{line} --runs 1"));
    let contestants: Vec<Option<usize>> =
        if plan.together { vec![None] } else { (0..plan.contestants.len()).map(Some).collect() };
    let mut all = Vec::new();
    for (index, contestant) in contestants.into_iter().enumerate() {
        let (runs, captures) =
            one::capture(&batch::scenario(&plan, 0, contestant, plan.seeds[0])).expect(line);
        for run in &runs {
            check(line, run);
        }
        for captured in captures {
            let file = format!("captures-{name}-{index}-{}-{}.pcapng", captured.contestant, captured.host);
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
            std::fs::write(&file, &captured.pcapng).expect("a temporary file");
            let found = read(&mut tshark()?, &file);
            assert!(found.len() > 10, "{line}: {} packets at {}", found.len(), captured.host);
            all.extend(found);
            std::fs::remove_file(&file).expect("a temporary file");
        }
    }
    Some(all)
}

/// Checks that every checksum is verified and good, and that the packet is not malformed. The expert messages of the
/// dissector must be among those that `most` allows.
fn assert_clean(verdict: &Verdict, most: ExpertReason) {
    let line = &verdict.line;
    let checked =
        verdict.layers.split(':').filter(|layer| ["ip", "tcp", "udp", "sctp"].contains(layer)).count();
    assert!(checked >= 2 && verdict.checksums.len() == checked, "not every checksum was verified: {line}");
    assert!(verdict.checksums.iter().all(|status| status == "1"), "a checksum is not good: {line}");
    assert!(!verdict.malformed, "malformed: {line}");
    for (severity, message) in &verdict.experts {
        let known = SEVERITIES.iter().find(|(number, ..)| number == severity);
        let (_, name, allowed) = known.unwrap_or_else(|| panic!("severity {severity:#x}: {line}"));
        let fits = |(begin, because): &(&str, ExpertReason)| message.starts_with(begin) && *because <= most;
        assert!(allowed.iter().any(fits), "{name} '{message}': {line}");
    }
}

fn tally(verdicts: &[Verdict]) -> BTreeMap<&str, usize> {
    let mut counted = BTreeMap::new();
    for (_, message) in verdicts.iter().flat_map(|verdict| &verdict.experts) {
        *counted.entry(message.split('#').next().unwrap_or_default()).or_default() += 1;
    }
    counted
}

/// Runs the command line `line`, and checks the captured packets with tshark. Allows an expert message of tshark only
/// if its [`ExpertReason`] is `most` or an earlier variant.
fn clean(name: &str, line: &str, most: ExpertReason) {
    let Some(found) = verdicts(name, line) else { return };
    for verdict in &found {
        assert_clean(verdict, most);
    }
    let counted = tally(&found);
    println!("{name}: {} packets, {counted:?}", found.len());
    if most == Always {
        let transports = ["tcp", "sctp", "udp"].map(|name| found.iter().any(|v| v.layers.contains(name)));
        assert_eq!(transports, [true, true, true], "{name}");
    }
}

#[test]
fn tshark_reports_nothing_without_faults() {
    clean(
        "quiet",
        "--page osterdahl-gallery --loss 0 --queue 200p --transport tcp --transport tcp:connections=6 \
         --transport sctp --transport sctp:encap=udp --transport tcp:profile=reno-2002 \
         --transport sctp:profile=lksctp-2.6",
        Always,
    );
}

#[test]
fn loss_makes_gaps_and_retransmissions_and_nothing_else() {
    clean(
        "loss",
        "--page gallery --loss 4% --transport tcp --transport tcp:connections=6 --transport sctp",
        Disturbed,
    );
    clean(
        "burst",
        "--objects 6x40kB --loss ge:2%/25% --transport tcp:profile=reno-2002,per-object=yes",
        Disturbed,
    );
}

#[test]
fn encapsulation_in_udp_is_understood() {
    clean("udp", "--page gallery --loss 3% --duplicate 1% --transport sctp:encap=udp", Disordered);
}

#[test]
fn reordering_and_duplication_are_told_apart_from_errors() {
    clean(
        "disorder",
        "--page gallery --loss 1% --reorder 3%/10ms --duplicate 2% --jitter 3ms --transport tcp --transport sctp",
        Disordered,
    );
}

#[test]
fn two_paths_one_of_them_failing_are_understood() {
    let contestant = "sctp:path_max_retrans=1,hb_interval=1s";
    clean(
        "paths",
        &format!(
            "--path rate=10mbit,rtt=40ms --path rate=5mbit,rtt=80ms,loss=1% --fail path=1,at=400ms,for=4s \
             --bulk 2MB --transport {contestant} --transport {contestant},encap=udp"
        ),
        Disturbed,
    );
}

#[test]
fn marks_of_congestion_leave_checksums_right() {
    clean(
        "marks",
        "--queue 100p --ecn 5p --objects 4x60kB --transport tcp:ecn=yes --transport sctp:ecn=yes",
        Disturbed,
    );
}

#[test]
fn contestants_and_background_traffic_in_one_queue_are_understood() {
    clean(
        "together",
        "--shared-link --background tcp:flows=1 --queue 20p --objects 4x50kB --transport tcp,sctp",
        Disturbed,
    );
}

/// In a race over a network that damages packets, some packets have a wrong checksum in the capture of the host that
/// receives them. No packet has a wrong checksum in the capture of its sender.
#[test]
fn only_damaged_packets_have_bad_checksums() {
    let line = "--page gallery --corrupt 3% --transport tcp,sctp";
    let Some(found) = verdicts("damage", line) else { return };
    let bad = |verdict: &&Verdict| verdict.checksums.iter().any(|status| status == "0") || verdict.malformed;
    let damaged: Vec<&Verdict> = found.iter().filter(bad).collect();
    assert!(damaged.len() > 10, "{} damaged packets", damaged.len());
    assert!(damaged.iter().all(|verdict| verdict.inbound), "a packet was sent damaged");
    assert!(found.iter().filter(|verdict| !verdict.inbound).count() > 100, "directions are noted");
}
