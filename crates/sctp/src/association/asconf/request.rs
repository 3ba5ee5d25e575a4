//! Address changes that this side requests.
//!
//! This side does not queue address changes. It compares the local addresses that the peer knows with the present local
//! addresses, and requests the difference in one ASCONF at a time. Changes made while an ASCONF is outstanding are part
//! of the next difference.
//!
//! Implements RFC 5061 §5.1 A and §5.3 F0 to F6.

use super::super::Ctx;
use super::super::outbound::Job;
use super::super::timers::{Timer, Timers};
use super::response::Answers;
use crate::event::{AddressChange, Event};
use crate::id::AssociationId;
use crate::path::select::{Paths, source_for};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{Asconf as Chunk, AsconfAck, Param, Params, cause::Causes};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The maximum number of deleted local addresses that are remembered.
const MAX_GONE: usize = 32;

/// The assumed maximum time from the sending of a packet until its answer arrives.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// The maximum number of requests in one ASCONF. Requests beyond this number go into the next ASCONF.
const MAX_REQUESTS: usize = 12;

/// The address changes that this side requests in one association.
#[derive(Debug)]
pub(crate) struct Asconf {
    /// The sequence number of the next ASCONF.
    serial: u32,
    /// The correlation id of the next request.
    next_id: u32,
    /// The local addresses that the peer knows.
    announced: Vec<IpAddr>,
    /// Local addresses that this association does not use, because the application excluded them or the peer refused
    /// them.
    excluded: Vec<IpAddr>,
    /// Local addresses whose deletion the peer refused.
    undeletable: Vec<IpAddr>,
    /// The most recently deleted local addresses. Each has the time at which it was added again; `None` if it is still
    /// deleted.
    deleted: VecDeque<(IpAddr, Option<Instant>)>,
    /// The local address that the peer should use as its primary destination.
    requested_primary: Option<IpAddr>,
    outstanding: Option<Outstanding>,
    /// Whether the peer has shown that it does not support adding and deleting addresses. If so, this side sends no
    /// such requests.
    refused: bool,
    /// Whether the peer has shown that it does not support Set Primary Address.
    primary_refused: bool,
    /// The answers to the peer's requests.
    pub(super) answers: Answers,
}

/// The outstanding ASCONF, which the peer has not answered yet.
#[derive(Debug)]
struct Outstanding {
    serial: u32,
    chunk: Vec<u8>,
    requests: Vec<(u32, Request)>,
    path: usize,
    addresses: (SocketAddr, SocketAddr),
    /// Whether the ASCONF has to be sent at the next poll.
    send_pending: bool,
    /// Whether the host had no route to the peer when the ASCONF last had to be sent.
    awaits_route: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    Add(IpAddr),
    Delete(IpAddr),
    Primary(IpAddr),
}

/// The ASCONF that an ASCONF-ACK answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answered {
    /// The ASCONF-ACK answers an ASCONF that was answered before.
    Old,
    /// The ASCONF-ACK answers an ASCONF that was never sent.
    NeverAsked,
    /// The ASCONF-ACK answers the outstanding ASCONF, which was last sent on this path.
    By(usize),
}

impl Asconf {
    /// RFC 5061 §5.1 A2: the sequence numbers of ASCONF start at the initial TSNs.
    pub(in crate::association) fn new(local_tsn: u32, peer_tsn: u32, announced: Vec<IpAddr>) -> Self {
        Self {
            serial: local_tsn,
            next_id: 1,
            announced,
            excluded: Vec::new(),
            undeletable: Vec::new(),
            deleted: VecDeque::new(),
            requested_primary: None,
            outstanding: None,
            refused: false,
            primary_refused: false,
            answers: Answers::new(peer_tsn),
        }
    }

    /// Returns the local addresses that an association with this peer should have.
    pub(super) fn desired(&self, ctx: &Ctx<'_>, peer: IpAddr) -> Vec<SocketAddr> {
        ctx.local_addresses_for(peer).filter(|address| !self.excluded.contains(&address.ip())).collect()
    }

    /// RFC 5061 §5.3 F1, F2, F4: returns the local addresses from which packets may be sent. The application must want
    /// such an address, and the peer must know it. An address with an unanswered deletion request is excluded, because
    /// the peer may already have deleted the address. It stays excluded even if the application wants it again.
    pub(in crate::association) fn usable(&self, ctx: &Ctx<'_>, peer: IpAddr) -> Vec<SocketAddr> {
        let usable = |address: &IpAddr| self.announced.contains(address) && !self.is_deleting(*address);
        self.desired(ctx, peer).into_iter().filter(|address| usable(&address.ip())).collect()
    }

    /// Sets whether this association uses a local address. Returns false if too many addresses are excluded.
    pub(super) fn set_usable(&mut self, address: IpAddr, desired: bool) -> bool {
        self.excluded.retain(|other| *other != address);
        self.undeletable.retain(|other| *other != address);
        if !desired {
            if self.excluded.len() >= MAX_REQUESTS * 2 {
                return false;
            }
            self.excluded.push(address);
        }
        true
    }

    /// Sets the local address that the peer should use as its primary destination. Returns false if the peer did not
    /// recognize an earlier Set Primary Address. RFC 5061 §5.3 F3b: such a peer gets no further request of this type.
    pub(super) fn request_primary(&mut self, address: IpAddr) -> bool {
        if !self.primary_refused {
            self.requested_primary = Some(address);
        }
        !self.primary_refused
    }

    /// Returns the path and the source address of the outstanding ASCONF, if there is one.
    pub(super) fn under_way(&self) -> Option<(usize, SocketAddr)> {
        self.outstanding.as_ref().map(|outstanding| (outstanding.path, outstanding.addresses.0))
    }

    /// RFC 5061 §5.1 A1 to A3: builds an ASCONF for `path`. Its additions and deletions make the peer's list of
    /// addresses equal to the present local addresses. With `prefer`, the ASCONF also asks the peer to use the last
    /// added address as the primary destination.
    pub(super) fn plan(
        &mut self,
        ctx: &Ctx<'_>,
        paths: &Paths,
        timers: &mut Timers,
        path: usize,
        prefer: bool,
    ) {
        let desired: Vec<IpAddr> = self.desired(ctx, paths.peer()).iter().map(SocketAddr::ip).collect();
        if self.outstanding.is_some() || self.refused || desired.is_empty() {
            return;
        }
        // RFC 5061 §5.3 F5: additions precede deletions, so that the association always has an address.
        let added = || desired.iter().copied().filter(|address| !self.announced.contains(address));
        let primary = added().next_back().filter(|_| prefer).or(self.requested_primary);
        let adds = added().map(Request::Add);
        let known = |address: &IpAddr| self.announced.contains(address) || desired.contains(address);
        let primary = primary.filter(known).filter(|_| !self.primary_refused).map(Request::Primary);
        let removed = self.announced.iter().filter(|a| !desired.contains(a) && !self.undeletable.contains(a));
        let requests: Vec<Request> =
            adds.chain(primary).chain(removed.map(|&a| Request::Delete(a))).take(MAX_REQUESTS).collect();
        if requests.is_empty() {
            return;
        }
        if requests.iter().any(|request| matches!(request, Request::Primary(_))) {
            self.requested_primary = None;
        }
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        // RFC 5061 §5.3.2: the Address Parameter of an ASCONF is an address that the peer knows, even if that address
        // is being deleted.
        let stays = self.announced.iter().find(|address| desired.contains(address));
        let Some(&address) = stays.or(self.announced.first()) else {
            return;
        };
        let mut chunk = Vec::new();
        let mut writer = Chunk { serial, address, params: Params::default() }.open(&mut chunk);
        let mut numbered = Vec::new();
        for request in requests {
            let id = self.next_id;
            self.next_id = id.wrapping_add(1);
            match request {
                Request::Add(address) => Param::AddAddress { id, address }.emit(&mut writer),
                Request::Delete(address) => Param::DeleteAddress { id, address }.emit(&mut writer),
                Request::Primary(address) => Param::SetPrimary { id, address }.emit(&mut writer),
            };
            numbered.push((id, request));
        }
        writer.close();
        let addresses = (paths.get(path).source(), paths.get(path).address());
        self.outstanding = Some(Outstanding {
            serial,
            chunk,
            requests: numbered,
            path,
            addresses,
            send_pending: true,
            awaits_route: false,
        });
        self.set_addresses(ctx, paths, timers, path);
    }

    /// Sets the source and destination address of the outstanding ASCONF.
    pub(super) fn set_addresses(&mut self, ctx: &Ctx<'_>, paths: &Paths, timers: &mut Timers, path: usize) {
        let target = paths.get(path).address();
        // RFC 5061 §5.3 F1, F6: an ASCONF may be sent from a new address, but not from an address that is being
        // deleted.
        let source = [self.usable(ctx, paths.peer()), self.desired(ctx, paths.peer())]
            .iter()
            .find_map(|local_addresses| source_for(local_addresses, target.ip(), path));
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.path = path;
            outstanding.send_pending = source.is_some();
            if let Some(source) = source {
                outstanding.addresses = (source, target);
            }
        }
        if source.is_none() && !timers.is_set(Timer::Asconf) {
            timers.set(Timer::Asconf, ctx.now + paths.get(path).rto());
        }
    }

    /// Records that the host could not send a packet from `source` to `target`. If the outstanding ASCONF does not use
    /// these addresses, this has no effect.
    pub(super) fn on_unsent(&mut self, source: IpAddr, target: IpAddr) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.awaits_route |=
                (outstanding.addresses.0.ip(), outstanding.addresses.1.ip()) == (source, target);
        }
    }

    /// If the host could not send the ASCONF, marks it to be sent again.
    pub(super) fn send_again(&mut self) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.send_pending |= std::mem::take(&mut outstanding.awaits_route);
        }
    }

    /// Returns the pending ASCONF-ACK or, if there is none, the ASCONF that has to be sent.
    pub(super) fn job(&self) -> Option<Job> {
        let ask = || self.outstanding.as_ref().filter(|outstanding| outstanding.send_pending);
        self.answers.due().map(Job::AsconfAck).or_else(|| ask().map(|ask| Job::Asconf(ask.path)))
    }

    /// Returns the source and destination address for an ASCONF or ASCONF-ACK.
    pub(super) fn ends(&self, job: Job, paths: &Paths) -> Option<(SocketAddr, SocketAddr)> {
        match job {
            Job::Asconf(_) => self.outstanding.as_ref().map(|outstanding| outstanding.addresses),
            Job::AsconfAck(path) => self.answers.target().map(|target| (paths.get(path).source(), target)),
            _ => None,
        }
    }

    /// Appends the outstanding ASCONF.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.send_pending = false;
            buffer.extend_from_slice(&outstanding.chunk);
        }
    }

    /// RFC 5061 §5.1 A5 to A8: handles the answer to the outstanding ASCONF and reports the result of each request to
    /// the application.
    pub(super) fn on_ack(&mut self, ctx: &mut Ctx<'_>, id: AssociationId, ack: &AsconfAck<'_>) -> Answered {
        let Some(outstanding) = self.outstanding.take_if(|outstanding| outstanding.serial == ack.serial)
        else {
            // RFC 5061 §5.3 F0: without an outstanding ASCONF, a serial number not yet used answers an ASCONF that was
            // never sent.
            let never = self.outstanding.is_none() && ack.serial.wrapping_sub(self.serial) < 1 << 31;
            return if never { Answered::NeverAsked } else { Answered::Old };
        };
        let mut done = vec![None; outstanding.requests.len()];
        for param in ack.params.flatten() {
            let position = param
                .correlation()
                .and_then(|id| outstanding.requests.iter().position(|(other, _)| *other == id));
            let Some(position) = position else {
                continue;
            };
            match param {
                Param::SuccessIndication(_) => done[position] = Some(Ok(())),
                Param::ErrorCauseIndication { causes, .. } => {
                    let cause = Causes::new(causes).next().and_then(Result::ok);
                    done[position] = Some(Err(cause.map_or(0, |cause| cause.code())));
                }
                _ => {}
            }
        }
        let mut failed = false;
        for ((_, request), done) in outstanding.requests.into_iter().zip(done) {
            // RFC 5061 §5.1 A7, A8: a request without a result in the ASCONF-ACK succeeded, unless an earlier request
            // failed.
            let result = done.unwrap_or(if failed { Err(0) } else { Ok(()) });
            let (address, change) = self.on_result(ctx.now, request, result, failed);
            ctx.events.push_back(Event::LocalAddress { id, address, change });
            failed |= result.is_err();
        }
        Answered::By(outstanding.path)
    }

    /// Applies the result of one request. `result` is `Err` with the error cause code if the request failed. `behind`
    /// is true if an earlier request in the same ASCONF failed.
    fn on_result(
        &mut self,
        now: Instant,
        request: Request,
        result: Result<(), u16>,
        behind: bool,
    ) -> (IpAddr, AddressChange) {
        /// RFC 9260 §3.3.10.8: the cause code of Unrecognized Parameters.
        const UNRECOGNIZED: u16 = 8;
        // RFC 5061 §5.3 F3a: if the peer did not recognize a type of request, no such request is sent again.
        match request {
            Request::Primary(_) => self.primary_refused |= result == Err(UNRECOGNIZED),
            Request::Add(_) | Request::Delete(_) => self.refused |= result == Err(UNRECOGNIZED),
        }
        match (request, result) {
            (Request::Add(address), Ok(())) => {
                self.announced.push(address);
                for (_, back) in self.deleted.iter_mut().filter(|(other, _)| *other == address) {
                    *back = Some(now);
                }
                (address, AddressChange::Added)
            }
            (Request::Delete(address), Ok(())) => {
                self.announced.retain(|other| *other != address);
                self.deleted.retain(|(other, _)| *other != address);
                if self.deleted.len() >= MAX_GONE {
                    self.deleted.pop_front();
                }
                self.deleted.push_back((address, None));
                (address, AddressChange::Removed)
            }
            (Request::Primary(address), Ok(())) => (address, AddressChange::Primary),
            (Request::Add(address), Err(cause)) => {
                // RFC 5061 §5.3 F10: a refused address is not part of the association, and is not requested again.
                self.excluded.push(address);
                (address, AddressChange::Refused(cause))
            }
            (Request::Delete(address), Err(cause)) => {
                // RFC 5061 §5.3 F11: a peer that refuses one request of an ASCONF must refuse all later requests in it,
                // too. A deletion that was refused for this reason may be requested again.
                if !behind {
                    self.undeletable.push(address);
                }
                (address, AddressChange::Refused(cause))
            }
            (Request::Primary(address), Err(cause)) => (address, AddressChange::Refused(cause)),
        }
    }

    /// RFC 5061 §5.1 A9: returns whether `chunk`, which the peer reported as unrecognized, is an ASCONF. If so, no
    /// further ASCONF is sent.
    pub(super) fn is_refused_by(&mut self, chunk: &[u8]) -> bool {
        let refused = chunk.first() == Some(&Chunk::KIND);
        if refused {
            self.refused = true;
            self.outstanding = None;
        }
        refused
    }

    /// Returns whether the deletion of a local address is unanswered or recent. ABORTs to such an address are ignored.
    pub(super) fn is_leaving(&self, now: Instant, address: IpAddr) -> bool {
        let late = |back: Option<Instant>| back.is_none_or(|back| now.since(back) < UNDER_WAY);
        let removed = self.deleted.iter().any(|&(other, back)| other == address && late(back));
        self.is_deleting(address) || removed
    }

    /// Returns whether the peer has not yet answered a request to delete this address.
    fn is_deleting(&self, address: IpAddr) -> bool {
        let deletes = |(_, request): &(u32, Request)| *request == Request::Delete(address);
        self.outstanding.as_ref().is_some_and(|outstanding| outstanding.requests.iter().any(deletes))
    }
}
