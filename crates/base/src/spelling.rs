//! Finds the accepted name that is closest to a misspelled name, for "did you mean" hints. Knows the names by which the
//! Linux kernel calls settings of SCTP and TCP.

/// The Linux kernel's names of settings, and the names of the knobs. The names are those of `sysctl net.sctp` and
/// `net.ipv4`, of `ip route`, and of socket options. Names that are equal are left out.
const KERNEL_NAMES: [(&str, &str); 42] = [
    ("pf_retrans", "pf_max_retrans"),
    ("ps_retrans", "primary_switch"),
    ("association_max_retrans", "assoc_max_retrans"),
    ("max_init_retransmits", "init_max_retrans"),
    ("sack_timeout", "delack"),
    ("valid_cookie_life", "cookie_life"),
    ("prsctp_enable", "partial_reliability"),
    ("reconf_enable", "reconfig"),
    ("intl_enable", "interleaving"),
    ("auth_enable", "auth"),
    ("addip_enable", "asconf"),
    ("ecn_enable", "ecn"),
    ("sctp_rmem", "rcvbuf"),
    ("sctp_wmem", "sndbuf"),
    ("sctp_nodelay", "nagle"),
    ("sctp_maxseg", "mss"),
    ("tcp_congestion_control", "cc"),
    ("tcp_congestion", "cc"),
    ("congctl", "cc"),
    ("initcwnd", "iw"),
    ("tcp_rmem", "rcvbuf"),
    ("tcp_wmem", "sndbuf"),
    ("tcp_moderate_rcvbuf", "rcvbuf_auto"),
    ("tcp_sack", "sack"),
    ("tcp_dsack", "dsack"),
    ("tcp_fack", "fack"),
    ("tcp_timestamps", "timestamps"),
    ("tcp_window_scaling", "wscale"),
    ("tcp_ecn", "ecn"),
    ("tcp_recovery", "rack"),
    ("tcp_early_retrans", "tlp"),
    ("tcp_reordering", "dupthresh"),
    ("tcp_rto_min_us", "rto_min"),
    ("tcp_syn_retries", "syn_retries"),
    ("tcp_retries2", "retries"),
    ("tcp_syncookies", "syncookies"),
    ("tcp_max_syn_backlog", "syn_queue"),
    ("tcp_slow_start_after_idle", "idle_restart"),
    ("tcp_no_metrics_save", "route_metrics"),
    ("tcp_user_timeout", "user_timeout"),
    ("tcp_nodelay", "nagle"),
    ("tcp_maxseg", "mss"),
];

/// Returns the accepted name of a setting that the Linux kernel calls `name`, if there is one.
fn of_kernel<'a>(name: &str, accepted: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let bare = name.strip_prefix("net.sctp.").or(name.strip_prefix("net.ipv4.")).unwrap_or(&name);
    let known = KERNEL_NAMES.iter().find(|(kernel, _)| *kernel == bare).map_or(bare, |(_, ours)| ours);
    accepted.iter().copied().find(|accepted| *accepted == known)
}

/// Returns the accepted name that is closest to `name`, if it is so close that the user probably meant it. The kernel's
/// name of a setting comes before a similar spelling.
#[must_use]
pub fn nearest<'a>(name: &str, accepted: &[&'a str]) -> Option<&'a str> {
    if let Some(ours) = of_kernel(name, accepted) {
        return Some(ours);
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    accepted
        .iter()
        .map(|candidate| (distance(&plain(name), &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5 && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns a hint such as ` (did you mean 'rate'?)` if an accepted name is close to `name`, otherwise the empty string.
#[must_use]
pub fn hint(name: &str, accepted: &[&str]) -> String {
    nearest(name, accepted).map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default()
}

/// Returns the number of edits between `a` and `b`: insertions, deletions, substitutions, and swaps of adjacent
/// characters. Only the first 64 characters are compared.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let edited = substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { edited.min(rows[i - 2][j - 2] + 1) } else { edited }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_not() {
        let names = ["rate", "loss", "per-object", "rto_min", "fibre"];
        assert_eq!(nearest("los", &names), Some("loss"));
        assert_eq!(nearest("per_object", &names), Some("per-object"));
        assert_eq!(nearest("rto-mim", &names), Some("rto_min"));
        assert_eq!(nearest("fiber", &names), Some("fibre"));
        assert_eq!(nearest("bandwidth", &names), None);
        assert_eq!(
            (hint("rat", &names).as_str(), hint("x", &names).as_str()),
            (" (did you mean 'rate'?)", "")
        );
    }

    #[test]
    fn a_name_of_the_kernel_leads_to_ours() {
        let names = ["assoc_max_retrans", "path_max_retrans", "pf_max_retrans", "delack", "rto_min"];
        for (kernel, ours) in [
            ("pf_retrans", "pf_max_retrans"),
            ("association_max_retrans", "assoc_max_retrans"),
            ("sack_timeout", "delack"),
            ("net.sctp.path_max_retrans", "path_max_retrans"),
            ("net.sctp.rto_min", "rto_min"),
        ] {
            assert_eq!(nearest(kernel, &names), Some(ours), "{kernel}");
        }
        assert_eq!(nearest("tcp_congestion_control", &names), None, "not a setting of this transport");
    }
}
