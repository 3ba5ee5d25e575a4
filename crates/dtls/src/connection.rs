//! One DTLS connection with one peer, from its handshake to its end: RFC 9147 and RFC 6347 by the library, and what
//! RFC 8261 adds: a packet is a record, and when the last association is over so is the connection.

use crate::ends::{Ends, EndsError};
use crate::layer::is_client_hello;
use crate::provider::{Cookie, with_cookie, with_secrets};
use crate::simulation::BEGINNING;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_tls::Surroundings;
use anabranch_transport::CloseReason;
use dimpl::{Dtls, Output};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One connection.
pub(crate) struct Connection {
    dtls: Dtls,
    pub client: bool,
    /// What the server's certificate has to be for.
    name: String,
    pub open: bool,
    /// When the library wants to be called.
    timer: Option<Instant>,
    /// When it is to be looked at, as the layer's list has it.
    pub listed: Option<Instant>,
    /// When it opened, and when it last carried a packet.
    used: Instant,
    /// Ports of the associations that are alive on it, ours first.
    associations: BTreeSet<(u16, u16)>,
    /// An association has been there.
    carried: bool,
    /// The first datagram of the flight under way, by which a report of ICMP about it is known.
    pub flight: Vec<u8>,
    /// The cookie that its client has brought.
    pub cookie: Option<Cookie>,
    /// What the client's hello has of randomness, by which key logs know a connection.
    random: [u8; 32],
}

/// What became of a call.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// Datagrams to send, and whether the handshake is over since.
    pub opened: bool,
    /// It is over, and why.
    pub ended: Option<CloseReason>,
}

impl Connection {
    pub fn begin(ends: &Ends, client: bool, name: &str, mtu: usize, now: Instant) -> Result<Self, EndsError> {
        let mut dtls = ends.begin(client, mtu, std_instant(&ends.surroundings, now))?;
        if client {
            // The clock goes on once before a client begins.
            let began =
                ends.surroundings.within(|| dtls.handle_timeout(std_instant(&ends.surroundings, now)));
            began.map_err(|why| EndsError::Library(why.to_string()))?;
        }
        Ok(Self {
            dtls,
            client,
            name: name.to_owned(),
            open: false,
            timer: None,
            listed: None,
            used: now,
            associations: BTreeSet::new(),
            carried: false,
            flight: Vec::new(),
            cookie: None,
            random: [0; 32],
        })
    }

    /// Begins as a server whose client has brought a cookie: the library is given the hello that came before, of which it
    /// was `asked`, and what it answers has to be what was sent.
    pub fn enter(
        ends: &Ends,
        mtu: usize,
        now: Instant,
        (cookie, first, asked): (Cookie, &[u8], &[u8]),
        buffer: &mut Vec<u8>,
    ) -> Result<Self, EndsError> {
        let mut this = Self::begin(ends, false, "", mtu, now)?;
        this.cookie = Some(cookie);
        let mut said = Vec::new();
        let came = this.receive(ends, now, Some(first), buffer, |record| said.push(record.to_vec()), |_| {});
        if came.ended.is_some() || said != [asked] {
            return Err(EndsError::Library("another answer to a hello than was given".to_owned()));
        }
        Ok(this)
    }

    /// Has the library do something in this connection's surroundings.
    fn run<T>(&mut self, ends: &Ends, work: impl FnOnce(&mut Dtls) -> T) -> T {
        let dtls = &mut self.dtls;
        let inside = || ends.surroundings.within(|| work(dtls));
        if self.open {
            return inside();
        }
        let inside = || match self.cookie {
            Some(cookie) => with_cookie(cookie, inside),
            None => inside(),
        };
        let Some(log) = &ends.key_log else { return inside() };
        let (done, secrets) = with_secrets(inside);
        for (label, secret) in secrets {
            log.log(label, &self.random, &secret);
        }
        done
    }

    /// Notes the randomness of a client's hello, if the datagram begins with one.
    fn note_random(&mut self, datagram: &[u8]) {
        if is_client_hello(datagram)
            && let Some(random) = datagram.get(27..).and_then(<[u8]>::first_chunk)
        {
            self.random = *random;
        }
    }

    /// Takes a datagram of the peer's, or none if time has passed.
    pub fn receive(
        &mut self,
        ends: &Ends,
        now: Instant,
        datagram: Option<&[u8]>,
        buffer: &mut Vec<u8>,
        send: impl FnMut(&[u8]),
        deliver: impl FnMut(&[u8]),
    ) -> Came {
        let at = std_instant(&ends.surroundings, now);
        if let Some(datagram) = datagram.filter(|_| !self.client && !self.open) {
            self.note_random(datagram);
        }
        let taken = self.run(ends, |dtls| {
            dtls.handle_timeout(at)?;
            datagram.map_or(Ok(()), |datagram| dtls.handle_packet(datagram))
        });
        if let Err(error) = taken {
            let reason = fault(&error, self.open);
            return Came { ended: Some(reason), ..Came::default() };
        }
        self.drain(ends, now, buffer, send, deliver)
    }

    /// Makes a record of a packet.
    pub fn seal(
        &mut self,
        ends: &Ends,
        now: Instant,
        packet: &[u8],
        buffer: &mut Vec<u8>,
        send: impl FnMut(&[u8]),
    ) -> Came {
        self.note(packet, true, now);
        let sealed = ends.surroundings.within(|| self.dtls.send_application_data(packet));
        match sealed {
            Ok(_) => self.drain(ends, now, buffer, send, |_| {}),
            Err(error) => Came { ended: Some(fault(&error, true)), ..Came::default() },
        }
    }

    /// Says goodbye (close_notify), if there is anybody to say it to.
    pub fn close(&mut self, ends: &Ends, now: Instant, buffer: &mut Vec<u8>, send: impl FnMut(&[u8])) {
        if self.open && ends.surroundings.within(|| self.dtls.close()).is_ok() {
            self.drain(ends, now, buffer, send, |_| {});
        }
    }

    /// Takes out what the library has to say.
    fn drain(
        &mut self,
        ends: &Ends,
        now: Instant,
        buffer: &mut Vec<u8>,
        mut send: impl FnMut(&[u8]),
        mut deliver: impl FnMut(&[u8]),
    ) -> Came {
        let mut came = Came::default();
        // What a client says to a server that it does not believe stays here.
        let mut held: Vec<Vec<u8>> = Vec::new();
        ends.surroundings.within(|| {
            loop {
                match self.dtls.poll_output(buffer) {
                    Output::BufferTooSmall { needed } => buffer.resize(needed, 0),
                    Output::Packet(packet) if self.open => send(packet),
                    Output::Packet(packet) => held.push(packet.to_vec()),
                    Output::PeerCert(certificate) => {
                        if self.client
                            && let Err(why) = ends.judge(certificate, &self.name)
                        {
                            came.ended = Some(CloseReason::Untrusted(why));
                            return;
                        }
                    }
                    Output::Connected => (self.open, self.used, came.opened) = (true, now, true),
                    Output::ApplicationData(packet) if self.open => deliver(packet),
                    Output::CloseNotify => {
                        came.ended = Some(CloseReason::Reset("the peer has ended DTLS".to_owned()));
                        return;
                    }
                    Output::Timeout(at) => {
                        self.timer = virtual_instant(&ends.surroundings, at)
                            .filter(|at| *at < now + FOR_EVER)
                            // Its clock may be a little behind, its calls must not spin.
                            .map(|at| at.max(now + Duration::from_millis(1)));
                        return;
                    }
                    _ => {}
                }
            }
        });
        if !matches!(came.ended, Some(CloseReason::Untrusted(_))) {
            if let Some(first) = held.first().filter(|_| !self.open) {
                self.flight.clone_from(first);
                if self.client {
                    self.note_random(first);
                }
            }
            held.iter().for_each(|packet| send(packet));
        }
        came
    }

    /// Notes which associations live on it, by a packet of SCTP that is sent or has come.
    pub fn note(&mut self, packet: &[u8], sent: bool, now: Instant) {
        self.used = now;
        let Some((&[a, b, c, d, ..], kind)) = packet.first_chunk::<12>().zip(packet.get(12)) else { return };
        let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match (*kind, sent) {
            // ABORT and SHUTDOWN COMPLETE stand first in their packets (RFC 9260 §6.10), and nothing comes after.
            (ABORT | SHUTDOWN_COMPLETE, true) => drop(self.associations.remove(&(source, target))),
            (ABORT | SHUTDOWN_COMPLETE, false) => drop(self.associations.remove(&(target, source))),
            // Nothing is remembered of an INIT that was answered.
            (INIT_ACK, true) | (_, false) => {}
            (_, true) => {
                self.carried = true;
                self.associations.insert((source, target));
            }
        }
    }

    /// It carries an association.
    pub fn is_in_use(&self) -> bool {
        !self.associations.is_empty()
    }

    /// When it has outlived its use, as things stand.
    pub fn expires(&self) -> Option<Instant> {
        let span = match (self.associations.is_empty(), self.carried) {
            // RFC 9260 §9.2: a SHUTDOWN ACK may come again, and is still to be answered.
            (true, true) => LINGER,
            (true, false) => UNUSED,
            (false, _) => IDLE,
        };
        self.open.then(|| self.used + span)
    }

    /// When somebody must look at it.
    pub fn deadline(&self) -> Option<Instant> {
        [self.timer, self.expires()].into_iter().flatten().min()
    }
}

/// The first byte of chunks (RFC 9260 §3.2).
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// How long a connection stays when its last association is over: what may still come for that one is answered.
const LINGER: Duration = Duration::from_secs(3);
/// How long one may be without a first association.
const UNUSED: Duration = Duration::from_secs(10);
/// How long an association may be silent on it, both ways: several heartbeats (RFC 9260 §8.3).
const IDLE: Duration = Duration::from_secs(15 * 60);
/// What the library calls no deadline lies ten years ahead.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What went wrong, as a line for people.
fn fault(error: &dimpl::Error, open: bool) -> CloseReason {
    match error {
        dimpl::Error::Timeout(_) => CloseReason::TimedOut("no answer to DTLS".to_owned()),
        error => {
            let when = if open { "" } else { " handshake" };
            CloseReason::Protocol(format!("DTLS{when}: {error}").replace('\n', " "))
        }
    }
}

/// What the library is told when it is `now`.
fn std_instant(surroundings: &Surroundings, now: Instant) -> std::time::Instant {
    beginning(surroundings) + Duration::from_nanos(now.as_nanos())
}

fn virtual_instant(surroundings: &Surroundings, at: std::time::Instant) -> Option<Instant> {
    let since = at.checked_duration_since(beginning(surroundings))?;
    Some(Instant::ZERO + Duration::from_nanos(u64::try_from(since.as_nanos()).ok()?))
}

fn beginning(surroundings: &Surroundings) -> std::time::Instant {
    /// When a real world's clock began, about: the library compares instants, and no more.
    #[expect(
        clippy::disallowed_methods,
        reason = "the library counts from somewhere; its timers run by the world's clock"
    )]
    static HERE: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    match surroundings {
        Surroundings::Real => *HERE,
        Surroundings::Simulated(_) => *BEGINNING,
    }
}
