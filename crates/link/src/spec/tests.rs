//! Parses, prints and builds links, and checks error messages.

use super::*;
use crate::element::TestPacket;
use crate::preset::PRESETS;
use crate::queue::Limit;
use anabranch_base::Rng;

fn parse(text: &str) -> LinkSpec {
    LinkSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    LinkSpec::parse(text).expect_err(text).to_string()
}

#[test]
fn the_default_is_the_bare_race() {
    let link = LinkSpec::default();
    assert_eq!(link.to_string(), "rate=10mbit,delay=40ms,queue=1bdp,mtu=1500");
    assert_eq!(link.rtt(), Duration::from_millis(80));
    // The bandwidth-delay product is 10 Mbit/s · 80 ms = 100,000 bytes = 66.7 packets.
    assert_eq!(link.down.queue_limit(link.rtt()), Limit::Packets(67));
}

#[test]
fn rates_and_presets_may_be_written_as_in_prose() {
    let [prose, own] =
        ["rate=10Mbit/s/5s:2mbit/s", "rate=10mbit/5s:2mbit"].map(|text| parse(text).to_string());
    assert_eq!(prose, own);
    let [prose, own] = ["preset=LTE", "preset=lte"].map(|text| parse(text).to_string());
    assert_eq!(prose, own);
    assert!(refusal("rate=10mbit/s/2mbit").contains("5s:2mbit"));
}

#[test]
fn what_is_written_is_read_back() {
    for text in [
        "rate=10mbit/5s:2mbit/8s:10mbit,delay=40ms,jitter=5ms,loss=1%,queue=50p,mtu=1500",
        "rate=10mbit,delay=40ms,loss=nth:10/first=3/shared,queue=100kB,aqm=droptail,ecn=20p,mtu=1500",
        "rate=10mbit,delay=40ms,loss=ge:1%/30%,queue=0.5bdp,aqm=red:min=3p/max=9p/p=2%,ecn=yes,mtu=1400",
        "rate=10mbit,aqm=red:min=3p/max=9p/p=2%/weight=0.2%/gentle=no,queue=60p",
        "up-rate=1mbit,down-rate=8mbit,up-loss=list:3/17,delay=0,queue=unlimited",
        "up-delay=10ms,down-delay=30ms,reorder=1%/5ms,duplicate=0.5%,corrupt=0.1%,half-duplex",
        "trace=walk.up,aqm=codel:target=10ms",
        "rate=10mbit,overhead=24B,up-packet-time=138us,down-packet-time=118us,half-duplex",
        "rate=54mbit,packet-time=141us,half-duplex=802.11g",
        "rate=unlimited,rtt=81ns",
    ] {
        let link = parse(text);
        let again = parse(&link.to_string());
        assert_eq!(
            (&again.up, &again.down, again.half_duplex),
            (&link.up, &link.down, link.half_duplex),
            "{text}"
        );
    }
    let link = parse("up-rate=1mbit,rtt=81ns");
    assert_eq!((link.up.delay.as_nanos(), link.down.delay.as_nanos()), (40, 41));
}

#[test]
fn a_preset_comes_first_wherever_it_stands() {
    for text in ["preset=gprs,loss=0", "loss=0,preset=gprs"] {
        let link = parse(text);
        assert_eq!(link.to_string(), "up-rate=20kbit,down-rate=50kbit,delay=250ms,queue=1bdp,mtu=1500");
    }
    let mut link = LinkSpec::default();
    link.set("down-rate", "1mbit").and_then(|()| link.set("preset", "dsl")).expect("both are fine");
    assert_eq!(link.down.rate.to_string(), "1mbit");
    assert_eq!(link.up.rate.to_string(), "8mbit");
    for preset in PRESETS {
        let mut link = parse(preset.settings);
        // Traces are loaded by the caller, so this test builds the link without them.
        (link.up.trace, link.down.trace) = (None, None);
        link.build::<TestPacket>(1, &Rng::new(1)).expect(preset.name);
    }
    assert!(refusal("preset=mars").contains("gprs, edge, 3g"));
}

#[test]
fn errors_name_the_setting_and_the_accepted_forms_in_one_line() {
    for (text, key, form) in [
        ("rate=10", "rate", "10mbit"),
        ("rate=0mbit", "rate", "10mbit"),
        ("rate=10mbps", "rate", "10mbit"),
        ("rate=10mbit/2mbit", "rate", "5s:2mbit"),
        ("rate=10mbit/5s:2mbit/5s:1mbit", "rate", "order of time"),
        ("speed=10mbit", "speed", "rate, delay"),
        ("down-speed=10mbit", "speed", "rate, delay"),
        ("rate", "'rate'", "key=value"),
        ("rate=1mbit,rate=2mbit", "rate", "twice"),
        ("delay=40ms,rtt=80ms", "delay", "one of them"),
        ("up-delay=40ms,rtt=80ms", "delay", "one of them"),
        ("down-rtt=80ms", "rtt", "down-delay"),
        ("rate=1mbit,trace=x", "rate", "one of them"),
        ("loss=101%", "loss", "1%"),
        ("loss=0.5", "loss", "1%"),
        ("loss=nth:0", "loss", "nth:10"),
        ("loss=nth:10/first=0", "loss", "nth:10"),
        ("loss=nth:10/sometimes", "loss", "sometimes"),
        ("loss=ge:1%", "loss", "ge:1%/30%"),
        ("loss=ge:1%/130%", "loss", "130%"),
        ("loss=list:3/0", "loss", "list:3/17"),
        ("loss=storm:3", "loss", "storm"),
        ("down-loss=nth:10/shared", "loss", "shared"),
        ("queue=50", "queue", "50p"),
        ("queue=0p", "queue", "50p"),
        ("queue=0B", "queue", "50p"),
        ("queue=1.2345bdp", "queue", "1bdp"),
        ("aqm=cake", "aqm", "fq-codel"),
        ("aqm=red:min=9p/max=3p", "aqm", "min"),
        ("aqm=red:weight=0", "aqm", "never sees"),
        ("aqm=red:gentle=maybe", "aqm", "yes or no"),
        ("aqm=pie:weight=1%", "aqm", "weight"),
        ("aqm=codel:target=0ms", "aqm", "0"),
        ("aqm=pie:interval=5ms", "aqm", "interval"),
        ("ecn=maybe", "ecn", "20p"),
        ("ecn=yes", "ecn", "threshold"),
        ("aqm=codel,ecn=20p", "ecn", "yes"),
        ("jitter=50ms", "jitter", "40ms"),
        ("reorder=1%/50ms", "reorder", "40ms"),
        ("mtu=0", "mtu", "68"),
        ("mtu=70000", "mtu", "65535"),
        ("overhead=24", "overhead", "unit"),
        ("overhead=1MB", "overhead", "65535B"),
        ("overhead=24B,rate=unlimited", "overhead", "rate"),
        ("overhead=24B,trace=x", "overhead", "rate"),
        ("packet-time=118", "packet-time", "unit"),
        ("packet-time=11s", "packet-time", "10s"),
        ("up-packet-time=118us,rate=unlimited", "packet-time", "rate"),
        ("half-duplex,aqm=codel", "half-duplex", "pie"),
        ("half-duplex=perhaps", "half-duplex", "write yes, no, 802.11b or 802.11g"),
        ("half-duplex=802.11g,aqm=red", "half-duplex", "drop-tail"),
        ("rate=unlimited,aqm=pie", "aqm", "rate"),
        ("rate=unlimited,half-duplex", "half-duplex", "rate"),
    ] {
        let error = refusal(text);
        assert!(error.contains(key) && error.contains(form) && error.lines().count() == 1, "{text}: {error}");
    }
}

#[test]
fn a_failure_of_a_path_is_an_outage_both_ways() {
    let fail: PathOutage = "path=1,at=10s,for=5s".parse().expect("it is right");
    assert_eq!((fail.path, fail.at, fail.span), (1, Duration::from_secs(10), Some(Duration::from_secs(5))));
    assert_eq!(fail.to_string(), "path=1,at=10s,for=5s");
    let mut link = LinkSpec::default();
    link.fail(&fail);
    assert_eq!(link.up.outages, link.down.outages);
    let (mut up, _) = link.build::<TestPacket>(1, &Rng::new(1)).expect("it is right");
    for second in [9, 12, 15] {
        up.push(Instant::from_millis(second * 1000), TestPacket::new(1500));
    }
    assert_eq!(up.meter().lost_in_outage.packets, 1);
    assert_eq!("path=2,at=1.5s".parse::<PathOutage>().map(|fail| fail.span), Ok(None));
    for text in ["path=0,at=1s", "at=1s", "path=1", "path=1,at=1", "path=1,at=1s,in=2s", ""] {
        let error = text.parse::<PathOutage>().expect_err(text).to_string();
        assert!(error.contains("10s") || error.contains("40ms"), "{error}");
    }
}

#[test]
fn a_trace_is_read_by_the_caller() {
    let mut link = parse("down-trace=walk,aqm=codel");
    let error = link.build::<TestPacket>(1, &Rng::new(1)).expect_err("it is not loaded").to_string();
    assert!(error.contains("walk"));
    let error =
        link.load_traces(|_| Err("no such file".to_owned())).expect_err("it is not there").to_string();
    assert_eq!(error, "trace 'walk': no such file");
    let read = |_: &str| Trace::parse("1\n2\n").map_err(|error| error.to_string());
    link.load_traces(read).expect("it is right");
    // The bandwidth-delay product is 12 Mbit/s · 80 ms / 1500 bytes = 80 packets.
    assert_eq!(link.down.queue_limit(link.rtt()), Limit::Packets(80));
    let (_, mut down) = link.build::<TestPacket>(1, &Rng::new(1)).expect("it is loaded");
    down.push(Instant::ZERO, TestPacket::new(1500));
    while let Some(at) = down.next() {
        if down.pop(at).is_some() {
            assert_eq!(at, Instant::from_millis(41));
        }
    }
}

/// Sends packets of 1500 bytes at the times `at_ms`, in milliseconds. Returns the time at which each packet comes out,
/// in milliseconds, and the number of lost packets.
fn passed(link: &LinkSpec, at_ms: &[u64]) -> (Vec<f64>, u64) {
    let (mut up, _) = link.build::<TestPacket>(1, &Rng::new(1)).expect("it is right");
    let mut out = Vec::new();
    let mut run = |up: &mut crate::Chain<TestPacket>, now: Instant| {
        while let Some(at) = up.next().filter(|at| *at <= now) {
            while up.pop(at).is_some() {
                out.push(at.as_nanos() as f64 / 1e6);
            }
        }
    };
    for at in at_ms {
        run(&mut up, Instant::from_millis(*at));
        up.push(Instant::from_millis(*at), TestPacket::new(1500));
    }
    run(&mut up, Instant::from_millis(1_000_000));
    (out, up.meter().lost().packets)
}

#[test]
fn a_trace_in_columns_has_its_own_delay_and_loss() {
    let text = "time_s,rate_mbps,rtt_ms,loss_percent\n0,12,40,0\n1,1.2,100,100\n2,12,40,0\n3,0,40,0\n";
    let read = |_: &str| Trace::parse(text).map_err(|error| error.to_string());
    let mut link = parse("trace=walk");
    link.load_traces(read).expect("it is right");
    assert_eq!(link.rtt(), Duration::from_millis(40), "the shortest");
    assert!(link.is_random());
    // At 12 Mbit/s, a packet takes 21 ms: 1 ms of transmission and 20 ms of delay. The packet sent at 1.5 s is lost.
    // The packet sent at 3.5 s waits, because the rate is 0 until the trace repeats at 4 s.
    assert_eq!(passed(&link, &[0, 1500, 2500, 3500, 4500]), (vec![21.0, 2521.0, 4021.0, 4521.0], 1));
    assert_eq!(link.to_string().split(',').next(), Some("trace=walk"));
    assert!(!link.to_string().contains("loss") && !link.to_string().contains("delay"), "{link}");

    let mut plain = parse("down-trace=walk,rtt=10ms");
    plain
        .load_traces(|_| Trace::parse("0 12000000\n1 0\n").map_err(|error| error.to_string()))
        .expect("it is right");
    assert_eq!((plain.rtt(), plain.is_random()), (Duration::from_millis(10), false));
    for (text, expected) in [
        ("trace=walk,rtt=10ms", "trace 'walk': its column rtt says what rtt would: leave out one of them"),
        (
            "trace=walk,down-delay=10ms",
            "trace 'walk': its column rtt says what down-delay would: leave out one of them",
        ),
        (
            "up-trace=walk,loss=1%",
            "trace 'walk': its column loss says what loss would: leave out one of them",
        ),
    ] {
        assert_eq!(parse(text).load_traces(read).expect_err(text).to_string(), expected);
    }
    // The direction without a trace keeps its own settings.
    let mut half = parse("up-trace=walk,down-loss=1%,down-delay=7ms");
    half.load_traces(read).expect("it is right");
    assert_eq!(half.rtt(), Duration::from_millis(27));
}

#[test]
fn the_first_packet_of_nth_follows_from_the_seed() {
    let lost = |text: &str, seed| {
        let (mut up, _) = parse(text).build::<TestPacket>(seed, &Rng::new(1)).expect("it is right");
        for number in 1..=20 {
            up.push(Instant::from_millis(number * 10), TestPacket::numbered(1500, number));
        }
        std::iter::from_fn(|| up.pop_dropped()).map(|drop| drop.packet.number).collect::<Vec<_>>()
    };
    assert_eq!(lost("loss=nth:10", 3), [4, 14]);
    assert_eq!(lost("loss=nth:10", 20), [1, 11]);
    assert_eq!(lost("loss=nth:10/first=2", 20), [2, 12]);
}
