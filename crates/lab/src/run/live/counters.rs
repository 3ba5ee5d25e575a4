//! The kernel's counters of TCP and SCTP, in the network namespace of the calling thread.
//!
//! Each run has its own namespace, so the counters are those of the run.

use std::fs;

/// The counters of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Expired retransmission timers.
    pub timeouts: u64,
    /// Segments sent by fast retransmit.
    pub fast: u64,
    /// Timeouts that turned out to be spurious.
    pub spurious: u64,
    /// Multipath TCP connections that fell back to plain TCP, or `None` if the kernel does not count them.
    pub fallbacks: Option<u64>,
}

impl Counters {
    /// Reads the current values.
    pub fn read() -> Self {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
        let more = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        // The SCTP counters exist only if the kernel has SCTP. A run uses either TCP or SCTP.
        let sctp = fs::read_to_string("/proc/thread-self/net/sctp/snmp").unwrap_or_default();
        let late = ["SctpT1InitExpireds", "SctpT1CookieExpireds", "SctpT3RtxExpireds"];
        let retransmitted = ["SctpT3Retransmits", "SctpFastRetransmits"];
        let sum = |names: &[&str]| names.iter().map(|name| line(&sctp, name)).sum::<u64>();
        Self {
            retransmitted: field(&snmp, "Tcp:", "RetransSegs") + sum(&retransmitted),
            timeouts: field(&more, "TcpExt:", "TCPTimeouts") + sum(&late),
            fast: field(&more, "TcpExt:", "TCPFastRetrans") + sum(&retransmitted[1..]),
            spurious: field(&more, "TcpExt:", "TCPSpuriousRTOs"),
            fallbacks: more
                .contains("MPTcpExt:")
                .then(|| FALLBACKS.iter().map(|name| field(&more, "MPTcpExt:", name)).sum()),
        }
    }
}

/// Returns whether the namespace of the calling thread has an open kernel connection. TIME-WAIT does not count as open.
pub fn any_connection() -> bool {
    let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    ["tcp", "tcp6"].iter().any(|name| is_alive(&table(name))) || table("sctp/assocs").lines().count() > 1
}

/// Returns whether a table of the kernel's TCP sockets has an open connection.
fn is_alive(table: &str) -> bool {
    let states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    let over = [TIME_WAIT, CLOSE, LISTEN];
    states.filter(|state| !over.contains(state)).count() > 0
}

/// Linux, include/net/tcp_states.h: the states in which no packet is expected.
const TIME_WAIT: &str = "06";
const CLOSE: &str = "07";
const LISTEN: &str = "0A";

/// The counters of fallbacks from Multipath TCP to plain TCP (RFC 8684 §3.7). Each is counted by the end that detects
/// it, and newer kernels have more of them.
const FALLBACKS: [&str; 12] = [
    "MPCapableFallbackACK",
    "MPCapableFallbackSYNACK",
    "MPCapableSYNTXDrop",
    "MPCapableSYNTXDisabled",
    "MPCapableDataFallback",
    "MPFallbackTokenInit",
    "DSSCorruptionFallback",
    "DssFallback",
    "MD5SigFallback",
    "SimultConnectFallback",
    "InfiniteMapTx",
    "InfiniteMapRx",
];

/// Returns the number that follows `name` on a line of its own.
fn line(text: &str, name: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Returns a number from a table that has a line of names before a line of numbers. Both lines begin with the table's
/// name.
fn field(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(table));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_whitespace().position(|known| known == name);
    at.and_then(|at| numbers.split_whitespace().nth(at)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_behind_its_name() {
        let text = "SctpT3Retransmits               \t12\nSctpFastRetransmits             \t3\n";
        let found =
            ["SctpT3Retransmits", "SctpFastRetransmits", "SctpT3RtxExpireds"].map(|name| line(text, name));
        assert_eq!(found, [12, 3, 0]);
    }

    #[test]
    fn what_waits_for_stray_packets_only_is_over() {
        let table = |states: &[&str]| {
            let line =
                |state: &&str| format!("   0: 0100007F:1F40 00000000:0000 {state} 00000000:00000000 00\n");
            "  sl  local_address rem_address   st tx_queue rx_queue\n".to_owned()
                + &states.iter().map(line).collect::<String>()
        };
        assert!(!is_alive("") && !is_alive(&table(&["0A", "06"])));
        for state in ["01", "04", "05", "09"] {
            assert!(is_alive(&table(&["0A", state, "06"])), "{state}");
        }
    }

    #[test]
    fn a_number_is_found_under_its_name() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: MaxConn RetransSegs InErrs\nTcp: -1 17 2\n";
        assert_eq!((field(text, "Tcp:", "RetransSegs"), field(text, "Tcp:", "InErrs")), (17, 2));
        assert_eq!(
            (field(text, "Tcp:", "Other"), field(text, "Udp:", "InErrs"), field("", "Tcp:", "x")),
            (0, 0, 0)
        );
    }
}
