//! The reason for the end of a session, from the reason of the SCTP engine (RFC 9260 §3.3.10) or from the text that the
//! peer's program gave (§3.3.10.12).

use crate::session::CloseReason;
use anabranch_sctp::CloseReason as EngineReason;

/// Converts the engine's reason for the end of an association to a [`CloseReason`]. `established` says that the
/// handshake was done, and `accepted` that the peer had started the association.
#[must_use]
pub fn to_close_reason(reason: EngineReason, established: bool, accepted: bool) -> CloseReason {
    match reason {
        EngineReason::Shutdown => CloseReason::Finished,
        EngineReason::Local => CloseReason::Aborted,
        // RFC 9260 §8.4: a host without a listener for the port answers an INIT with an ABORT.
        EngineReason::Aborted(_) if !established => CloseReason::Refused,
        EngineReason::NotListening if !established => CloseReason::Refused,
        EngineReason::NotListening => CloseReason::Reset("nothing listens there any more".to_owned()),
        EngineReason::Aborted(cause) => {
            CloseReason::Reset(cause.map_or_else(String::new, |cause| abort_cause(cause, accepted)))
        }
        EngineReason::Unreachable => CloseReason::TimedOut(String::new()),
        EngineReason::BlackHole { .. } => CloseReason::TimedOut(reason.details()),
        EngineReason::PeerRestarted => CloseReason::Reset(RESTARTED.to_owned()),
        EngineReason::ShutdownTimeout => CloseReason::TimedOut("while closing".to_owned()),
        EngineReason::StaleCookie => CloseReason::Protocol("the State Cookie went stale".to_owned()),
        EngineReason::PeerViolated(rule) => CloseReason::Protocol(format!("the peer broke {rule}")),
        EngineReason::PeerIncompatible(what) => CloseReason::Protocol(format!("the peer cannot do {what}")),
        other => CloseReason::Protocol(format!("the association has ended: {other:?}")),
    }
}

/// The reason for the end of a session whose peer has restarted (RFC 9260 §5.2.4 A).
pub(super) const RESTARTED: &str = "the peer has restarted";

/// Describes the cause of an ABORT that the peer has sent (RFC 9260 §3.3.10).
fn abort_cause(cause: u16, accepted: bool) -> String {
    let means = match (cause, accepted) {
        (4, _) => "it is out of resources",
        // This project's server sends cause 12 to a new peer if the server is full, and to all peers when the server is
        // stopped. The server also sends cause 12 to a peer that exceeds the idle timeout. Other programs may send the
        // cause for other reasons.
        (12, false) => {
            "its program ended it, as a server does that is full, is ended itself or waits too long"
        }
        (12, true) => "its program ended it",
        (13, _) => "it says that we broke the protocol",
        _ => return format!("ABORT with cause {cause}"),
    };
    format!("{means} (ABORT with cause {cause})")
}

/// Returns the close reason for an ABORT in which the peer's program says why it ended the association. `text` is from
/// the network, so its control characters become spaces.
pub(super) fn from_peer(text: &[u8]) -> CloseReason {
    let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
    CloseReason::Reset(format!("its reason is: {text} (ABORT with cause 12)"))
}
