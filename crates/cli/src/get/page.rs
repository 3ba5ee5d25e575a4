//! `get --page`: a document and what it embeds, into a directory, with a waterfall.

use super::meter::Meter;
use super::waterfall;
use crate::dial::{Sctp, within};
use crate::files::{self, Reserved};
use crate::place::{Carrier, Url};
use crate::serve::now;
use crate::{Done, Failure, complain, say};
use anabranch_http::gateway::allow::Rules;
use anabranch_http::gateway::{Associations, Authority, Origins, Peer};
use anabranch_http::har::write::{self as har, Fetch};
use anabranch_http::page::{Object, Page};
use anabranch_http::visit::{Keeper, Plan, Step, Visit, visit};
use anabranch_transport::engines::sctp::Config;
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// What is to be done.
pub struct Asked {
    /// The document.
    pub url: Url,
    /// Where bodies go; `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Where the HAR goes.
    pub har: Har,
    /// No waterfall.
    pub quiet: bool,
    /// For a connection.
    pub connect: Duration,
    /// For an object that does not move.
    pub timeout: Duration,
    pub sctp: Config,
    pub sctp_port: u16,
}

/// Where the HAR goes.
pub enum Har {
    Nowhere,
    Stdout,
    File(Reserved),
}

/// Gets the page.
pub async fn get(world: &OsWorld, asked: Asked) -> Result<Done, Failure> {
    let Asked { url, directory, har, quiet, connect, timeout, sctp, sctp_port } = asked;
    if let Some(directory) = &directory {
        files::reserve_directory(directory)?;
    }
    let began = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = world.now();
    let meter = Meter::new();
    let shown = (!quiet).then(|| world.spawn("progress", meter.clone().show(world.clone())));
    let keeper = Rc::new(Kept { directory, names: RefCell::default(), meter: meter.clone() });
    let authority = Authority { host: url.host.to_ascii_lowercase(), port: url.port };
    let plan = |at_once| Plan {
        authority: authority.clone(),
        host: url.authority(),
        start: url.target.clone(),
        at_once,
        timeout,
    };
    let come = if url.carrier == Carrier::Tcp {
        let origins = Rc::new(Origins::new(world, Some(authority.clone()), Rules::default(), connect));
        visit(world, origins, plan(CONNECTIONS), keeper).await
    } else {
        let addresses = match url.resolve() {
            Ok(addresses) => addresses,
            Err(why) => {
                complain(&why);
                files::clean_up();
                return Ok(Done::Badly);
            }
        };
        let at_once = usize::from(sctp.streams);
        let to = Sctp { carrier: url.carrier, addresses, port: sctp_port, config: sctp };
        let (host, ways) = to.host(world).await?;
        let peer = Peer::Origin(authority.clone());
        let associations =
            Rc::new(Associations::new(world, ways.connector.clone(), ways.count(), peer, connect));
        let come = visit(world, associations.clone(), plan(at_once), keeper).await;
        associations.close();
        let _ = within(world, CLOSING, host.idle()).await;
        come
    };
    drop(shown);
    meter.clear();
    if !quiet {
        let drawn = waterfall::draw(&come, start, url.carrier == Carrier::Tcp);
        match har {
            Har::Stdout => std::io::stderr().write_all(drawn.as_bytes()).unwrap_or(()),
            _ => say(&drawn)?,
        }
    }
    // On a full disk objects are missing, too: all is told.
    let text = || as_har(&url, &come, start, began.as_millis().try_into().unwrap_or(u64::MAX));
    let kept = match har {
        Har::Nowhere => Ok(()),
        Har::Stdout => say(&text()),
        Har::File(file) => file.fill(text().as_bytes()).and_then(|file| files::publish(vec![file])),
    };
    let mut done = Done::Well;
    for object in &come.objects {
        if let Some(why) = &object.failure {
            complain(&format!("{}{}: {why}", url.host, object.target));
            done = Done::Badly;
        }
    }
    if !come.left_out.is_empty() {
        let named: Vec<_> = come.left_out.iter().take(NAMED).map(String::as_str).collect();
        let more = if come.left_out_count > NAMED { ", …" } else { "" };
        complain(&format!(
            "{} addresses left out, of other hosts: {}{more}",
            come.left_out_count,
            named.join(", ")
        ));
    }
    if done == Done::Well {
        kept?;
    } else {
        if let Err(failure) = kept {
            complain(&failure.line());
        }
        files::clean_up();
    }
    Ok(done)
}

/// Files below a directory, each whole or not there.
struct Kept {
    directory: Option<PathBuf>,
    /// What has a name below it: a file with its target, or a directory.
    names: RefCell<BTreeMap<PathBuf, Option<String>>>,
    meter: Rc<Meter>,
}

impl Kept {
    /// The file below the directory that holds a target, and no other: a name that another has gets a number.
    fn name(&self, target: &str) -> PathBuf {
        let mut names = self.names.borrow_mut();
        let wanted = name_of(target);
        let last = wanted.components().count().saturating_sub(1);
        let mut name = PathBuf::new();
        for (depth, part) in wanted.iter().enumerate() {
            let holds = (depth == last).then(|| target.to_owned());
            let numbered = |number: u32| match number {
                1 => name.join(part),
                _ => name.join(format!("{}~{number}", part.to_string_lossy())),
            };
            let mut free = (1..).map(numbered).filter(|name| names.get(name).is_none_or(|has| *has == holds));
            name = free.next().unwrap_or_else(|| name.join(part));
            names.insert(name.clone(), holds);
        }
        name
    }
}

impl Keeper for Kept {
    type File = Reserved;

    fn open(&self, target: &str) -> Result<Option<Reserved>, String> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let file = directory.join(self.name(target));
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|why| format!("cannot write '{}': {why}", file.display()))?;
        }
        Reserved::new(&file).map(Some).map_err(Failure::line)
    }

    fn write(&self, file: &mut Reserved, piece: &[u8]) -> Result<(), String> {
        file.write(piece).map_err(Failure::line)
    }

    fn done(&self, file: Reserved) -> Result<(), String> {
        file.done().and_then(|file| files::publish(vec![file])).map_err(Failure::line)
    }

    fn progress(&self, object: usize, step: Step) {
        self.meter.step(object, step);
    }
}

/// The file below the directory that holds a target: `/a/` is `a/index.html`, escapes are undone where that makes a
/// name.
fn name_of(target: &str) -> PathBuf {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut file = PathBuf::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let plain = decoded(segment).filter(|plain| is_name(plain));
        let named = plain.unwrap_or_else(|| segment.to_owned());
        file.push(bounded(if is_name(&named) { named } else { format!("%{named}") }));
    }
    if path.ends_with('/') {
        file.push("index.html");
    }
    match query {
        // What the query stands for is part of the name.
        Some(query) => {
            let path = file.file_name().unwrap_or_default().to_string_lossy();
            let name = bounded(format!("{path}?{}", query.replace('/', "%2F")));
            file.with_file_name(name)
        }
        None => file,
    }
}

/// Within what file systems take for a name: of a longer one the beginning, and what tells it from others.
fn bounded(name: String) -> String {
    if name.len() <= LONGEST_NAME {
        return name;
    }
    // FNV-1a, 64 bits.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let end = (0..=LONGEST_NAME - 17).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    format!("{}~{hash:016x}", &name[..end])
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text != "."
        && text != ".."
        && !text.contains(['/', '\0'])
        && !text.starts_with(".anabranch.")
}

fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

fn as_har(url: &Url, come: &Visit, start: anabranch_base::time::Instant, began: u64) -> String {
    let mut page = Page {
        name: url.text.clone(),
        source: format!("loaded over {}", url.carrier.scheme()),
        hosts: vec![url.authority()],
        objects: Vec::new(),
        warnings: Vec::new(),
    };
    let mut fetches = Vec::new();
    let since = |at: anabranch_base::time::Instant| anabranch_base::time::Instant::ZERO + (at - start);
    for (number, object) in come.objects.iter().enumerate() {
        let mut entry = Object::new(object.target.clone(), object.bytes);
        entry.initiator = object.initiator;
        entry.content_type.clone_from(&object.content_type);
        page.objects.push(entry);
        let connection = match (object.connection, url.carrier) {
            (None, _) => String::new(),
            (Some(connection), Carrier::Tcp) => connection.to_string(),
            (Some(connection), _) => format!("{connection}/{}", object.stream),
        };
        fetches.push(Fetch {
            object: number,
            issued: since(object.issued),
            assigned: Some(since(object.assigned)),
            first_byte: Some(since(object.first_byte)),
            ended: since(object.ended),
            connection,
            status: object.status,
            failure: object.failure.clone(),
        });
    }
    let (scheme, version) = (url.carrier.scheme(), env!("CARGO_PKG_VERSION"));
    har::write(&page, scheme, &fetches, began, version, "anabranch get --page")
}

/// Connections to one server, as browsers have.
const CONNECTIONS: usize = 6;
/// What a peer has to answer that we are done.
const CLOSING: Duration = Duration::from_secs(2);
/// Bytes of a file's name; most file systems take 255.
const LONGEST_NAME: usize = 200;
/// Addresses that a warning names.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_stay_below_their_directory() {
        for (target, file) in [
            ("/", "index.html"),
            ("/a/b.css", "a/b.css"),
            ("/a/", "a/index.html"),
            ("/one%20two.png", "one two.png"),
            ("/a?b=/c", "a?b=%2Fc"),
            ("/?q", "index.html?q"),
            ("/%2e%2e/x", "%2e%2e/x"),
            ("/..%2fx", "..%2fx"),
            ("/a%00", "a%00"),
            ("/%zz", "%zz"),
            ("//x", "x"),
        ] {
            let named = name_of(target);
            assert_eq!(named, Path::new(file), "{target}");
            assert!(named.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
        let long = |end: &str| name_of(&format!("/a?{}{end}", "q".repeat(300)));
        let (one, other) = (long("1"), long("2"));
        assert!(one != other && one == long("1"));
        assert!(one.as_os_str().len() <= LONGEST_NAME && one.to_string_lossy().starts_with("a?qq"));
        assert!(name_of(&format!("/{}", "%C3%A4".repeat(300))).as_os_str().len() <= LONGEST_NAME);
    }

    #[test]
    fn no_file_takes_the_place_of_another() {
        let meter = Meter::new();
        let kept = Kept { directory: None, names: RefCell::default(), meter };
        for (target, file) in [
            ("/", "index.html"),
            ("/index.html", "index.html~2"),
            ("/", "index.html"),
            ("/docs", "docs"),
            ("/docs/a", "docs~2/a"),
            ("/docs/b", "docs~2/b"),
            ("/x/y", "x/y"),
            ("/x", "x~2"),
            ("/x//y", "x/y~2"),
        ] {
            assert_eq!(kept.name(target), Path::new(file), "{target}");
        }
    }
}
