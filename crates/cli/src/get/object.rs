//! The objects that a `get` command fetches, the settings of all requests, and the outcome of a request.

use super::account::{self, FetchRecord, Ledger, LeftOut};
use super::meter::Meter;
use crate::files::PendingFile;
use crate::knobs::Tuned;
use crate::outputs::Outputs;
use crate::paths::PathLog;
use crate::url::Url;
use crate::{Failure, qlog, secure};
use anabranch_base::time::Instant;
use anabranch_http::get::RequestOptions;
use anabranch_transports::Transports;
use anabranch_transports::os::Target;
use anabranch_transports::security::ClientSecurity;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

pub(super) struct ObjectRequest {
    /// The object's number, from 0.
    pub(super) number: usize,
    pub(super) url: Url,
    pub(super) file: Option<PendingFile>,
    /// The number of redirections followed so far.
    pub(super) redirects: usize,
}

pub(super) struct Settings {
    pub(super) transports: Transports,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
    pub(super) tuned: Tuned,
    pub(super) logs: qlog::LogDestination,
    pub(super) sctp_port: u16,
    /// The TLS settings of the client; `None` if no URL is encrypted.
    pub(super) tls: Option<ClientSecurity>,
    /// The version of HTTP; `None` if `--http` was not given.
    pub(super) http: Option<String>,
    /// The options of each request: whether only the head is requested, and additional header fields.
    pub(super) options: RequestOptions,
    /// Whether the heads of requests and responses are printed to standard error.
    pub(super) verbose: bool,
    /// Whether binary data must not be written to standard output, because it is a terminal.
    pub(super) text_only: bool,
    pub(super) meter: Rc<Meter>,
    pub(super) ledger: Ledger,
    pub(super) paths: PathLog,
}

impl Settings {
    /// Records that object `number` failed for the reason `reason`.
    pub(super) fn failed(&self, number: usize, reason: String) -> ObjectOutcome {
        self.ledger.note(number, |fetched| fetched.error = Some(reason.clone()));
        ObjectOutcome::Failed(reason)
    }

    /// Writes the result of a `get` that started at the time `start` and ended at the time `end`.
    pub(super) fn write(
        &self,
        outputs: Outputs,
        objects: &[FetchRecord],
        left_out: &LeftOut,
        (start, end): (Instant, Instant),
    ) -> Result<(), Failure> {
        let (transports, times) = (&self.transports, (start, end));
        let json = || {
            let fields = self.paths.fields_with_paths();
            account::json(objects, transports, left_out, self.tuned.describe(), times, fields)
        };
        outputs.write("", json, || account::csv(objects, transports, start))
    }

    /// Returns the server of `url` as a target. Trust settings are read only if the command line has an encrypted URL.
    /// If a redirect leads from an unencrypted URL to an encrypted one, the default settings are used.
    pub(super) fn target(&self, url: &Url, addresses: Vec<SocketAddr>) -> Result<Target, NoTarget> {
        let security = match self.tls.clone() {
            None if url.scheme.is_secure() => {
                Some(secure::client_by_default(self.http.as_deref()).map_err(NoTarget::Trust)?)
            }
            given => given,
        };
        Ok(Target {
            scheme: url.scheme.clone(),
            addresses,
            name: url.host().to_owned(),
            inner_port: self.sctp_port,
            settings: self.tuned.of(&url.scheme).map_err(NoTarget::Host)?,
            security,
            logs: self.logs.clone(),
        })
    }
}

/// The reason why a server cannot be connected to.
pub(super) enum NoTarget {
    /// The trusted certificates, needed to verify the server, cannot be loaded.
    Trust(String),
    /// This host does not permit or support the settings of the transport.
    Host(Failure),
}

impl From<NoTarget> for ObjectOutcome {
    fn from(error: NoTarget) -> Self {
        match error {
            NoTarget::Trust(error) => Self::Failed(error),
            NoTarget::Host(failure) => Self::Host(failure),
        }
    }
}

/// The outcome of fetching one object.
pub(super) enum ObjectOutcome {
    Delivered,
    /// The transfer failed; the message says why. The exit code is 1.
    Failed(String),
    /// The server redirected the request to another URL.
    Redirected(Box<ObjectRequest>),
    /// This host does not permit or support the request. The exit code is 3.
    Host(Failure),
}
