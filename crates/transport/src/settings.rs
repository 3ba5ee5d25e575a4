//! The settings (knobs) of any transport. Each transport has a table of their keys, values, help and sources.

pub use anabranch_base::knobs::Knob;

use crate::network::Needs;
use anabranch_base::Budget;
use anabranch_base::time::Duration;
use std::any::Any;
use std::fmt::Debug;
use std::io;

/// The settings of a transport. If a type is `Clone`, `PartialEq` and `Debug`, it needs to implement only this trait:
/// [`SettingsObject`] follows.
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
    fn detects_spurious_retransmissions(&self) -> bool {
        true
    }

    /// Returns the size in bytes of the largest write that the transport takes as a whole. `None` if the transport
    /// takes writes of any size in parts.
    fn largest_message(&self) -> Option<u64> {
        None
    }

    /// Adapts the settings to the needs of a program. A knob for which `is_set` is true was set by the user, and keeps
    /// its value.
    fn suit(&mut self, needs: &Needs, is_set: &dyn Fn(&str) -> bool) {
        let _ = (needs, is_set);
    }

    /// Adapts the settings to a lower layer, such as DTLS, that detects every damaged packet.
    fn rely_on_layer(&mut self) {}

    /// Lets peers acknowledge less often: one acknowledgement for `packets` packets, or `delay` after the first of them.
    /// The default implementation does nothing, because most protocols let the receiver of data decide alone.
    fn delay_acknowledgements(&mut self, packets: u32, delay: Duration) {
        let _ = (packets, delay);
    }

    /// Makes all sessions take the memory for their buffers from the budget `memory`, which limits the sum. The default
    /// implementation does nothing.
    fn share_memory(&mut self, memory: Budget) {
        drop(memory);
    }

    /// Sets the identifier of the application's protocol in messages (in SCTP, the PPID). Returns false if messages
    /// have no such identifier.
    fn set_message_protocol(&mut self, ppid: u32) -> bool {
        let _ = ppid;
        false
    }

    /// Checks that sessions with these settings are authenticated with secret keys that both ends share.
    ///
    /// # Errors
    /// The settings use no shared keys. The error text gives the reason, or the setting that enables shared keys.
    fn uses_shared_keys(&self) -> Result<(), String> {
        Err("the transport has no keys".to_owned())
    }

    /// Sets the secret keys that both ends share. Each line of `text` has an identifier and a key.
    ///
    /// # Errors
    /// A one-line text about the first line that is wrong.
    fn set_shared_keys(&mut self, text: &str) -> Result<(), String> {
        let _ = text;
        self.uses_shared_keys()
    }

    /// Returns a warning about a weakness of these settings on a real network.
    fn weakness(&self) -> Option<String> {
        None
    }
}

/// Copies and compares settings in a `Box<dyn Settings>`. Implemented for all settings types that are `Clone` and
/// `PartialEq`.
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
    pub fn downcast<T: Settings + Clone>(&self) -> io::Result<T> {
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
