//! `anabranch get`: fetches objects over TCP, SCTP and HTTP/3, into files or to standard output.
//!
//! Objects of one server share a connection or association. Over SCTP, HTTP/2 and HTTP/3 each object has its own
//! stream, and all objects are fetched concurrently. Over HTTP/1.1 on TCP they are fetched one after the other.
//!
//! - `account`: the result as JSON and CSV
//! - `exchange`: the exchange for one object
//! - `download_dir`: names and paths of the files of a page
//! - `meter`: progress on the terminal
//! - `objects`: all objects, grouped by server
//! - `page`: a document and its embedded objects
//! - `object`: an object to fetch, the settings of all requests, and the outcome of a request
//! - `waterfall`: a page load drawn as bars over time

mod account;
mod download_dir;
mod exchange;
mod meter;
mod object;
mod objects;
mod page;
mod waterfall;

use crate::files::{self, PendingFile};
use crate::knobs::Tuned;
use crate::outputs::Outputs;
use crate::paths::PathLog;
use crate::url::Url;
use crate::{Completion, Failure, complain, dry_run, qlog, say, secure};
use account::{Ledger, LeftOut};
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_http::browser::Client;
use anabranch_http::get::RequestOptions;
use anabranch_transport::network::Needs;
use anabranch_transports::security::ClientSecurity;
use anabranch_transports::{Encryption, Transports, UrlScheme};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use meter::Meter;
use object::{ObjectRequest, Settings};
use objects::get_all;
use std::io::IsTerminal;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Runs `anabranch get`.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let flags = Flags::read(matches, transports)?;
    if matches.get_flag("dry-run") {
        say(&flags.dry_run()?)?;
        return Ok(Completion::Well);
    }
    let page = matches.get_flag("page");
    let over_dtls = |url: &&Url| page && url.scheme.encryption() == Encryption::Below;
    if let Some(url) = flags.urls.iter().find(over_dtls) {
        return Err(Failure::Usage(format!(
            "--page {}: pages are not got over DTLS; write https://, h3:// or http+sctp://",
            url.text
        )));
    }
    let tls = secure::client(matches, flags.urls.iter().map(|url| &url.scheme))?;
    if page { flags.get_page(tls) } else { flags.get_objects(tls) }
}

/// What the flags of `get` say.
struct Flags<'a> {
    matches: &'a ArgMatches,
    transports: &'a Transports,
    urls: Vec<Url>,
    outputs: Vec<&'a str>,
    /// The timeout for connecting.
    connect: Duration,
    /// The timeout for a response that makes no progress.
    timeout: Duration,
}

impl<'a> Flags<'a> {
    fn read(matches: &'a ArgMatches, transports: &'a Transports) -> Result<Self, Failure> {
        let mut urls = Vec::new();
        let http = matches.get_one::<String>("http").map(String::as_str);
        for text in matches.get_many::<String>("url").into_iter().flatten() {
            let url = Url::parse(text, transports).map_err(Failure::Usage)?;
            urls.push(secure::with_http_version(http, url, transports)?);
        }
        let outputs = matches.get_many::<String>("output").into_iter().flatten();
        let outputs: Vec<&str> = outputs.map(String::as_str).collect();
        if outputs.contains(&"") {
            return Err(Failure::Usage("--output '': expected a file name".to_owned()));
        }
        let both_timeouts = matches.get_one::<String>("timeout").map(|text| {
            parse_duration(text).map_err(|error| Failure::Usage(format!("--timeout {text}: {error}")))
        });
        let both_timeouts = both_timeouts.transpose()?;
        let (connect, timeout) = (both_timeouts.unwrap_or(CONNECT), both_timeouts.unwrap_or(SILENCE));
        Ok(Self { matches, transports, urls, outputs, connect, timeout })
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    fn schemes(&self) -> Vec<UrlScheme> {
        self.urls.iter().map(|url| url.scheme.clone()).collect()
    }

    /// Returns the output of `--dry-run`.
    fn dry_run(&self) -> Result<String, Failure> {
        let matches = self.matches;
        let mut out: String = self.urls.iter().map(|url| format!("url: {}\n", url.text)).collect();
        if self.outputs.is_empty() {
            out += if matches.get_flag("page") { "output: nowhere\n" } else { "output: standard output\n" };
        }
        out += &dry_run::flags(
            matches,
            &[
                "output", "header", "head", "verbose", "page", "client", "har", "json", "csv", "trust",
                "insecure", "http", "qlog",
            ],
        );
        out += &format!(
            "timeout: {} for a connection, then {}\n",
            format_duration(self.connect),
            format_duration(self.timeout)
        );
        let (schemes, tuned) = (self.schemes(), self.tuned()?);
        if schemes.iter().any(UrlScheme::has_own_ports) {
            out += &dry_run::flags(matches, &["sctp-port", "ppid", "key-file"]);
        }
        if schemes.iter().any(|scheme| !scheme.can().kernel) {
            out += &tuned.lines();
        }
        Ok(out)
    }

    /// Returns the settings of the transports. Prints a warning if these settings have a weakness on a real network.
    fn tuned(&self) -> Result<Tuned, Failure> {
        let needs = Needs { cancels: true, detects_dead_peers: true, ..Needs::default() };
        let tuned = Tuned::read(self.matches, self.transports, &self.schemes(), &needs)?;
        tuned.warn();
        Ok(tuned)
    }

    /// Returns the settings that apply to all requests of the command.
    fn settings(&self, tls: Option<ClientSecurity>, quiet: bool) -> Result<Settings, Failure> {
        Ok(Settings {
            transports: self.transports.clone(),
            connect: self.connect,
            timeout: self.timeout,
            tuned: self.tuned()?,
            logs: qlog::log_destination(self.matches, &self.schemes())?,
            sctp_port: self.matches.get_one::<u16>("sctp-port").copied().unwrap_or(80),
            tls,
            http: self.text("http").map(str::to_owned),
            options: self.request_options()?,
            verbose: self.matches.get_flag("verbose"),
            text_only: std::io::stdout().is_terminal() && !self.outputs.contains(&"-"),
            meter: Meter::new(),
            ledger: Ledger::new(self.urls.iter()),
            paths: PathLog::new(quiet),
        })
    }

    /// Returns the options of the requests: whether only the head is requested, and the fields of `--header`.
    fn request_options(&self) -> Result<RequestOptions, Failure> {
        let mut options = RequestOptions::new(self.matches.get_flag("head"));
        for field in self.matches.get_many::<String>("header").into_iter().flatten() {
            options.add_field(field).map_err(|error| Failure::Usage(format!("--header {error}")))?;
        }
        Ok(options)
    }

    /// Returns the objects to fetch. Checks that their files can be written.
    fn object_requests(&self) -> Result<Vec<ObjectRequest>, Failure> {
        let (urls, outputs) = (&self.urls, &self.outputs);
        // If the only output is a directory, any number of objects can be stored in it.
        let directory = outputs.first().filter(|name| name.ends_with('/') || Path::new(name).is_dir());
        let directory = directory.filter(|_| outputs.len() == 1).map(Path::new);
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
        let mut requests: Vec<ObjectRequest> = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let file = match (directory, outputs.get(number)) {
                (Some(directory), _) => Some(PendingFile::new(&directory.join(last_name(&url.target)))?),
                (None, Some(name)) if name.ends_with('/') => {
                    return Err(Failure::Usage(format!(
                        "--output {name}: with several outputs, each must be a file"
                    )));
                }
                (None, Some(name)) if *name != "-" => Some(PendingFile::new(Path::new(name))?),
                _ => None,
            };
            let same = |other: &&ObjectRequest| {
                other.file.as_ref().zip(file.as_ref()).is_some_and(|(a, b)| a.same_target(b))
            };
            if let Some(other) = requests.iter().find(same) {
                let message = format!(
                    "{} and {} would be one file; write -o FILE once for each",
                    other.url.text, url.text
                );
                return Err(Failure::Usage(message));
            }
            requests.push(ObjectRequest { number, url: url.clone(), file, redirects: 0 });
        }
        Ok(requests)
    }

    /// Runs the command without `--page`.
    fn get_objects(self, tls: Option<ClientSecurity>) -> Result<Completion, Failure> {
        let requests = self.object_requests()?;
        let outputs = Outputs::reserve(self.text("json"), self.text("csv"))?;
        if let Some(one) = requests.iter().find(|one| outputs.writes_to(one.file.as_ref())) {
            let message = format!(
                "--json or --csv and {} would be written to one place; write -o FILE and --json FILE",
                one.url.text
            );
            return Err(Failure::Usage(message));
        }
        // If an object is printed on the terminal, progress is not shown.
        let on_terminal = requests.iter().any(|one| one.file.is_none()) && std::io::stdout().is_terminal();
        let quiet = self.matches.get_flag("quiet") || on_terminal;
        let settings = Rc::new(self.settings(tls, quiet)?);
        in_world(async |world| {
            let start = world.now();
            settings.paths.begin(start);
            let shown = (!quiet).then(|| world.spawn("progress", settings.meter.clone().show(world.clone())));
            let done = get_all(world.clone(), requests, settings.clone()).await?;
            drop(shown);
            if !quiet {
                settings.paths.summary().lines().for_each(complain);
            }
            let objects = settings.ledger.objects();
            settings.write(outputs, &objects, &LeftOut::default(), (start, world.now()))?;
            Ok(done)
        })
    }

    /// Runs the command with `--page`.
    fn get_page(self, tls: Option<ClientSecurity>) -> Result<Completion, Failure> {
        let ([url], [] | [_]) = (&*self.urls, &*self.outputs) else {
            return Err(Failure::Usage("--page takes one URL and at most one -o DIR".to_owned()));
        };
        if self.outputs.contains(&"-") {
            return Err(Failure::Usage("--page writes several files: use -o DIR, not -o -".to_owned()));
        }
        let directory = self.outputs.first().map(|name| Path::new(name).to_owned());
        // The directory is created first, because the other output files may be inside it.
        if let Some(directory) = &directory {
            files::reserve_directory(directory)?;
        }
        let har = match self.text("har") {
            None => page::Har::Discard,
            Some("-") => page::Har::Stdout,
            Some("") => return Err(Failure::Usage("--har '': expected a file name".to_owned())),
            Some(name) => page::Har::File(PendingFile::new(Path::new(name))?),
        };
        let outputs = Outputs::reserve(self.text("json"), self.text("csv"))?;
        let same = match &har {
            page::Har::Discard => false,
            page::Har::Stdout => outputs.writes_to(None),
            page::Har::File(file) => outputs.writes_to(Some(file)),
        };
        if same {
            return Err(Failure::Usage("--json or --csv and --har need different files".to_owned()));
        }
        let quiet = self.matches.get_flag("quiet");
        let client = self.text("client").map_or(Ok(Client::Plain), str::parse);
        let client = client.map_err(|error: String| Failure::Usage(format!("--client {error}")))?;
        let settings = self.settings(tls, quiet)?;
        let page_request =
            page::PageRequest { url: url.clone(), directory, har, outputs, quiet, client, settings };
        in_world(async |world| page::get(&world, page_request).await)
    }
}

/// Runs `command` with the network and the clock of this host.
fn in_world(
    command: impl AsyncFnOnce(OsWorld) -> Result<Completion, Failure>,
) -> Result<Completion, Failure> {
    let done = os::run(os::Options::default(), command);
    done.map_err(|error| Failure::Host(format!("no network here: {error}")))?
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
/// The default timeout of a response that makes no progress. A transfer survives an outage of 60 s: SCTP's timer starts
/// at 1 s and doubles (RFC 9260 §6.3.3 E2), so it retransmits within 63 s of the start of the outage.
const SILENCE: Duration = Duration::from_secs(120);
