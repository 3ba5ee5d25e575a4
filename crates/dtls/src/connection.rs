//! One DTLS connection with one peer, from its handshake to its end. The library does the handshake of RFC 9147 or
//! RFC 6347, `records` handles records. RFC 8261 adds that a packet is a record, and that a connection ends with its last
//! association.

use crate::ends::{Ends, EndsError};
use crate::hello::is_client_hello;
use crate::peers::Unproven;
use crate::records::{Ended, Records};
use crate::secrets::{Cookie, Seen, watched, with_cookie};
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
    /// The handshake, while it is under way.
    handshake: Option<Box<Handshake>>,
    /// Present once the keys are known.
    records: Option<Records>,
    pub client: bool,
    /// The deadline under which the connection is listed in `Peers::due`.
    pub listed: Option<Instant>,
    usage: Usage,
    /// The cookie that the client has returned.
    pub cookie: Option<Cookie>,
    /// Bytes received from and sent to a client that has not returned a cookie.
    pub unproven: Option<Unproven>,
}

/// The state of a handshake, dropped when it is done.
struct Handshake {
    dtls: Dtls,
    /// The name that the server's certificate must have.
    name: String,
    /// The time at which the library wants to be called.
    timer: Option<Instant>,
    /// The first datagram of the current flight, with which ICMP reports about it are recognized.
    flight: Vec<u8>,
    /// The random value of the client's hello, which identifies the connection in key logs.
    random: [u8; 32],
    seen: Seen,
    /// Packets that arrived before the handshake was done.
    early: Vec<Vec<u8>>,
}

/// How a connection is used.
struct Usage {
    /// The time at which the connection opened, or last carried a packet.
    last: Instant,
    /// The ports of the last packet that was sent, in its byte order: their association is already in `associations`.
    latest: Option<[u8; 4]>,
    /// The ports of the associations that are alive on the connection, ours first.
    associations: BTreeSet<(u16, u16)>,
    /// Whether there has ever been an association.
    carried: bool,
}

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// Whether the call has completed the handshake.
    pub opened: bool,
    /// Why the connection has ended, if it has.
    pub ended: Option<CloseReason>,
}

impl From<Option<Ended>> for Came {
    fn from(ended: Option<Ended>) -> Self {
        Self { opened: false, ended: ended.map(CloseReason::from) }
    }
}

impl Connection {
    pub fn begin(ends: &Ends, client: bool, name: &str, mtu: usize, now: Instant) -> Result<Self, EndsError> {
        let mut dtls = ends.begin(client, mtu, std_instant(&ends.surroundings, now))?;
        if client {
            // The library needs one call with the current time before a client begins.
            let began =
                ends.surroundings.within(|| dtls.handle_timeout(std_instant(&ends.surroundings, now)));
            began.map_err(|why| EndsError::Library(why.to_string()))?;
        }
        let handshake = Handshake {
            dtls,
            name: name.to_owned(),
            timer: None,
            flight: Vec::new(),
            random: [0; 32],
            seen: Seen::default(),
            early: Vec::new(),
        };
        Ok(Self {
            handshake: Some(Box::new(handshake)),
            records: None,
            client,
            listed: None,
            usage: Usage { last: now, latest: None, associations: BTreeSet::new(), carried: false },
            cookie: None,
            unproven: None,
        })
    }

    /// Begins as a server whose client has returned a cookie. The library is given the client's first hello; its answer
    /// must equal `asked`, which was sent without keeping state.
    pub fn enter(
        ends: &Ends,
        mtu: usize,
        now: Instant,
        (cookie, first, asked): (Cookie, &[u8], &[u8]),
        buffer: &mut Vec<u8>,
    ) -> Result<Self, EndsError> {
        let mut this = Self::begin(ends, false, "", mtu, now)?;
        this.cookie = Some(cookie);
        let (mut said, mut first) = (Vec::new(), first.to_vec());
        let came =
            this.receive(ends, now, Some(&mut first), buffer, |_| {}, |record| said.push(record.to_vec()));
        if came.ended.is_some() || said != [asked] {
            return Err(EndsError::Library("another answer to a hello than was given".to_owned()));
        }
        Ok(this)
    }

    /// Whether packets may be sent on it.
    pub fn is_open(&self) -> bool {
        self.handshake.is_none()
    }

    /// The first datagram of the current flight.
    pub fn flight(&self) -> &[u8] {
        self.handshake.as_ref().map_or(&[], |handshake| &handshake.flight)
    }

    /// Handles a datagram of the peer, or (with `None`) the passing of time.
    pub fn receive(
        &mut self,
        ends: &Ends,
        now: Instant,
        datagram: Option<&mut [u8]>,
        buffer: &mut Vec<u8>,
        deliver: impl FnMut(&[u8]),
        mut send: impl FnMut(&[u8]),
    ) -> Came {
        match (&mut self.handshake, datagram) {
            (None, Some(datagram)) => self.open(now, datagram, deliver, send),
            (None, None) => self.records.as_mut().and_then(|records| records.expire(now, send)).into(),
            (Some(_), datagram) => self.shake_hands(ends, now, datagram, buffer, deliver, &mut send),
        }
    }

    /// Opens a datagram of the peer after the handshake.
    #[inline]
    pub fn open(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
        send: impl FnMut(&[u8]),
    ) -> Came {
        let (Some(records), usage) = (&mut self.records, &mut self.usage) else { return Came::default() };
        let deliver = |packet: &[u8]| {
            usage.note(packet, false, now);
            deliver(packet);
        };
        records.receive(now, datagram, deliver, send).into()
    }

    fn shake_hands(
        &mut self,
        ends: &Ends,
        now: Instant,
        datagram: Option<&mut [u8]>,
        buffer: &mut Vec<u8>,
        mut deliver: impl FnMut(&[u8]),
        send: &mut impl FnMut(&[u8]),
    ) -> Came {
        let Some(handshake) = &mut self.handshake else { return Came::default() };
        if let Some(datagram) = datagram.as_ref().filter(|_| !self.client) {
            handshake.note_random(datagram);
        }
        // Packets that arrive early are opened by us; only they are withheld from the library.
        let told = datagram.as_ref().map(|datagram| match &self.records {
            Some(records) => records.without_data(datagram),
            None => datagram,
        });
        let taken = handshake.run(ends, self.cookie, |dtls| {
            dtls.handle_timeout(std_instant(&ends.surroundings, now))?;
            told.filter(|told| !told.is_empty()).map_or(Ok(()), |told| dtls.handle_packet(told))
        });
        if let Err(error) = taken {
            return Came { ended: Some(fault(&error)), ..Came::default() };
        }
        if self.records.is_none() {
            self.records = Records::of(&handshake.seen, self.client, ends.update_after);
        }
        let mut came = self.drain(ends, now, buffer, send);
        let Some((handshake, records)) = self.handshake.as_mut().zip(self.records.as_mut()) else {
            if came.opened {
                let why = "DTLS handshake: there are no keys".to_owned();
                came = Came { ended: Some(CloseReason::Protocol(why)), opened: false };
            }
            return came;
        };
        if came.ended.is_some() {
            return came;
        }
        // The library has received the handshake records; here they are only marked as received, to detect replays.
        let early = &mut handshake.early;
        let keep = |packet: &[u8]| {
            if early.len() < MAX_EARLY {
                early.push(packet.to_vec());
            }
        };
        if let Some(datagram) = datagram {
            came.ended = records.receive(now, datagram, keep, &mut *send).map(CloseReason::from);
        }
        if came.opened {
            records.begin(now);
            self.usage.last = now;
            let early = std::mem::take(early);
            self.handshake = None;
            for packet in early {
                self.usage.note(&packet, false, now);
                deliver(&packet);
            }
        }
        came
    }

    /// Handles the library's output.
    fn drain(
        &mut self,
        ends: &Ends,
        now: Instant,
        buffer: &mut Vec<u8>,
        send: &mut impl FnMut(&[u8]),
    ) -> Came {
        let mut came = Came::default();
        let Some(handshake) = &mut self.handshake else { return came };
        // A client's messages are not sent if it does not trust the server.
        let mut held: Vec<Vec<u8>> = Vec::new();
        ends.surroundings.within(|| {
            loop {
                match handshake.dtls.poll_output(buffer) {
                    Output::BufferTooSmall { needed } => buffer.resize(needed, 0),
                    Output::Packet(packet) => held.push(packet.to_vec()),
                    Output::PeerCert(certificate) => {
                        if self.client
                            && let Err(why) = ends.judge(certificate, &handshake.name)
                        {
                            came.ended = Some(CloseReason::Untrusted(why));
                            return;
                        }
                    }
                    Output::Connected => came.opened = true,
                    Output::CloseNotify => {
                        came.ended = Some(Ended::Closed.into());
                        return;
                    }
                    Output::Timeout(at) => {
                        handshake.timer = virtual_instant(&ends.surroundings, at)
                            .filter(|at| *at < now + FOR_EVER)
                            // The library's clock may be slightly behind; a later time avoids a busy loop.
                            .map(|at| at.max(now + Duration::from_millis(1)));
                        return;
                    }
                    // Other output concerns early packets, which were withheld from the library.
                    _ => {}
                }
            }
        });
        if !matches!(came.ended, Some(CloseReason::Untrusted(_))) {
            if let Some(first) = held.first() {
                handshake.flight.clone_from(first);
                if self.client {
                    handshake.note_random(first);
                }
            }
            for packet in held {
                if let Some(records) = &mut self.records {
                    records.adopt(&packet, now);
                }
                send(&packet);
            }
        }
        came
    }

    /// Seals a packet as a record at the end of `out`; there must be room for one more record
    /// ([`overhead`](Self::overhead)).
    #[inline]
    pub fn seal(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) {
        self.usage.note(packet, true, now);
        let sealed = self.records.as_mut().and_then(|records| records.seal(packet, out));
        debug_assert!(sealed.is_some(), "no room for a record");
    }

    /// The number of bytes that sealing adds to a packet; `None` if no more records may be sealed.
    pub fn overhead(&self) -> Option<usize> {
        self.records.as_ref().filter(|records| self.is_open() && records.may_seal()).map(|it| it.overhead())
    }

    /// Whether something other than packets has to be sent, which [`receive`](Self::receive) does.
    #[inline]
    pub fn wants_update(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.wants_update())
    }

    /// Sends a closure alert (close_notify), if the handshake is done.
    pub fn close(&mut self, mut send: impl FnMut(&[u8])) {
        let mut out = Vec::new();
        let records = self.records.as_mut().filter(|_| self.handshake.is_none());
        if records.and_then(|records| records.close(&mut out)).is_some() {
            send(&out);
        }
    }

    /// Whether it carries an association.
    pub fn is_in_use(&self) -> bool {
        !self.usage.associations.is_empty()
    }

    /// The time at which the connection ends if it is not used until then.
    pub fn expires(&self) -> Option<Instant> {
        let span = match (self.is_in_use(), self.usage.carried) {
            // RFC 9260 §9.2: a SHUTDOWN ACK may be retransmitted and still has to be answered.
            (false, true) => LINGER,
            (false, false) => UNUSED,
            (true, _) => IDLE,
        };
        self.is_open().then(|| self.usage.last + span)
    }

    /// The next time at which the connection has to be checked.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = match &self.handshake {
            Some(handshake) => handshake.timer,
            None => self.records.as_ref().and_then(|records| records.deadline()),
        };
        [timer, self.expires()].into_iter().flatten().min()
    }

    /// Whether the listed deadline must be updated. One that has become later is not updated, because each packet
    /// postpones it; that is noticed when the listed deadline has come.
    #[inline]
    pub fn is_listed_wrongly(&self) -> bool {
        match (self.listed, self.deadline()) {
            (Some(listed), Some(at)) => at < listed,
            (listed, deadline) => listed != deadline,
        }
    }
}

impl Handshake {
    /// Runs `work` on the library with this connection's randomness and clock, and records the secrets that it shows.
    fn run<T>(&mut self, ends: &Ends, cookie: Option<Cookie>, work: impl FnOnce(&mut Dtls) -> T) -> T {
        let dtls = &mut self.dtls;
        let inside = || ends.surroundings.within(|| work(dtls));
        let (done, seen) = watched(|| match cookie {
            Some(cookie) => with_cookie(cookie, inside),
            None => inside(),
        });
        if let Some(log) = &ends.key_log {
            for (label, secret) in &seen.secrets {
                log.log(label, &self.random, secret);
            }
        }
        self.seen.add(seen);
        done
    }

    /// Records the random value of a client's hello, if the datagram begins with one.
    fn note_random(&mut self, datagram: &[u8]) {
        if is_client_hello(datagram)
            && let Some(random) = datagram.get(27..).and_then(<[u8]>::first_chunk)
        {
            self.random = *random;
        }
    }
}

impl Usage {
    /// Records which associations are alive on the connection, from an SCTP packet that is sent or received.
    #[inline]
    fn note(&mut self, packet: &[u8], sent: bool, now: Instant) {
        self.last = now;
        let Some((&ports, kind)) = packet.first_chunk::<4>().zip(packet.get(12)) else { return };
        let ends = matches!(*kind, ABORT | SHUTDOWN_COMPLETE);
        // An answered INIT leaves no state.
        let begins = sent && !ends && *kind != INIT_ACK && self.latest != Some(ports);
        if ends || begins {
            self.note_association(ports, ends, sent);
        }
    }

    #[cold]
    fn note_association(&mut self, [a, b, c, d]: [u8; 4], ends: bool, sent: bool) {
        let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let ports = if sent { (source, target) } else { (target, source) };
        self.latest = None;
        if ends {
            // ABORT and SHUTDOWN COMPLETE are the first chunks of their packets (RFC 9260 §6.10) and end the association.
            self.associations.remove(&ports);
        } else {
            self.carried = true;
            self.associations.insert(ports);
            self.latest = Some([a, b, c, d]);
        }
    }
}

/// Chunk types (RFC 9260 §3.2).
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// How long a connection remains after its last association, to answer retransmissions of the peer.
const LINGER: Duration = Duration::from_secs(3);
/// How long a connection may wait for its first association.
const UNUSED: Duration = Duration::from_secs(10);
/// How long an association may be silent in both directions: several heartbeat intervals (RFC 9260 §8.3).
const IDLE: Duration = Duration::from_secs(15 * 60);
/// A timeout later than this is none: the library sets it ten years ahead.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The maximum number of early packets that are kept during the handshake; further ones are lost and retransmitted.
const MAX_EARLY: usize = 16;

/// Converts a library error to a close reason with a message for people.
fn fault(error: &dimpl::Error) -> CloseReason {
    match error {
        dimpl::Error::Timeout(_) => Ended::Silent.into(),
        error => CloseReason::Protocol(format!("DTLS handshake: {error}").replace('\n', " ")),
    }
}

/// The library's instant for the time `now`.
fn std_instant(surroundings: &Surroundings, now: Instant) -> std::time::Instant {
    beginning(surroundings) + Duration::from_nanos(now.as_nanos())
}

fn virtual_instant(surroundings: &Surroundings, at: std::time::Instant) -> Option<Instant> {
    let since = at.checked_duration_since(beginning(surroundings))?;
    Some(Instant::ZERO + Duration::from_nanos(u64::try_from(since.as_nanos()).ok()?))
}

fn beginning(surroundings: &Surroundings) -> std::time::Instant {
    /// The origin of the clock in a real world: the library only compares instants.
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
