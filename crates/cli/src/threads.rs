//! A server of several threads: a world each, behind the same ports.
//!
//! What is listened on is opened once, before the threads begin, and each gets
//! its part: of a UDP port, or of IP protocol 132, a socket of its own, to
//! which the kernel brings the packets with the thread's verification tags or
//! connection ids, or under DTLS those of the thread's clients by their addresses;
//! of TCP the same socket, from which whoever is idle takes the next connection.

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

/// Says where it is listened, once all listen.
type Announce = dyn Fn(&[String]) + Send + Sync;

/// How a worker thread reports to the main thread: that it listens, and what it has done.
#[derive(Clone)]
pub struct WorkerHandle {
    number: usize,
    announce: Arc<Announce>,
    /// Where to report, if there are several threads.
    reports: Option<Sender<Report>>,
}

enum Report {
    /// The thread listens at these URLs.
    Ready(Vec<String>),
    /// The thread has accepted so many associations.
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

    /// Whether this thread prints what concerns all threads.
    pub fn leads(&self) -> bool {
        self.number == 0
    }

    /// Whether it is the only thread.
    pub fn is_alone(&self) -> bool {
        self.reports.is_none()
    }

    /// Reports how many associations it has accepted, at the end.
    pub fn count(&self, associations: u64) {
        if let Some(reports) = &self.reports {
            let _ = reports.send(Report::Associations(associations));
        }
    }
}

/// What each thread listens on.
pub struct ListenSpecs {
    each: Vec<Vec<ListenSpec>>,
    groups: Vec<Arc<Group>>,
    /// What a session is called of those that threads share a port for.
    sessions: &'static str,
}

impl ListenSpecs {
    /// Opens `places` for so many threads; each listener takes in up to `most` at a time, in all threads together.
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
                // A host without IPv6.
                Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                    complain(&format!("not listening on [::]:{}: {why}", place.port));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Under DTLS verification tags, by which packets come to threads, are not to be seen: those of a client's address and port come to one
    /// thread. A socket for each address, since an association has one at each end (RFC 8261 §6.1).
    fn open_dtls(&mut self, place: &Listen, most: usize) -> io::Result<()> {
        let addresses = match place.addresses.is_empty() {
            true => os::addresses()?,
            false => place.addresses.clone(),
        };
        let limit = ConcurrencyLimit::new(most);
        let mut place = place.clone();
        for address in addresses {
            let seats = os::share_udp_by_address(&[address], place.port, self.each.len())?;
            // All addresses of a place have its port, also where the host chooses it.
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

    /// Runs `body` with the specs of each thread, and `announce` when all listen. The first failure ends all.
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
                    // All listen on the same.
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
