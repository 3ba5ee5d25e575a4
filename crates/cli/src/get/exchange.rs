//! One exchange of `anabranch get`: sends the request for an object, writes the response to a file or to standard
//! output, and recognizes redirections.

use super::object::{ObjectOutcome, ObjectRequest, Settings};
use crate::files;
use crate::url::Url;
use crate::{Failure, plain};
use anabranch_http::get::{Answer, GetError, Requests, get};
use anabranch_http::visit::{Destination, MAX_REDIRECTIONS, Step, resolve_here};
use anabranch_transport::{CloseReason, Http};
use anabranch_transports::Transports;
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::io::Write;

/// The stream or HTTP connection on which an object is requested.
pub(super) enum RequestChannel<'a, T> {
    /// The request is sent on this stream.
    Stream(&'a mut T),
    /// The request is sent on a new stream, over HTTP/2 or HTTP/3.
    Requests(&'a Requests),
}

/// Fetches one object and records its progress. Returns the outcome, and whether the stream can carry another exchange.
pub(super) async fn get_one<T: anabranch_transport::Stream>(
    world: &OsWorld,
    channel: RequestChannel<'_, T>,
    connection: u64,
    request: ObjectRequest,
    settings: &Settings,
) -> (ObjectOutcome, bool) {
    let number = request.number;
    settings.ledger.note(number, |fetched| {
        if let RequestChannel::Stream(stream) = &channel {
            fetched.session_and_stream = Some((connection, stream.number()));
        }
        fetched.assigned = Some(world.now());
        (fetched.status, fetched.bytes, fetched.head_received) = (None, 0, None);
    });
    let (ended, keep) = exchange(world, channel, connection, request, settings).await;
    settings.ledger.note(number, |fetched| match &ended {
        ObjectOutcome::Delivered => fetched.delivered = Some(world.now()),
        ObjectOutcome::Failed(why) => fetched.error = Some(why.clone()),
        ObjectOutcome::Redirected(_) | ObjectOutcome::Host(_) => {}
    });
    (ended, keep)
}

/// Sends the request and receives the response for [`get_one`], without recording the outcome.
async fn exchange<T: anabranch_transport::Stream>(
    world: &OsWorld,
    channel: RequestChannel<'_, T>,
    connection: u64,
    request: ObjectRequest,
    settings: &Settings,
) -> (ObjectOutcome, bool) {
    let ObjectRequest { number, url, mut file, redirects: redirections } = request;
    let authority = url.authority();
    let version = match &channel {
        RequestChannel::Stream(_) => "HTTP/1.1",
        RequestChannel::Requests(requests) => requests.version(),
    };
    let mut printed_bytes = 0;
    let take = |answer: &Answer, bytes: &[u8]| {
        let head = &answer.head;
        settings.ledger.note(number, |fetched| {
            if bytes.is_empty() {
                (fetched.status, fetched.head_received) = (Some(head.status), Some(world.now()));
            }
            fetched.bytes += bytes.len() as u64;
        });
        if bytes.is_empty() && settings.verbose {
            print_head("< ", &answer.text(version));
        }
        if settings.options.is_head_only() {
            let text = answer.text(version);
            return match &mut file {
                Some(file) => file.write(text.as_bytes()),
                None => deliver(text.as_bytes()),
            };
        }
        if head.status != 200 {
            return Ok(());
        }
        let received = Step::Received(bytes.len() as u64);
        settings.meter.step(number, if bytes.is_empty() { Step::Started(head.length) } else { received });
        match &mut file {
            Some(file) => file.write(bytes),
            None if settings.text_only && printed_bytes < BINARY_WITHIN && bytes.contains(&0) => {
                Err(Failure::Host(format!("{}: {BINARY}", url.target)))
            }
            None => {
                printed_bytes += bytes.len();
                deliver(bytes)
            }
        }
    };
    let result = match channel {
        RequestChannel::Stream(stream) => {
            if settings.verbose {
                print_head("> ", &settings.options.http1_request(&authority, &url.target));
            }
            let (from, options) = ((authority.as_str(), url.target.as_str()), &settings.options);
            get(world, stream, from, options, settings.timeout, take).await
        }
        RequestChannel::Requests(requests) => {
            let query = match requests.query(&authority, &url.target) {
                Ok(query) => query.with(&settings.options),
                Err(reason) => return (ObjectOutcome::Failed(format!("{}: {reason}", url.target)), false),
            };
            if settings.verbose {
                print_head("> ", &query.text(version));
            }
            let record_stream = |stream| {
                settings
                    .ledger
                    .note(number, |fetched| fetched.session_and_stream = Some((connection, stream)))
            };
            requests.get(world, &query, settings.timeout, record_stream, take).await
        }
    };
    if !result.as_ref().is_ok_and(|(answer, _)| answer.redirection().is_some()) {
        settings.meter.step(number, Step::Finished);
    }
    match result {
        Ok((answer, _)) if matches!(answer.head.status, 200 | 204) => {
            let published =
                file.map_or(Ok(()), |file| file.done().and_then(|file| files::publish(vec![file])));
            let ended = published
                .map_or_else(|error| ObjectOutcome::Failed(error.line()), |()| ObjectOutcome::Delivered);
            (ended, !answer.head.close)
        }
        Ok((answer, _)) => {
            let ended = match answer.redirection().map(|to| resolve_redirect(&url, to, &settings.transports))
            {
                None => ObjectOutcome::Failed(format!("{}: status {}", url.target, answer.head.status)),
                Some(_) if redirections >= MAX_REDIRECTIONS => ObjectOutcome::Failed(format!(
                    "{}: redirected more than {MAX_REDIRECTIONS} times",
                    url.target
                )),
                Some(Ok(url)) => ObjectOutcome::Redirected(Box::new(ObjectRequest {
                    number,
                    url,
                    file,
                    redirects: redirections + 1,
                })),
                Some(Err(why)) => ObjectOutcome::Failed(format!("{}: redirected to {why}", url.target)),
            };
            (ended, !answer.head.close)
        }
        Err(GetError::Taker(failure)) => (ObjectOutcome::Failed(failure.line()), false),
        Err(GetError::Closed(CloseReason::Finished)) => (
            ObjectOutcome::Failed(format!(
                "{}: the server closed before the answer was complete",
                url.target
            )),
            false,
        ),
        Err(error) => (ObjectOutcome::Failed(format!("{}: {error}", url.target)), false),
    }
}

/// Prints each line of a head to standard error, after `mark`.
fn print_head(mark: &str, head: &str) {
    let mut text = String::new();
    for line in head.lines() {
        text += mark;
        text += &plain(line);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The error message for binary data that would be written to a terminal.
const BINARY: &str = "binary data, which could disturb the terminal; write -o FILE, or -o - to print it";
/// The number of bytes at the beginning of an object that are searched for NUL bytes, which only binary data has.
const BINARY_WITHIN: usize = 2000;

/// Writes a piece of an object to standard output. A closed pipe is an error, because its reader has not received the
/// whole object.
fn deliver(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Host(format!("cannot write to standard output: {error}")))
}

/// Resolves the redirection target `location` relative to `url`.
fn resolve_redirect(url: &Url, location: &str, transports: &Transports) -> Result<Url, String> {
    // A URL that was fetched over HTTP/3 has the scheme https, relative to which the target is resolved (RFC 9114
    // §3.1).
    let http3 = url.scheme.http() == Some(Http::Http3);
    match resolve_here((&url.authority(), http3), &url.target, location) {
        Destination::Here(target) => Ok(Url { target, ..url.clone() }),
        Destination::OtherHost(other) if other.starts_with("//") => {
            let scheme = if http3 { "https" } else { url.scheme.url() };
            Url::parse(&format!("{scheme}:{other}"), transports)
        }
        Destination::OtherHost(other) => Url::parse(&other, transports),
        Destination::NotFetchable => Err(format!("'{location}'")),
    }
}
