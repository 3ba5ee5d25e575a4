//! Decides whether an association may take the fast path, and whether it has anything to send.

use crate::association::{Association, State};
use crate::path::Path;

/// Whether an association may take the fast path. The value is cached until
/// [`invalidate_fast_path`](Association::invalidate_fast_path) is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FastPath {
    /// Not yet determined. It is determined when the next packet has to be sent.
    #[default]
    Unknown,
    /// The association is established and no control chunk is pending, but the fast path is not allowed. An extension,
    /// or loss recovery beyond RFC 9260, affects DATA or SACK chunks.
    NoControl,
    /// The fast path may be used: no control chunk is pending, and no extension in use affects DATA and SACK chunks.
    Eligible,
}

impl Association {
    /// Drops the cached eligibility. Must be called after any change of state, extensions, paths or pending control
    /// chunks.
    #[inline]
    pub(crate) fn invalidate_fast_path(&mut self) {
        self.fast_path = FastPath::Unknown;
    }

    /// Returns whether the cached eligibility is valid. While it is valid, no control chunk is pending.
    #[inline]
    pub(crate) fn is_eligibility_known(&self) -> bool {
        self.fast_path != FastPath::Unknown
    }

    /// Determines whether the fast path is allowed. The caller has made sure that no control chunk is pending. `on` is
    /// the setting of [`Endpoint::set_fast_path`](crate::Endpoint::set_fast_path).
    #[cold]
    pub(crate) fn find_eligibility(&mut self, on: bool) {
        let no_control = matches!(self.state, State::Established)
            && !self.extensions.have_control()
            && !self.send.has_limits();
        let controlled = self.paths.iter().any(Path::is_controlled);
        self.fast_path = match (on && no_control, self.extensions.touch_data() || controlled) {
            (false, _) => FastPath::Unknown,
            (true, true) => FastPath::NoControl,
            (true, false) => FastPath::Eligible,
        };
    }

    /// Returns true if there is certainly nothing to send now. This is only a quick check: it may return false although
    /// there is nothing to send.
    #[inline(always)]
    pub(crate) fn sends_nothing(&self) -> bool {
        if self.fast_path != FastPath::Eligible || self.recv.sack_due() || self.send.has_lost() {
            return false;
        }
        self.send.unsent_bytes() == 0 || self.paths.get(self.paths.current()).is_full()
    }
}
