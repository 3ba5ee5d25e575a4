//! One DTLS connection with one peer, from its handshake to its end: the handshake of RFC 9147 or RFC 6347 by the library, records
//! by ours (`records`), and what RFC 8261 adds: a packet is a record, and when the last association is over so is the connection.

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
    /// While that is going on.
    handshake: Option<Box<Handshake>>,
    /// From when the keys are there.
    records: Option<Records>,
    pub client: bool,
    /// When it is to be looked at, as the layer's list has it.
    pub listed: Option<Instant>,
    usage: Usage,
    /// The cookie that its client has brought.
    pub cookie: Option<Cookie>,
    /// What has come from a client that has not brought one, and what went to it.
    pub unproven: Option<Unproven>,
}

/// What a handshake needs, and nothing after it.
struct Handshake {
    dtls: Dtls,
    /// What the server's certificate has to be for.
    name: String,
    /// When the library wants to be called.
    timer: Option<Instant>,
    /// The first datagram of the flight under way, by which a report of ICMP about it is known.
    flight: Vec<u8>,
    /// What the client's hello has of randomness, by which key logs know a connection.
    random: [u8; 32],
    seen: Seen,
    /// Packets that came before the handshake was over.
    early: Vec<Vec<u8>>,
}

/// What a connection is used for.
struct Usage {
    /// When it opened, and when it last carried a packet.
    last: Instant,
    /// The ports of the packet sent before, as they were in it: its association is there.
    latest: Option<[u8; 4]>,
    /// Ports of the associations that are alive on it, ours first.
    associations: BTreeSet<(u16, u16)>,
    /// An association has been there.
    carried: bool,
}

/// What became of a call.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// The handshake is over since.
    pub opened: bool,
    /// It is over, and why.
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
            // The clock goes on once before a client begins.
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
        let (mut said, mut first) = (Vec::new(), first.to_vec());
        let came =
            this.receive(ends, now, Some(&mut first), buffer, |_| {}, |record| said.push(record.to_vec()));
        if came.ended.is_some() || said != [asked] {
            return Err(EndsError::Library("another answer to a hello than was given".to_owned()));
        }
        Ok(this)
    }

    /// Packets may be sent on it.
    pub fn is_open(&self) -> bool {
        self.handshake.is_none()
    }

    /// The first datagram of the flight under way.
    pub fn flight(&self) -> &[u8] {
        self.handshake.as_ref().map_or(&[], |handshake| &handshake.flight)
    }

    /// Takes a datagram of the peer's, or none if time has passed.
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

    /// Opens a datagram of the peer's, when the handshake is over.
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
        // Packets that come early are ours to open, and of them alone the library is told nothing.
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
        // The library has had what is of the handshake; here it is known not to come again.
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

    /// Takes out what the library has to say.
    fn drain(
        &mut self,
        ends: &Ends,
        now: Instant,
        buffer: &mut Vec<u8>,
        send: &mut impl FnMut(&[u8]),
    ) -> Came {
        let mut came = Came::default();
        let Some(handshake) = &mut self.handshake else { return came };
        // What a client says to a server that it does not believe stays here.
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
                            // Its clock may be a little behind, its calls must not spin.
                            .map(|at| at.max(now + Duration::from_millis(1)));
                        return;
                    }
                    // Packets that came early it has not been told of.
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

    /// Makes a record of a packet, at the end of `out`; there must be room for one more ([`overhead`](Self::overhead)).
    #[inline]
    pub fn seal(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) {
        self.usage.note(packet, true, now);
        let sealed = self.records.as_mut().and_then(|records| records.seal(packet, out));
        debug_assert!(sealed.is_some(), "no room for a record");
    }

    /// How many bytes longer a packet is when it is sealed; `None` where no more may be.
    pub fn overhead(&self) -> Option<usize> {
        self.records.as_ref().filter(|records| self.is_open() && records.may_seal()).map(|it| it.overhead())
    }

    /// There is something to be sent beside packets: [`receive`](Self::receive) does that.
    #[inline]
    pub fn wants_update(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.wants_update())
    }

    /// Says goodbye (close_notify), if there is anybody to say it to.
    pub fn close(&mut self, mut send: impl FnMut(&[u8])) {
        let mut out = Vec::new();
        let records = self.records.as_mut().filter(|_| self.handshake.is_none());
        if records.and_then(|records| records.close(&mut out)).is_some() {
            send(&out);
        }
    }

    /// It carries an association.
    pub fn is_in_use(&self) -> bool {
        !self.usage.associations.is_empty()
    }

    /// When it has outlived its use, as things stand.
    pub fn expires(&self) -> Option<Instant> {
        let span = match (self.is_in_use(), self.usage.carried) {
            // RFC 9260 §9.2: a SHUTDOWN ACK may come again, and is still to be answered.
            (false, true) => LINGER,
            (false, false) => UNUSED,
            (true, _) => IDLE,
        };
        self.is_open().then(|| self.usage.last + span)
    }

    /// When somebody must look at it.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = match &self.handshake {
            Some(handshake) => handshake.timer,
            None => self.records.as_ref().and_then(|records| records.deadline()),
        };
        [timer, self.expires()].into_iter().flatten().min()
    }

    /// The list has another deadline than this one, and not only an earlier one: a later one is found when that has come, because
    /// use puts it off with each packet.
    #[inline]
    pub fn is_listed_wrongly(&self) -> bool {
        match (self.listed, self.deadline()) {
            (Some(listed), Some(at)) => at < listed,
            (listed, deadline) => listed != deadline,
        }
    }
}

impl Handshake {
    /// Has the library do something in this connection's surroundings, and looks at what secrets that shows.
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

    /// Notes the randomness of a client's hello, if the datagram begins with one.
    fn note_random(&mut self, datagram: &[u8]) {
        if is_client_hello(datagram)
            && let Some(random) = datagram.get(27..).and_then(<[u8]>::first_chunk)
        {
            self.random = *random;
        }
    }
}

impl Usage {
    /// Notes which associations live on it, by a packet of SCTP that is sent or has come.
    #[inline]
    fn note(&mut self, packet: &[u8], sent: bool, now: Instant) {
        self.last = now;
        let Some((&ports, kind)) = packet.first_chunk::<4>().zip(packet.get(12)) else { return };
        let ends = matches!(*kind, ABORT | SHUTDOWN_COMPLETE);
        // Nothing is remembered of an INIT that was answered.
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
            // ABORT and SHUTDOWN COMPLETE stand first in their packets (RFC 9260 §6.10), and nothing comes after.
            self.associations.remove(&ports);
        } else {
            self.carried = true;
            self.associations.insert(ports);
            self.latest = Some([a, b, c, d]);
        }
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
/// Packets that are kept of those that come before the handshake is over; what is lost so is sent again.
const MAX_EARLY: usize = 16;

/// What went wrong, as a line for people.
fn fault(error: &dimpl::Error) -> CloseReason {
    match error {
        dimpl::Error::Timeout(_) => Ended::Silent.into(),
        error => CloseReason::Protocol(format!("DTLS handshake: {error}").replace('\n', " ")),
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
