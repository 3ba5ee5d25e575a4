//! The list of transports that a program knows: a value that is handed on, never a global.

use crate::protocol::Runs;
use crate::settings::Settings;
use anabranch_world::World;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Transports by name, in order, for worlds of one kind.
pub struct Registry<W: World> {
    protocols: Vec<Arc<dyn Runs<W>>>,
}

impl<W: World> Clone for Registry<W> {
    fn clone(&self) -> Self {
        Self { protocols: self.protocols.clone() }
    }
}

impl<W: World> fmt::Debug for Registry<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|protocol| protocol.name())).finish()
    }
}

impl<W: World> Default for Registry<W> {
    fn default() -> Self {
        Self { protocols: Vec::new() }
    }
}

impl<W: World> Registry<W> {
    /// With one more, in the place of what had its name.
    #[must_use]
    pub fn with(mut self, protocol: impl Runs<W> + 'static) -> Self {
        let new: Arc<dyn Runs<W>> = Arc::new(protocol);
        match self.protocols.iter_mut().find(|old| old.name() == new.name()) {
            Some(old) => *old = new,
            None => self.protocols.push(new),
        }
        self
    }

    /// The transport of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Runs<W>>> {
        self.iter().find(|protocol| protocol.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Runs<W>>> {
        self.protocols.iter()
    }
}

/// The settings as a transport's own.
///
/// # Errors
/// They are another transport's.
pub fn own<T: Settings + Clone>(settings: &dyn Settings) -> io::Result<T> {
    settings
        .downcast::<T>()
        .cloned()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "settings of another transport"))
}
