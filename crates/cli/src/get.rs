//! `anabranch get`: fetches objects over TCP, SCTP and HTTP/3, into files or to standard output.
//!
//! Objects of one server share a session. Over SCTP, HTTP/2 and HTTP/3 each object has its own stream, and all objects are
//! fetched concurrently. Over HTTP/1.1 on TCP they are fetched one after the other.
//!
//! - `account`: the result as JSON and CSV
//! - `exchange`: the exchange for one object
//! - `keep`: names and paths of the files of a page
//! - `meter`: progress on the terminal
//! - `objects`: all objects, grouped by server
//! - `page`: a document and its embedded objects
//! - `wanted`: an object to fetch, the settings, and the outcome
//! - `waterfall`: a page load drawn as bars over time

mod account;
mod exchange;
mod keep;
mod meter;
mod objects;
mod page;
mod wanted;
mod waterfall;

use crate::files::{self, PendingFile};
use crate::knobs::Tuned;
use crate::outputs::Outputs;
use crate::paths::PathLog;
use crate::url::Url;
use crate::{Completion, Failure, complain, dry_run, qlog, say, secure};
use account::{Ledger, LeftOut};
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_transport::network::Needs;
use anabranch_transports::security::ClientSecurity;
use anabranch_transports::{Encryption, Transports, UrlScheme};
use anabranch_world::World;
use anabranch_world::os;
use clap::ArgMatches;
use meter::Meter;
use objects::get_all;
use std::io::IsTerminal;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use wanted::{ObjectRequest, Settings};

/// Runs `anabranch get`.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let mut urls = Vec::new();
    let http = matches.get_one::<String>("http").cloned();
    for text in matches.get_many::<String>("url").into_iter().flatten() {
        let url = Url::parse(text, transports).map_err(Failure::Usage)?;
        urls.push(secure::with_http_version(http.as_deref(), url, transports)?);
    }
    let outputs: Vec<&String> = matches.get_many("output").into_iter().flatten().collect();
    if outputs.iter().any(|name| name.is_empty()) {
        return Err(Failure::Usage("--output '': expected a file name".to_owned()));
    }
    let given = matches
        .get_one::<String>("timeout")
        .map(|text| parse_duration(text).map_err(|why| Failure::Usage(format!("--timeout {text}: {why}"))));
    let given = given.transpose()?;
    let (connect, timeout) = (given.unwrap_or(CONNECT), given.unwrap_or(SILENCE));
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(80);
    if matches.get_flag("dry-run") {
        say(&dry_run(matches, transports, &urls, &outputs, (connect, timeout))?)?;
        return Ok(Completion::Well);
    }
    let page = matches.get_flag("page");
    let over_dtls = |url: &&Url| page && url.scheme.encryption() == Encryption::Below;
    if let Some(url) = urls.iter().find(over_dtls) {
        return Err(Failure::Usage(format!(
            "--page {}: pages are not got over DTLS; write https://, h3:// or http+sctp://",
            url.text
        )));
    }
    let tls = secure::client(matches, urls.iter().map(|url| &url.scheme))?;
    if page {
        return whole_page(matches, transports, urls, &outputs, (connect, timeout), (tls, http));
    }
    // If the output is a directory, it can take any number of objects.
    let directory = outputs.first().filter(|name| name.ends_with('/') || Path::new(name.as_str()).is_dir());
    let directory = directory.filter(|_| outputs.len() == 1).map(|name| Path::new(name.as_str()));
    if !outputs.is_empty() && outputs.len() != urls.len() && directory.is_none() {
        let message = format!(
            "{} URLs and {} files; write -o FILE once for each, or -o DIR/",
            urls.len(),
            outputs.len()
        );
        return Err(Failure::Usage(message));
    }
    if let Some(directory) = directory {
        files::reserve_directory(directory)?;
    }
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let mut wanted: Vec<ObjectRequest> = Vec::new();
    for (number, url) in urls.into_iter().enumerate() {
        let file = match (directory, outputs.get(number)) {
            (Some(directory), _) => Some(PendingFile::new(&directory.join(last_name(&url.target)))?),
            (None, Some(name)) if name.ends_with('/') => {
                return Err(Failure::Usage(format!(
                    "--output {name}: with several outputs, each must be a file"
                )));
            }
            (None, Some(name)) if name.as_str() != "-" => Some(PendingFile::new(Path::new(name.as_str()))?),
            _ => None,
        };
        let same = |other: &&ObjectRequest| {
            other.file.as_ref().zip(file.as_ref()).is_some_and(|(a, b)| a.same_place(b))
        };
        if let Some(other) = wanted.iter().find(same) {
            let message =
                format!("{} and {} would be one file; write -o FILE once for each", other.url.text, url.text);
            return Err(Failure::Usage(message));
        }
        wanted.push(ObjectRequest { number, url, file, redirects: 0 });
    }
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    if let Some(one) = wanted.iter().find(|one| outputs.takes(one.file.as_ref())) {
        let message = format!(
            "--json or --csv and {} would be written to one place; write -o FILE and --json FILE",
            one.url.text
        );
        return Err(Failure::Usage(message));
    }
    let schemes: Vec<UrlScheme> = wanted.iter().map(|one| one.url.scheme.clone()).collect();
    let tuned = tuned(matches, transports, &schemes)?;
    let described = tuned.describe();
    let ledger = Ledger::new(wanted.iter().map(|one| &one.url));
    let logs = qlog::given(matches, &schemes)?;
    let meter = Meter::new();
    // If an object is printed on the terminal, progress is not shown.
    let on_terminal = wanted.iter().any(|one| one.file.is_none()) && std::io::stdout().is_terminal();
    let quiet = matches.get_flag("quiet") || on_terminal;
    let done = os::run(os::Options::default(), async |world| {
        let paths = PathLog::new(quiet);
        paths.begin(world.now());
        let settings = Settings {
            transports: transports.clone(),
            connect,
            timeout,
            tuned,
            logs,
            sctp_port,
            tls,
            http,
            meter,
            ledger,
            paths,
        };
        let shown = (!quiet).then(|| world.spawn("progress", settings.meter.clone().show(world.clone())));
        let (settings, start) = (Rc::new(settings), world.now());
        let done = get_all(world.clone(), wanted, settings.clone()).await?;
        drop(shown);
        if !quiet {
            settings.paths.summary().lines().for_each(complain);
        }
        let objects = settings.ledger.objects();
        outputs.write(
            "",
            || {
                let times = (start, world.now());
                account::json(
                    &objects,
                    transports,
                    &LeftOut::default(),
                    described,
                    times,
                    settings.paths.fields_with_paths(),
                )
            },
            || account::csv(&objects, transports, start),
        )?;
        Ok(done)
    });
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// Returns the output of `--dry-run`.
fn dry_run(
    matches: &ArgMatches,
    transports: &Transports,
    urls: &[Url],
    outputs: &[&String],
    (connect, timeout): (Duration, Duration),
) -> Result<String, Failure> {
    let mut out: String = urls.iter().map(|url| format!("url: {}\n", url.text)).collect();
    if outputs.is_empty() {
        out += if matches.get_flag("page") { "output: nowhere\n" } else { "output: standard output\n" };
    }
    out += &dry_run::flags(
        matches,
        &["output", "page", "har", "json", "csv", "trust", "insecure", "http", "qlog"],
    );
    out += &format!(
        "timeout: {} for a connection, then {}\n",
        format_duration(connect),
        format_duration(timeout)
    );
    let schemes: Vec<UrlScheme> = urls.iter().map(|url| url.scheme.clone()).collect();
    let tuned = tuned(matches, transports, &schemes)?;
    if schemes.iter().any(UrlScheme::has_own_ports) {
        out += &dry_run::flags(matches, &["sctp-port", "ppid", "key-file"]);
    }
    if schemes.iter().any(|scheme| !scheme.can().kernel) {
        out += &tuned.lines();
    }
    Ok(out)
}

/// Returns the settings of the transports of `schemes`, and warns of their weaknesses.
fn tuned(matches: &ArgMatches, transports: &Transports, schemes: &[UrlScheme]) -> Result<Tuned, Failure> {
    let needs = Needs { cancels: true, detects_dead_peers: true, ..Needs::default() };
    let tuned = Tuned::read(matches, transports, schemes, &needs)?;
    tuned.warn();
    Ok(tuned)
}

/// Runs `anabranch get --page`.
fn whole_page(
    matches: &ArgMatches,
    transports: &Transports,
    urls: Vec<Url>,
    outputs: &[&String],
    (connect, timeout): (Duration, Duration),
    (tls, http): (Option<ClientSecurity>, Option<String>),
) -> Result<Completion, Failure> {
    let mut urls = urls.into_iter();
    let (Some(url), None, false) = (urls.next(), urls.next(), outputs.len() > 1) else {
        return Err(Failure::Usage("--page takes one URL and at most one -o DIR".to_owned()));
    };
    if outputs.iter().any(|name| name.as_str() == "-") {
        return Err(Failure::Usage("--page writes several files: use -o DIR, not -o -".to_owned()));
    }
    let directory = outputs.first().map(|name| Path::new(name.as_str()).to_owned());
    // The directory is created first, because the other output files may be inside it.
    if let Some(directory) = &directory {
        files::reserve_directory(directory)?;
    }
    let har = match matches.get_one::<String>("har").map(String::as_str) {
        None => page::Har::Discard,
        Some("-") => page::Har::Stdout,
        Some("") => return Err(Failure::Usage("--har '': expected a file name".to_owned())),
        Some(name) => page::Har::File(PendingFile::new(Path::new(name))?),
    };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    let same = match &har {
        page::Har::Discard => false,
        page::Har::Stdout => outputs.takes(None),
        page::Har::File(file) => outputs.takes(Some(file)),
    };
    if same {
        return Err(Failure::Usage("--json or --csv and --har need different files".to_owned()));
    }
    let quiet = matches.get_flag("quiet");
    let tuned = tuned(matches, transports, std::slice::from_ref(&url.scheme))?;
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(80);
    let asked = page::Asked {
        logs: qlog::given(matches, [&url.scheme])?,
        transports: transports.clone(),
        url,
        directory,
        har,
        outputs,
        quiet,
        tls,
        http,
        connect,
        timeout,
        tuned,
        sctp_port,
    };
    let done = os::run(os::Options::default(), async |world| page::get(&world, asked).await);
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// Returns the file name for a request target: the last segment of its path.
fn last_name(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "" | "." | ".." => "index.html",
        name => name,
    }
}

/// The default time limit for connecting.
const CONNECT: Duration = Duration::from_secs(30);
/// The default timeout of a response that makes no progress. After an outage of 60 s, SCTP retransmits at most 63 s after
/// the start of the outage: its timer starts at 1 s and doubles (RFC 9260 §6.3.3 E2).
const SILENCE: Duration = Duration::from_secs(120);
