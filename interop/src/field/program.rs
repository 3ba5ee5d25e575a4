//! The peer's program, which reads commands and writes reports, one on each line.
//!
//! | command | does |
//! |---|---|
//! | `send N STREAM SIZE o\|u f\|t\|r LIMIT` | sends message N, ordered (`o`) or unordered (`u`), reliable (`f`), with a lifetime of LIMIT ms (`t`), or with LIMIT retransmissions (`r`) |
//! | `get STREAM PATH` | asks for an object by HTTP |
//! | `shutdown`, `abort` | end the association |
//! | `reset STREAM..`, `streams N` | RE-CONFIG: resets streams of the program, or adds N streams |
//! | `add ADDRESS`, `remove ADDRESS` | ASCONF |
//! | `die`, `quit` | end the program, by SIGKILL or regularly |
//!
//! A guest's console keeps only 4 kB of unread input. The program therefore answers each command with `took`, and only
//! a few commands may be outstanding.
//!
//! Reports begin with `: `, so that a kernel's messages on the same line are not taken for reports:
//! - `ready`, `connected`, `up`, `restarted`, `down WHY`
//! - `message STREAM N SIZE ok|wrong`, `body STREAM STATUS SIZE ok|wrong`
//! - `reset in|out|refused STREAM..`, `streams IN OUT`, `address WHAT ADDRESS`
//! - `fault WHAT`, and from a guest `ended CODE`

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    input: Arc<Mutex<ProgramInput>>,
    output: Arc<Mutex<ProgramOutput>>,
}

/// The standard input of the program, and the commands that have not been written to it yet.
#[derive(Debug)]
struct ProgramInput {
    stdin: Option<ChildStdin>,
    waiting: VecDeque<String>,
    outstanding: usize,
}

impl ProgramInput {
    fn tell(&mut self) {
        while self.outstanding < MOST_UNDER_WAY
            && let Some(line) = self.waiting.pop_front()
        {
            self.outstanding += 1;
            if let Some(stdin) = &mut self.stdin {
                // Writing a command fails if the program has ended. This error is ignored.
                let _ = stdin.write_all(format!("{line}\n").as_bytes());
            }
        }
    }
}

const MOST_UNDER_WAY: usize = 32;

#[derive(Debug, Default)]
struct ProgramOutput {
    lines: VecDeque<String>,
    closed: bool,
    waker: Option<Waker>,
}

impl ProgramOutput {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Program {
    /// Starts the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A guest consists of several processes, so all of them are killed as a group.
        command.process_group(0);
        let mut child = command.spawn()?;
        let output = Arc::new(Mutex::new(ProgramOutput::default()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let input = Arc::new(Mutex::new(ProgramInput { stdin, waiting: VecDeque::new(), outstanding: 0 }));
        let (shared, input_of_reader) = (output.clone(), input.clone());
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout.expect("it is piped"));
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line);
                if std::env::var_os("FIELD_TALK").is_some() {
                    eprintln!("   {}", text.trim_end());
                }
                if text.trim_end() == ": took" {
                    let mut input = input_of_reader.lock().unwrap_or_else(PoisonError::into_inner);
                    input.outstanding = input.outstanding.saturating_sub(1);
                    input.tell();
                } else if let Some(report) = text.strip_prefix(": ") {
                    let mut output = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    output.lines.push_back(report.trim_end().to_owned());
                    output.wake();
                }
                line.clear();
            }
            let mut output = shared.lock().unwrap_or_else(PoisonError::into_inner);
            output.closed = true;
            output.wake();
        });
        Ok(Self { child, input, output })
    }

    /// Queues a command for the program.
    pub fn tell(&mut self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        // A command that starts with `/` starts a new program in the guest. Commands for the previous program are
        // obsolete.
        if line.starts_with('/') {
            input.waiting.clear();
            input.outstanding = 0;
        }
        input.waiting.push_back(line.to_owned());
        input.tell();
        if line.starts_with('/') {
            input.outstanding = 0;
        }
    }

    /// Puts a command in front of all queued commands.
    pub fn tell_first(&mut self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.waiting.push_front(line.to_owned());
        input.outstanding = 0;
        input.tell();
    }

    /// Returns the program's next line; `None` when it has ended.
    pub fn poll_line(&mut self, cx: &Context<'_>) -> Poll<Option<String>> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match output.lines.pop_front() {
            Some(line) => Poll::Ready(Some(line)),
            None if output.closed => Poll::Ready(None),
            None => {
                output.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        let group = format!("-{}", self.child.id());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
