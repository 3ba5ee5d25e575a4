//! The classes of captured data: new, reordered, or retransmitted, and the cause of a retransmission. `track.rs`
//! classifies the data.

/// The cause of a retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Fast,
    Timeout,
    Other,
}

/// The class of a piece of data, which is determined when the data is captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataClass {
    /// The data was not captured before, and neither was data with higher TSNs or sequence numbers.
    New,
    /// The data was retransmitted. If `inferred` is set, the first transmission was not captured, because it was lost
    /// before the place of capture.
    Retransmitted { cause: Cause, inferred: bool, spurious: bool },
    /// The data was not captured before, but data with higher TSNs or sequence numbers was, because the network
    /// reordered packets.
    Reordered,
}
