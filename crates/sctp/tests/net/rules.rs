//! Rules by which a scenario loses, delays or changes chosen packets.

use anabranch_base::time::Duration;
use anabranch_wire::ladder::Side;

/// The action that a rule applies to a packet.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Lose,
    Delay(Duration),
    /// Delivers the packet, and a copy of it after this time.
    Duplicate(Duration),
    Corrupt,
    Mark,
}

/// A rule that applies an action to packets of one side. A packet matches if its line in the ladder diagram contains
/// `pattern`.
#[derive(Clone, Debug)]
pub struct Rule {
    pub from: Side,
    pub pattern: String,
    /// The number of matching packets that pass before the rule applies.
    pub skip: usize,
    /// The number of matching packets to which the rule applies.
    pub times: usize,
    pub action: Action,
}

impl Rule {
    pub fn applies(&mut self, from: Side, line: &str) -> Option<Action> {
        // A space is appended to the line, so that the pattern `tsn=1 ` does not match `tsn=10 `.
        if from != self.from || !format!("{line} ").contains(&self.pattern) || self.times == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.action)
    }
}
