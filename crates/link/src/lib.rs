//! Link impairments as sans-IO elements: queue, rate, loss, delay, reordering and more.
//!
//! One direction of a link is a [`Chain`]: packets go in at one instant and come out at a later instant. The chain
//! never reads a clock and never waits. After each call, [`Chain::next`] returns the instant of the next event. The
//! simulator and the live emulator run the same chains.
//!
//! Most elements decide the fate of a packet when it enters ([`ImmediateElement`]). For example, a drop-tail queue
//! knows the scheduled departures. From these departures it computes when the new packet will have been serialized. A
//! chain of such elements therefore costs its caller one event per packet. Elements that decide when a packet is
//! *dequeued* hold it and report a deadline ([`HoldingElement`]). CoDel, FQ-CoDel, contention for the medium, and loss
//! counted across both directions are such elements.
//!
//! [`LinkSpec`] parses the text forms that the command line and plans use, and builds the chains of both directions:
//!
//! ```
//! use anabranch_base::{Instant, Rng};
//! use anabranch_link::{TestPacket, LinkSpec};
//!
//! let link = LinkSpec::parse("rate=10mbit,rtt=80ms,queue=50p")?;
//! let (_up, mut down) = link.build::<TestPacket>(1, &Rng::new(1))?;
//! down.push(Instant::ZERO, TestPacket::new(1500));
//! // 1.2 ms of serialization, 40 ms of propagation.
//! assert_eq!(down.next(), Some(Instant::from_nanos(41_200_000)));
//! assert!(down.pop(Instant::from_nanos(41_200_000)).is_some());
//! # Ok::<(), anabranch_link::SpecError>(())
//! ```
//!
//! # The table of impairments
//!
//! The macro call `impairments!` below has one row for each impairment: flag, plan key, help, default, element and
//! counter. The command line, plans, printing, JSON and reports all use that table. Each impairment has a file of its
//! own. The file defines the impairment's text form, its contradictions with other settings, its element, and the
//! element's position in the chain. Each of these files imports `spec` and [`Row`], and the modules `table` and `spec`
//! import each of these files. The circular import is intended: a row whose impairment has no element does not compile.

#[macro_use]
mod table;

pub mod chain;
pub mod contention;
pub mod corrupt;
pub mod delay;
pub mod duplicate;
pub mod element;
pub mod half_duplex;
pub mod jitter;
pub mod loss;
pub mod meter;
pub mod mtu;
pub mod outage;
pub mod preset;
pub mod queue;
pub mod rate;
pub mod reorder;
pub mod spec;
pub mod trace;

pub use chain::{Chain, Dropped};
pub use element::{Carried, Fate, HoldingElement, ImmediateElement, TestPacket};
pub use meter::{DropCause, Meter, Tally};
pub use spec::{LinkSpec, PathOutage, SpecError};
pub use table::Row;

use anabranch_base::time::Duration;
use anabranch_base::{Bytes, Instant, Ratio};
use spec::{AqmSpec, EcnSpec, LossSpec, QueueSpec, RateSpec, TraceSpec};

impairments! {
    each direction {
        /// The rate in bits per second, which may change with time. With a trace, the rate is not used.
        rate: RateSpec = RateSpec::TEN_MBIT, rate::Rate, "RATE",
            "Capacity: 10mbit, 56kbit, 10mbit/5s:2mbit (changing) or unlimited [default: 10mbit]";
        /// The one-way propagation delay.
        delay: Duration = Duration::from_millis(40), delay::Delay, "TIME",
            "Propagation delay one way: 40ms (not with --rtt)", passing Delay;
    }
    both {
        "rtt", spec::RoundTrip, "TIME", "Propagation delay of the round trip: 80ms [default: 80ms]";
    }
    each direction {
        /// The maximum deviation of a packet's propagation delay from `delay`, earlier or later.
        jitter: Duration = Duration::ZERO, jitter::Jitter, "TIME",
            "Uniform ± around the delay, in order unless --reorder: 5ms", passing Jitter;
        /// The model that decides which packets are lost on the wire.
        loss: LossSpec = LossSpec::None, loss::Loss, "LOSS",
            "1%, nth:N[/first=K][/shared], ge:P/R[/..] (Gilbert-Elliott) or list:3/17 [default: 0,1%: a race \
             without and with]",
            passing Loss;
        /// The bytes that framing adds to each packet on the medium.
        overhead: Bytes = Bytes(0), rate::Overhead, "SIZE",
            "Bytes that framing adds to each packet on the medium: 24B (Ethernet: 38B with its header) [default: 0B]";
        /// The time that each packet occupies the medium in addition to the time for its bytes.
        packet_time as "packet-time": Duration = Duration::ZERO, rate::PacketTime, "TIME",
            "Time that each packet takes on the medium in addition to its bytes: 118us (802.11) [default: 0]";
        /// The limit of the queue.
        queue: QueueSpec = QueueSpec::ONE_BDP, queue::Bottleneck, "SIZE",
            "Drop-tail queue: 50p packets, 100kB, 1bdp [default: 1bdp, at least 10p]";
        /// The queue management, which decides when to drop or mark a packet.
        aqm: AqmSpec = AqmSpec::DropTail, queue::Policy, "NAME",
            "Queue management: droptail, codel, fq-codel, pie or red [default: droptail]";
        /// Whether the queue marks ECN-capable packets instead of dropping them.
        ecn: EcnSpec = EcnSpec::No, queue::Threshold, "MARK",
            "Mark ECN-capable packets: yes (with an aqm), or a drop-tail queue's threshold: 20p",
            counts marked at 3 "marked CE";
        /// The share of packets that overtake other packets, and the time by which they leave earlier.
        reorder: Option<reorder::ReorderSpec> = None, reorder::Reorder, "SHARE[/TIME]",
            "Packets that overtake others: 1%, 1%/10ms", passing Reorder, counts overtaking at 4 "overtaking";
        /// The share of packets that arrive twice.
        duplicate: Ratio = Ratio::ZERO, duplicate::Duplicate, "SHARE",
            "Packets that arrive twice: 0.1%", passing Duplicate, counts duplicated at 1 "doubled";
        /// The share of packets with flipped bits.
        corrupt: Ratio = Ratio::ZERO, corrupt::Corrupt, "SHARE",
            "Packets that arrive with flipped bits: 0.1%", passing Corrupt, counts corrupted at 2 "damaged";
        /// The size of the largest packet in bytes, including the IP header.
        mtu: u32 = 1500, mtu::Mtu, "BYTES", "Largest IP packet, in bytes: 1500 [default: 1500]", passing Mtu;
        /// A recorded capacity of the link, which replaces the setting `rate`.
        trace: Option<TraceSpec> = None, trace::TracePlayer, "FILE",
            "Recorded capacity: mahimahi's times, or columns of seconds and bit/s; a header names others, rtt_ms and loss";
    }
    both {
        "half-duplex", half_duplex::Medium, "",
            "Both directions share one medium and take turns; with =802.11b or =802.11g they contend for it, and may collide";
        "preset", preset::Preset, "NAME", "A named network (see --list presets), or NAME/random: losses without bursts; other flags change it";
    }
}
