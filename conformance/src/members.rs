//! Reads the structures of the socket API as packetdrill scripts write them: `{member=value, …}`.
//!
//! This module lists the members of each structure, so that an unknown member in a script is reported. Implements RFC
//! 6458 §5.3, §8 and §9, as far as they name structures and members.

use crate::calls::{CallError, wrong};
use crate::constants::number;
use crate::script::Value;

/// The structures that scripts pass to calls, with their members.
const STRUCTURES: &[(&str, &[&str])] = &[
    ("linger", &["onoff", "linger"]),
    ("sockaddr", &["sa_family", "sin_port", "sin_addr"]),
    ("pollfd", &["fd", "events", "revents"]),
    ("msghdr", &["msg_name", "msg_namelen", "msg_iov", "msg_control", "msg_flags"]),
    ("cmsghdr", &["cmsg_len", "cmsg_level", "cmsg_type", "cmsg_data"]),
    ("sctp_rtoinfo", &["srto_assoc_id", "srto_initial", "srto_max", "srto_min"]),
    (
        "sctp_assocparams",
        &[
            "sasoc_assoc_id",
            "sasoc_asocmaxrxt",
            "sasoc_number_peer_destinations",
            "sasoc_peer_rwnd",
            "sasoc_local_rwnd",
            "sasoc_cookie_life",
        ],
    ),
    (
        "sctp_initmsg",
        &["sinit_num_ostreams", "sinit_max_instreams", "sinit_max_attempts", "sinit_max_init_timeo"],
    ),
    ("sctp_setprim", &["ssp_assoc_id", "ssp_addr"]),
    ("sctp_setpeerprim", &["sspp_assoc_id", "sspp_addr"]),
    ("sctp_setadaptation", &["ssb_adaptation_ind"]),
    (
        "sctp_paddrparams",
        &[
            "spp_assoc_id",
            "spp_address",
            "spp_hbinterval",
            "spp_pathmaxrxt",
            "spp_pathmtu",
            "spp_flags",
            "spp_ipv6_flowlabel",
            "spp_dscp",
        ],
    ),
    ("sctp_event", &["se_assoc_id", "se_type", "se_on"]),
    (
        "sctp_event_subscribe",
        &[
            "sctp_data_io_event",
            "sctp_association_event",
            "sctp_address_event",
            "sctp_send_failure_event",
            "sctp_peer_error_event",
            "sctp_shutdown_event",
            "sctp_partial_delivery_event",
            "sctp_adaptation_layer_event",
            "sctp_authentication_event",
            "sctp_sender_dry_event",
            "sctp_stream_reset_event",
            "sctp_assoc_reset_event",
            "sctp_stream_change_event",
            "sctp_send_failure_event_event",
        ],
    ),
    ("sctp_sndinfo", &["snd_sid", "snd_flags", "snd_ppid", "snd_context", "snd_assoc_id"]),
    ("sctp_prinfo", &["pr_policy", "pr_value"]),
    ("sctp_default_prinfo", &["pr_policy", "pr_value", "pr_assoc_id"]),
    ("sctp_authinfo", &["auth_keynumber"]),
    ("sctp_sendv_spa", &["sendv_flags", "sendv_sndinfo", "sendv_prinfo", "sendv_authinfo"]),
    (
        "sctp_sndrcvinfo",
        &[
            "sinfo_stream",
            "sinfo_ssn",
            "sinfo_flags",
            "sinfo_ppid",
            "sinfo_context",
            "sinfo_timetolive",
            "sinfo_pr_value",
            "sinfo_tsn",
            "sinfo_cumtsn",
            "sinfo_assoc_id",
        ],
    ),
    ("sctp_recvv_rn", &["recvv_rcvinfo", "recvv_nxtinfo"]),
    ("sctp_assoc_value", &["assoc_id", "assoc_value"]),
    ("sctp_stream_value", &["assoc_id", "stream_id", "stream_value"]),
    ("sctp_hmacalgo", &["shmac_number_of_idents", "shmac_idents"]),
    ("sctp_authchunk", &["sauth_chunk"]),
    ("sctp_authkey", &["sca_assoc_id", "sca_keynumber", "sca_keylength", "sca_key"]),
    ("sctp_authchunks", &["gauth_assoc_id", "gauth_number_of_chunks", "gauth_chunks"]),
    ("sctp_authkeyid", &["scact_assoc_id", "scact_keynumber"]),
    ("sctp_sack_info", &["sack_assoc_id", "sack_delay", "sack_freq"]),
    ("sctp_reset_streams", &["srs_assoc_id", "srs_flags", "srs_number_streams", "srs_stream_list"]),
    ("sctp_add_streams", &["sas_assoc_id", "sas_instrms", "sas_outstrms"]),
    ("sctp_udpencaps", &["sue_assoc_id", "sue_address", "sue_port"]),
];

/// One structure of the socket API in a script, with its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'a> {
    structure: &'static str,
    fields: &'a [(String, Value)],
}

impl<'a> Members<'a> {
    /// Reads `value` as this structure of the socket API. A member that the structure does not have is a mistake of the
    /// script.
    pub(crate) fn of(structure: &'static str, value: &'a Value) -> Result<Self, CallError> {
        let value = match value {
            Value::List(items) if items.len() == 1 => &items[0],
            other => other,
        };
        let Value::Struct(fields) = value else {
            return wrong(format!("{value} is no {structure}"));
        };
        let known = STRUCTURES.iter().find(|(name, _)| *name == structure).map_or(&[][..], |(_, all)| all);
        match fields.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, value)) if key.is_empty() => wrong(format!("{value} in {structure} has no name")),
            Some((key, _)) => wrong(format!("{structure} has no member {key}")),
            None => Ok(Self { structure, fields }),
        }
    }

    /// Returns the value of the member `key`. Returns `None` if the script leaves the member out, or writes `...`,
    /// which stands for any value.
    pub(crate) fn get(self, key: &str) -> Option<&'a Value> {
        let found = self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        found.filter(|value| !value.is_any())
    }

    /// Returns the value of the member `key`, which must be a number.
    pub(crate) fn number(self, key: &str) -> Result<Option<i64>, CallError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match number(value) {
            Some(n) => Ok(Some(n)),
            None => wrong(format!("{key}={value} in {} is no number that is known", self.structure)),
        }
    }

    /// Returns the value of a numeric member, or 0 if the script omits the member or sets it to `...`.
    pub(crate) fn or_zero(self, key: &str) -> Result<i64, CallError> {
        Ok(self.number(key)?.unwrap_or(0))
    }

    /// Returns the value of a numeric member, which must fit into `T`. Returns 0 if the script omits the member or sets
    /// it to `...`.
    pub(crate) fn fitting<T: TryFrom<i64> + Default>(self, key: &str) -> Result<T, CallError> {
        let Some(n) = self.number(key)? else { return Ok(T::default()) };
        T::try_from(n)
            .map_err(|_| CallError::Wrong(format!("{key}={n} in {} is out of range", self.structure)))
    }

    /// Returns the value of the member `key`, which must be a list of numbers.
    pub(crate) fn numbers(self, key: &str) -> Result<Vec<i64>, CallError> {
        let items = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::List(items)) => items,
            Some(other) => return wrong(format!("{key}={other} in {} is no list", self.structure)),
        };
        let number = |item: &Value| {
            number(item)
                .ok_or_else(|| CallError::Wrong(format!("{item} in {key} is no number that is known")))
        };
        items.iter().map(number).collect()
    }
}
