//! Runs a server with several threads. Each thread has its own event loop (`OsWorld`), and all threads share the same
//! ports.
//!
//! Listening sockets are opened once, before the threads start. For a UDP port or IP protocol 132, each thread has its
//! own socket. The kernel finds the socket of a packet by the verification tag or connection ID in the packet, which
//! identifies the thread. Under DTLS the kernel finds the socket by the client's address and port. For TCP all threads
//! share one socket, and an idle thread accepts the next connection.

use crate::dial::{reason, warn_of_host};
use crate::knobs::Tuned;
use crate::listen::{ListenSpec, at, display_address};
use crate::privileges::drop_capabilities;
use crate::url::Listen;
use crate::{Completion, Failure, complain};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_transport::capabilities::Words;
use anabranch_transports::os;
use anabranch_world::os::Group;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A function that prints the URLs of the listeners, called once all threads listen.
type Announce = dyn Fn(&[String]) + Send + Sync;

/// Reports from a server thread to the main thread: that the thread listens, and how many associations it has accepted.
#[derive(Clone)]
pub struct WorkerHandle {
    number: usize,
    announce: Arc<Announce>,
    /// The channel to the main thread; `None` if there is only one thread.
    reports: Option<Sender<Report>>,
}

enum Report {
    /// The thread listens at these URLs.
    Ready(Vec<String>),
    /// The number of associations that the thread has accepted.
    Associations(u64),
    Ended(Result<Completion, Failure>),
}

impl WorkerHandle {
    /// Reports that the thread listens at `urls`.
    pub fn ready(&self, urls: &[String]) {
        match &self.reports {
            None => (self.announce)(urls),
            Some(reports) => {
                let _ = reports.send(Report::Ready(urls.to_vec()));
            }
        }
    }

    /// Whether this is the leading thread. The leading thread does everything that only one thread may do, for example
    /// printing.
    pub fn is_leader(&self) -> bool {
        self.number == 0
    }

    /// Whether this thread is the only server thread.
    pub fn is_alone(&self) -> bool {
        self.reports.is_none()
    }

    /// Reports the number of associations that the thread accepted. Called when the thread ends.
    pub fn report_associations(&self, associations: u64) {
        if let Some(reports) = &self.reports {
            let _ = reports.send(Report::Associations(associations));
        }
    }
}

/// The listeners that each thread has to open.
pub struct ListenSpecs {
    by_thread: Vec<Vec<ListenSpec>>,
    groups: Vec<Arc<Group>>,
    /// The word that messages use for the sessions on the shared ports, for example "associations".
    sessions: &'static str,
}

impl ListenSpecs {
    /// Opens the sockets of `listens` for `threads` threads, with the settings in `tuned`. A listener accepts at most
    /// `max_sessions` concurrent sessions, counted over all threads.
    pub fn open(
        listens: &[Listen],
        threads: usize,
        max_sessions: usize,
        tuned: &Tuned,
    ) -> Result<Self, Failure> {
        let mut specs = Self {
            by_thread: (0..threads).map(|_| Vec::new()).collect(),
            groups: Vec::new(),
            sessions: "associations",
        };
        for listen in listens {
            let limit = ConcurrencyLimit::new(max_sessions);
            if threads == 1 {
                specs.by_thread[0].push(ListenSpec {
                    address: listen.clone(),
                    socket: None,
                    limit,
                    max_sessions,
                });
                continue;
            }
            let failed = |why: io::Error| {
                let why = reason(&listen.scheme, Some(listen.port), &why);
                Failure::Host(format!("cannot listen on {}: {why}", display_address(listen)))
            };
            warn_of_host(&listen.scheme);
            let settings = tuned.of(&listen.scheme)?;
            let (parts, left_out) = os::share(&at(listen, &*settings), threads).map_err(failed)?;
            for (to, why) in left_out {
                complain(&format!("not listening on {to}: {why}"));
            }
            let can = listen.scheme.can();
            for part in parts {
                // If a transport has no word of its own for a session, the messages to the user say "sessions".
                if part.group.is_some() && can.words == Words::default() {
                    specs.sessions = "sessions";
                }
                specs.groups.extend(part.group);
                // Each listener of the kernel's transports has its own limit.
                let limit = if can.kernel { ConcurrencyLimit::new(max_sessions) } else { limit.clone() };
                let address =
                    Listen { addresses: part.addresses, port: part.port, scheme: listen.scheme.clone() };
                for (socket, specs) in part.sockets.into_iter().zip(&mut specs.by_thread) {
                    let (address, limit) = (address.clone(), limit.clone());
                    specs.push(ListenSpec { address, socket: Some(socket), limit, max_sessions });
                }
            }
        }
        Ok(specs)
    }

    /// Runs `body` in each thread with the thread's listeners, and calls `announce` when all threads listen. The first
    /// thread that fails ends the server.
    pub fn run(
        mut self,
        announce: impl Fn(&[String]) + Send + Sync + 'static,
        body: impl Fn(Vec<ListenSpec>, WorkerHandle) -> Result<Completion, Failure> + Send + Sync + 'static,
    ) -> Result<Completion, Failure> {
        let announce: Arc<Announce> = Arc::new(announce);
        let count = self.by_thread.len();
        if count == 1 {
            return body(self.by_thread.remove(0), WorkerHandle { number: 0, announce, reports: None });
        }
        let body = Arc::new(body);
        let (reports, received) = channel();
        for (number, specs) in self.by_thread.into_iter().enumerate() {
            let (body, reports) = (body.clone(), reports.clone());
            let worker = WorkerHandle { number, announce: announce.clone(), reports: Some(reports.clone()) };
            let run = move || {
                let ended = catch_unwind(AssertUnwindSafe(|| body(specs, worker)));
                let broken = |_| Err(Failure::Internal("a thread has panicked".to_owned()));
                let _ = reports.send(Report::Ended(ended.unwrap_or_else(broken)));
            };
            thread::Builder::new()
                .name(format!("serving {number}"))
                .spawn(run)
                .map_err(|error| Failure::Host(format!("cannot start {count} threads: {error}")))?;
        }
        drop(reports);
        let (mut ready, mut associations, mut done) = (0, Vec::new(), Completion::Well);
        for report in received {
            match report {
                Report::Ready(listening) => {
                    ready += 1;
                    // All threads listen at the same URLs, so the URLs of any thread can be announced.
                    if ready == count {
                        drop_capabilities(false);
                        announce(&listening);
                    }
                }
                Report::Associations(taken) => associations.push(taken.to_string()),
                Report::Ended(Ok(Completion::Well)) => {}
                Report::Ended(Ok(Completion::Badly)) => done = Completion::Badly,
                Report::Ended(Err(failure)) => return Err(failure),
            }
        }
        if done == Completion::Badly {
            complain("some exchanges did not finish");
        }
        if !self.groups.is_empty() {
            let sum =
                |count_of: fn(&Group) -> u64| self.groups.iter().map(|group| count_of(group)).sum::<u64>();
            complain(&format!(
                "{} by thread: {}; packets that one thread handed to another: {}, lost: {}",
                self.sessions,
                associations.join(" "),
                sum(Group::forwarded),
                sum(Group::lost)
            ));
        }
        Ok(done)
    }
}
