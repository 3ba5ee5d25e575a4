//! The policy by which a client fetches a page, for example how many connections and outstanding requests it uses.
//!
//! [`Choices`] holds the settings that the user has given. [`Policy`] holds the complete policy for one transport, with
//! a default for every setting that the user has not given.

use crate::browser::{Client, Visit};
use crate::http2::Windows;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The default number of simultaneous connections with `per-object`, where each object has a connection of its own.
/// Netscape Navigator, a browser of the HTTP/1.0 era, opened four connections at a time. Source: Nielsen et al.,
/// "Network Performance Effects of HTTP/1.1, CSS1, and PNG", SIGCOMM 1997, which compares HTTP/1.1 with that browser.
pub const NETSCAPE_CONNECTIONS: usize = 4;

/// What happens to an exchange when all streams are busy and the policy allows no other connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The exchange waits until a stream is free.
    #[default]
    Wait,
    /// The exchange is pipelined on the next stream in round-robin order.
    RoundRobin,
    /// The exchange is pipelined on the stream with the fewest exchanges in flight.
    SmallestPending,
    /// The exchange waits until a stream has been added to the association (RFC 6525) or becomes free.
    Grow,
}

impl FromStr for WhenFull {
    type Err = PolicyError;
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text {
            "wait" => Ok(Self::Wait),
            "rr" => Ok(Self::RoundRobin),
            "spf" => Ok(Self::SmallestPending),
            "grow" => Ok(Self::Grow),
            _ => Err(PolicyError(format!("when-full={text}: write wait, rr, spf or grow"))),
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "wait",
            Self::RoundRobin => "rr",
            Self::SmallestPending => "spf",
            Self::Grow => "grow",
        })
    }
}

/// The delay between the delivery of an object and the requests for the objects that depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Think {
    /// No delay.
    #[default]
    None,
    /// The delay that was recorded with the page.
    Recorded,
}

/// The HTTP version of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// HTTP/1.1 on each stream.
    #[default]
    Http1,
    /// HTTP/2 on the single stream of the session, with these windows.
    Http2(Windows),
    /// HTTP/3, where each request has a new stream.
    Http3,
}

/// The policy by which a client fetches the objects of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The maximum number of simultaneous connections to one server.
    pub connections: usize,
    /// Whether multistream connections share the exchanges evenly, so that each connection gets an exchange before any
    /// connection gets a second exchange. Otherwise the streams of one connection are filled before the next connection
    /// is opened.
    pub spread: bool,
    /// The maximum number of exchanges on one connection; `None` means no limit. The connection is closed after the
    /// last exchange.
    pub objects_per_connection: Option<u32>,
    /// The maximum number of exchanges in flight on one connection, however many streams it has; `None` means no limit.
    pub outstanding: Option<u32>,
    /// What happens to an exchange when all streams are busy.
    pub when_full: WhenFull,
    /// The delay between the delivery of an object and the requests for the objects that depend on it.
    pub think: Think,
    /// The times of an open-loop load. Object *i* is requested at time *i* after the start, independently of the other
    /// objects. Objects without an entry are requested after their initiators.
    pub arrivals: Option<Vec<Duration>>,
    /// If set, all connections are opened at the start, and nothing is requested until each connection is established
    /// or has failed. Otherwise connections are opened as needed. Experiments set this value to exclude handshakes from
    /// the page load time.
    pub preconnect: bool,
    /// An object fails if none of its bytes have moved for this long; `None` means no timeout.
    pub timeout: Option<Duration>,
    /// The fetch ends after this time, whether or not it is complete.
    pub deadline: Option<Duration>,
    /// The maximum number of attempts to request an object, if connections end before the object is complete. Also the
    /// number of consecutive failed connections to a server after which the client gives up that server.
    pub attempts: u32,
    /// Whether each host of the page is fetched from a separate server. Server *n* of the connector then stands for
    /// host *n* of the page. Otherwise all hosts share server 0.
    pub keep_origins: bool,
    /// The HTTP version of the sessions.
    pub version: Version,
    /// If true, requests have a `priority` field (RFC 9218), and waiting requests are sent in the order of their
    /// priorities. `None` means true over HTTP/2 and HTTP/3, as in browsers, and false otherwise.
    pub priority: Option<bool>,
    /// Whether bodies must match the content that our own server generates ([`crate::body`]). Off for other servers.
    pub verify: bool,
    /// The program that loads the page. A browser decides when objects are requested; see [`crate::browser`].
    pub client: Client,
    /// Whether the browser visits the page for the first time, or what it remembers of the servers.
    pub visit: Visit,
    /// The processor time that the browser needs for each response; `None` means the usual time
    /// ([`crate::browser::Rules::response`]).
    pub client_time: Option<Duration>,
}

impl Default for Policy {
    /// Returns a policy with one connection, no pipelining, no timeout and a deadline of ten minutes.
    fn default() -> Self {
        Self {
            connections: 1,
            spread: false,
            objects_per_connection: None,
            outstanding: None,
            when_full: WhenFull::Wait,
            think: Think::None,
            arrivals: None,
            preconnect: false,
            timeout: None,
            deadline: Some(Duration::from_secs(600)),
            attempts: 4,
            keep_origins: false,
            version: Version::Http1,
            priority: None,
            verify: true,
            client: Client::Plain,
            visit: Visit::First,
            client_time: None,
        }
    }
}

/// A conflict between two settings of the policy, or between a setting and the transport. The message is one line and
/// says what to write instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(pub(super) String);

/// The settings of a policy as the user gave them. `None` or `false` means that the user did not give the setting.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choices {
    /// `connections=N`
    pub connections: Option<usize>,
    /// `per-object=yes`
    pub per_object: bool,
    /// `objects-per-connection=K`
    pub objects_per_connection: Option<u32>,
    /// `outstanding=N`
    pub outstanding: Option<u32>,
    /// `pipeline=yes|no`
    pub pipeline: Option<bool>,
    /// `when-full=...`
    pub when_full: Option<WhenFull>,
    /// `priority=yes|no`
    pub priority: Option<bool>,
}

impl Choices {
    /// Returns the policy that follows from these choices for a transport. `multistream` is true if a connection of the
    /// transport has many streams. `open_loop` is true if objects are requested at given times. If `open_loop` is set,
    /// connections are opened as needed, unless pipelining is chosen or the number of connections is given.
    ///
    /// # Errors
    /// [`PolicyError`] if two choices exclude each other, or if the transport does not support a choice.
    pub fn policy(&self, multistream: bool, open_loop: bool) -> Result<Policy, PolicyError> {
        let wrong = |line: &str| Err(PolicyError(line.to_owned()));
        if self.connections == Some(0) {
            return wrong("connections=0: write 1 or more");
        }
        if self.objects_per_connection == Some(0) {
            return wrong("objects-per-connection=0: write 1 or more");
        }
        if self.outstanding == Some(0) {
            return wrong("outstanding=0: write 1 or more");
        }
        if let (Some(pipeline), Some(n)) = (self.pipeline, self.outstanding)
            && pipeline != (n > 1)
        {
            return wrong("pipeline=no is outstanding=1, pipeline=yes is more: leave one of them out");
        }
        if self.per_object && self.objects_per_connection.is_some_and(|k| k != 1) {
            return wrong("per-object=yes is objects-per-connection=1: write one of them");
        }
        let allowance = if self.per_object { Some(1) } else { self.objects_per_connection };
        if multistream && self.pipeline.is_some() {
            return wrong(
                "pipeline is a key of tcp; an association pipelines in its streams with when-full=rr",
            );
        }
        if !multistream && self.when_full.is_some() {
            return wrong("when-full is a key of sctp; a tcp connection pipelines with pipeline=yes");
        }
        let pipelines = self.pipeline.or(self.outstanding.map(|n| n > 1).filter(|_| !multistream));
        if allowance == Some(1) && pipelines == Some(true) {
            return wrong("pipeline=yes needs more than one object a connection");
        }
        let connections = match self.connections {
            Some(n) => n,
            None if open_loop && pipelines != Some(true) => usize::MAX,
            None if allowance == Some(1) => NETSCAPE_CONNECTIONS,
            None => 1,
        };
        let when_full = if multistream {
            self.when_full.unwrap_or_default()
        } else if pipelines.unwrap_or(connections == 1 && allowance != Some(1)) {
            WhenFull::RoundRobin
        } else {
            WhenFull::Wait
        };
        // A user who asks for several associations wants exchanges on all of them. Several TCP connections are used in
        // the same way, because each has only one stream.
        let spread = multistream && self.connections.is_some_and(|n| n > 1);
        Ok(Policy {
            connections,
            spread,
            objects_per_connection: allowance,
            outstanding: self.outstanding,
            when_full,
            priority: self.priority,
            ..Policy::default()
        })
    }
}

impl Policy {
    /// Returns whether requests have a `priority` field (RFC 9218).
    #[must_use]
    pub fn sends_priority(&self) -> bool {
        self.priority.unwrap_or(self.version != Version::Http1)
    }

    /// Returns whether several requests may be outstanding on one stream.
    #[must_use]
    pub fn pipelines(&self) -> bool {
        !matches!(self.when_full, WhenFull::Wait | WhenFull::Grow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_browsers_and_of_the_draft() {
        let none = Choices::default();
        let one = none.policy(false, false).expect("a policy");
        assert_eq!((one.connections, one.when_full), (1, WhenFull::RoundRobin), "one connection pipelines");
        let six = Choices { connections: Some(6), ..none.clone() }.policy(false, false).expect("a policy");
        assert_eq!((six.connections, six.when_full), (6, WhenFull::Wait), "browsers do not pipeline");
        let old = Choices { per_object: true, ..none.clone() }.policy(false, false).expect("a policy");
        assert_eq!((old.connections, old.objects_per_connection), (4, Some(1)));
        let sctp = none.policy(true, false).expect("a policy");
        assert_eq!((sctp.connections, sctp.when_full), (1, WhenFull::Wait));
        assert!(!sctp.spread && !six.spread);
        for open_loop in [false, true] {
            let six =
                Choices { connections: Some(6), ..none.clone() }.policy(true, open_loop).expect("a policy");
            assert_eq!((six.connections, six.spread), (6, true), "six associations share the objects");
        }
        for multistream in [false, true] {
            let open = none.policy(multistream, true).expect("a policy");
            assert_eq!((open.connections, open.when_full), (usize::MAX, WhenFull::Wait));
        }
    }

    #[test]
    fn contradictions_are_refused_in_one_line() {
        let none = Choices::default();
        let wrong = [
            (Choices { connections: Some(0), ..none.clone() }, false),
            (Choices { objects_per_connection: Some(0), ..none.clone() }, false),
            (Choices { per_object: true, objects_per_connection: Some(2), ..none.clone() }, false),
            (Choices { pipeline: Some(true), ..none.clone() }, true),
            (Choices { outstanding: Some(0), ..none.clone() }, true),
            (Choices { outstanding: Some(3), pipeline: Some(false), ..none.clone() }, false),
            (Choices { outstanding: Some(3), per_object: true, ..none.clone() }, false),
            (Choices { when_full: Some(WhenFull::Wait), ..none.clone() }, false),
            (Choices { per_object: true, pipeline: Some(true), ..none }, false),
        ];
        for (choices, multistream) in wrong {
            let error = choices.policy(multistream, false).expect_err("refused").to_string();
            assert!(
                ["write", "key of", "needs", "leave one"].iter().any(|word| error.contains(word)),
                "{error}"
            );
        }
        assert_eq!("grow".parse(), Ok(WhenFull::Grow));
        assert!("fifo".parse::<WhenFull>().is_err());
    }
}
