//! A foreign end that is a program: told what to do line by line, it reports
//! line by line.
//!
//! | command | does |
//! |---|---|
//! | `send N STREAM SIZE o\|u f\|t\|r LIMIT` | message N, ordered or not, reliable, for LIMIT ms, or with LIMIT retransmissions |
//! | `get STREAM PATH` | asks for an object by HTTP |
//! | `shutdown`, `abort` | end the association |
//! | `reset STREAM..`, `streams N` | RE-CONFIG: its own streams begin anew; N more of them |
//! | `add ADDRESS`, `remove ADDRESS` | ASCONF |
//! | `die`, `quit` | end the program: by SIGKILL, or not |
//!
//! Reports begin with `: `, so that a kernel's messages on the same line are
//! not taken for them: `ready`, `connected`, `up`, `message STREAM N SIZE
//! ok|wrong`, `reset in|out|refused STREAM..`, `streams IN OUT`, `address
//! WHAT ADDRESS`, `restarted`, `body STREAM STATUS SIZE ok|wrong`, `down WHY`,
//! `fault WHAT`, and of a guest `ended CODE`.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Arc<Mutex<Said>>,
}

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
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let said = Arc::new(Mutex::new(Said::default()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let shared = said.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout.expect("it is piped"));
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line);
                if std::env::var_os("FIELD_TALK").is_some() {
                    eprintln!("   {}", text.trim_end());
                }
                if let Some(at) = text.find(": ").filter(|&at| at == 0) {
                    let mut said = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    said.lines.push_back(text[at + 2..].trim_end().to_owned());
                    said.wake();
                }
                line.clear();
            }
            let mut said = shared.lock().unwrap_or_else(PoisonError::into_inner);
            said.gone = true;
            said.wake();
        });
        Ok(Self { child, stdin, said })
    }

    /// Tells it something; a program that has gone hears nothing.
    pub fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// The next line it says; `None` when it has gone.
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

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
