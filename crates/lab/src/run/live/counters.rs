//! Reads the kernel's counters of TCP and SCTP in the network namespace of the calling thread.
//!
//! Each run has a namespace of its own, so the counters count the events of that run only.

use std::fs;

/// The counters of one host's kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The number of retransmitted segments or chunks.
    pub retransmitted: u64,
    /// The number of times that a retransmission timer expired.
    pub timeouts: u64,
    /// The number of segments or chunks sent by fast retransmit.
    pub fast: u64,
    /// The number of timeouts that turned out to be spurious.
    pub spurious: u64,
    /// The number of Multipath TCP connections that fell back to plain TCP, or `None` if the kernel does not count
    /// them.
    pub fallbacks: Option<u64>,
}

impl Counters {
    /// Reads the current values of the counters.
    pub fn read() -> Self {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
        let more = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        // The file exists only if the kernel supports SCTP. A run uses either TCP or SCTP, so the counters of the other
        // protocol are zero, and the counters of both can be added.
        let sctp = fs::read_to_string("/proc/thread-self/net/sctp/snmp").unwrap_or_default();
        let timer_expirations = ["SctpT1InitExpireds", "SctpT1CookieExpireds", "SctpT3RtxExpireds"];
        let retransmitted = ["SctpT3Retransmits", "SctpFastRetransmits"];
        let sum = |names: &[&str]| names.iter().map(|name| line(&sctp, name)).sum::<u64>();
        Self {
            retransmitted: field(&snmp, "Tcp:", "RetransSegs") + sum(&retransmitted),
            timeouts: field(&more, "TcpExt:", "TCPTimeouts") + sum(&timer_expirations),
            fast: field(&more, "TcpExt:", "TCPFastRetrans") + sum(&retransmitted[1..]),
            spurious: field(&more, "TcpExt:", "TCPSpuriousRTOs"),
            fallbacks: more
                .contains("MPTcpExt:")
                .then(|| FALLBACKS.iter().map(|name| field(&more, "MPTcpExt:", name)).sum()),
        }
    }
}

/// Returns whether the kernel has an open TCP or SCTP connection in the namespace of the calling thread. Connections in
/// TIME-WAIT do not count as open.
pub fn any_connection() -> bool {
    let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    ["tcp", "tcp6"].iter().any(|name| is_alive(&table(name))) || table("sctp/assocs").lines().count() > 1
}

/// Returns whether a table of the kernel's TCP sockets (`/proc/net/tcp`) has an open connection.
fn is_alive(table: &str) -> bool {
    let states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    let over = [TIME_WAIT, CLOSE, LISTEN];
    states.filter(|state| !over.contains(state)).count() > 0
}

/// Linux, include/net/tcp_states.h: the states in which a connection sends and receives no packets.
const TIME_WAIT: &str = "06";
const CLOSE: &str = "07";
const LISTEN: &str = "0A";

/// The kernel counters of fallbacks from Multipath TCP to plain TCP (RFC 8684 §3.7). The host that detects a fallback
/// counts it. Older kernels lack some of these counters.
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

/// Returns the number that follows `name` on a line of a kernel file such as `/proc/net/sctp/snmp`, or 0 if there is no
/// such line.
fn line(text: &str, name: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Returns the number `name` from a table with a line of names and a line of numbers. Both lines begin with the name of
/// the table. Returns 0 if the number is missing.
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
    fn a_counter_is_read_by_its_name() {
        let text = "SctpT3Retransmits               \t12\nSctpFastRetransmits             \t3\n";
        let found =
            ["SctpT3Retransmits", "SctpFastRetransmits", "SctpT3RtxExpireds"].map(|name| line(text, name));
        assert_eq!(found, [12, 3, 0]);
    }

    #[test]
    fn sockets_in_time_wait_are_not_alive() {
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
