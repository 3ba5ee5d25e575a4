//! Records which program of this host uses which port of an IP protocol.
//!
//! Every raw socket of a protocol receives every packet, and the kernel does not track ports for raw sockets. The
//! programs of this project therefore coordinate among themselves: for each port in use, the owner binds an abstract
//! Unix socket with a name that stands for the port. The name belongs to the network namespace, needs no privilege, and
//! vanishes with the program.

use super::addresses::Addresses;
use super::usage::open_files_limit;
use crate::{PortClaim, PortRegistry};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The port registry of a raw socket of this program, or of the raw sockets of several threads that share a protocol.
#[derive(Debug)]
pub(super) struct SharedPorts {
    protocol: u8,
    addresses: Vec<IpAddr>,
    /// Whether `addresses` stands for all present and future addresses of the host.
    all: bool,
    /// A Unix socket that is bound to no name. To claim a port, a program binds a Unix socket to a name that contains
    /// the port. This socket tests whether another program has done so.
    probe_socket: UnixDatagram,
    claims: Arc<Claims>,
}

/// This program's claims of ports, by port number.
#[derive(Debug, Default)]
struct Claims(Mutex<BTreeMap<u16, Weak<Claim>>>);

/// A claim of a port, which ends when this value is dropped.
#[derive(Debug)]
struct Claim {
    port: u16,
    claims: Arc<Claims>,
    _name_sockets: Vec<UnixDatagram>,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Weak<Claim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, port: u16) -> Option<Arc<Claim>> {
        find(&self.lock(), port)
    }
}

fn find(claims: &BTreeMap<u16, Weak<Claim>>, port: u16) -> Option<Arc<Claim>> {
    claims.get(&port).and_then(Weak::upgrade)
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.claims.lock();
        if claims.get(&self.port).is_some_and(|claim| claim.strong_count() == 0) {
            claims.remove(&self.port);
        }
    }
}

impl SharedPorts {
    pub(super) fn new(addresses: &Addresses, protocol: u8) -> io::Result<Self> {
        let all = addresses.fixed().is_empty();
        let probe_socket = UnixDatagram::unbound()?;
        Ok(Self { protocol, addresses: addresses.list(), all, probe_socket, claims: Arc::default() })
    }

    /// Returns the socket name that stands for `port` at `address`, or at all addresses if `address` is `None`.
    fn name(&self, address: Option<IpAddr>, port: u16) -> io::Result<SocketAddr> {
        let address = address.map_or_else(|| "*".to_owned(), |address| address.to_string());
        SocketAddr::from_abstract_name(format!("anabranch/ip-{}/{address}/{port}", self.protocol))
    }

    fn take(&self, address: Option<IpAddr>, port: u16) -> io::Result<UnixDatagram> {
        let name_socket = UnixDatagram::bind_addr(&self.name(address, port)?)?;
        // No data is ever read from this socket, so the socket rejects data.
        name_socket.shutdown(Shutdown::Both)?;
        Ok(name_socket)
    }

    fn is_bound_elsewhere(&self, address: Option<IpAddr>, port: u16) -> bool {
        let result = self.name(address, port).and_then(|name| self.probe_socket.connect_addr(&name));
        result.map_or_else(|why| why.kind() != io::ErrorKind::ConnectionRefused, |()| true)
    }

    fn hold(
        &self,
        claims: &mut BTreeMap<u16, Weak<Claim>>,
        port: u16,
        name_sockets: Vec<UnixDatagram>,
    ) -> PortClaim {
        let claim = Arc::new(Claim { port, claims: self.claims.clone(), _name_sockets: name_sockets });
        claims.insert(port, Arc::downgrade(&claim));
        claim
    }
}

impl PortRegistry for SharedPorts {
    fn listen(&self, port: u16) -> io::Result<PortClaim> {
        // A claim binds Unix sockets to names made from the port. The lock is held until the claim is recorded. Without
        // the lock, another thread that claims the same port now would fail, because the names are already bound.
        let mut claims = self.claims.lock();
        if let Some(claim) = find(&claims, port) {
            return Ok(claim);
        }
        if !self.all && self.is_bound_elsewhere(None, port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let every = self.all.then_some(None);
        let needed = every.into_iter().chain(self.addresses.iter().copied().map(Some));
        let name_sockets: io::Result<_> = needed.map(|address| self.take(address, port)).collect();
        Ok(self.hold(&mut claims, port, name_sockets?))
    }

    fn connect(&self, port: u16) -> Option<PortClaim> {
        let mut claims = self.claims.lock();
        if let Some(claim) = find(&claims, port) {
            return Some(claim);
        }
        // Each claim takes a file descriptor. Half of the descriptors are left for other uses.
        if claims.len() as u64 >= open_files_limit() / 2 {
            return None;
        }
        let name = self.take(None, port).ok()?;
        Some(self.hold(&mut claims, port, vec![name]))
    }

    fn is_owned_by_other(&self, address: Option<IpAddr>, port: u16) -> bool {
        if self.claims.find(port).is_some() {
            return false;
        }
        let mut candidates: Vec<_> = vec![None];
        match address {
            Some(_) => candidates.push(address),
            None => candidates.extend(self.addresses.iter().copied().map(Some)),
        }
        candidates.into_iter().any(|address| self.is_bound_elsewhere(address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a registry for a protocol number that no other program uses.
    fn ports_of(addresses: &[[u8; 4]]) -> SharedPorts {
        let given = Addresses::new(vec![[127, 0, 0, 1].into()]).expect("loopback");
        let mut ports = SharedPorts::new(&given, 253).expect("a socket");
        ports.all = addresses.is_empty();
        ports.addresses = addresses.iter().map(|&address| address.into()).collect();
        ports
    }

    #[test]
    fn a_port_has_one_owner_per_address() {
        let (one, same, other) =
            (ports_of(&[[192, 0, 2, 1]]), ports_of(&[[192, 0, 2, 1]]), ports_of(&[[192, 0, 2, 2]]));
        let at = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let claim = one.listen(4001).expect("free");
        assert!(one.listen(4001).is_ok() && !one.is_owned_by_other(at(1), 4001), "its own");
        assert_eq!(same.listen(4001).map_err(|why| why.kind()).err(), Some(io::ErrorKind::AddrInUse));
        assert!(same.is_owned_by_other(at(1), 4001) && same.is_owned_by_other(None, 4001));
        assert!(!same.is_owned_by_other(at(2), 4001) && !same.is_owned_by_other(at(1), 4002));
        let second = other.listen(4001).expect("another address");
        assert!(ports_of(&[]).listen(4001).is_ok(), "neither address is its own");
        drop((claim, second));
        assert!(!same.is_owned_by_other(at(1), 4001) && same.listen(4001).is_ok(), "given back");
    }

    #[test]
    fn threads_that_share_a_port_do_not_keep_each_other_out() {
        let shared = ports_of(&[[192, 0, 2, 1], [192, 0, 2, 2]]);
        for port in 4100..4150 {
            let at_once = std::sync::Barrier::new(4);
            let ask = || {
                at_once.wait();
                shared.listen(port)
            };
            let claims: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().expect("asked")).collect()
            });
            assert!(claims.iter().all(Result::is_ok), "{claims:?}");
        }
    }

    #[test]
    fn wildcard_and_outgoing_claims_cover_every_address() {
        let (all, one) = (ports_of(&[]), ports_of(&[[192, 0, 2, 1]]));
        let claim = all.listen(4003).expect("free");
        assert_eq!(one.listen(4003).map_err(|why| why.kind()).err(), Some(io::ErrorKind::AddrInUse));
        assert!(one.connect(4003).is_none() && one.is_owned_by_other(None, 4003));
        drop(claim);
        let claim = one.connect(4003).expect("free");
        assert!(all.listen(4003).is_err() && all.is_owned_by_other(Some([192, 0, 2, 9].into()), 4003));
        drop((one.connect(4003), claim));
        assert!(all.listen(4003).is_ok());
    }
}
