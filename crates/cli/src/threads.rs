//! Runs a server with several threads. Each thread has its own event loop (`OsWorld`), and all threads share the same
//! ports.
//!
//! Listening sockets are opened once, before the threads start. For a UDP port or IP protocol 132, each thread has its own
//! socket. The kernel finds the socket of a packet by the verification tag or connection ID in the packet, which
//! identifies the thread. Under DTLS the kernel finds the socket by the client's address and port. For TCP all threads
//! share one socket, and an idle thread accepts the next connection.

use crate::dial::warn_kernel_sctp;
use crate::listen::{BACKLOG, ListenSpec, shown};
use crate::place::Listen;
use crate::privileges::drop_capabilities;
use crate::serve::reason;
use crate::{Done, Failure, complain};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_quic::{Shard, Steered};
use anabranch_transport::sctp::{Directory, IP_PROTOCOL};
use anabranch_world::os::{self, Group};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A function that prints the URLs of the listeners, called once all threads listen.
type Announce = dyn Fn(&[String]) + Send + Sync;

/// The handle of a server thread. Through it the thread reports to the main thread that it listens, and how many
/// associations it accepted.
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
    Ended(Result<Done, Failure>),
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

    /// Whether this thread is the one that handles what concerns all threads, for example printing.
    pub fn leads(&self) -> bool {
        self.number == 0
    }

    /// Whether this thread is the only server thread.
    pub fn is_alone(&self) -> bool {
        self.reports.is_none()
    }

    /// Reports the number of associations that the thread accepted. Called when the thread ends.
    pub fn count(&self, associations: u64) {
        if let Some(reports) = &self.reports {
            let _ = reports.send(Report::Associations(associations));
        }
    }
}

/// The listeners that each thread has to open.
pub struct ListenSpecs {
    each: Vec<Vec<ListenSpec>>,
    groups: Vec<Arc<Group>>,
    /// The word for the sessions on the shared ports in messages, for example "associations".
    sessions: &'static str,
}

impl ListenSpecs {
    /// Opens the sockets of `places` for `threads` threads. Each listener accepts at most `most` concurrent sessions in
    /// all threads together.
    pub fn open(places: &[Listen], threads: usize, most: usize) -> Result<Self, Failure> {
        let mut specs = Self {
            each: (0..threads).map(|_| Vec::new()).collect(),
            groups: Vec::new(),
            sessions: "associations",
        };
        for place in places {
            let failed = |why: io::Error| {
                let why = reason(place.carrier, Some(place.port), &why);
                Failure::Host(format!("cannot listen on {}: {why}", shown(place)))
            };
            match place.carrier.is_kernels() {
                _ if threads == 1 => specs.each[0].push(ListenSpec::Place(place.clone(), most)),
                true => specs.open_tcp(place, most).map_err(failed)?,
                false if place.carrier.is_http3() => specs.open_http3(place, most).map_err(failed)?,
                false if place.carrier.is_over_dtls() => specs.open_dtls(place, most).map_err(failed)?,
                false => specs.open_sctp(place, most).map_err(failed)?,
            }
        }
        Ok(specs)
    }

    fn open_tcp(&mut self, place: &Listen, most: usize) -> io::Result<()> {
        let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
        let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
        for &ip in wanted {
            match os::listen_tcp(SocketAddr::new(ip, place.port), BACKLOG, &crate::memory::kernel()) {
                Ok(listener) => {
                    let limit = ConcurrencyLimit::new(most);
                    for specs in &mut self.each {
                        let (listener, limit) = (listener.try_clone()?, limit.clone());
                        specs.push(ListenSpec::Kernel { place: place.clone(), listener, limit });
                    }
                }
                // The host has no IPv6, so the server listens on its IPv4 addresses only.
                Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                    complain(&format!("not listening on [::]:{}: {why}", place.port));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Opens the sockets of an address for SCTP over DTLS. DTLS hides the verification tags by which packets would be
    /// steered. Instead, all packets from a client's address and port go to one thread. Each local address has its own
    /// socket, because an association has one address at each end (RFC 8261 §6.1).
    fn open_dtls(&mut self, place: &Listen, most: usize) -> io::Result<()> {
        let addresses = match place.addresses.is_empty() {
            true => os::addresses()?,
            false => place.addresses.clone(),
        };
        let limit = ConcurrencyLimit::new(most);
        let mut place = place.clone();
        for address in addresses {
            let seats = os::share_udp_by_address(&[address], place.port, self.each.len())?;
            // All addresses of one `--listen` share a port, even if the operating system chose the port for the first
            // address.
            place.port = seats.first().map_or(place.port, os::Seat::port);
            place.addresses = vec![address];
            for (seat, specs) in seats.into_iter().zip(&mut self.each) {
                specs.push(ListenSpec::SharedDtls { place: place.clone(), seat, limit: limit.clone() });
            }
        }
        Ok(())
    }

    fn open_sctp(&mut self, place: &Listen, most: usize) -> io::Result<()> {
        let count = self.each.len();
        let none = || io::Error::from(io::ErrorKind::InvalidInput);
        let directory = Directory::new(count as u32).ok_or_else(none)?;
        let seats = if place.carrier.is_on_ip() {
            warn_kernel_sctp(place.carrier);
            os::share_raw(&place.addresses, IP_PROTOCOL, count, directory.clone())?
        } else {
            os::share_udp(&place.addresses, place.port, count, directory.clone())?
        };
        self.groups.extend(seats.first().map(os::Seat::group));
        let limit = ConcurrencyLimit::new(most);
        for ((seat, specs), index) in seats.into_iter().zip(&mut self.each).zip(0..) {
            let member = directory.member(index).ok_or_else(none)?;
            specs.push(ListenSpec::Shared { place: place.clone(), seat, member, limit: limit.clone() });
        }
        Ok(())
    }

    fn open_http3(&mut self, place: &Listen, most: usize) -> io::Result<()> {
        let count = self.each.len();
        let none = || io::Error::from(io::ErrorKind::InvalidInput);
        let steered = Steered::new(count as u32).ok_or_else(none)?;
        let seats = os::share_udp(&place.addresses, place.port, count, Arc::new(steered))?;
        self.groups.extend(seats.first().map(os::Seat::group));
        self.sessions = "sessions";
        let limit = ConcurrencyLimit::new(most);
        for ((seat, specs), index) in seats.into_iter().zip(&mut self.each).zip(0..) {
            let shard = Shard::new(index, count as u32).ok_or_else(none)?;
            specs.push(ListenSpec::SharedHttp3 { place: place.clone(), seat, shard, limit: limit.clone() });
        }
        Ok(())
    }

    /// Runs `body` in each thread with the thread's listeners, and calls `announce` when all threads listen. The first
    /// thread that fails ends the server.
    pub fn run(
        mut self,
        announce: impl Fn(&[String]) + Send + Sync + 'static,
        body: impl Fn(Vec<ListenSpec>, WorkerHandle) -> Result<Done, Failure> + Send + Sync + 'static,
    ) -> Result<Done, Failure> {
        let announce: Arc<Announce> = Arc::new(announce);
        let count = self.each.len();
        if count == 1 {
            return body(self.each.remove(0), WorkerHandle { number: 0, announce, reports: None });
        }
        let body = Arc::new(body);
        let (reports, received) = channel();
        for (number, specs) in self.each.into_iter().enumerate() {
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
                .map_err(|why| Failure::Host(format!("cannot start {count} threads: {why}")))?;
        }
        drop(reports);
        let (mut ready, mut associations, mut done) = (0, Vec::new(), Done::Well);
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
                Report::Ended(Ok(Done::Well)) => {}
                Report::Ended(Ok(Done::Badly)) => done = Done::Badly,
                Report::Ended(Err(failure)) => return Err(failure),
            }
        }
        if done == Done::Badly {
            complain("some exchanges did not finish");
        }
        if !self.groups.is_empty() {
            let sum = |what: fn(&Group) -> u64| self.groups.iter().map(|group| what(group)).sum::<u64>();
            complain(&format!(
                "{} by thread: {}; packets that one thread handed to another: {}, lost: {}",
                self.sessions,
                associations.join(" "),
                sum(Group::handed),
                sum(Group::lost)
            ));
        }
        Ok(done)
    }
}
