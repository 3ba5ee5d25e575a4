//! Whether an association may take the fast path, and whether it has anything to send.

use crate::association::{Association, State};
use crate::path::Path;

/// Whether an association may take the fast path. Cached; found out anew after
/// [`invalidate_fast_path`](Association::invalidate_fast_path).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FastPath {
    /// Not known: the next packet that is to be sent finds out.
    #[default]
    Unknown,
    /// No: but the association is established and no control chunk waits to be sent.
    NoControl,
    /// Yes: moreover no extension is in use that has more to say on DATA and SACK chunks.
    Eligible,
}

impl Association {
    /// Drops the cached eligibility. To be called after any change of state, extensions, paths or queued
    /// control chunks.
    #[inline]
    pub(crate) fn invalidate_fast_path(&mut self) {
        self.fast_path = FastPath::Unknown;
    }

    /// Whether no control chunk waits: nothing has changed since that was found out.
    #[inline]
    pub(crate) fn is_eligibility_known(&self) -> bool {
        self.fast_path != FastPath::Unknown
    }

    /// Finds the eligibility out, given that no control chunk waits; `on` as [`Endpoint::set_fast_path`](crate::Endpoint::set_fast_path)
    /// has it.
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

    /// Whether there is certainly nothing to send now, as far as a glance tells.
    #[inline(always)]
    pub(crate) fn sends_nothing(&self) -> bool {
        if self.fast_path != FastPath::Eligible || self.recv.sack_due() || self.send.has_lost() {
            return false;
        }
        self.send.unsent_bytes() == 0 || self.paths.get(self.paths.current()).is_full()
    }
}
