//! A foreign end that is a program: it reads commands line by line, and reports line by line.
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
    ear: Arc<Mutex<Ear>>,
    said: Arc<Mutex<Said>>,
}

/// The input of the program, and the commands that wait for it.
#[derive(Debug)]
struct Ear {
    stdin: Option<ChildStdin>,
    waiting: VecDeque<String>,
    under_way: usize,
}

impl Ear {
    fn tell(&mut self) {
        while self.under_way < MOST_UNDER_WAY
            && let Some(line) = self.waiting.pop_front()
        {
            self.under_way += 1;
            if let Some(stdin) = &mut self.stdin {
                // Writing fails if the program has ended. The error is ignored.
                let _ = stdin.write_all(format!("{line}\n").as_bytes());
            }
        }
    }
}

const MOST_UNDER_WAY: usize = 32;

#[derive(Debug, Default)]
struct Said {
    lines: VecDeque<String>,
    gone: bool,
    waker: Option<Waker>,
}

impl Said {
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
        let said = Arc::new(Mutex::new(Said::default()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let ear = Arc::new(Mutex::new(Ear { stdin, waiting: VecDeque::new(), under_way: 0 }));
        let (shared, hearing) = (said.clone(), ear.clone());
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout.expect("it is piped"));
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line);
                if std::env::var_os("FIELD_TALK").is_some() {
                    eprintln!("   {}", text.trim_end());
                }
                if text.trim_end() == ": took" {
                    let mut ear = hearing.lock().unwrap_or_else(PoisonError::into_inner);
                    ear.under_way = ear.under_way.saturating_sub(1);
                    ear.tell();
                } else if let Some(report) = text.strip_prefix(": ") {
                    let mut said = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    said.lines.push_back(report.trim_end().to_owned());
                    said.wake();
                }
                line.clear();
            }
            let mut said = shared.lock().unwrap_or_else(PoisonError::into_inner);
            said.gone = true;
            said.wake();
        });
        Ok(Self { child, ear, said })
    }

    /// Queues a command for the program.
    pub fn tell(&mut self, line: &str) {
        let mut ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        // A command that starts with `/` starts a new program in the guest. Commands for the previous program are
        // obsolete.
        if line.starts_with('/') {
            ear.waiting.clear();
            ear.under_way = 0;
        }
        ear.waiting.push_back(line.to_owned());
        ear.tell();
        if line.starts_with('/') {
            ear.under_way = 0;
        }
    }

    /// Puts a command in front of all queued commands.
    pub fn tell_first(&mut self, line: &str) {
        let mut ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        ear.waiting.push_front(line.to_owned());
        ear.under_way = 0;
        ear.tell();
    }

    /// Returns the program's next line; `None` when it has ended.
    pub fn poll_line(&mut self, cx: &Context<'_>) -> Poll<Option<String>> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match said.lines.pop_front() {
            Some(line) => Poll::Ready(Some(line)),
            None if said.gone => Poll::Ready(None),
            None => {
                said.waker = Some(cx.waker().clone());
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
