//! Changes of an association's settings.
//!
//! Implements RFC 9260 §11.1.13 (Set Protocol Parameters) for an existing association.

use super::timers::Timer;
use super::{Association, Ctx};
use crate::config::Config;
use std::sync::Arc;

impl Association {
    /// Changes the configuration and the values derived from it. Returns false and changes nothing if the new
    /// configuration is invalid.
    pub(crate) fn tune(&mut self, ctx: &mut Ctx<'_>, change: impl FnOnce(&mut Config)) -> bool {
        let before = self.config.clone();
        change(Arc::make_mut(&mut self.config));
        if self.config.check().is_err() {
            self.config = before;
            return false;
        }
        let config = self.config.clone();
        for index in 0..self.paths.len() {
            self.paths.at(index).set_rto_bounds(&config);
        }
        if config.mss != before.mss {
            self.set_fragment_size();
        }
        self.recv.tune(&config);
        self.send.set_buffer_limit(config.sndbuf);
        if config.scheduler != before.scheduler {
            self.send.set_scheduler(config.scheduler);
        }
        if config.hb_interval != before.hb_interval && self.state.is_up() {
            for index in 0..self.paths.len() {
                // RFC 9260 §5.4: an unverified address is probed regardless of the heartbeat interval.
                if self.paths.get(index).is_confirmed() {
                    self.timers.stop(Timer::Heartbeat(index));
                    self.schedule_heartbeat(ctx, index);
                }
            }
        }
        true
    }
}
