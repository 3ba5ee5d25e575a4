//! The host's SCTP instance. It owns the addresses, local ports and listeners, and the state that all its associations
//! share.
//!
//! `api`, `streams` and `status` hold the methods that the application calls. `engine` handles packets and timeouts.
//! `slots` stores the associations.

mod addresses;
mod admission;
mod api;
mod checksum;
pub(crate) mod datagrams;
mod demux;
mod encap;
mod engine;
mod ephemeral;
mod keys;
mod listen;
mod memory;
mod out_of_the_blue;
mod shard;
mod slots;
mod snap;
mod status;
mod streams;
mod tuning;
mod used_cookies;

pub use crate::id::AssociationId;
pub use crate::message::{Message, Received};
pub use admission::{Request, RequestId};
pub use api::Associate;
pub use shard::{Claim, OtherShards, Shard};

use crate::association::cookie::CookieSigner;
use crate::association::outbound::packet::StatelessPacket;
use crate::association::{Ctx, Local, Trace};
use crate::config::{Config, SharedKeys};
use crate::error::ListenError;
use crate::event::Event;
use crate::stats::{Interruption, PathChange, Totals};
use admission::Admission;
use anabranch_base::{Instant, Rng};
use demux::Demux;
use ephemeral::Ephemeral;
use slots::Slot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use used_cookies::UsedCookies;

/// A host's SCTP instance. See the crate documentation.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    addresses: Vec<SocketAddr>,
    /// Whether packets have IP addresses. False over a channel of datagrams.
    has_addresses: bool,
    local_addresses: Vec<Local>,
    rng: Rng,
    sealer: CookieSigner,
    /// The shared keys with which each new association starts (RFC 4895, "endpoint pair shared keys").
    keys: SharedKeys,
    used_cookies: UsedCookies,
    listeners: BTreeSet<u16>,
    admission: Admission,
    /// The configuration of each listening port whose configuration differs from the endpoint's.
    port_configs: BTreeMap<u16, Arc<Config>>,
    /// The number of associations on each local port.
    ports: BTreeMap<u16, u32>,
    ephemeral: Ephemeral,
    pub(crate) slots: Vec<Slot>,
    free: Vec<u32>,
    pub(crate) demux: Demux,
    /// Slots of associations that may have packets to send.
    pub(crate) ready: VecDeque<u32>,
    /// The deadlines of associations, each with the slot of its association. An entry is outdated unless its time
    /// equals the slot's `armed`.
    deadlines: BinaryHeap<Reverse<(Instant, u32)>>,
    events: VecDeque<Event>,
    stateless_packets: VecDeque<StatelessPacket>,
    trace: Trace,
    next_tag: u64,
    totals: Totals,
    path_changes: Vec<PathChange>,
    interruptions: Vec<Interruption>,
    /// Whether at least one configuration in use accepts packets without a checksum.
    accepts_zero_checksum: bool,
    /// Whether associations may take the fast path.
    pub(crate) fast_path: bool,
    /// Whether a restarted peer that connects to a listening port gets a new association. If false, the old association
    /// continues.
    replaces_restarted: bool,
    /// Whether some association waits for the host's routes to change, because the host could not send its packets.
    awaits_route: bool,
    /// The index of this endpoint among the endpoints that share its addresses and port.
    shard: Shard,
    claims: VecDeque<Claim>,
    other_shards: Option<Arc<dyn OtherShards>>,
}

impl Endpoint {
    /// Creates an endpoint on `addresses`. The port of each address is the UDP encapsulation port, or 0 without
    /// encapsulation. All randomness comes from `rng`: use `Rng::from_os()`, or a seeded generator in tests. To run
    /// over DTLS or any other channel of datagrams, use [`over_datagrams`](Self::over_datagrams).
    ///
    /// ```
    /// use anabranch_base::Rng;
    /// use anabranch_sctp::{Config, Endpoint};
    ///
    /// let addresses = vec!["10.0.0.1:9899".parse()?, "[fd00::1]:9899".parse()?];
    /// let endpoint = Endpoint::new(Config::default(), addresses, Rng::from_os()?);
    /// assert_eq!(endpoint.addresses().len(), 2, "multi-homed, over UDP");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(config: Config, addresses: Vec<SocketAddr>, rng: Rng) -> Self {
        let local_addresses = addresses.iter().map(|&address| Local { address, mtu: 1500 }).collect();
        let sealer = CookieSigner::new(rng.fork("cookie"), config.cookie_life);
        let mut rng = rng.fork("endpoint");
        // In earlier versions, this random number determined the first ephemeral port. It is still drawn, so that a
        // seed gives the same tags and TSNs as in those versions.
        let _ = rng.next_u64();
        let (udp_apart, keys) = (config.udp_apart, config.shared_keys.clone());
        let accepts_zero_checksum = config.zero_checksum;
        let ephemeral = Ephemeral::new(rng.fork("ports"));
        Self {
            config: Arc::new(config),
            addresses,
            has_addresses: true,
            local_addresses,
            rng,
            sealer,
            keys,
            used_cookies: UsedCookies::default(),
            listeners: BTreeSet::new(),
            admission: Admission::default(),
            port_configs: BTreeMap::new(),
            ports: BTreeMap::new(),
            ephemeral,
            slots: Vec::new(),
            free: Vec::new(),
            demux: Demux::new(udp_apart),
            ready: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            events: VecDeque::new(),
            stateless_packets: VecDeque::new(),
            trace: Trace::default(),
            next_tag: 1,
            totals: Totals::default(),
            path_changes: Vec::new(),
            interruptions: Vec::new(),
            accepts_zero_checksum,
            fast_path: true,
            replaces_restarted: false,
            awaits_route: false,
            shard: Shard::default(),
            claims: VecDeque::new(),
            other_shards: None,
        }
    }

    /// Sets the size in bytes of the largest IP packet that the interface of a local address can send. The size is 1500
    /// until it is set, and at most 65,535. The setting applies to associations that begin later.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Associate, AssociateError, Config};
    /// # let Pair { mut a, now, .. } = Pair::new(Config::default(), Config::default(), 1, 1);
    /// a.set_mtu(address(Side::A, 0).ip(), 9_000);
    /// let id = a.associate(now, Associate::to(address(Side::B, 0), 80))?;
    /// assert!(a.fragment_size(id) > 8_900, "jumbo frames");
    /// # Ok::<(), AssociateError>(())
    /// ```
    pub fn set_mtu(&mut self, address: IpAddr, mtu: u32) {
        let mtu = addresses::largest_mtu(mtu);
        for local in &mut self.local_addresses {
            if local.address.ip() == address {
                local.mtu = mtu;
            }
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the local addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts associations on `port`. Each association is reported as an `Event::Accepted`.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, ListenError};
    /// # let mut endpoint = Pair::new(Config::default(), Config::default(), 1, 1).a;
    /// endpoint.listen(80)?;
    /// assert_eq!(endpoint.listen(80), Err(ListenError::InUse));
    /// endpoint.close_listener(80);
    /// # Ok::<(), ListenError>(())
    /// ```
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        if self.listeners.insert(port) { Ok(()) } else { Err(ListenError::InUse) }
    }

    /// Stops accepting associations on `port`; existing associations continue.
    pub fn close_listener(&mut self, port: u16) {
        self.listeners.remove(&port);
        self.port_configs.remove(&port);
        self.admission.close(port);
    }

    /// Sets what happens when the peer of an association on a listening port restarts (RFC 9260 §5.2.4 A). If `replace`
    /// is true, the old association ends with [`CloseReason::PeerRestarted`](crate::CloseReason::PeerRestarted) and a
    /// new association begins with [`Event::Accepted`]. If `replace` is false, the default, the association continues
    /// under its id ([`Event::Restarted`]).
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let mut endpoint = Pair::new(Config::default(), Config::default(), 1, 1).a;
    /// endpoint.replace_restarted(true);
    /// ```
    pub fn replace_restarted(&mut self, replace: bool) {
        self.replaces_restarted = replace;
    }

    /// Returns the endpoint state that an association borrows for one call, and the slots.
    pub(crate) fn context(&mut self, now: Instant) -> (Ctx<'_>, &mut Vec<Slot>) {
        let ctx = Ctx {
            now,
            local_addresses: &self.local_addresses,
            keys: &self.keys,
            events: &mut self.events,
            trace: &mut self.trace,
            path_changes: &mut self.path_changes,
            interruptions: &mut self.interruptions,
            stateless_packets: &mut self.stateless_packets,
            fast_path: self.fast_path,
        };
        (ctx, &mut self.slots)
    }
}
