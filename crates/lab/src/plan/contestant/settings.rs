//! Formats all settings of a contestant as text, for the results.

use super::Contestant;
use crate::plan::security::{Dtls, Security};
use anabranch_base::units::format_duration;
use anabranch_http::mapping::Policy;
use anabranch_transport::Reliability;
use anabranch_transport::capabilities::Streams;
use std::collections::BTreeMap;

impl Contestant {
    /// Returns all settings of a run by key, as text.
    #[must_use]
    pub fn settings(&self, policy: &Policy) -> BTreeMap<String, String> {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut settings: BTreeMap<String, String> =
            self.engine.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect();
        let mut set = |key: &str, value: String| settings.insert(key.to_owned(), value);
        if let Some(kernel_cc) = &self.kernel_cc {
            set("cc", kernel_cc.name.clone());
        }
        for (key, value) in self.transport.fixed() {
            set(key, (*value).to_owned());
        }
        set("transport", self.transport.name().to_owned());
        set("profile", self.profile.clone());
        let connections = match policy.connections {
            usize::MAX => "as needed".to_owned(),
            n => n.to_string(),
        };
        set("connections", connections);
        let per_connection = policy.objects_per_connection.map_or("no limit".to_owned(), |k| k.to_string());
        set("objects-per-connection", per_connection);
        if let Some(outstanding) = policy.outstanding {
            set("outstanding", outstanding.to_string());
        }
        set("priority", yes_no(policy.sends_priority()));
        let cost = &self.cost;
        for (key, span) in [
            ("packet-cost", cost.per_packet),
            ("byte-cost", cost.per_byte),
            ("connection-cost", cost.per_connection),
            ("request-cost", cost.per_request),
        ] {
            set(key, format_duration(span));
        }
        let can = self.transport.capabilities();
        if can.streams == Streams::Reusable {
            set("when-full", policy.when_full.to_string());
        }
        if can.streams == Streams::Fresh {
            set("http", if self.http3 { "3" } else { "1.1" }.to_owned());
        }
        if can.secure {
            for (key, value) in self.security.iter().flat_map(Security::settings) {
                set(key, value);
            }
        }
        if !can.is_multistream() {
            match &self.http2 {
                None => {
                    set("pipeline", yes_no(policy.pipelines()));
                    set("http", "1".to_owned());
                }
                Some(http2) => http2.settings().into_iter().for_each(|(key, value)| drop(set(key, value))),
            }
            set("tls", yes_no(self.security.is_some()));
            for (key, value) in self.security.iter().flat_map(Security::settings) {
                set(key, value);
            }
        }
        if can.layered {
            set("dtls", "no".to_owned());
            for (key, value) in self.dtls.iter().flat_map(Dtls::settings) {
                set(key, value);
            }
        }
        if can.unordered {
            set("unordered", yes_no(self.delivery.unordered));
        }
        match self.delivery.reliability {
            Reliability::Lifetime(span) => drop(set("lifetime", format_duration(span))),
            Reliability::Retransmissions(n) => drop(set("retransmissions", n.to_string())),
            _ => {}
        }
        if can.carriers.is_choice() {
            let encap = match (self.encapsulated, self.dtls) {
                (false, _) => "none",
                (true, None) => "udp",
                (true, Some(_)) => "dtls in udp",
            };
            set("encap", encap.to_owned());
        }
        if can.paths {
            set("paths", self.paths.map_or("all".to_owned(), |n| n.to_string()));
        }
        if self.reconnects {
            set("reconnect", yes_no(true));
        }
        settings
    }
}
