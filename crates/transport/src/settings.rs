//! The knobs of a transport, whichever it is: keys, values, help and sources are the transport's own table.

pub use anabranch_base::knobs::Knob;

use std::any::Any;
use std::fmt::Debug;
use std::io;

/// What a transport runs with. A type that is `Clone`, `PartialEq` and `Debug` needs only what is listed here.
pub trait Settings: SettingsObject + Debug + Send + Sync {
    /// Every knob.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets a knob.
    ///
    /// # Errors
    /// One line with the accepted forms.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// Finds knobs that cannot be together.
    ///
    /// # Errors
    /// One line that names them.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// How many exchanges a session carries at once: its stream pairs.
    fn streams(&self) -> u64 {
        1
    }

    /// Whether a sender with these settings finds out that what it sent again had arrived.
    fn knows_needless(&self) -> bool {
        true
    }

    /// The largest write that is taken in one piece, bytes; `None`: any, in parts.
    fn largest_message(&self) -> Option<u64> {
        None
    }
}

/// What boxed settings need of the type in the box.
pub trait SettingsObject: Any {
    /// A copy.
    fn boxed(&self) -> Box<dyn Settings>;

    /// Whether the other is of the same type and value.
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
    /// A copy, as a transport's own type.
    ///
    /// # Errors
    /// The settings are another transport's.
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
