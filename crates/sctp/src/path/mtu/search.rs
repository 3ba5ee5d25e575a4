//! The search for the largest packet that a path takes, by probes.
//!
//! Owns what is known: the size that passes (PLPMTU), the smallest that was
//! refused, the one being probed. Sizes are those of IP packets, header
//! included, multiples of four. Knows nothing of clocks and packets: it is told
//! that a probe was sent, came back, or was not heard of, and what ICMP says.
//!
//! Home of RFC 8899 §4.6 (ICMP), §5.1 (constants), §5.2 (states), §5.3 (search).

/// RFC 8899 §5.2; its state Disabled is a path without a search, or one that is not probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// BASE_PLPMTU is to be confirmed.
    Base,
    /// Larger sizes are probed.
    Searching,
    /// What passes is known well enough.
    Complete,
    /// Not even BASE_PLPMTU is known to pass.
    Error,
}

/// RFC 8899 §5.1.2: MAX_PROBES.
const MAX_PROBES: u32 = 3;
/// Sizes closer than this are not told apart.
const STEP: u32 = 4;

/// One path's search.
#[derive(Debug)]
pub(crate) struct Search {
    phase: Phase,
    /// MIN_PLPMTU.
    least: u32,
    /// BASE_PLPMTU.
    base: u32,
    /// MAX_PLPMTU: what the interface takes, or what peers are known to read.
    most: u32,
    /// What the interface takes.
    interface: u32,
    /// PLPMTU.
    passes: u32,
    /// The smallest size that does not pass; beyond `most` while none is known.
    refused: u32,
    /// What ICMP has promised.
    hint: Option<u32>,
    /// PROBED_SIZE.
    probed: u32,
    /// PROBE_COUNT.
    lost: u32,
    /// The nonce of the probe under way.
    under_way: Option<u64>,
    /// HEARTBEATs that had been answered on the path when a probe of this size was first sent;
    /// `None` before.
    answered_before: Option<u64>,
    /// Lost probes of this size that may not count.
    silent: u32,
    /// How often BASE_PLPMTU was suspected since it was fallen back to.
    suspected: u32,
    /// A probe is to be sent with the next poll.
    wanted: bool,
    /// A probe has come back: the peer answers probes.
    answers: bool,
}

/// What became of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// As before.
    Same,
    /// Larger packets pass.
    Raised,
    /// Smaller packets only, from now on.
    Reduced,
}

impl Search {
    /// A search from `base` on, on an interface that takes `interface` bytes; no probe goes out before
    /// [`begin`](Self::begin). `smallest` is what a path takes at least.
    pub(crate) fn new(base: u32, interface: u32, smallest: u32) -> Self {
        let most = (interface & !3).max(smallest);
        let base = base.min(most);
        Self {
            phase: Phase::Base,
            least: smallest.min(base),
            base,
            most,
            interface: most,
            passes: base,
            refused: most + STEP,
            hint: None,
            probed: base,
            lost: 0,
            under_way: None,
            answered_before: None,
            silent: 0,
            suspected: 0,
            wanted: false,
            answers: false,
        }
    }

    /// A search that is over: what the interface takes is taken to pass until something speaks
    /// against it. RFC 8899 §5.1.4 would have it confirmed first; most paths take it, and waiting
    /// for that costs every short transfer.
    pub(crate) fn settled(base: u32, interface: u32, smallest: u32) -> Self {
        let fresh = Self::new(base, interface, smallest);
        Self { phase: Phase::Complete, passes: fresh.most, probed: fresh.most, ..fresh }
    }

    /// The same with sizes of at most `most` until [`lift`](Self::lift).
    pub(crate) fn at_most(mut self, most: u32) -> Self {
        self.most = self.most.min((most & !3).max(self.base));
        self.refused = self.most + STEP;
        self
    }

    /// The peer reads whatever the interface takes. True when that may mean larger packets.
    pub(crate) fn lift(&mut self) -> bool {
        if self.most >= self.interface {
            return false;
        }
        if self.refused > self.most {
            self.refused = self.interface + STEP;
        }
        self.most = self.interface;
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

    /// PLPMTU.
    pub(crate) fn size(&self) -> u32 {
        self.passes
    }

    /// The size of the probe that is wanted or under way.
    pub(crate) fn probed(&self) -> u32 {
        self.probed
    }

    /// The path works: probe BASE_PLPMTU, or go on where the search was interrupted.
    pub(crate) fn begin(&mut self) {
        if matches!(self.phase, Phase::Base | Phase::Searching) && self.under_way.is_none() {
            self.wanted = true;
        }
    }

    /// The path does not work: nothing is probed.
    pub(crate) fn suspend(&mut self) {
        self.under_way = None;
        self.wanted = false;
        self.answered_before = None;
    }

    /// The wanted probe goes out; so many HEARTBEATs of the usual size have been `answered` so far.
    pub(crate) fn probe_sent(&mut self, nonce: u64, answered: u64) {
        self.wanted = false;
        self.under_way = Some(nonce);
        self.answered_before.get_or_insert(answered);
    }

    /// Small packets have passed since the first probe of this size: so many HEARTBEATs are
    /// `answered` now.
    pub(crate) fn small_ones_pass(&self, answered: u64) -> bool {
        self.answered_before.is_some_and(|before| answered > before)
    }

    /// A probe is to be sent with the next poll.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A probe is under way: the timer that runs is PROBE_TIMER, else PMTU_RAISE_TIMER.
    pub(crate) fn is_probing(&self) -> bool {
        self.under_way.is_some()
    }

    /// No probe is wanted or under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.wanted && self.under_way.is_none()
    }

    /// Larger sizes may pass some day: worth PMTU_RAISE_TIMER.
    pub(crate) fn may_rise(&self) -> bool {
        self.passes < self.most
    }

    /// A probe came back.
    pub(crate) fn on_ack(&mut self, nonce: u64) -> Change {
        if self.under_way != Some(nonce) {
            return Change::Same;
        }
        self.under_way = None;
        self.answers = true;
        if self.phase == Phase::Base && self.probed < self.base {
            // RFC 8899 §5.2: the peer answers probes, and has not had those of BASE_PLPMTU.
            self.refused = self.base;
            return self.fail_base();
        }
        let raised = self.probed > self.passes;
        self.passes = self.passes.max(self.probed);
        if self.passes >= self.base {
            // RFC 8899 §5.2: BASE and ERROR end when a probe of BASE_PLPMTU comes back.
            self.phase = Phase::Searching;
        }
        self.go_on();
        if raised { Change::Raised } else { Change::Same }
    }

    /// PROBE_TIMER ran out: the size is refused after MAX_PROBES. As long as small packets do not
    /// pass either, size may have nothing to do with it; once they do, the probe before counts too.
    pub(crate) fn on_probe_lost(&mut self, small_ones_pass: bool) -> Change {
        self.under_way = None;
        if small_ones_pass {
            self.lost += 1 + std::mem::take(&mut self.silent).min(1);
        } else {
            self.silent += 1;
        }
        if self.lost < MAX_PROBES {
            self.wanted = true;
            return Change::Same;
        }
        if self.phase == Phase::Base && !self.answers {
            self.doubt_the_peer();
            return Change::Same;
        }
        self.refused = self.probed;
        if self.probed <= self.passes {
            // RFC 8899 §5.2: BASE_PLPMTU could not be confirmed.
            return self.fail_base();
        }
        self.go_on();
        Change::Same
    }

    /// No probe of BASE_PLPMTU has come back, and none ever did. A peer that does not know PAD chunks and drops packets
    /// with unknown chunks (pion/sctp v1.11.3) answers none, so the smallest size is probed, too. If that is not answered
    /// either, lost probes say nothing: BASE_PLPMTU stays until timeouts speak against it.
    fn doubt_the_peer(&mut self) {
        if self.probed > self.least {
            self.probe(self.least);
        } else {
            self.probed = self.base;
            self.lost = 0;
        }
    }

    /// RFC 8899 §5.2: BASE_PLPMTU does not pass: on from the smallest size.
    fn fail_base(&mut self) -> Change {
        let before = self.passes;
        self.phase = Phase::Error;
        self.passes = self.least;
        self.go_on();
        if self.passes < before { Change::Reduced } else { Change::Same }
    }

    /// PMTU_RAISE_TIMER ran out: the path may have changed.
    pub(crate) fn on_raise(&mut self) {
        self.refused = self.most + STEP;
        self.hint = None;
        if matches!(self.phase, Phase::Base | Phase::Error) {
            self.probe(self.base);
        } else {
            self.phase = Phase::Searching;
            self.go_on();
        }
    }

    /// RFC 8899 §4.3: packets of the present size vanish. Back to BASE; and when they still do, to
    /// ERROR: in a shutdown no HEARTBEAT is answered (RFC 9260 §8.3), so that probes show nothing.
    pub(crate) fn on_black_hole(&mut self) -> Change {
        match self.phase {
            Phase::Error => Change::Same,
            Phase::Base => {
                self.suspected += 1;
                if self.suspected < MAX_PROBES || self.passes <= self.least {
                    return Change::Same;
                }
                self.phase = Phase::Error;
                self.passes = self.least;
                self.probe(self.base);
                Change::Reduced
            }
            Phase::Searching | Phase::Complete => self.fall_back(None),
        }
    }

    /// A Packet Too Big message, known to be about a packet of ours (RFC 8899 §4.6.1), says `size`.
    pub(crate) fn on_too_big(&mut self, size: u32) -> Change {
        let size = size & !3;
        let probing = self.wanted || self.under_way.is_some();
        // RFC 8899 §4.6.2: smaller than any path, or no smaller than what was sent: nothing.
        if size < self.least || size >= self.passes && !(probing && size < self.probed) {
            return Change::Same;
        }
        if size < self.base {
            // RFC 8899 §4.6.2, §5.2: ERROR, and the size told is probed.
            let before = self.passes;
            self.phase = Phase::Error;
            self.passes = self.least;
            self.refused = size + STEP;
            self.hint = Some(size);
            self.go_on();
            return if self.passes < before { Change::Reduced } else { Change::Same };
        }
        if size < self.passes {
            // RFC 8899 §4.6.2: a sign of a black hole; BASE, then the size told.
            return self.fall_back(Some(size));
        }
        // RFC 8899 §4.6.2: between what passes and what is probed: probe that; if it is what passes,
        // the search is over.
        self.refused = self.refused.min(size + STEP);
        self.hint = Some(size);
        if self.phase == Phase::Searching {
            self.go_on();
        }
        Change::Same
    }

    fn fall_back(&mut self, hint: Option<u32>) -> Change {
        let reduced = self.passes > self.base;
        self.phase = Phase::Base;
        self.passes = self.passes.min(self.base);
        self.refused = hint.map_or(self.most, |size| size) + STEP;
        self.hint = hint;
        self.suspected = 0;
        self.probe(self.base);
        if reduced { Change::Reduced } else { Change::Same }
    }

    fn probe(&mut self, size: u32) {
        self.probed = size;
        self.lost = 0;
        self.under_way = None;
        self.answered_before = None;
        self.silent = 0;
        self.wanted = true;
    }

    /// RFC 8899 §5.3.2: the next size: the largest at first, for it is mostly right; what ICMP told;
    /// else the middle of what is left.
    fn go_on(&mut self) {
        self.lost = 0;
        if self.passes + STEP >= self.refused || self.passes >= self.most {
            self.wanted = false;
            self.under_way = None;
            if self.phase == Phase::Searching {
                self.phase = Phase::Complete;
            }
            return;
        }
        let open = self.passes + STEP..self.refused;
        let size = match self.hint.take().filter(|size| open.contains(size)) {
            Some(told) => told,
            None if self.refused > self.most => self.most,
            None => ((self.passes + (self.refused - self.passes) / 2) & !3).max(self.passes + STEP),
        };
        self.probe(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a search against a path that takes `mtu`; returns the sizes probed.
    fn play(search: &mut Search, mtu: u32) -> Vec<u32> {
        let mut probed = Vec::new();
        for nonce in 0..200 {
            if !search.wanted {
                return probed;
            }
            probed.push(search.probed());
            search.probe_sent(nonce, 0);
            if search.probed() <= mtu {
                assert_eq!(search.on_ack(nonce + 1_000), Change::Same, "another nonce");
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

    /// RFC 8899 §5.3: from BASE_PLPMTU to what the path takes, whatever that is.
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

    /// RFC 8899 §5.2: the path narrows, widens, and is measured anew.
    #[test]
    fn the_path_changes() {
        let mut search = begun(false, 1500);
        play(&mut search, 1500);
        assert!(!search.may_rise());
        assert_eq!(search.on_black_hole(), Change::Reduced);
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        assert_eq!(search.on_black_hole(), Change::Same, "once");
        assert_eq!(search.on_black_hole(), Change::Same, "twice");
        assert_eq!(search.on_black_hole(), Change::Reduced, "and again");
        assert_eq!((search.size(), search.phase(), search.probed()), (512, Phase::Error, 1200));
        play(&mut search, 1300);
        assert_eq!((search.size(), search.phase(), search.may_rise()), (1300, Phase::Complete, true));
        search.on_raise();
        assert_eq!(search.phase(), Phase::Searching);
        assert_eq!(play(&mut search, 1500), [1500]);
        // Narrower than BASE_PLPMTU.
        search.on_black_hole();
        play(&mut search, 600);
        assert_eq!((search.size(), search.phase()), (600, Phase::Error));
        search.on_raise();
        assert_eq!(play(&mut search, 1500), [1200, 1500]);
        assert_eq!(search.phase(), Phase::Complete);
    }

    /// What is taken to pass is not probed before it vanishes.
    #[test]
    fn a_path_is_taken_at_its_word() {
        let mut search = Search::settled(1200, 1500, 512);
        search.begin();
        assert_eq!((search.size(), search.wanted, search.may_rise()), (1500, false, false));
        assert_eq!(search.on_black_hole(), Change::Reduced);
        assert_eq!(play(&mut search, 1300)[..2], [1200, 1500]);
        assert_eq!((search.size(), search.phase()), (1300, Phase::Complete));
        let mut told = Search::settled(1200, 65_535, 512);
        assert_eq!(told.on_too_big(1500), Change::Reduced);
        assert_eq!(play(&mut told, 1500), [1200, 1500], "what the network tells is all there is to try");
    }

    /// RFC 8899 §4.6.2: each range of PL_PTB_SIZE.
    #[test]
    fn what_icmp_says() {
        let mut search = begun(false, 1500);
        search.probe_sent(1, 0);
        search.on_ack(1);
        assert_eq!(search.probed(), 1500);
        search.probe_sent(2, 0);
        for nonsense in [0, 68, 508, 1500, 1503, 9000, u32::MAX] {
            assert_eq!(search.on_too_big(nonsense), Change::Same);
            assert!(search.is_probing() && search.probed() == 1500, "{nonsense} is ignored");
        }
        // Between what passes and what is probed: it is probed next, and that was all.
        assert_eq!(search.on_too_big(1400), Change::Same);
        assert_eq!((search.probed(), search.wanted), (1400, true));
        assert_eq!(play(&mut search, 1400), [1400]);
        assert_eq!((search.size(), search.phase()), (1400, Phase::Complete));
        // Less than what passed: BASE, then what was told.
        assert_eq!(search.on_too_big(1300), Change::Reduced);
        assert_eq!((search.size(), search.phase()), (1200, Phase::Base));
        assert_eq!(search.on_too_big(1300), Change::Same, "of a packet sent before");
        assert_eq!(play(&mut search, 1300), [1200, 1300]);
        // Less than BASE.
        assert_eq!(search.on_too_big(600), Change::Reduced);
        assert_eq!((search.size(), search.phase()), (512, Phase::Error));
        assert_eq!(play(&mut search, 600), [600]);
        assert_eq!(search.size(), 600);
        // A lie costs a search, no more.
        assert_eq!(search.on_too_big(512), Change::Reduced);
        assert_eq!(play(&mut search, 600), [] as [u32; 0]);
        search.on_raise();
        play(&mut search, 1500);
        assert_eq!(search.size(), 1500);
    }

    /// A path that is silent altogether says nothing about sizes.
    #[test]
    fn silence_is_no_refusal() {
        let mut search = begun(false, 1500);
        for nonce in 0..20 {
            assert!(search.wanted);
            search.probe_sent(nonce, 0);
            assert_eq!(search.on_probe_lost(false), Change::Same);
        }
        search.suspend();
        assert!(!search.wanted);
        search.begin();
        assert_eq!(play(&mut search, 1500), [1200, 1500]);
    }

    /// Peers are known to read 1500 bytes; larger sizes are probed once this one is known to read more, be it before or after
    /// the search has ended.
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
        // What was refused stays so.
        let mut narrow = capped();
        play(&mut narrow, 1_400);
        assert!(narrow.lift());
        assert_eq!((narrow.size(), play(&mut narrow, 1_400)), (1400, Vec::new()));
        assert!(!begun(false, 1_500).lift(), "there is no more to be had");
    }

    /// A peer that answers no probe at all, as those do that drop packets with unknown chunks: BASE_PLPMTU stays, until
    /// timeouts speak against it. It is asked again some day.
    #[test]
    fn a_peer_that_answers_no_probe() {
        let mut search = begun(false, 9_000);
        assert_eq!(play(&mut search, 0), [1200, 1200, 1200, 512, 512, 512]);
        assert_eq!((search.size(), search.is_idle(), search.may_rise()), (1200, true, true));
        search.on_raise();
        assert_eq!(play(&mut search, 0), [1200, 1200, 1200, 512, 512, 512]);
        assert_eq!(search.size(), 1200);
        assert_eq!([(); 3].map(|()| search.on_black_hole()), [Change::Same, Change::Same, Change::Reduced]);
        assert_eq!((search.size(), search.phase()), (512, Phase::Error));
    }
}
