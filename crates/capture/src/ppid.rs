//! Names of SCTP payload protocol identifiers registered with IANA (RFC 9260 §15.5). The list is not complete.

/// Returns the name of a payload protocol identifier, or `None` if it is not in the list.
pub(super) fn name(ppid: u32) -> Option<&'static str> {
    NAMES.binary_search_by_key(&ppid, |(number, _)| *number).ok().map(|at| NAMES[at].1)
}

const NAMES: &[(u32, &str)] = &[
    (1, "IUA"),
    (2, "M2UA"),
    (3, "M3UA"),
    (4, "SUA"),
    (5, "M2PA"),
    (6, "V5UA"),
    (7, "H.248"),
    (11, "ASAP"),
    (12, "ENRP"),
    (18, "S1AP"),
    (27, "X2AP"),
    (46, "Diameter"),
    (47, "Diameter over DTLS"),
    (50, "WebRTC DCEP"),
    (51, "WebRTC string"),
    (53, "WebRTC binary"),
    (56, "WebRTC empty string"),
    (57, "WebRTC empty binary"),
    (60, "NGAP"),
    (61, "XnAP"),
    (62, "F1AP"),
    (63, "HTTP"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_number() {
        assert!(NAMES.is_sorted_by_key(|(number, _)| *number));
        assert_eq!((name(51), name(63), name(9999)), (Some("WebRTC string"), Some("HTTP"), None));
    }
}
