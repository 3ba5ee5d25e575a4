//! The settings (knobs) of any transport. Keys, values, help and sources are in the transport's own table.

pub use anabranch_base::knobs::Knob;

use std::any::Any;
use std::fmt::Debug;
use std::io;

/// The settings of a transport. A type that is `Clone`, `PartialEq` and `Debug` needs only the methods of this
/// trait.
pub trait Settings: SettingsObject + Debug + Send + Sync {
    /// All knobs with their current values.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets a knob.
    ///
    /// # Errors
    /// One line that lists the accepted values.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// Checks that the knobs can be combined.
    ///
    /// # Errors
    /// One line that names the conflicting knobs.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The number of exchanges that a session carries at once: its stream pairs.
    fn streams(&self) -> u64 {
        1
    }

    /// Whether a sender with these settings detects spurious retransmissions.
    fn knows_needless(&self) -> bool {
        true
    }

    /// The largest write that is taken in one piece, in bytes; `None` if writes of any size are taken in
    /// parts.
    fn largest_message(&self) -> Option<u64> {
        None
    }
}

/// What boxed settings need from the concrete type; implemented for all types that are `Clone` and
/// `PartialEq`.
pub trait SettingsObject: Any {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn Settings>;

    /// Whether the other settings have the same type and value.
    fn same(&self, other: &dyn Settings) -> bool;
}

impl<T: Settings + Clone + PartialEq> SettingsObject for T {
    fn boxed(&self) -> Box<dyn Settings> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Settings) -> bool {
        (other as &dyn Any).downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

impl dyn Settings {
    /// Returns a copy as the transport's own type.
    ///
    /// # Errors
    /// The settings belong to another transport.
    pub fn own<T: Settings + Clone>(&self) -> io::Result<T> {
        let own = (self as &dyn Any).downcast_ref::<T>().cloned();
        own.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "settings of another transport"))
    }
}

impl Clone for Box<dyn Settings> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl PartialEq for Box<dyn Settings> {
    fn eq(&self, other: &Self) -> bool {
        (**self).same(&**other)
    }
}
