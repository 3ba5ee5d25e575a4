//! Creates connections: their four-tuples, initial sequence numbers and slots.
//!
//! Owns the choice of ephemeral ports and initial sequence numbers.
//!
//! Implements RFC 9293 §3.4.1 (initial sequence numbers) and RFC 6056 §3.3.2 (ephemeral ports).

use super::demux::{self, FourTuple};
use super::{ConnectionId, DEFAULT_MTU, Endpoint, Slot};
use crate::ConnectError;
use crate::conn::{Connection, TcbInit};
use anabranch_base::Instant;
use anabranch_wire::tcp::Seq;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// RFC 6335 §6: the first port of the dynamic range.
pub(super) const FIRST_EPHEMERAL: u16 = 49_152;

impl Endpoint {
    /// Opens a connection from `local`. If `local` is `None`, uses the first local address with the IP version of the
    /// remote address. [`Event::Connected`](crate::Event) or [`Event::Closed`](crate::Event) follows.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection attempt cannot start.
    pub fn connect(
        &mut self,
        now: Instant,
        local: Option<IpAddr>,
        remote: SocketAddr,
    ) -> Result<ConnectionId, ConnectError> {
        if remote.port() == 0 {
            return Err(ConnectError::NoPort);
        }
        let local = match local {
            Some(ip) if !self.addresses.contains(&ip) => return Err(ConnectError::NotLocal(ip)),
            Some(ip) if ip.is_ipv4() != remote.is_ipv4() => return Err(ConnectError::NoAddress(remote.ip())),
            Some(ip) => ip,
            None => *self
                .addresses
                .iter()
                .find(|ip| ip.is_ipv4() == remote.is_ipv4())
                .ok_or(ConnectError::NoAddress(remote.ip()))?,
        };
        let ends = self.free_four_tuple(local, remote)?;
        let init = self.tcb_init(now, ends);
        let slot = init.id.slot;
        let id = init.id;
        self.insert(slot, ends, Connection::connect(now, init));
        self.after(now, slot);
        Ok(id)
    }

    /// Like [`connect`](Self::connect), with a local port chosen by the caller. If two hosts call this for each other's
    /// address and port at the same time, they open one connection (RFC 9293 §3.5).
    ///
    /// # Errors
    /// [`ConnectError`]; [`NoFreePort`](ConnectError::NoFreePort) if the port is in use.
    pub fn connect_from(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<ConnectionId, ConnectError> {
        if remote.port() == 0 || local.port() == 0 {
            return Err(ConnectError::NoPort);
        }
        if !self.addresses.contains(&local.ip()) {
            return Err(ConnectError::NotLocal(local.ip()));
        }
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::NoAddress(remote.ip()));
        }
        let ends = FourTuple { local, remote };
        if self.demux.contains(&ends) || self.listeners.is_open(local.port()) {
            return Err(ConnectError::NoFreePort);
        }
        let init = self.tcb_init(now, ends);
        let id = init.id;
        self.insert(id.slot, ends, Connection::connect(now, init));
        self.after(now, id.slot);
        Ok(id)
    }

    /// RFC 6056 §3.3.2: returns a four-tuple with the next free local port. The first search starts at a random port.
    fn free_four_tuple(&mut self, local: IpAddr, remote: SocketAddr) -> Result<FourTuple, ConnectError> {
        for _ in FIRST_EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = if port == u16::MAX { FIRST_EPHEMERAL } else { port + 1 };
            let ends = FourTuple { local: SocketAddr::new(local, port), remote };
            if !self.demux.contains(&ends) && !self.listeners.is_open(port) {
                return Ok(ends);
            }
        }
        Err(ConnectError::NoFreePort)
    }

    pub(super) fn tcb_init(&mut self, now: Instant, ends: FourTuple) -> TcbInit {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                connection: None,
                queued: false,
                scheduled: Instant::MAX,
                last: None,
            });
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let id = ConnectionId { slot, generation: entry.generation };
        let index = self.addresses.iter().position(|ip| *ip == ends.local.ip());
        TcbInit {
            id,
            local: ends.local,
            remote: ends.remote,
            config: Arc::clone(&self.config),
            iss: self.initial_sequence(now, ends),
            clock_offset: self.rng.next_u32(),
            mtu: index.map_or(DEFAULT_MTU, |index| self.mtus[index]),
        }
    }

    /// RFC 9293 §3.4.1: returns the initial sequence number: a clock with ticks of 4 us, plus a secret hash of the
    /// four-tuple. If a port pair is reused, the sequence numbers continue after those of the old connection.
    fn initial_sequence(&self, now: Instant, ends: FourTuple) -> Seq {
        use std::hash::BuildHasher;
        let tuple_hash = demux::Keyed(self.secret).hash_one(ends);
        Seq((now.as_nanos() / 4_000) as u32).plus(tuple_hash as u32)
    }

    pub(super) fn insert(&mut self, slot: u32, ends: FourTuple, connection: Connection) {
        self.demux.insert(ends, slot);
        self.slots[slot as usize].connection = Some(Box::new(connection));
    }
}
