//! Starts the programs of a test: a server, which prints its address, and a client, which exits after its transfers.
//!
//! Our program is the `anabranch` command. `peers/NAME.sh` has built the programs of the other stacks. The output of
//! all programs is written to files beside the captures.

use super::Stack;
use super::cases::Case;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The folders of a test run: one for its files, and one with the programs.
#[derive(Debug)]
pub struct RunFolders {
    /// The folder with the files of this test run.
    pub folder: PathBuf,
    /// The folder with the programs of the peers.
    pub programs: PathBuf,
}

impl RunFolders {
    /// Returns the folder whose files the server serves.
    #[must_use]
    pub fn site(&self) -> PathBuf {
        self.folder.join("site")
    }

    /// Returns the folder into which the client writes the received files.
    #[must_use]
    pub fn target(&self) -> PathBuf {
        self.folder.join("got")
    }

    /// Returns the file with the TLS secrets of the sessions of `side` (client or server).
    #[must_use]
    pub fn keys(&self, side: &str) -> PathBuf {
        self.folder.join(format!("{side}.keys"))
    }

    /// Returns the text that the program of `side` has printed so far.
    #[must_use]
    pub fn output_of(&self, side: &str) -> String {
        std::fs::read(self.folder.join(format!("{side}.txt")))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn authority(&self) -> PathBuf {
        self.programs.join("authority.pem")
    }

    fn foreign(&self, stack: Stack, role: &str, case: &str, at: SocketAddr) -> Command {
        let mut command = Command::new(self.programs.join(stack.to_string()));
        command.args([role, case]).arg(at.ip().to_string()).arg(at.port().to_string());
        command
    }

    /// Starts a program whose output goes to the file named after `side`.
    fn start(&self, side: &str, command: &mut Command) -> io::Result<Program> {
        let output = File::create(self.folder.join(format!("{side}.txt")))?;
        let keys = side.split('-').next().unwrap_or(side);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        command.env("SSLKEYLOGFILE", self.keys(keys)).env("RUST_BACKTRACE", "0");
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", Path::new(command.get_program()).display()))
        })?;
        Ok(Program { child })
    }

    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// The server does not start, or does not print its address.
    pub fn server(&self, stack: Stack, case: Case, client: Stack) -> io::Result<(Program, SocketAddr)> {
        let (cert, key) = (self.programs.join("server.pem"), self.programs.join("server.key"));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut command = match stack {
            Stack::Ours => {
                let mut command = ours();
                command.arg("serve").arg(self.site()).args(["--listen", "h3://127.0.0.1:0"]);
                command.arg("--cert").arg(cert).arg("--key").arg(key);
                if case == Case::Retry {
                    command.args(["--set", "retry=always"]);
                }
                command
            }
            _ => {
                let mut command = self.foreign(stack, "server", case.told_to_server(client), anywhere);
                command.arg(cert).arg(key).arg(self.site());
                command
            }
        };
        let mut server = self.start("server", &mut command)?;
        let started = Instant::now();
        while started.elapsed() < STARTED {
            // `whole_lines` leaves out a last line without a line feed, because the server may not have written all of
            // it yet.
            if let Some(at) = whole_lines(&self.output_of("server")).find_map(address) {
                return Ok((server, at));
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "the server ended with {status}: {}",
                    last_line(&self.output_of("server"))
                )));
            }
            sleep(Duration::from_millis(10));
        }
        Err(io::Error::other(format!("the server does not listen after {} s", STARTED.as_secs())))
    }

    /// Starts the client with this number.
    ///
    /// # Errors
    /// The client does not start.
    pub fn client(
        &self,
        stack: Stack,
        case: Case,
        number: usize,
        at: SocketAddr,
        files: &[String],
    ) -> io::Result<Program> {
        let mut command = match stack {
            Stack::Ours => {
                let mut command = ours();
                match (case.load(stack), files) {
                    (Some((objects, _)), [file, ..]) => {
                        command.arg("load").arg(format!("h3://{at}/{file}")).args(["-c", "1", "--json", "-"]);
                        command.args(["--objects-per-session", &objects.to_string()]);
                        command.args(["--streams", &objects.to_string()]);
                        command.args(["--requests", &(2 * objects).to_string()]);
                        if case == Case::ZeroRtt {
                            command.arg("--early-data");
                        }
                    }
                    (None, [file]) => {
                        command
                            .arg("get")
                            .arg(format!("h3://{at}/{file}"))
                            .arg("-o")
                            .arg(self.target().join(file));
                    }
                    _ => {
                        command.arg("get").args(files.iter().map(|file| format!("h3://{at}/{file}")));
                        // The slash at the end makes `get` treat the target as a directory.
                        command.arg("-o").arg(self.target().join(""));
                    }
                }
                command.arg("--trust").arg(self.authority());
                if case.is_narrow() {
                    command.args(["--set", "stream_window=64KiB,window=128KiB"]);
                }
                command
            }
            _ => {
                let mut command = self.foreign(stack, "client", case.told_to_client(), at);
                command.arg(self.authority()).arg(self.target());
                command.args(files.iter().map(|file| format!("/{file}")));
                command
            }
        };
        self.start(&format!("client-{number}"), &mut command)
    }
}

fn ours() -> Command {
    Command::new(std::env::var_os("ANABRANCH").unwrap_or_else(|| "anabranch".into()))
}

/// A running client or server, which is killed on drop.
#[derive(Debug)]
pub struct Program {
    child: Child,
}

impl Program {
    /// Waits until the program ends. Returns `None` if it still runs at the time `until`.
    pub fn wait(&mut self, until: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() > until {
                return Ok(status);
            }
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter(|line| line.ends_with('\n'))
}

/// Returns the socket address that a line of a server's output contains.
fn address(line: &str) -> Option<SocketAddr> {
    let at = line.find("127.0.0.1:")?;
    let rest = &line[at..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && !".:".contains(c)).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the last line of a program's output.
#[must_use]
pub fn last_line(output: &str) -> &str {
    output.trim_end().lines().last().unwrap_or("it said nothing")
}

const STARTED: Duration = Duration::from_secs(20);
