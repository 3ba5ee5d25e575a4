//! The options of a socket that are not part of the engine's configuration.

use super::info::PrInfo;
use super::{EventSet, SndInfo};
use anabranch_base::time::Duration;

/// The options that a socket stores itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) events: EventSet,
    pub(super) default_snd: SndInfo,
    pub(super) default_pr: PrInfo,
    pub(super) autoclose: Option<Duration>,
    /// `SO_LINGER` in seconds. With 0, `close` aborts the associations.
    pub(super) linger: Option<u32>,
    pub(super) recv_nxtinfo: bool,
    pub(super) recv_rcvinfo: bool,
    pub(super) context: u32,
    pub(super) reuse_port: bool,
    pub(super) no_fragments: bool,
    pub(super) fragment_interleave: super::Fragmented,
}
