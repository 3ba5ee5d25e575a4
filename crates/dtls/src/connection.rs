//! One DTLS connection with one peer, from its handshake to its end. `dimpl` does the handshake of RFC 9147 or RFC
//! 6347, and `records` handles the records. RFC 8261 adds two rules: each SCTP packet is one record, and a connection
//! ends with its last association.

use crate::hello::is_client_hello;
use crate::host_config::{HostConfig, HostConfigError};
use crate::proof::UnvalidatedClient;
use crate::records::{self, Records, RecordsEnd};
use crate::secrets::{Cookie, ObservedSecrets, watched, with_cookie};
use crate::simulation::BEGINNING;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_tls::Surroundings;
use anabranch_transport::CloseReason;
use dimpl::{Dtls, Output};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A DTLS connection with one peer.
pub(crate) struct Connection {
    /// The state of the handshake; `None` once the handshake is done.
    handshake: Option<Box<Handshake>>,
    /// The record state; `None` until the keys are known.
    records: Option<Records>,
    pub client: bool,
    /// The connection's deadline as it is listed in `Peers::deadlines`; `None` if it is not listed there.
    pub listed_deadline: Option<Instant>,
    usage: Usage,
    /// The cookie with which the client has proved its address. `None` if the client has returned no cookie, or if this
    /// endpoint is the client.
    pub cookie: Option<Cookie>,
    /// The limit on the bytes sent to a client that has not returned a cookie.
    pub unvalidated: Option<UnvalidatedClient>,
}

/// The state of a handshake, which is dropped when the handshake is done.
struct Handshake {
    dtls: Dtls,
    /// The name that the server's certificate must have.
    name: String,
    /// The time at which dimpl wants to be called again.
    timer: Option<Instant>,
    /// Whether an incomplete flight of the peer has been acknowledged since its last datagram.
    is_gap_acked: bool,
    /// The first datagram of our current handshake flight. An ICMP message is accepted only if it quotes this datagram.
    first_datagram: Vec<u8>,
    /// The random value of the client's hello. Key logs identify the connection by this value.
    random: [u8; 32],
    secrets: ObservedSecrets,
    /// Packets that arrived before the handshake was done. They are delivered when the handshake is done.
    early: Vec<Vec<u8>>,
}

/// How associations use a connection.
struct Usage {
    /// The time at which the connection opened or last carried a packet, whichever is later.
    last: Instant,
    /// The SCTP source and destination ports of the last packet that was sent for an association in `associations`. If
    /// the next packet has the same ports, `associations` need not be searched.
    last_ports: Option<[u8; 4]>,
    /// The SCTP ports of each association that is alive on the connection, our port first.
    associations: BTreeSet<(u16, u16)>,
    /// Whether the connection has ever carried an association.
    carried: bool,
}

/// The result of handling a datagram or a timeout.
#[derive(Debug, Default)]
pub(crate) struct HandshakeProgress {
    /// Whether the handshake was completed.
    pub opened: bool,
    /// The reason why the connection has ended; `None` if it has not ended.
    pub ended: Option<CloseReason>,
}

impl From<Option<RecordsEnd>> for HandshakeProgress {
    fn from(ended: Option<RecordsEnd>) -> Self {
        Self { opened: false, ended: ended.map(CloseReason::from) }
    }
}

impl Connection {
    pub fn begin(
        host: &HostConfig,
        client: bool,
        name: &str,
        mtu: usize,
        now: Instant,
    ) -> Result<Self, HostConfigError> {
        let mut dtls = host.begin(client, mtu, std_instant(&host.surroundings, now))?;
        if client {
            // A client of dimpl can begin its handshake only after this call, which passes the current time to dimpl.
            let began =
                host.surroundings.within(|| dtls.handle_timeout(std_instant(&host.surroundings, now)));
            began.map_err(|why| HostConfigError::Library(why.to_string()))?;
        }
        let handshake = Handshake {
            dtls,
            name: name.to_owned(),
            timer: None,
            is_gap_acked: false,
            first_datagram: Vec::new(),
            random: [0; 32],
            secrets: ObservedSecrets::default(),
            early: Vec::new(),
        };
        Ok(Self {
            handshake: Some(Box::new(handshake)),
            records: None,
            client,
            listed_deadline: None,
            usage: Usage { last: now, last_ports: None, associations: BTreeSet::new(), carried: false },
            cookie: None,
            unvalidated: None,
        })
    }

    /// Creates a server's connection for a client that has returned a cookie. `first` is the client's first hello, and
    /// `request` is the cookie request with which the server answered it. dimpl processes `first` here, and its answer
    /// must equal `request`.
    pub fn enter(
        host: &HostConfig,
        mtu: usize,
        now: Instant,
        (cookie, first, request): (Cookie, &[u8], &[u8]),
        buffer: &mut Vec<u8>,
    ) -> Result<Self, HostConfigError> {
        let mut this = Self::begin(host, false, "", mtu, now)?;
        this.cookie = Some(cookie);
        let (mut sent, mut first) = (Vec::new(), first.to_vec());
        let progress =
            this.receive(host, now, Some(&mut first), buffer, |_| {}, |record| sent.push(record.to_vec()));
        if progress.ended.is_some() || sent != [request] {
            return Err(HostConfigError::Library("another answer to a hello than was given".to_owned()));
        }
        Ok(this)
    }

    /// Returns whether the handshake is done, so that packets may be sent on the connection.
    pub fn is_open(&self) -> bool {
        self.handshake.is_none()
    }

    /// Returns the first datagram of our current flight. After the handshake, returns an empty slice.
    pub fn first_datagram(&self) -> &[u8] {
        self.handshake.as_ref().map_or(&[], |handshake| &handshake.first_datagram)
    }

    /// Handles a datagram of the peer. If `datagram` is `None`, handles the timeouts that are due.
    pub fn receive(
        &mut self,
        host: &HostConfig,
        now: Instant,
        datagram: Option<&mut [u8]>,
        buffer: &mut Vec<u8>,
        deliver: impl FnMut(&[u8]),
        mut send: impl FnMut(&[u8]),
    ) -> HandshakeProgress {
        match (&mut self.handshake, datagram) {
            (None, Some(datagram)) => self.open(now, datagram, deliver, send),
            (None, None) => self.records.as_mut().and_then(|records| records.expire(now, send)).into(),
            (Some(_), datagram) => self.drive_handshake(host, now, datagram, buffer, deliver, &mut send),
        }
    }

    /// Decrypts a datagram that arrived after the handshake, and delivers its packets.
    #[inline]
    pub fn open(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
        send: impl FnMut(&[u8]),
    ) -> HandshakeProgress {
        let (Some(records), usage) = (&mut self.records, &mut self.usage) else {
            return HandshakeProgress::default();
        };
        let deliver = |packet: &[u8]| {
            usage.note(packet, false, now);
            deliver(packet);
        };
        records.receive(now, datagram, deliver, send).into()
    }

    fn drive_handshake(
        &mut self,
        host: &HostConfig,
        now: Instant,
        datagram: Option<&mut [u8]>,
        buffer: &mut Vec<u8>,
        mut deliver: impl FnMut(&[u8]),
        send: &mut impl FnMut(&[u8]),
    ) -> HandshakeProgress {
        let Some(handshake) = &mut self.handshake else { return HandshakeProgress::default() };
        if let Some(datagram) = datagram.as_ref().filter(|_| !self.client) {
            handshake.note_random(datagram);
        }
        // SCTP packets that arrive before the handshake is done are decrypted here. dimpl gets the rest of the
        // datagram.
        let for_dimpl = datagram.as_ref().map(|datagram| match &self.records {
            Some(records) => records.without_data(datagram),
            None => datagram,
        });
        if datagram.is_some() {
            handshake.is_gap_acked = false;
        }
        let taken = handshake.run(host, self.cookie, |dtls| {
            dtls.handle_timeout(std_instant(&host.surroundings, now))?;
            // dimpl 0.9.0 drops all of a datagram that begins with a message it has processed. A retransmission may hold
            // such a message before the one that was lost, so dimpl gets each record as a datagram of its own.
            records::split(for_dimpl.unwrap_or_default()).try_for_each(|record| dtls.handle_packet(record))
        });
        if let Err(error) = taken {
            return HandshakeProgress { ended: Some(close_reason(&error)), ..HandshakeProgress::default() };
        }
        if self.records.is_none() {
            self.records = Records::of(&handshake.secrets, self.client, host.update_after);
        }
        let mut progress = self.drain(host, now, buffer, send);
        let Some((handshake, records)) = self.handshake.as_mut().zip(self.records.as_mut()) else {
            if progress.opened {
                let why = "DTLS handshake: there are no keys".to_owned();
                progress = HandshakeProgress { ended: Some(CloseReason::Protocol(why)), opened: false };
            }
            return progress;
        };
        if progress.ended.is_some() {
            return progress;
        }
        // dimpl has already processed the handshake records. They are only marked as received here, so that replays are
        // detected.
        let early = &mut handshake.early;
        let keep = |packet: &[u8]| {
            if early.len() < MAX_EARLY {
                early.push(packet.to_vec());
            }
        };
        if let Some(datagram) = datagram {
            progress.ended = records.receive(now, datagram, keep, &mut *send).map(CloseReason::from);
        }
        if progress.opened {
            records.begin(now);
            self.usage.last = now;
            let early = std::mem::take(early);
            self.handshake = None;
            for packet in early {
                self.usage.note(&packet, false, now);
                deliver(&packet);
            }
        }
        progress
    }

    /// Handles the output of dimpl: datagrams, certificates, timers, and the end of the handshake.
    fn drain(
        &mut self,
        host: &HostConfig,
        now: Instant,
        buffer: &mut Vec<u8>,
        send: &mut impl FnMut(&[u8]),
    ) -> HandshakeProgress {
        let mut progress = HandshakeProgress::default();
        let Some(handshake) = &mut self.handshake else { return progress };
        // All datagrams are collected first. If the client does not trust the server's certificate, none of them is
        // sent.
        let mut packets: Vec<Vec<u8>> = Vec::new();
        host.surroundings.within(|| {
            loop {
                match handshake.dtls.poll_output(buffer) {
                    Output::BufferTooSmall { needed } => buffer.resize(needed, 0),
                    Output::Packet(packet) => packets.push(packet.to_vec()),
                    Output::PeerCert(certificate) => {
                        if self.client
                            && let Err(why) = host.judge(certificate, &handshake.name)
                        {
                            progress.ended = Some(CloseReason::Untrusted(why));
                            return;
                        }
                    }
                    Output::Connected => progress.opened = true,
                    Output::CloseNotify => {
                        progress.ended = Some(RecordsEnd::Closed.into());
                        return;
                    }
                    Output::Timeout(at) => {
                        let at = virtual_instant(&host.surroundings, at).filter(|at| *at < now + FOR_EVER);
                        // While a part of the peer's flight is missing, dimpl names a time that has passed, and
                        // acknowledges the other parts whenever it is called.
                        let is_gap = at.is_some_and(|at| at <= now);
                        let wait = if is_gap && handshake.is_gap_acked { ACK_INTERVAL } else { SOON };
                        handshake.is_gap_acked |= is_gap;
                        handshake.timer = at.map(|at| at.max(now + wait));
                        return;
                    }
                    // dimpl's other outputs concern application data, which dimpl never receives here.
                    _ => {}
                }
            }
        });
        if !matches!(progress.ended, Some(CloseReason::Untrusted(_))) {
            if let Some(first) = packets.first() {
                handshake.first_datagram.clone_from(first);
                if self.client {
                    handshake.note_random(first);
                }
            }
            for packet in packets {
                if let Some(records) = &mut self.records {
                    records.adopt(&packet, now);
                }
                send(&packet);
            }
        }
        progress
    }

    /// Appends a packet to `out` as an encrypted record. The caller has checked that another record may be sent
    /// ([`overhead`](Self::overhead)).
    #[inline]
    pub fn seal(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) {
        self.usage.note(packet, true, now);
        let sealed = self.records.as_mut().and_then(|records| records.seal(packet, out));
        debug_assert!(sealed.is_some(), "no room for a record");
    }

    /// Returns the number of bytes that encryption adds to a packet; `None` if no more records may be sent on this
    /// connection.
    pub fn overhead(&self) -> Option<usize> {
        self.records.as_ref().filter(|records| self.is_open() && records.may_seal()).map(|it| it.overhead())
    }

    /// Returns whether the keys have to be changed. A call of [`receive`](Self::receive) without a datagram starts the
    /// change.
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

    /// Returns whether an association is alive on the connection.
    pub fn is_in_use(&self) -> bool {
        !self.usage.associations.is_empty()
    }

    /// Returns the time at which the connection ends if no packet is sent or received until then.
    pub fn expires(&self) -> Option<Instant> {
        let span = match (self.is_in_use(), self.usage.carried) {
            // RFC 9260 §9.2: the peer may retransmit a SHUTDOWN ACK after the association has ended. The connection
            // remains for `LINGER`, so that the SHUTDOWN ACK can be answered.
            (false, true) => LINGER,
            (false, false) => UNUSED,
            (true, _) => IDLE,
        };
        self.is_open().then(|| self.usage.last + span)
    }

    /// Returns the next time at which timeouts have to be handled, or at which the connection expires.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = match &self.handshake {
            Some(handshake) => handshake.timer,
            None => self.records.as_ref().and_then(|records| records.deadline()),
        };
        [timer, self.expires()].into_iter().flatten().min()
    }

    /// Returns whether this connection's deadline in the list `Peers::deadlines` must be updated now. A listed deadline
    /// that is later than the connection's deadline must be updated. A listed deadline that is earlier may stay until
    /// `Peers::expire` replaces it. Each packet postpones the connection's deadline, and an update for each packet
    /// would be slow.
    #[inline]
    pub fn is_listed_wrongly(&self) -> bool {
        match (self.listed_deadline, self.deadline()) {
            (Some(listed), Some(at)) => at < listed,
            (listed, deadline) => listed != deadline,
        }
    }
}

impl Handshake {
    /// Runs `work` on dimpl's connection with the randomness and clock of this connection, and records the secrets that
    /// dimpl computes.
    fn run<T>(&mut self, host: &HostConfig, cookie: Option<Cookie>, work: impl FnOnce(&mut Dtls) -> T) -> T {
        let dtls = &mut self.dtls;
        let inside = || host.surroundings.within(|| work(dtls));
        let (done, observed) = watched(|| match cookie {
            Some(cookie) => with_cookie(cookie, inside),
            None => inside(),
        });
        if let Some(log) = &host.key_log {
            for (label, secret) in &observed.secrets {
                log.log(label, &self.random, secret);
            }
        }
        self.secrets.add(observed);
        if let Some(aead) = &mut self.secrets.aead {
            aead.placeholder = host.surroundings.uses_placeholder();
        }
        done
    }

    /// Records the client's random value, if the datagram begins with a ClientHello.
    fn note_random(&mut self, datagram: &[u8]) {
        if is_client_hello(datagram)
            && let Some(random) = datagram.get(27..).and_then(<[u8]>::first_chunk)
        {
            self.random = *random;
        }
    }
}

impl Usage {
    /// If an association begins or ends with `packet`, records this event. `packet` is an SCTP packet that was sent or
    /// received.
    #[inline]
    fn note(&mut self, packet: &[u8], sent: bool, now: Instant) {
        self.last = now;
        let Some((&ports, kind)) = packet.first_chunk::<4>().zip(packet.get(12)) else { return };
        let ends = matches!(*kind, ABORT | SHUTDOWN_COMPLETE);
        // An INIT ACK does not count as the start of an association, because its sender keeps no state.
        let begins = sent && !ends && *kind != INIT_ACK && self.last_ports != Some(ports);
        if ends || begins {
            self.note_association(ports, ends, sent);
        }
    }

    #[cold]
    fn note_association(&mut self, [a, b, c, d]: [u8; 4], ends: bool, sent: bool) {
        let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let ports = if sent { (source, target) } else { (target, source) };
        self.last_ports = None;
        if ends {
            // ABORT and SHUTDOWN COMPLETE end the association. Each is the first chunk of its packet (RFC 9260 §6.10).
            self.associations.remove(&ports);
        } else {
            self.carried = true;
            self.associations.insert(ports);
            self.last_ports = Some([a, b, c, d]);
        }
    }
}

/// The types of SCTP chunks that begin or end an association (RFC 9260 §3.2).
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// The time for which a connection remains after its last association, so that retransmissions of the peer are
/// answered.
const LINGER: Duration = Duration::from_secs(3);
/// The time that a connection may wait for its first association.
const UNUSED: Duration = Duration::from_secs(10);
/// The time that a connection with an association may be silent in both directions, which is several heartbeat
/// intervals (RFC 9260 §8.3).
const IDLE: Duration = Duration::from_secs(15 * 60);
/// A timeout further away than this counts as no timeout. dimpl sets a timeout of ten years if it needs none.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The shortest timeout of a handshake. dimpl may name a time that has passed.
const SOON: Duration = Duration::from_millis(1);
/// The time between acknowledgements of an incomplete flight, if nothing arrives meanwhile: a quarter of the first
/// retransmission timeout (RFC 9147 §7.1).
const ACK_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of packets kept during the handshake. Further packets are dropped, and SCTP retransmits them.
const MAX_EARLY: usize = 16;

/// Converts an error of dimpl to a close reason with a message for people.
fn close_reason(error: &dimpl::Error) -> CloseReason {
    match error {
        dimpl::Error::Timeout(_) => RecordsEnd::TimedOut.into(),
        error => CloseReason::Protocol(format!("DTLS handshake: {error}").replace('\n', " ")),
    }
}

/// Converts the time `now` to an instant of dimpl.
fn std_instant(surroundings: &Surroundings, now: Instant) -> std::time::Instant {
    beginning(surroundings) + Duration::from_nanos(now.as_nanos())
}

fn virtual_instant(surroundings: &Surroundings, at: std::time::Instant) -> Option<Instant> {
    let since = at.checked_duration_since(beginning(surroundings))?;
    Some(Instant::ZERO + Duration::from_nanos(u64::try_from(since.as_nanos()).ok()?))
}

fn beginning(surroundings: &Surroundings) -> std::time::Instant {
    /// The origin of dimpl's instants on a real network. Any origin is suitable, because dimpl only compares instants.
    #[expect(
        clippy::disallowed_methods,
        reason = "the library counts from somewhere; its timers run by the world's clock"
    )]
    static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    match surroundings {
        Surroundings::Real => *ORIGIN,
        Surroundings::Simulated(_) => *BEGINNING,
    }
}
