//! Runs one test case with a client and a server: creates files, starts both programs with the relay between them,
//! compares the received files, and checks the packets.

use super::Pair;
use super::cases::Case;
use super::decrypted::{self, Datagram};
use super::program::{RunFolders, last_line};
use super::relay::{Relay, Seen};
use anabranch_base::Rng;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The result of running a test case with a client and a server.
#[derive(Debug)]
pub struct Meeting {
    /// The implementations of the client and of the server.
    pub pair: Pair,
    /// The test case that is run.
    pub case: Case,
    /// The headers and counters that the relay observed.
    pub seen: Seen,
    /// The relay's address, to which clients connect.
    pub front: SocketAddr,
    /// The server's address.
    pub back: SocketAddr,
    folders: RunFolders,
}

impl Meeting {
    /// Reads the packets with tshark, as the clients see them.
    ///
    /// # Errors
    /// The error of tshark.
    pub fn client_side(&self) -> Result<Vec<Datagram>, String> {
        self.read("client.pcapng", self.front)
    }

    /// Reads the packets with tshark, as the server sees them.
    ///
    /// # Errors
    /// The error of tshark.
    pub fn server_side(&self) -> Result<Vec<Datagram>, String> {
        self.read("server.pcapng", self.back)
    }

    fn read(&self, file: &str, server: SocketAddr) -> Result<Vec<Datagram>, String> {
        let (client, other) = (self.folders.keys("client"), self.folders.keys("server"));
        decrypted::read(&self.folders.folder.join(file), &[&client, &other], server.port())
    }
}

/// Runs the test `case` with the client and the server of `pair`. Returns a remark if the test passes. After a failure,
/// all files of the run stay in `folder`.
///
/// # Errors
/// The reason why the case failed.
pub fn run_case(pair: Pair, case: Case, folder: PathBuf) -> Result<String, String> {
    let outcome = attempt(pair, case, folder.clone());
    match outcome {
        Ok(remark) => {
            if std::env::var_os("QUIC_KEEP").is_none() {
                let _ = fs::remove_dir_all(folder);
            }
            Ok(remark)
        }
        Err(why) => Err(format!("{why} [{}]", folder.display())),
    }
}

fn attempt(pair: Pair, case: Case, folder: PathBuf) -> Result<String, String> {
    let programs = PathBuf::from(std::env::var_os("QUIC_PROGRAMS").unwrap_or_else(|| ".".into()));
    let folders = RunFolders { folder, programs };
    let files =
        prepare(&folders, case, pair).map_err(|error| format!("{}: {error}", folders.folder.display()))?;
    let (server, back) = folders.server(pair.server, case, pair.client).map_err(|error| error.to_string())?;
    let seed = 1 + Case::ALL.iter().position(|one| *one == case).unwrap_or(0) as u64;
    let impairments = case.impairments(pair.server);
    let relay =
        Relay::start(back, impairments, seed, &folders.folder).map_err(|error| format!("relay: {error}"))?;
    let front = relay.address();
    let until = Instant::now() + LONGEST;
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let groups: Vec<&[String]> =
        if case.is_client_each() { names.chunks(1).collect() } else { vec![&names[..]] };
    let mut clients = Vec::new();
    for (number, group) in groups.into_iter().enumerate() {
        clients.push(
            folders.client(pair.client, case, number, front, group).map_err(|error| error.to_string())?,
        );
    }
    let mut failed = None;
    for (number, client) in clients.iter_mut().enumerate() {
        let output = || last_line(&folders.output_of(&format!("client-{number}"))).to_owned();
        match client.wait(until).map_err(|error| error.to_string())? {
            Some(status) if status.success() => {}
            Some(status) => failed = failed.or(Some(format!("the client ended with {status}: {}", output()))),
            None => {
                failed = failed.or(Some(format!(
                    "the client does not end after {} s: {}",
                    LONGEST.as_secs(),
                    output()
                )))
            }
        }
    }
    drop(clients);
    // Waits a little, because the last packets of the client are still in flight.
    std::thread::sleep(2 * impairments.delay + Duration::from_millis(20));
    let seen = relay.finish();
    drop(server);
    let meeting = Meeting { pair, case, seen, front, back, folders };
    match (failed, case.is_refusal(pair.client)) {
        (Some(why), false) => return Err(why),
        (Some(why), true) if !why.contains("version") => return Err(format!("no word of versions: {why}")),
        (None, true) => return Err("the client has not noticed that it has no version in common".into()),
        (None, false) => compare(&meeting, &files)?,
        (Some(_), true) => {}
    }
    case.check(&meeting)
}

/// Creates the files that the server serves, and returns their names and contents.
fn prepare(folders: &RunFolders, case: Case, pair: Pair) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let _ = fs::remove_dir_all(&folders.folder);
    fs::create_dir_all(folders.site())?;
    fs::create_dir_all(folders.target())?;
    let mut rng = Rng::new(7);
    let mut files = Vec::new();
    for (name, size) in case.files(pair) {
        let mut bytes = vec![0; size];
        rng.fill(&mut bytes);
        fs::write(folders.site().join(&name), &bytes)?;
        files.push((name, bytes));
    }
    Ok(files)
}

/// Checks that the received files equal the served files.
fn compare(meeting: &Meeting, files: &[(String, Vec<u8>)]) -> Result<(), String> {
    if let Some((objects, bytes)) = meeting.case.load(meeting.pair.client) {
        let output = meeting.folders.output_of("client-0");
        let expected = format!("\"content_bytes\": {}", 2 * objects * bytes);
        let came = output.contains(&expected);
        return came.then_some(()).ok_or_else(|| format!("`load` does not say {expected}"));
    }
    for (name, bytes) in files {
        let short = &name[..name.len().min(12)];
        let got =
            fs::read(meeting.folders.target().join(name)).map_err(|error| format!("{short}: {error}"))?;
        if got != *bytes {
            return Err(format!(
                "{short}: {} bytes came that are not the {} that were served",
                got.len(),
                bytes.len()
            ));
        }
    }
    Ok(())
}

const LONGEST: Duration = Duration::from_secs(90);
