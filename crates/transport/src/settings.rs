//! The settings (knobs) of any transport. The transport's own table has their keys, values, help and sources.

pub use anabranch_base::knobs::Knob;

use std::any::Any;
use std::fmt::Debug;
use std::io;

/// The settings of a transport. A type that is `Clone`, `PartialEq` and `Debug` only has to implement the methods of
/// this trait.
pub trait Settings: SettingsObject + Debug + Send + Sync {
    /// Returns all knobs with their current values.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets the knob `key` to `value`.
    ///
    /// # Errors
    /// A one-line text that lists the accepted values.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// Checks that the values of the knobs can be combined.
    ///
    /// # Errors
    /// A one-line text that names the conflicting knobs.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the number of exchanges that a session carries at the same time: the number of its stream pairs.
    fn streams(&self) -> u64 {
        1
    }

    /// Returns whether a sender with these settings detects spurious retransmissions.
    fn knows_needless(&self) -> bool {
        true
    }

    /// Returns the size in bytes of the largest write that the transport takes as a whole. `None` if it takes writes of
    /// any size in parts.
    fn largest_message(&self) -> Option<u64> {
        None
    }
}

/// The operations of a concrete settings type that boxed settings need. They are implemented for all types that are
/// `Clone` and `PartialEq`.
pub trait SettingsObject: Any {
    /// Returns a copy of the settings in a box.
    fn boxed(&self) -> Box<dyn Settings>;

    /// Returns whether `other` has the same type and the same values.
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
    /// Returns a copy of the settings in the concrete type of the transport.
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
