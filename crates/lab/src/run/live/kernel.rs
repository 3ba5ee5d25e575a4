//! The name of the running kernel, and the settings of its TCP, MPTCP and SCTP in a new network namespace.
//!
//! A new namespace starts with the kernel's own defaults, no matter how the machine is configured. Settings are read
//! from the kernel if it has a sysctl for them. All other settings are compile-time constants of Linux.

use anabranch_base::time::Duration;
use anabranch_base::units::format_duration;
use anabranch_world::kernel::KernelProtocol;
use std::fs;

/// Returns the name and release of the kernel.
pub fn name() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// Returns those settings of a kernel protocol that the table of results shows. The values are those of the network
/// namespace of the calling thread.
pub fn settings(protocol: KernelProtocol) -> Vec<(&'static str, String)> {
    match protocol {
        // Each subflow of an MPTCP connection is a TCP connection, so the settings of TCP apply.
        KernelProtocol::Tcp | KernelProtocol::Mptcp => {
            tcp(read("ipv4/tcp_rto_min_us"), read("ipv4/tcp_delack_max_us"))
        }
        KernelProtocol::Sctp => sctp(read("sctp/rto_min"), read("sctp/sack_timeout")),
    }
}

/// Reads a number from the sysctl file `name` below `/proc/sys/net`.
fn read(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok()
}

/// Returns the settings of Linux TCP. The arguments are the values of sysctls in microseconds, or `None` if the kernel
/// does not have the sysctl.
fn tcp(rto_min: Option<u64>, delack_max: Option<u64>) -> Vec<(&'static str, String)> {
    let rto_min = rto_min.map_or(RTO_MIN, Duration::from_micros);
    let delack_max = delack_max.map_or(DELACK_MAX, Duration::from_micros);
    let delack = format!("{}-{}", format_duration(DELACK_MIN), format_duration(delack_max.max(DELACK_MIN)));
    vec![("iw", INIT_CWND.to_string()), ("rto_min", format_duration(rto_min)), ("delack", delack)]
}

/// Returns the settings of Linux SCTP. The arguments are the values of sysctls in milliseconds.
fn sctp(rto_min: Option<u64>, sack_timeout: Option<u64>) -> Vec<(&'static str, String)> {
    let span = |key, ms: Option<u64>| ms.map(|ms| (key, format_duration(Duration::from_millis(ms))));
    // Linux, net/sctp/transport.c: the initial window is min(4 pmtu, max(2 pmtu, 4380)), as in RFC 4960 §7.2.1.
    let mut settings = vec![("iw", "rfc4960".to_owned())];
    settings.extend(span("rto_min", rto_min));
    settings.extend(span("delack", sack_timeout));
    settings
}

/// Linux, include/net/tcp.h: TCP_INIT_CWND, in segments. The routes in the namespaces do not set another value.
const INIT_CWND: u32 = 10;
/// Linux, include/net/tcp.h: TCP_RTO_MIN, which is HZ / 5. It is a sysctl since Linux 6.11.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Linux, include/net/tcp.h: TCP_DELACK_MIN, which is HZ / 25. It is the minimum delay of a delayed acknowledgement.
/// The actual delay depends on how often the connection receives data.
const DELACK_MIN: Duration = Duration::from_millis(40);
/// Linux: the maximum delay of a delayed acknowledgement, TCP_DELACK_MAX, which is HZ / 5.
const DELACK_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(settings: &[(&'static str, String)]) -> Vec<String> {
        settings.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn unknown_kernel_settings_are_its_compiled_defaults() {
        assert_eq!(texts(&tcp(None, None)), ["iw=10", "rto_min=200ms", "delack=40ms-200ms"]);
        assert_eq!(texts(&tcp(Some(5_000), Some(100_000))), ["iw=10", "rto_min=5ms", "delack=40ms-100ms"]);
        assert_eq!(texts(&sctp(Some(1000), Some(200))), ["iw=rfc4960", "rto_min=1s", "delack=200ms"]);
        assert_eq!(texts(&sctp(None, None)), ["iw=rfc4960"]);
    }
}
