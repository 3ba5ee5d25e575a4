//! Implements [`Settings`] for the configuration of SCTP.

use super::SharedKeys;
use crate::network::{Needs, StreamNeed};
use crate::settings::{Knob, Settings};
use anabranch_base::Budget;
use anabranch_base::time::Duration;
use anabranch_sctp::{Config, SchedulerKind};

impl Settings for Config {
    fn knobs(&self) -> Vec<Knob> {
        Self::knobs(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        Self::set(self, key, value).map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }

    /// Returns the number of stream pairs: the smaller of the numbers of streams in the two directions.
    fn streams(&self) -> u64 {
        self.num_ostreams.min(self.inbound_streams()).into()
    }

    /// RFC 9260 §11.1.5: the engine takes a message as a whole or not at all, so the send buffer limits its size.
    fn largest_message(&self) -> Option<u64> {
        Some(self.sndbuf)
    }

    fn suit(&mut self, needs: &Needs, is_set: &dyn Fn(&str) -> bool) {
        match needs.streams {
            None => {}
            Some(StreamNeed::AtLeast(streams)) => self.num_ostreams = self.num_ostreams.max(streams),
            Some(StreamNeed::Grant(streams)) => {
                self.num_ostreams = streams;
                // RFC 6525 §5.2.5: the peer may later ask for more streams. `max_streams` limits those requests.
                if !is_set("max_streams") {
                    self.max_streams = streams;
                }
            }
        }
        // RFC 6525: cancelling a single exchange resets its stream. Without stream resets, the association would have
        // to be closed.
        self.reconfig |= needs.cancels && !is_set("reconfig");
        // RFC 9260 §16 advises a heartbeat every 30 s. A side that only receives data detects a dead peer by heartbeats
        // alone, so they are sent more often.
        if needs.detects_dead_peers && !is_set("hb_interval") && !is_set("profile") {
            self.hb_interval = Some(Duration::from_secs(5));
        }
        // RFC 8260 §3.2: the round-robin scheduler sends the data of the streams in turns. A user of one stream
        // therefore does not delay the users of other streams.
        if needs.fair && !is_set("scheduler") {
            self.scheduler = SchedulerKind::RoundRobin;
        }
    }

    /// RFC 9653 §3: if the layer below detects every error, the SCTP checksum is superfluous.
    fn rely_on_layer(&mut self) {
        self.zero_checksum = true;
    }

    fn share_memory(&mut self, memory: Budget) {
        self.memory = Some(memory);
    }

    fn set_message_protocol(&mut self, ppid: u32) -> bool {
        self.ppid = ppid;
        true
    }

    fn uses_shared_keys(&self) -> Result<(), String> {
        if self.auth { Ok(()) } else { Err("the keys are not used without --set auth=yes".to_owned()) }
    }

    fn set_shared_keys(&mut self, text: &str) -> Result<(), String> {
        self.uses_shared_keys()?;
        self.shared_keys = SharedKeys::parse(text).map_err(|why| why.to_string())?;
        Ok(())
    }

    /// RFC 5061 §8: address changes must be authenticated. Without shared keys that were configured at both ends,
    /// authentication protects only against attackers who have not seen the handshake.
    fn weakness(&self) -> Option<String> {
        if self.asconf && self.shared_keys.has_empty_key() {
            let what = "asconf=yes without --key-file: anyone who sees a handshake can move its association to other \
                        addresses";
            return Some(what.to_owned());
        }
        let short = self.shared_keys.shorter_than(MIN_SECRET).filter(|_| !self.shared_keys.has_empty_key());
        short.map(|id| format!("--key-file: key {id} has less than {MIN_SECRET} bytes"))
    }
}

/// The minimum length in bytes of a shared key that is hard to guess.
const MIN_SECRET: usize = 16;
