//! Searches for the largest packet that a path forwards, by sending probes.
//!
//! Stores the largest size known to pass (PLPMTU), the smallest refused size, and the size being probed. A size is the
//! length of an IP packet in bytes, header included, and a multiple of four. The search has no clock and handles no
//! packets. Its caller reports which probes were sent, acknowledged or lost, and which MTU an ICMP message contained.
//!
//! Implements RFC 8899 §4.6 (ICMP), §5.1 (constants), §5.2 (states) and §5.3 (search).

/// RFC 8899 §5.2: the state of the search. The RFC's state Disabled is missing here: a path in that state has no
/// search, or its search is suspended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// BASE_PLPMTU is to be confirmed by a probe.
    Base,
    /// Larger sizes are probed.
    Searching,
    /// The search has ended: no larger size is expected to pass.
    Complete,
    /// Not even BASE_PLPMTU is known to pass.
    Error,
}

/// RFC 8899 §5.1.2: the value of MAX_PROBES.
const MAX_PROBES: u32 = 3;
/// The resolution of the search in bytes.
const STEP: u32 = 4;

/// The search of one path.
#[derive(Debug)]
pub(crate) struct Search {
    phase: Phase,
    /// MIN_PLPMTU in bytes.
    min_plpmtu: u32,
    /// BASE_PLPMTU in bytes.
    base: u32,
    /// MAX_PLPMTU in bytes: the interface MTU, or a smaller limit that `at_most` has set and `lift` removes.
    max_plpmtu: u32,
    /// The interface MTU in bytes.
    interface: u32,
    /// PLPMTU, the largest size in bytes known to pass.
    plpmtu: u32,
    /// The smallest size that does not pass. It is larger than `max_plpmtu` while no such size is known.
    refused: u32,
    /// The size that an ICMP message reported.
    icmp_mtu: Option<u32>,
    /// PROBED_SIZE in bytes.
    probed: u32,
    /// PROBE_COUNT, the number of lost probes of PROBED_SIZE.
    lost: u32,
    /// The nonce of the outstanding probe.
    outstanding: Option<u64>,
    /// The number of HEARTBEATs answered before the first probe of PROBED_SIZE was sent; `None` until such a probe is
    /// sent.
    answered_heartbeats: Option<u64>,
    /// Number of lost probes of PROBED_SIZE that show nothing about the size, because small packets may have been lost
    /// as well.
    inconclusive: u32,
    /// Number of times that a black hole was suspected since the search fell back to BASE_PLPMTU.
    suspicions: u32,
    /// Whether a probe is to be sent with the next call of `poll_transmit`.
    probe_pending: bool,
    /// Whether at least one probe was acknowledged, that is, the peer answers probes.
    peer_answers: bool,
}

/// The change of the packet size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MtuChange {
    /// The size has not changed.
    Same,
    /// Larger packets pass.
    Raised,
    /// Only smaller packets pass.
    Reduced,
}

impl Search {
    /// Creates a search that starts at `base` on an interface with an MTU of `interface` bytes. No probe is sent
    /// before [`begin`](Self::begin). `smallest` is a size that every path forwards.
    pub(crate) fn new(base: u32, interface: u32, smallest: u32) -> Self {
        let most = (interface & !3).max(smallest);
        let base = base.min(most);
        Self {
            phase: Phase::Base,
            min_plpmtu: smallest.min(base),
            base,
            max_plpmtu: most,
            interface: most,
            plpmtu: base,
            refused: most + STEP,
            icmp_mtu: None,
            probed: base,
            lost: 0,
            outstanding: None,
            answered_heartbeats: None,
            inconclusive: 0,
            suspicions: 0,
            probe_pending: false,
            peer_answers: false,
        }
    }

    /// Creates a search that is already complete: the interface MTU is assumed to pass until packets of this size are
    /// lost. This search omits the confirmation that RFC 8899 §5.1.4 requires. Most paths forward packets of this size,
    /// and waiting for the confirmation would delay every short transfer.
    pub(crate) fn settled(base: u32, interface: u32, smallest: u32) -> Self {
        let fresh = Self::new(base, interface, smallest);
        Self { phase: Phase::Complete, plpmtu: fresh.max_plpmtu, probed: fresh.max_plpmtu, ..fresh }
    }

    /// Limits the search to sizes of at most `most` bytes until [`lift`](Self::lift).
    pub(crate) fn at_most(mut self, most: u32) -> Self {
        self.max_plpmtu = self.max_plpmtu.min((most & !3).max(self.base));
        self.refused = self.max_plpmtu + STEP;
        self
    }

    /// Removes the limit of [`at_most`](Self::at_most), because the peer can receive packets as large as the interface
    /// MTU. Returns true if the limit was below that MTU.
    pub(crate) fn lift(&mut self) -> bool {
        if self.max_plpmtu >= self.interface {
            return false;
        }
        if self.refused > self.max_plpmtu {
            self.refused = self.interface + STEP;
        }
        self.max_plpmtu = self.interface;
        if self.phase == Phase::Complete && self.is_idle() {
            self.phase = Phase::Searching;
            self.go_on();
        }
        true
    }

    #[cfg(test)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the PLPMTU: the largest size known to pass.
    pub(crate) fn size(&self) -> u32 {
        self.plpmtu
    }

    /// Returns the size of the probe that is wanted or outstanding.
    pub(crate) fn probed(&self) -> u32 {
        self.probed
    }

    /// Starts to probe BASE_PLPMTU, or resumes an interrupted search, because the path works.
    pub(crate) fn begin(&mut self) {
        if matches!(self.phase, Phase::Base | Phase::Searching) && self.outstanding.is_none() {
            self.probe_pending = true;
        }
    }

    /// Stops probing, because the path does not work.
    pub(crate) fn suspend(&mut self) {
        self.outstanding = None;
        self.probe_pending = false;
        self.answered_heartbeats = None;
    }

    /// Records that a probe with this nonce is sent. `answered` is the number of HEARTBEATs without padding that the
    /// peer has answered so far.
    pub(crate) fn probe_sent(&mut self, nonce: u64, answered: u64) {
        self.probe_pending = false;
        self.outstanding = Some(nonce);
        self.answered_heartbeats.get_or_insert(answered);
    }

    /// Returns whether the peer has answered a HEARTBEAT without padding since this side sent the first probe of the
    /// present size. `answered` is the number of HEARTBEATs without padding that the peer has answered so far.
    pub(crate) fn small_packets_pass(&self, answered: u64) -> bool {
        self.answered_heartbeats.is_some_and(|before| answered > before)
    }

    /// Returns whether a probe is to be sent with the next call of `poll_transmit`.
    pub(crate) fn is_wanted(&self) -> bool {
        self.probe_pending
    }

    /// Returns whether a probe is outstanding. If so, the running timer is PROBE_TIMER, otherwise PMTU_RAISE_TIMER.
    pub(crate) fn is_probing(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Returns whether no probe is wanted or outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        !self.probe_pending && self.outstanding.is_none()
    }

    /// Returns whether a later probe may find a larger size, so that PMTU_RAISE_TIMER must run.
    pub(crate) fn may_rise(&self) -> bool {
        self.plpmtu < self.max_plpmtu
    }

    /// Records that the probe with this nonce was acknowledged.
    pub(crate) fn on_ack(&mut self, nonce: u64) -> MtuChange {
        if self.outstanding != Some(nonce) {
            return MtuChange::Same;
        }
        self.outstanding = None;
        self.peer_answers = true;
        if self.phase == Phase::Base && self.probed < self.base {
            // RFC 8899 §5.2: the peer has answered a probe of the smallest size, but none of BASE_PLPMTU. So packets of
            // BASE_PLPMTU do not pass.
            self.refused = self.base;
            return self.fail_base();
        }
        let raised = self.probed > self.plpmtu;
        self.plpmtu = self.plpmtu.max(self.probed);
        if self.plpmtu >= self.base {
            // RFC 8899 §5.2: the states BASE and ERROR end when a probe of BASE_PLPMTU is acknowledged.
            self.phase = Phase::Searching;
        }
        self.go_on();
        if raised { MtuChange::Raised } else { MtuChange::Same }
    }

    /// Records that PROBE_TIMER expired. After MAX_PROBES lost probes, the probed size counts as refused.
    ///
    /// If small packets are lost as well (`small_packets_pass` is false), the size may not be the reason for the loss,
    /// so the lost probe does not count. If the next probe is lost while small packets pass, that loss counts twice.
    pub(crate) fn on_probe_lost(&mut self, small_packets_pass: bool) -> MtuChange {
        self.outstanding = None;
        if small_packets_pass {
            self.lost += 1 + std::mem::take(&mut self.inconclusive).min(1);
        } else {
            self.inconclusive += 1;
        }
        if self.lost < MAX_PROBES {
            self.probe_pending = true;
            return MtuChange::Same;
        }
        if self.phase == Phase::Base && !self.peer_answers {
            self.doubt_the_peer();
            return MtuChange::Same;
        }
        self.refused = self.probed;
        if self.probed <= self.plpmtu {
            // RFC 8899 §5.2: BASE_PLPMTU could not be confirmed.
            return self.fail_base();
        }
        self.go_on();
        MtuChange::Same
    }

    /// Handles the case that no probe of BASE_PLPMTU was ever acknowledged. The reason may be the peer: if it drops
    /// packets with unknown chunks and does not know PAD (pion/sctp v1.11.3), it answers no probe of any size. So the
    /// smallest size is probed as well. If that probe is not answered either, the lost probes say nothing about the
    /// MTU. BASE_PLPMTU then stays until timeouts suggest a black hole.
    fn doubt_the_peer(&mut self) {
        if self.probed > self.min_plpmtu {
            self.probe(self.min_plpmtu);
        } else {
            self.probed = self.base;
            self.lost = 0;
        }
    }

    /// RFC 8899 §5.2: searches upward from the smallest size, because BASE_PLPMTU does not pass.
    fn fail_base(&mut self) -> MtuChange {
        let before = self.plpmtu;
        self.phase = Phase::Error;
        self.plpmtu = self.min_plpmtu;
        self.go_on();
        if self.plpmtu < before { MtuChange::Reduced } else { MtuChange::Same }
    }

    /// Starts to search again after PMTU_RAISE_TIMER expired, because the path may have changed.
    pub(crate) fn on_raise(&mut self) {
        self.refused = self.max_plpmtu + STEP;
        self.icmp_mtu = None;
        if matches!(self.phase, Phase::Base | Phase::Error) {
            self.probe(self.base);
        } else {
            self.phase = Phase::Searching;
            self.go_on();
        }
    }

    /// RFC 8899 §4.3: reacts to the loss of packets of the current size. The search falls back to BASE, and after
    /// further losses to ERROR. It does not wait for the result of a probe, because a peer does not answer HEARTBEATs
    /// during a shutdown (RFC 9260 §8.3).
    pub(crate) fn on_black_hole(&mut self) -> MtuChange {
        match self.phase {
            Phase::Error => MtuChange::Same,
            Phase::Base => {
                self.suspicions += 1;
                if self.suspicions < MAX_PROBES || self.plpmtu <= self.min_plpmtu {
                    return MtuChange::Same;
                }
                self.phase = Phase::Error;
                self.plpmtu = self.min_plpmtu;
                self.probe(self.base);
                MtuChange::Reduced
            }
            Phase::Searching | Phase::Complete => self.fall_back(None),
        }
    }

    /// Reacts to a Packet Too Big message (RFC 8899 §4.6.1). `size` is the MTU in bytes that the message reports. The
    /// caller has checked that the message quotes one of this host's packets.
    pub(crate) fn on_too_big(&mut self, size: u32) -> MtuChange {
        let size = size & !3;
        let probing = self.probe_pending || self.outstanding.is_some();
        // RFC 8899 §4.6.2: a reported MTU is used only if it is at least MIN_PLPMTU, and smaller than PLPMTU or than
        // the size being probed.
        if size < self.min_plpmtu || size >= self.plpmtu && !(probing && size < self.probed) {
            return MtuChange::Same;
        }
        if size < self.base {
            // RFC 8899 §4.6.2, §5.2: the search enters the state ERROR and probes the size in the ICMP message.
            let before = self.plpmtu;
            self.phase = Phase::Error;
            self.plpmtu = self.min_plpmtu;
            self.refused = size + STEP;
            self.icmp_mtu = Some(size);
            self.go_on();
            return if self.plpmtu < before { MtuChange::Reduced } else { MtuChange::Same };
        }
        if size < self.plpmtu {
            // RFC 8899 §4.6.2: this ICMP message is a sign of a black hole. The search returns to the state BASE and
            // probes BASE_PLPMTU, then the size that the ICMP message reported.
            return self.fall_back(Some(size));
        }
        // RFC 8899 §4.6.2: the reported size is at least the largest size known to pass, and smaller than the size
        // being probed. The reported size is probed next. If it is already known to pass, the search is complete.
        self.refused = self.refused.min(size + STEP);
        self.icmp_mtu = Some(size);
        if self.phase == Phase::Searching {
            self.go_on();
        }
        MtuChange::Same
    }

    fn fall_back(&mut self, hint: Option<u32>) -> MtuChange {
        let reduced = self.plpmtu > self.base;
        self.phase = Phase::Base;
        self.plpmtu = self.plpmtu.min(self.base);
        self.refused = hint.map_or(self.max_plpmtu, |size| size) + STEP;
        self.icmp_mtu = hint;
        self.suspicions = 0;
        self.probe(self.base);
        if reduced { MtuChange::Reduced } else { MtuChange::Same }
    }

    fn probe(&mut self, size: u32) {
        self.probed = size;
        self.lost = 0;
        self.outstanding = None;
        self.answered_heartbeats = None;
        self.inconclusive = 0;
        self.probe_pending = true;
    }

    /// RFC 8899 §5.3.2: chooses the next size to probe: first the size that ICMP reported, if there is one, then the
    /// largest size, which usually passes. If the largest size was refused, the next size is the middle of the sizes
    /// not yet decided.
    fn go_on(&mut self) {
        self.lost = 0;
        if self.plpmtu + STEP >= self.refused || self.plpmtu >= self.max_plpmtu {
            self.probe_pending = false;
            self.outstanding = None;
            if self.phase == Phase::Searching {
                self.phase = Phase::Complete;
            }
            return;
        }
        let open = self.plpmtu + STEP..self.refused;
        let size = match self.icmp_mtu.take().filter(|size| open.contains(size)) {
            Some(told) => told,
            None if self.refused > self.max_plpmtu => self.max_plpmtu,
            None => ((self.plpmtu + (self.refused - self.plpmtu) / 2) & !3).max(self.plpmtu + STEP),
        };
        self.probe(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search on a path with this MTU. Returns the probed sizes.
    fn play(search: &mut Search, mtu: u32) -> Vec<u32> {
        let mut probed = Vec::new();
        for nonce in 0..200 {
            if !search.probe_pending {
                return probed;
            }
            probed.push(search.probed());
            search.probe_sent(nonce, 0);
            if search.probed() <= mtu {
                assert_eq!(search.on_ack(nonce + 1_000), MtuChange::Same, "another nonce");
                search.on_ack(nonce);
            } else {
                search.on_probe_lost(true);
            }
        }
        panic!("the search does not end: {probed:?}");
    }

    fn begun(v6: bool, interface: u32) -> Search {
        let (base, smallest) = if v6 { (1280, 1280) } else { (1200, 512) };
        let mut search = Search::new(base, interface, smallest);
        search.begin();
        search
    }

    /// RFC 8899 §5.3: the search begins with BASE_PLPMTU and must find the path MTU. The test tries all path MTUs that
    /// are multiples of four bytes, including those below BASE_PLPMTU.
    #[test]
    fn every_path_is_measured_to_four_bytes() {
        for (v6, interface) in
            [(false, 1500), (true, 1500), (false, 9000), (false, 1402), (true, 1280), (false, 600)]
        {
            for mtu in (512..=interface + 100).step_by(4) {
                if v6 && mtu < 1280 {
                    continue;
                }
                let mut search = begun(v6, interface);
                let probes = play(&mut search, mtu);
                assert_eq!(search.size(), mtu.min(interface & !3), "{v6} {interface} {mtu}: {probes:?}");
                let base = if v6 { 1280 } else { 1200.min(interface) };
                let phase = if search.size() >= base { Phase::Complete } else { Phase::Error };
                assert_eq!(search.phase(), phase, "{v6} {interface} {mtu}");
                assert!(probes.len() < 45, "{mtu}: {probes:?}");
            }
        }
        assert_eq!(play(&mut begun(false, 1500), 1500), [1200, 1500], "the usual path takes two probes");
    }

    /// RFC 8899 §5.2: when the path MTU shrinks or grows, the search finds the new path MTU.
    #[test]
    fn the_path_changes() {
        let mut search = begun(false, 1500);
        play(&mut search, 1500);
        assert!(!search.may_rise());
        assert_eq!(search.on_black_hole(), MtuChange::Reduced);
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        assert_eq!(search.on_black_hole(), MtuChange::Same, "once");
        assert_eq!(search.on_black_hole(), MtuChange::Same, "twice");
        assert_eq!(search.on_black_hole(), MtuChange::Reduced, "and again");
        assert_eq!((search.size(), search.phase(), search.probed()), (512, Phase::Error, 1200));
        play(&mut search, 1300);
        assert_eq!((search.size(), search.phase(), search.may_rise()), (1300, Phase::Complete, true));
        search.on_raise();
        assert_eq!(search.phase(), Phase::Searching);
        assert_eq!(play(&mut search, 1500), [1500]);
        // The path MTU is now smaller than BASE_PLPMTU.
        search.on_black_hole();
        play(&mut search, 600);
        assert_eq!((search.size(), search.phase()), (600, Phase::Error));
        search.on_raise();
        assert_eq!(play(&mut search, 1500), [1200, 1500]);
        assert_eq!(search.phase(), Phase::Complete);
    }

    /// If the search assumes that packets as large as the interface MTU pass, it probes no size until packets are lost.
    #[test]
    fn the_interface_mtu_is_trusted_until_packets_are_lost() {
        let mut search = Search::settled(1200, 1500, 512);
        search.begin();
        assert_eq!((search.size(), search.probe_pending, search.may_rise()), (1500, false, false));
        assert_eq!(search.on_black_hole(), MtuChange::Reduced);
        assert_eq!(play(&mut search, 1300)[..2], [1200, 1500]);
        assert_eq!((search.size(), search.phase()), (1300, Phase::Complete));
        let mut told = Search::settled(1200, 65_535, 512);
        assert_eq!(told.on_too_big(1500), MtuChange::Reduced);
        assert_eq!(play(&mut told, 1500), [1200, 1500], "what the network tells is all there is to try");
    }

    /// RFC 8899 §4.6.2: the search reacts as specified to each range of PL_PTB_SIZE.
    #[test]
    fn icmp_sizes_are_handled_by_range() {
        let mut search = begun(false, 1500);
        search.probe_sent(1, 0);
        search.on_ack(1);
        assert_eq!(search.probed(), 1500);
        search.probe_sent(2, 0);
        for nonsense in [0, 68, 508, 1500, 1503, 9000, u32::MAX] {
            assert_eq!(search.on_too_big(nonsense), MtuChange::Same);
            assert!(search.is_probing() && search.probed() == 1500, "{nonsense} is ignored");
        }
        // ICMP reports a size between the largest size known to pass and the probed size. The reported size is probed
        // next. When that probe is acknowledged, the search ends.
        assert_eq!(search.on_too_big(1400), MtuChange::Same);
        assert_eq!((search.probed(), search.probe_pending), (1400, true));
        assert_eq!(play(&mut search, 1400), [1400]);
        assert_eq!((search.size(), search.phase()), (1400, Phase::Complete));
        // ICMP reports a size below the largest size known to pass. The search returns to the state BASE, and probes
        // the reported size.
        assert_eq!(search.on_too_big(1300), MtuChange::Reduced);
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        assert_eq!(search.on_too_big(1300), MtuChange::Same, "of a packet sent before");
        assert_eq!(play(&mut search, 1300), [1200, 1300]);
        // ICMP reports a size below BASE_PLPMTU. The search enters the state ERROR, and probes the reported size.
        assert_eq!(search.on_too_big(600), MtuChange::Reduced);
        assert_eq!((search.size(), search.phase()), (512, Phase::Error));
        assert_eq!(play(&mut search, 600), [600]);
        assert_eq!(search.size(), 600);
        // A forged ICMP message can at most cause one additional search.
        assert_eq!(search.on_too_big(512), MtuChange::Reduced);
        assert_eq!(play(&mut search, 600), [] as [u32; 0]);
        search.on_raise();
        play(&mut search, 1500);
        assert_eq!(search.size(), 1500);
    }

    /// RFC 8899 §3: while a path loses small packets as well, a lost probe says nothing about packet sizes, so it must
    /// not rule out a size. Once the path works again, the search finds its MTU.
    #[test]
    fn lost_probes_on_a_dead_path_do_not_refuse_a_size() {
        let mut search = begun(false, 1500);
        for nonce in 0..20 {
            assert!(search.probe_pending);
            search.probe_sent(nonce, 0);
            assert_eq!(search.on_probe_lost(false), MtuChange::Same);
        }
        search.suspend();
        assert!(!search.probe_pending);
        search.begin();
        assert_eq!(play(&mut search, 1500), [1200, 1500]);
    }

    /// At first the search is limited to packets of 1500 bytes, which every peer can receive. Larger sizes are probed
    /// once this peer is known to receive larger packets, even if the search has already ended.
    #[test]
    fn sizes_that_the_peer_may_not_read() {
        let capped = || {
            let mut search = Search::new(1200, 9_000, 512).at_most(1_500);
            search.begin();
            search
        };
        let mut search = capped();
        assert_eq!(play(&mut search, 9_000), [1200, 1500]);
        assert_eq!((search.size(), search.phase(), search.may_rise()), (1500, Phase::Complete, false));
        assert!(search.lift() && !search.lift());
        assert_eq!(play(&mut search, 9_000), [9000]);
        let mut early = capped();
        assert!(early.lift());
        assert_eq!(play(&mut early, 9_000), [1200, 9000]);
        // The path has refused a size before the limit is lifted. Afterwards the search must not probe that size again.
        let mut narrow = capped();
        play(&mut narrow, 1_400);
        assert!(narrow.lift());
        assert_eq!((narrow.size(), play(&mut narrow, 1_400)), (1400, Vec::new()));
        assert!(!begun(false, 1_500).lift(), "there is no more to be had");
    }

    /// A peer may answer no probe at all, for example because it drops packets with unknown chunks. The packet size
    /// then stays at BASE_PLPMTU, and BASE_PLPMTU is probed again later. Repeated signs of a black hole reduce the
    /// packet size.
    #[test]
    fn a_peer_that_answers_no_probe() {
        let mut search = begun(false, 9_000);
        assert_eq!(play(&mut search, 0), [1200, 1200, 1200, 512, 512, 512]);
        assert_eq!((search.size(), search.is_idle(), search.may_rise()), (1200, true, true));
        search.on_raise();
        assert_eq!(play(&mut search, 0), [1200, 1200, 1200, 512, 512, 512]);
        assert_eq!(search.size(), 1200);
        assert_eq!(
            [(); 3].map(|()| search.on_black_hole()),
            [MtuChange::Same, MtuChange::Same, MtuChange::Reduced]
        );
        assert_eq!((search.size(), search.phase()), (512, Phase::Error));
    }
}
