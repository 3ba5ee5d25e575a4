//! A transfer between two str0m peers (ICE, DTLS and SCTP) over one data channel.

use crate::link::Link;
use crate::{CAP, LIMIT, MESSAGE, Outcome, begin, processor_time};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

struct Peer {
    rtc: Rtc,
    here: SocketAddr,
    there: SocketAddr,
    timeout: Instant,
    events: VecDeque<Event>,
}

impl Peer {
    fn new(now: Instant, here: SocketAddr, there: SocketAddr) -> Self {
        let rtc = RtcConfig::new().set_sctp_max_buffered_amount(CAP).build(now);
        Self { rtc, here, there, timeout: now, events: VecDeque::new() }
    }

    /// Sends and stores all pending output.
    fn poll(&mut self, now: Instant, link: &mut Link) {
        loop {
            match self.rtc.poll_output().expect("output") {
                Output::Transmit(transmit) => link.send(now, &transmit.contents),
                Output::Event(event) => self.events.push_back(event),
                Output::Timeout(at) => {
                    self.timeout = at;
                    return;
                }
            }
        }
    }

    fn receive(&mut self, now: Instant, packet: &[u8], link: &mut Link) {
        let contents = packet.try_into().expect("a packet of ICE, DTLS or SCTP");
        let receive = Receive { proto: Protocol::Udp, source: self.there, destination: self.here, contents };
        self.rtc.handle_input(Input::Receive(now, receive)).expect("input");
        self.poll(now, link);
    }
}

/// Creates two peers that have exchanged candidates, fingerprints and credentials, and a channel between them.
fn peers(now: Instant) -> (Peer, Peer, ChannelId) {
    let ends = [1, 2].map(|host| SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), 5000)));
    let (mut left, mut right) = (Peer::new(now, ends[0], ends[1]), Peer::new(now, ends[1], ends[0]));
    let [one, other] = ends.map(|end| Candidate::host(end, "udp").expect("a candidate"));
    left.rtc.add_local_candidate(one.clone());
    left.rtc.add_remote_candidate(other.clone());
    right.rtc.add_local_candidate(other);
    right.rtc.add_remote_candidate(one);
    let (mut a, mut b) = (left.rtc.direct_api(), right.rtc.direct_api());
    let prints = [a.local_dtls_fingerprint().clone(), b.local_dtls_fingerprint().clone()];
    let credentials = [a.local_ice_credentials(), b.local_ice_credentials()];
    let [print_a, print_b] = prints;
    let [credentials_a, credentials_b] = credentials;
    a.set_remote_fingerprint(print_b);
    b.set_remote_fingerprint(print_a);
    a.set_remote_ice_credentials(credentials_b);
    b.set_remote_ice_credentials(credentials_a);
    a.set_ice_controlling(true);
    b.set_ice_controlling(false);
    a.start_dtls(true).expect("DTLS");
    b.start_dtls(false).expect("DTLS");
    a.start_sctp(true);
    b.start_sctp(false);
    let config = ChannelConfig { negotiated: Some(1), label: "bulk".into(), ..ChannelConfig::default() };
    let channel = a.create_data_channel(config.clone());
    b.create_data_channel(config);
    (left, right, channel)
}

/// Sends `bytes` bytes from one peer to the other.
pub fn transfer(mut there: Link, mut back: Link, bytes: u64) -> Outcome {
    let mut now = begin();
    let (mut left, mut right, channel) = peers(now);
    let message = vec![7; MESSAGE];
    let (mut given, mut received, mut began) = (0, 0, None);
    loop {
        for peer in [&mut left, &mut right] {
            if peer.timeout <= now {
                peer.rtc.handle_input(Input::Timeout(now)).expect("time");
            }
        }
        left.poll(now, &mut there);
        right.poll(now, &mut back);
        let mut wants = false;
        while let Some(event) = left.events.pop_front() {
            match event {
                Event::ChannelOpen(..) => {
                    began = Some((now, processor_time()));
                    if let Some(mut channel) = left.rtc.channel(channel) {
                        channel.set_buffered_amount_low_threshold(CAP / 2);
                    }
                    wants = true;
                }
                Event::ChannelBufferedAmountLow(_) => wants = true,
                _ => {}
            }
        }
        if wants && let Some(mut channel) = left.rtc.channel(channel) {
            while given < bytes && channel.write(true, &message).expect("an open channel") {
                given += MESSAGE as u64;
            }
            left.poll(now, &mut there);
        }
        while let Some(event) = right.events.pop_front() {
            if let Event::ChannelData(data) = event {
                received += data.data.len() as u64;
            }
        }
        if received >= bytes || began.is_some_and(|(began, _)| now - began > LIMIT) {
            break;
        }
        let timeouts = [left.timeout, right.timeout].into_iter();
        let next = timeouts.chain(there.next()).chain(back.next()).min().expect("a timeout");
        // str0m may return a timeout that is not in the future. Without this step the loop would not end.
        now = next.max(now + Duration::from_micros(1));
        while let Some(packet) = there.receive(now) {
            right.receive(now, &packet, &mut back);
        }
        while let Some(packet) = back.receive(now) {
            left.receive(now, &packet, &mut there);
        }
    }
    let (began, processor) = began.expect("the channel opens");
    Outcome { took: now - began, bytes: received, processor: processor_time() - processor }
}
