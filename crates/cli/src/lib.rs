//! The anabranch command: parses the command line, runs a command, reports, and exits. The program and the Python
//! package both call [`run`].
//!
//! Exit codes: 0 done; 1 a transfer failed or an `[[expect]]` of the plan was
//! missed; 2 usage; 3 not possible on this host; 130 interrupted.
//!
//! `main.rs` calls [`run`], and the Python module calls `run_embedded`. The files that `sweep/result` writes are the
//! same, whichever machines ran the points of the sweep.

mod args;
mod baseline;
mod bulk;
mod busy_poll;
mod clock;
mod decode;
#[cfg(target_os = "linux")]
mod dial;
#[cfg(target_os = "linux")]
mod dry_run;
mod features;
mod files;
mod fit;
mod flag;
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod get;
mod inputs;
#[cfg(target_os = "linux")]
mod key_log;
mod knobs;
mod lab;
#[cfg(target_os = "linux")]
mod link;
mod list;
#[cfg(target_os = "linux")]
mod listen;
mod load;
mod memory;
mod merge;
mod out;
mod outputs;
mod packages;
#[cfg(target_os = "linux")]
mod paths;
#[cfg(target_os = "linux")]
mod privileges;
mod progress;
#[cfg(target_os = "linux")]
mod qlog;
mod race;
#[cfg(target_os = "linux")]
mod secure;
#[cfg(target_os = "linux")]
mod serve;
mod study;
mod sweep;
#[cfg(target_os = "linux")]
mod threads;
mod url;
#[cfg(target_os = "linux")]
mod watchdog;

use anabranch_transports::Transports;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The reason why a command failed.
#[derive(Debug)]
enum Failure {
    /// The command line or an input was invalid: exit code 2.
    Usage(String),
    /// This host does not permit or support the request: exit code 3.
    Host(String),
    /// A bug in this program: exit code 3. The message begins with `internal error:`.
    Internal(String),
    /// The user interrupted the command: exit code 130.
    Interrupted,
}

/// The outcome of a command that ran to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Completion {
    /// Everything succeeded: exit code 0.
    Well,
    /// A transfer failed, or an expectation was not met: exit code 1.
    Badly,
}

impl Failure {
    /// The message for the user.
    pub fn line(self) -> String {
        match self {
            Self::Usage(line) | Self::Host(line) | Self::Internal(line) => line,
            Self::Interrupted => "interrupted".to_owned(),
        }
    }
}

/// The words of the command line. The arguments of the process cannot be used, because they may belong to another
/// program that embeds this one.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Returns the words of the command line that follow the program's name.
fn arguments() -> impl Iterator<Item = String> {
    ARGUMENTS.get().into_iter().flatten().skip(1).map(|argument| argument.to_string_lossy().into_owned())
}

/// Set if another program runs anabranch within its own process.
static WITHIN: OnceLock<()> = OnceLock::new();

/// Like [`run`], but for another program that runs the command line within its own process. Commands that copy their
/// own executable into a bundle fail, because the executable is the other program.
#[must_use]
pub fn run_embedded(arguments: impl IntoIterator<Item = OsString>, transports: &Transports) -> u8 {
    WITHIN.get_or_init(|| ());
    run(arguments, transports)
}

/// Returns the path of this executable. Fails if another program runs anabranch within its own process.
fn own_program() -> Result<PathBuf, Failure> {
    if WITHIN.get().is_some() {
        let line = "a bundle contains the program, which this Python package does not have: use the program `anabranch`";
        return Err(Failure::Host(line.to_owned()));
    }
    std::env::current_exe()
        .map_err(|error| Failure::Host(format!("cannot find the program that is running: {error}")))
}

/// Runs the command line `arguments`, which begins with the program's name, and returns the exit code. This function
/// takes over the process: it may set signal handlers, raise limits and create namespaces. An interrupt may end the
/// process.
///
/// The commands use the given transports. If a program adds its own transport to `transports`, `race` can compare that
/// transport with the others. Other commands can then serve and request URLs with the transport's scheme.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, transports: &Transports) -> u8 {
    let arguments = ARGUMENTS.get_or_init(|| arguments.into_iter().collect());
    let matches = match args::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return misused(&error),
    };
    #[cfg(target_os = "linux")]
    if let Some(("link", flags)) = matches.subcommand() {
        // `link` is handled before the other subcommands, because it must start while the process has a single thread.
        // Its exit code is that of the command that it runs.
        return link::run(flags).unwrap_or_else(fail);
    }
    let planned = match matches.subcommand() {
        Some(("race", flags)) => match race::prepare(flags, transports) {
            Ok(plan) => plan,
            Err(failure) => return fail(failure),
        },
        Some(("study", flags)) => match study::prepare(flags, transports) {
            Ok(()) => None,
            Err(failure) => return fail(failure),
        },
        _ => None,
    };
    // These commands handle signals themselves and may have thousands of open connections, so they need more file
    // descriptors.
    if matches!(matches.subcommand_name(), Some("serve" | "gateway" | "load" | "bulk")) {
        #[cfg(target_os = "linux")]
        anabranch_world::os::raise_open_files_limit();
    } else {
        race::end_on_interrupt();
    }
    let result = match matches.subcommand() {
        Some(("race", race)) => race::run(race, planned, transports),
        Some(("lab", lab)) => lab::run(lab),
        Some(("merge", merge)) => merge::run(merge, transports),
        Some(("study", study)) => study::run(study, transports),
        Some(("decode", decode)) => decode::run(decode),
        Some(("features", features)) => features::run(features),
        Some(("completions", flags)) => packages::complete(flags),
        Some(("man", flags)) => packages::manual(flags),
        #[cfg(target_os = "linux")]
        Some(("serve", flags)) => serve::run(flags, transports),
        #[cfg(target_os = "linux")]
        Some(("get", flags)) => get::run(flags, transports),
        #[cfg(target_os = "linux")]
        Some(("gateway", flags)) => gateway::run(flags, transports),
        #[cfg(target_os = "linux")]
        Some(("load", flags)) => load::run(flags, transports),
        #[cfg(target_os = "linux")]
        Some(("bulk", flags)) => bulk::run(flags, transports),
        #[cfg(not(target_os = "linux"))]
        Some(("serve" | "get" | "gateway" | "load" | "bulk" | "link", _)) => {
            Err(Failure::Host("the real network is available on Linux only".to_owned()))
        }
        _ => Ok(Completion::Well),
    };
    while race::STOP.load(Ordering::Relaxed) {
        // The interrupt handler has set `STOP`. The handler prints the results so far and ends the process, so this
        // thread only waits.
        std::thread::park();
    }
    match result {
        Ok(Completion::Well) => 0,
        Ok(Completion::Badly) => {
            files::clean_up();
            1
        }
        Err(failure) => fail(failure),
    }
}

/// Removes partial output, prints the reason of the failure, and returns the exit code.
fn fail(failure: Failure) -> u8 {
    let (code, line) = match failure {
        Failure::Usage(line) => (2, line),
        Failure::Host(line) => (3, line),
        Failure::Internal(line) => (3, format!("internal error: {line}")),
        Failure::Interrupted => (130, "interrupted".to_owned()),
    };
    files::clean_up();
    complain(&line);
    code
}

/// Prints a line to standard error, after the name of the program.
fn complain(line: &str) {
    // The line is written with a single call, so that it appears completely or not at all.
    let _ = std::io::stderr().write_all(format!("anabranch: {}\n", plain(line)).as_bytes());
}

/// Escapes control characters and characters that change the writing direction. Text from another host could otherwise
/// control the terminal.
fn plain(text: &str) -> String {
    let controls_terminal = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if controls_terminal(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Prints help and version unchanged; prints any other result of the command-line parser as a one-line error.
fn misused(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NothingSaid;
    if !error.use_stderr() || error.kind() == NothingSaid {
        let _ = error.print();
        return if error.use_stderr() { 2 } else { 0 };
    }
    let text = error.to_string();
    let message = text.split("\nUsage:").next().unwrap_or_default();
    let message = message.split("\nFor more information").next().unwrap_or_default();
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    // Other programs use `-n` for a count. Here `-n` means `--dry-run`, in every command that has this flag. The error
    // message explains this.
    let has_short_n = arguments().any(|argument| argument.starts_with("-n"));
    let dry_run = if has_short_n { "; -n is --dry-run, where a verb has it" } else { "" };
    complain(&format!("{}{dry_run} (see --help)", line.trim_start_matches("error: ")));
    2
}

/// Prints text to standard output. If the reader has closed the pipe, the rest is dropped without an error.
fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Host(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("tür\nzwei 😀"), "tür\nzwei 😀");
        assert_eq!(plain("\x1b]0;x\x07\u{9b}2J\r\u{202e}"), "\\u{1b}]0;x\\u{7}\\u{9b}2J\\r\\u{202e}");
    }
}
