//! Rules by which a scenario loses, delays or changes chosen packets.

use anabranch_base::time::Duration;
use anabranch_wire::ladder::Side;

/// The action on a packet.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Lose,
    Delay(Duration),
    /// A copy follows after this time.
    Duplicate(Duration),
    Corrupt,
    Mark,
}

/// Applies an action to packets of one side whose ladder line contains a text.
#[derive(Clone, Debug)]
pub struct Rule {
    pub from: Side,
    pub pattern: String,
    /// The number of matches to let pass first.
    pub skip: usize,
    /// The number of matches to act on.
    pub times: usize,
    pub action: Action,
}

impl Rule {
    pub fn applies(&mut self, from: Side, line: &str) -> Option<Action> {
        // The blank at the end distinguishes `tsn=1` from `tsn=10`.
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
