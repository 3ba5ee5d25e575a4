//! Tests clients that move from one network to another: their packets, their results, and the settings that are
//! rejected.

use anabranch_capture::Settings;
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::run::one;
use anabranch_results::{Outcome, Race};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

const MOVES: &str = "sctp:auth=yes,asconf=yes,asconf_primary=yes";

fn draft(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let quiet = [("loss", "0"), ("rate", "10mbit"), ("rtt", "100ms"), ("runs", "1")];
    let quiet = quiet.into_iter().filter(|(key, _)| !flags.iter().any(|(own, _)| own == key));
    let all: Vec<_> = flags.iter().copied().chain(quiet).collect();
    Draft::from_flags(all)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .map_err(|error| error.to_string())
}

fn plan(flags: &[(&str, &str)]) -> Plan {
    draft(flags).expect("a plan")
}

fn race(flags: &[(&str, &str)]) -> Race {
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(&plan(flags), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns a ladder diagram of the packets at the client's interfaces.
fn ladder(transport: &str, keys: &[(&str, &str)]) -> String {
    let flags = [("bulk", "40kB"), ("handover", "320ms"), ("transport", transport)];
    // If `keys` names a workload, it replaces the default workload, which is a bulk transfer.
    let own = |key: &str| keys.iter().any(|(own, _)| *own == key || key == "bulk" && *own == "objects");
    let flags: Vec<_> = flags.iter().filter(|(key, _)| !own(key)).chain(keys).copied().collect();
    let captures = one::capture(&batch::scenario(&plan(&flags), 0, Some(0), 1)).expect("a capture").1;
    let settings = Settings { ladder_lines: 60, ..Settings::default() };
    let decoded = anabranch_capture::decode("", &captures[0].pcapng[..], &settings).expect("a capture");
    anabranch_capture::table::render(&decoded, 0)
}

#[test]
fn tcp_goes_on_when_its_address_is_served_again() {
    let keys = [("overlap", "1m"), ("speed", "20m/s"), ("detection", "50ms"), ("registration", "100ms")];
    expect_test::expect![[r#"
        : 63 packets, 1.334 s, 1 connection

        TCP  A = 10.0.1.1 port 49646   B = 10.100.1.1 port 8000
          handshake 100.0 ms (round trip 100.0 ms); still open at the end of the capture, last packet at 1.334 s
                  packets  IP bytes  segments  messages  bytes                numbers  retransmitted  spurious  RTT min/mean/max ms
          A to B       32      1868         2         -     16  1415278715-1415278731              0         0    100.1/100.1/100.1
          B to A       31     41620        28         -  40000  1614384829-1614424829     15 timeout         0    0.000/0.000/0.000
          A to B: 15 ACKs with SACK blocks
          B to A: 15 packets with retransmitted data, 1 timeout, 15 retransmitted, known by the gap it fills

            0.000000  A  ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
            0.100096  A  ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
            0.100096  A  ──► B   ACK           seq=1 ack=1 win=512
            0.100096  A  ──► B   PSH ACK       seq=1 len=16 ack=1 win=512
            0.200233  A  ◄── B   ACK           seq=1 ack=17 win=512
            0.201433  A  ◄── B   ACK           seq=1 len=1448 ack=17 win=512
            0.201433  A  ──► B   ACK           seq=17 ack=1449 win=501
            0.202633  A  ◄── B   PSH ACK       seq=1449 len=1448 ack=17 win=512
            0.202633  A  ──► B   ACK           seq=17 ack=2897 win=490
            0.203833  A  ◄── B   ACK           seq=2897 len=1448 ack=17 win=512
            0.203833  A  ──► B   ACK           seq=17 ack=4345 win=500
            0.205033  A  ◄── B   PSH ACK       seq=4345 len=1448 ack=17 win=512
            0.205033  A  ──► B   ACK           seq=17 ack=5793 win=500
            0.302675  A  ◄── B   ACK           seq=5793 len=1448 ack=17 win=512
            0.302675  A  ──► B   ACK           seq=17 ack=7241 win=500
            0.303875  A  ◄── B   PSH ACK       seq=7241 len=1448 ack=17 win=512
            0.303875  A  ──► B   ACK           seq=17 ack=8689 win=500
            0.305075  A  ◄── B   ACK           seq=8689 len=1448 ack=17 win=512
            0.305075  A  ──► B   ACK           seq=17 ack=10137 win=500
            0.306275  A  ◄── B   PSH ACK       seq=10137 len=1448 ack=17 win=512
            0.306275  A  ──► B   ACK           seq=17 ack=11585 win=500
            0.307475  A  ◄── B   ACK           seq=11585 len=1448 ack=17 win=512
            0.307475  A  ──► B   ACK           seq=17 ack=13033 win=500
            0.308675  A  ◄── B   PSH ACK       seq=13033 len=1448 ack=17 win=512
            0.308675  A  ──► B   ACK           seq=17 ack=14481 win=500
            0.309875  A  ◄── B   ACK           seq=14481 len=1448 ack=17 win=512
            0.309875  A  ──► B   ACK           seq=17 ack=15929 win=500
            0.311075  A  ◄── B   PSH ACK       seq=15929 len=1448 ack=17 win=512
            0.311075  A  ──► B   ACK           seq=17 ack=17377 win=500
            0.618199  A  ◄── B   PSH ACK       seq=39097 len=904 ack=17 win=512
            0.618199  A  ──► B   ACK           seq=17 ack=17377 win=511 sack=39097-40000
            0.921794  A  ◄── B   ACK           seq=17377 len=1448 ack=17 win=512     ↻ timeout
            0.921794  A  ──► B   ACK           seq=17 ack=18825 win=500 sack=39097-40000
            1.023045  A  ◄── B   ACK           seq=18825 len=1448 ack=17 win=512     ↻ timeout
            1.023045  A  ──► B   ACK           seq=17 ack=20273 win=500 sack=39097-40000
            1.024245  A  ◄── B   ACK           seq=20273 len=1448 ack=17 win=512     ↻ timeout
            1.024245  A  ──► B   ACK           seq=17 ack=21721 win=500 sack=39097-40000
            1.124296  A  ◄── B   ACK           seq=21721 len=1448 ack=17 win=512     ↻ timeout
            1.124296  A  ──► B   ACK           seq=17 ack=23169 win=500 sack=39097-40000
            1.125496  A  ◄── B   ACK           seq=23169 len=1448 ack=17 win=512     ↻ timeout
            1.125496  A  ──► B   ACK           seq=17 ack=24617 win=500 sack=39097-40000
            1.126696  A  ◄── B   ACK           seq=24617 len=1448 ack=17 win=512     ↻ timeout
            1.126696  A  ──► B   ACK           seq=17 ack=26065 win=500 sack=39097-40000
            1.127896  A  ◄── B   ACK           seq=26065 len=1448 ack=17 win=512     ↻ timeout
            1.127896  A  ──► B   ACK           seq=17 ack=27513 win=500 sack=39097-40000
            1.225547  A  ◄── B   ACK           seq=27513 len=1448 ack=17 win=512     ↻ timeout
            1.225547  A  ──► B   ACK           seq=17 ack=28961 win=500 sack=39097-40000
            1.226747  A  ◄── B   ACK           seq=28961 len=1448 ack=17 win=512     ↻ timeout
            1.226747  A  ──► B   ACK           seq=17 ack=30409 win=500 sack=39097-40000
            1.227947  A  ◄── B   ACK           seq=30409 len=1448 ack=17 win=512     ↻ timeout
            1.227947  A  ──► B   ACK           seq=17 ack=31857 win=500 sack=39097-40000
            1.229147  A  ◄── B   ACK           seq=31857 len=1448 ack=17 win=512     ↻ timeout
            1.229147  A  ──► B   ACK           seq=17 ack=33305 win=500 sack=39097-40000
            1.230347  A  ◄── B   ACK           seq=33305 len=1448 ack=17 win=512     ↻ timeout
            1.230347  A  ──► B   ACK           seq=17 ack=34753 win=500 sack=39097-40000
            1.231547  A  ◄── B   ACK           seq=34753 len=1448 ack=17 win=512     ↻ timeout
            1.231547  A  ──► B   ACK           seq=17 ack=36201 win=500 sack=39097-40000
            1.232747  A  ◄── B   ACK           seq=36201 len=1448 ack=17 win=512     ↻ timeout
            1.232747  A  ──► B   ACK           seq=17 ack=37649 win=500 sack=39097-40000
            1.233947  A  ◄── B   ACK           seq=37649 len=1448 ack=17 win=512     ↻ timeout
                    … 3 packets more
    "#]].assert_eq(&ladder("tcp:iw=4", &keys));
}

#[test]
fn sctp_reports_its_new_address_and_continues() {
    let keys = [("overlap", "2m"), ("speed", "20m/s"), ("detection", "50ms")];
    expect_test::expect![[r#"
        : 57 packets, 0.832 s, 1 association

        SCTP  A = 10.0.1.1, 10.0.2.1 port 53687 tag 7c3f3536   B = 10.100.1.1 port 8000 tag 86619a1d
          handshake 200.4 ms (round trip 100.2 ms); shut down by A at 0.832 s
                                   packets  IP bytes  chunks  messages  bytes                numbers  retransmitted  spurious  RTT min/mean/max ms
          A to B                        23      1496       1         1     16    899403849-899403849              0         0    100.1/100.1/100.1
          B to A                        34     41984      28         1  40000  1169779354-1169779381              0         0     0.000/2.666/40.0
          10.0.1.1 to 10.100.1.1         9       704       1                                                      0         0    100.1/100.1/100.1
          10.100.1.1 to 10.0.1.1        12     15272      10                                                      0         0     0.000/6.666/40.0
          10.0.2.1 to 10.100.1.1        14       792       0                                                      0         0                    -
          10.100.1.1 to 10.0.2.1        22     26712      18                                                      0         0     0.000/5.001/50.0
          A to B (1 streams more)
          B to A (1 streams more)
          A to B: 3 ASCONF, 3 AUTH, 1 COOKIE ECHO, 1 HEARTBEAT ACK, 1 INIT, 1 SHUTDOWN, 1 SHUTDOWN COMPLETE
          B to A: 2 ASCONF ACK, 2 AUTH, 1 COOKIE ACK, 1 HEARTBEAT, 1 INIT ACK, 1 SHUTDOWN ACK

            0.000000  A  ──► B   INIT          tag=A1 rwnd=4096k os=100 is=100 tsn=1 ecn forward-tsn extensions=15,193,128,130,192,64,194 random chunks=128,193 hmac=sha256,sha1 families=v4
            0.100281  A  ◄── B   INIT ACK      tag=B1 rwnd=4096k os=100 is=100 tsn=1 …cookie ecn forward-tsn extensions=15,193,128,130,192,64,194 random chunks=128,193 hmac=sha256,sha1
            0.100281  A  ──► B   COOKIE ECHO; I-DATA tsn=1 sid=0 mid=0 len=16 BE
            0.200454  A  ◄── B   COOKIE ACK; SACK cum=1 rwnd=4194288
            0.201654  A  ◄── B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
            0.201654  A  ──► B   SACK          cum=1 rwnd=4192856
            0.202854  A  ◄── B   I-DATA        tsn=2 sid=0 mid=0 fsn=1 len=1448
            0.204054  A  ◄── B   I-DATA        tsn=3 sid=0 mid=0 fsn=2 len=1448
            0.204054  A  ──► B   SACK          cum=3 rwnd=4189960
            0.205254  A  ◄── B   I-DATA        tsn=4 sid=0 mid=0 fsn=3 len=1448
            0.245254  A  ──► B   SACK          cum=4 rwnd=4188512
            0.270000  A  ──► B   AUTH key=0 hmac=sha256; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1 primary=10.0.2.1
            0.302892  A  ◄── B   I-DATA        tsn=5 sid=0 mid=0 fsn=4 len=1448
            0.304092  A  ◄── B   I-DATA        tsn=6 sid=0 mid=0 fsn=5 len=1448
            0.304092  A  ──► B   SACK          cum=6 rwnd=4185616
            0.305292  A  ◄── B   I-DATA        tsn=7 sid=0 mid=0 fsn=6 len=1448
            0.306492  A  ◄── B   I-DATA        tsn=8 sid=0 mid=0 fsn=7 len=1448
            0.306492  A  ──► B   SACK          cum=8 rwnd=4182720
            0.307692  A  ◄── B   I-DATA        tsn=9 sid=0 mid=0 fsn=8 len=1448
            0.308892  A  ◄── B   I-DATA        tsn=10 sid=0 mid=0 fsn=9 len=1448
            0.308892  A  ──► B   SACK          cum=10 rwnd=4179824
            0.320000  A2 ──► B   AUTH key=0 hmac=sha256; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1 primary=10.0.2.1
            0.370144  A2 ◄── B   HEARTBEAT
            0.420160  A2 ◄── B   AUTH key=0 hmac=sha256; ASCONF ACK serial=1
            0.420160  A2 ──► B   AUTH key=0 hmac=sha256; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
            0.420160  A2 ──► B   HEARTBEAT ACK
            0.520307  A2 ◄── B   AUTH key=0 hmac=sha256; ASCONF ACK serial=2
            0.521507  A2 ◄── B   I-DATA        tsn=11 sid=0 mid=0 fsn=10 len=1448
            0.522707  A2 ◄── B   I-DATA        tsn=12 sid=0 mid=0 fsn=11 len=1448
            0.522707  A2 ──► B   SACK          cum=12 rwnd=4176928
            0.523907  A2 ◄── B   I-DATA        tsn=13 sid=0 mid=0 fsn=12 len=1448
            0.525107  A2 ◄── B   I-DATA        tsn=14 sid=0 mid=0 fsn=13 len=1448
            0.525107  A2 ──► B   SACK          cum=14 rwnd=4174032
            0.623945  A2 ◄── B   I-DATA        tsn=15 sid=0 mid=0 fsn=14 len=1448
            0.625145  A2 ◄── B   I-DATA        tsn=16 sid=0 mid=0 fsn=15 len=1448
            0.625145  A2 ──► B   SACK          cum=16 rwnd=4171136
            0.626345  A2 ◄── B   I-DATA        tsn=17 sid=0 mid=0 fsn=16 len=1448
            0.627545  A2 ◄── B   I-DATA        tsn=18 sid=0 mid=0 fsn=17 len=1448
            0.627545  A2 ──► B   SACK          cum=18 rwnd=4168240
            0.628745  A2 ◄── B   I-DATA        tsn=19 sid=0 mid=0 fsn=18 len=1448
            0.629945  A2 ◄── B   I-DATA        tsn=20 sid=0 mid=0 fsn=19 len=1448
            0.629945  A2 ──► B   SACK          cum=20 rwnd=4165344
            0.631145  A2 ◄── B   I-DATA        tsn=21 sid=0 mid=0 fsn=20 len=1448
            0.632345  A2 ◄── B   I-DATA        tsn=22 sid=0 mid=0 fsn=21 len=1448
            0.632345  A2 ──► B   SACK          cum=22 rwnd=4162448
            0.726384  A2 ◄── B   I-DATA        tsn=23 sid=0 mid=0 fsn=22 len=1448
            0.727584  A2 ◄── B   I-DATA        tsn=24 sid=0 mid=0 fsn=23 len=1448
            0.727584  A2 ──► B   SACK          cum=24 rwnd=4159552
            0.728784  A2 ◄── B   I-DATA        tsn=25 sid=0 mid=0 fsn=24 len=1448
            0.729984  A2 ◄── B   I-DATA        tsn=26 sid=0 mid=0 fsn=25 len=1448
            0.729984  A2 ──► B   SACK          cum=26 rwnd=4156656
            0.731184  A2 ◄── B   I-DATA        tsn=27 sid=0 mid=0 fsn=26 len=1448
            0.731948  A2 ◄── B   I-DATA        tsn=28 sid=0 mid=0 fsn=27 len=904 E
            0.731948  A2 ──► B   SACK          cum=28 rwnd=4154304
            0.731948  A2 ──► B   SHUTDOWN      cum=28
            0.832048  A2 ◄── B   SHUTDOWN ACK
            0.832048  A2 ──► B   SHUTDOWN COMPLETE
    "#]].assert_eq(&ladder(&format!("{MOVES},iw=4"), &keys));
}

/// The client detected the new network before the run, and leaves the old network during the run. The association must
/// begin on a path in the new network, with the client's addresses in both networks.
#[test]
fn sctp_begins_in_the_network_that_it_knows() {
    let keys = [("overlap", "20m"), ("speed", "20m/s"), ("detection", "50ms"), ("bulk", "20kB")];
    expect_test::expect![[r#"
        : 33 packets, 0.506 s, 1 association

        SCTP  A = 10.0.2.1, 10.0.1.1 port 53687 tag 7c3f3536   B = 10.100.1.1 port 8000 tag 86619a1d
          handshake 200.4 ms (round trip 100.3 ms); shut down by A at 0.506 s
                                   packets  IP bytes  chunks  messages  bytes                numbers  retransmitted  spurious  RTT min/mean/max ms
          A to B                        14       948       1         1     16    899403849-899403849              0         0    100.1/100.1/100.1
          B to A                        19     21188      14         1  20000  1169779354-1169779367              0         0     0.000/5.000/40.0
          10.0.2.1 to 10.100.1.1        14       948       1                                                      0         0    100.1/100.1/100.1
          10.100.1.1 to 10.0.2.1        18     21128      14                                                      0         0     0.000/5.000/40.0
          10.100.1.1 to 10.0.1.1         1        60       0                                                      0         0    0.000/0.000/0.000
          A to B (1 streams more)
          B to A (1 streams more)
          A to B: 1 ASCONF, 1 AUTH, 1 COOKIE ECHO, 1 HEARTBEAT ACK, 1 INIT, 1 SHUTDOWN, 1 SHUTDOWN COMPLETE
          B to A: 1 ASCONF ACK, 1 AUTH, 1 COOKIE ACK, 1 HEARTBEAT, 1 INIT ACK, 1 SHUTDOWN ACK

            0.000000  A  ──► B   INIT          tag=A1 rwnd=4096k os=100 is=100 tsn=1 ip=10.0.2.1 ip=10.0.1.1 ecn forward-tsn extensions=15,193,128,130,192,64,194 random chunks=128,193 hmac=sha256,sha1 families=v4
            0.100304  A  ◄── B   INIT ACK      tag=B1 rwnd=4096k os=100 is=100 tsn=1 …cookie ecn forward-tsn extensions=15,193,128,130,192,64,194 random chunks=128,193 hmac=sha256,sha1
            0.100304  A  ──► B   COOKIE ECHO; I-DATA tsn=1 sid=0 mid=0 len=16 BE
            0.200486  A  ◄── B   COOKIE ACK; SACK cum=1 rwnd=4194288
            0.200492  A2 ◄── B   HEARTBEAT
            0.200492  A  ──► B   HEARTBEAT ACK
            0.201686  A  ◄── B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
            0.201686  A  ──► B   SACK          cum=1 rwnd=4192856
            0.202886  A  ◄── B   I-DATA        tsn=2 sid=0 mid=0 fsn=1 len=1448
            0.204086  A  ◄── B   I-DATA        tsn=3 sid=0 mid=0 fsn=2 len=1448
            0.204086  A  ──► B   SACK          cum=3 rwnd=4189960
            0.205286  A  ◄── B   I-DATA        tsn=4 sid=0 mid=0 fsn=3 len=1448
            0.245286  A  ──► B   SACK          cum=4 rwnd=4188512
            0.302924  A  ◄── B   I-DATA        tsn=5 sid=0 mid=0 fsn=4 len=1448
            0.304124  A  ◄── B   I-DATA        tsn=6 sid=0 mid=0 fsn=5 len=1448
            0.304124  A  ──► B   SACK          cum=6 rwnd=4185616
            0.305324  A  ◄── B   I-DATA        tsn=7 sid=0 mid=0 fsn=6 len=1448
            0.306524  A  ◄── B   I-DATA        tsn=8 sid=0 mid=0 fsn=7 len=1448
            0.306524  A  ──► B   SACK          cum=8 rwnd=4182720
            0.307724  A  ◄── B   I-DATA        tsn=9 sid=0 mid=0 fsn=8 len=1448
            0.308924  A  ◄── B   I-DATA        tsn=10 sid=0 mid=0 fsn=9 len=1448
            0.308924  A  ──► B   SACK          cum=10 rwnd=4179824
            0.320000  A  ──► B   AUTH key=0 hmac=sha256; ASCONF serial=1 from=10.0.2.1 delete=10.0.1.1
            0.346524  A  ◄── B   I-DATA        tsn=11 sid=0 mid=0 fsn=10 len=1448
            0.347724  A  ◄── B   I-DATA        tsn=12 sid=0 mid=0 fsn=11 len=1448
            0.347724  A  ──► B   SACK          cum=12 rwnd=4176928
            0.405363  A  ◄── B   I-DATA        tsn=13 sid=0 mid=0 fsn=12 len=1448
            0.406345  A  ◄── B   I-DATA        tsn=14 sid=0 mid=0 fsn=13 len=1176 E
            0.406345  A  ──► B   SACK          cum=14 rwnd=4174304
            0.406345  A  ──► B   SHUTDOWN      cum=14
            0.420147  A  ◄── B   AUTH key=0 hmac=sha256; ASCONF ACK serial=1
            0.506444  A  ◄── B   SHUTDOWN ACK
            0.506444  A  ──► B   SHUTDOWN COMPLETE
    "#]].assert_eq(&ladder(&format!("{MOVES},iw=4"), &keys));
}

/// The client loses its old address at 320 ms, and gets a new address at 350 ms. It must open a new connection and
/// request incomplete objects again.
#[test]
fn tcp_without_mobile_ip_opens_anew() {
    let keys = [("speed", "20m/s"), ("overlap", "1m"), ("detection", "80ms"), ("objects", "3x6kB")];
    expect_test::expect![[r#"
        : 48 packets, 0.752 s, 2 connections

        TCP  A = 10.0.1.1 port 49646   B = 10.100.1.1 port 8000
          handshake 100.0 ms (round trip 100.0 ms); still open at the end of the capture, last packet at 0.312 s
                  packets  IP bytes  segments  messages  bytes                numbers  retransmitted  spurious  RTT min/mean/max ms
          A to B       15      1988         1         -   1200  1415278715-1415279915              0         0    101.0/101.0/101.0
          B to A       14     18112        12         -  17376  1614384829-1614402205              0         0    0.000/0.000/0.000
          3 HTTP requests, 2 complete, 16476 bytes of responses

            0.000000  A  ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
            0.100096  A  ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
            0.100096  A  ──► B   ACK           seq=1 ack=1 win=512
            0.100096  A  ──► B   PSH ACK       seq=1 len=1200 ack=1 win=512
            0.201180  A  ◄── B   ACK           seq=1 ack=1201 win=503
            0.202380  A  ◄── B   ACK           seq=1 len=1448 ack=1201 win=503
            0.202380  A  ──► B   ACK           seq=1201 ack=1449 win=501
            0.203580  A  ◄── B   PSH ACK       seq=1449 len=1448 ack=1201 win=503
            0.203580  A  ──► B   ACK           seq=1201 ack=2897 win=490
            0.204780  A  ◄── B   ACK           seq=2897 len=1448 ack=1201 win=503
            0.204780  A  ──► B   ACK           seq=1201 ack=4345 win=500
            0.205980  A  ◄── B   PSH ACK       seq=4345 len=1448 ack=1201 win=503
            0.205980  A  ──► B   ACK           seq=1201 ack=5793 win=500
            0.303622  A  ◄── B   ACK           seq=5793 len=1448 ack=1201 win=503
            0.303622  A  ──► B   ACK           seq=1201 ack=7241 win=500
            0.304822  A  ◄── B   PSH ACK       seq=7241 len=1448 ack=1201 win=503
            0.304822  A  ──► B   ACK           seq=1201 ack=8689 win=500
            0.306022  A  ◄── B   ACK           seq=8689 len=1448 ack=1201 win=503
            0.306022  A  ──► B   ACK           seq=1201 ack=10137 win=500
            0.307222  A  ◄── B   PSH ACK       seq=10137 len=1448 ack=1201 win=503
            0.307222  A  ──► B   ACK           seq=1201 ack=11585 win=500
            0.308422  A  ◄── B   ACK           seq=11585 len=1448 ack=1201 win=503
            0.308422  A  ──► B   ACK           seq=1201 ack=13033 win=500
            0.309622  A  ◄── B   PSH ACK       seq=13033 len=1448 ack=1201 win=503
            0.309622  A  ──► B   ACK           seq=1201 ack=14481 win=500
            0.310822  A  ◄── B   ACK           seq=14481 len=1448 ack=1201 win=503
            0.310822  A  ──► B   ACK           seq=1201 ack=15929 win=500
            0.312022  A  ◄── B   PSH ACK       seq=15929 len=1448 ack=1201 win=503
            0.312022  A  ──► B   ACK           seq=1201 ack=17377 win=500

        TCP  A = 10.0.2.1 port 49647   B = 10.100.1.1 port 8000
          handshake 100.0 ms (round trip 100.0 ms); closed by A at 0.752 s
                  packets  IP bytes  segments  messages  bytes                numbers  retransmitted  spurious  RTT min/mean/max ms
          A to B       10       928         2         -    400  3505908341-3505908741              0         0    100.1/100.2/100.4
          B to A        9      6776         6         -   6300  2901677728-2901684028              0         0    0.000/0.000/0.000
          1 HTTP request, 1 complete, 6000 bytes of responses

            0.350000  A  ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
            0.450096  A  ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
            0.450096  A  ──► B   ACK           seq=1 ack=1 win=512
            0.450096  A  ──► B   PSH ACK       seq=1 len=400 ack=1 win=512
            0.550540  A  ◄── B   ACK           seq=1 ack=401 win=509
            0.551740  A  ◄── B   ACK           seq=1 len=1448 ack=401 win=509
            0.551740  A  ──► B   ACK           seq=401 ack=1449 win=501
            0.552940  A  ◄── B   PSH ACK       seq=1449 len=1448 ack=401 win=509
            0.552940  A  ──► B   ACK           seq=401 ack=2897 win=490
            0.554140  A  ◄── B   ACK           seq=2897 len=1448 ack=401 win=509
            0.554140  A  ──► B   ACK           seq=401 ack=4345 win=500
            0.555340  A  ◄── B   PSH ACK       seq=4345 len=1448 ack=401 win=509
            0.555340  A  ──► B   ACK           seq=401 ack=5793 win=500
            0.652230  A  ◄── B   PSH ACK       seq=5793 len=508 ack=401 win=509
            0.652230  A  ──► B   ACK           seq=401 ack=6301 win=508
            0.652230  A  ──► B   FIN ACK       seq=401 ack=6301 win=508
            0.752355  A  ◄── B   ACK           seq=6301 ack=402 win=509
            0.752396  A  ◄── B   FIN ACK       seq=6301 ack=402 win=509
            0.752396  A  ──► B   ACK           seq=402 ack=6302 win=508
    "#]].assert_eq(&ladder("tcp:iw=4,reconnect=yes", &keys));
}

/// The bytes of the Mobile IP tunnel must lengthen the transmission of packets to the client. They must do so only for
/// clients that keep their address.
#[test]
fn a_tunnel_adds_to_each_packet_for_who_keeps_its_address() {
    let with = |keys: &[(&str, &str)]| {
        let slow = [("objects", "1x30kB"), ("rate", "100kbit"), ("mtu", "576"), ("queue", "unlimited")];
        let contestants = [
            ("transport", "tcp"),
            ("transport", "tcp:reconnect=yes"),
            ("transport", MOVES),
            ("handover", "0s"),
        ];
        page_times(&race(&slow.iter().chain(keys).chain(&contestants).copied().collect::<Vec<_>>()))
    };
    let (bare, tunnel) = (with(&[]), with(&[("tunnel", "100B")]));
    let more = tunnel[0][0].expect("a time") as f64 / bare[0][0].expect("a time") as f64;
    assert!((1.05..1.2).contains(&more), "{more}");
    assert_eq!(bare[1..], tunnel[1..]);
}

/// Loss must grow on the whole edge of a network, before the client reaches the other network. Without a length in the
/// plan, the edge must be as long as the overlap.
#[test]
fn loss_grows_on_the_edge_before_the_overlap() {
    let lost = |keys: &[(&str, &str)]| {
        let timed = [("bulk", "2MB"), ("handover", "1900ms"), ("deadline", "1800ms"), ("speed", "10m/s")];
        let all = [("transport", "tcp"), ("queue", "unlimited")];
        let all: Vec<_> = all.iter().chain(&timed).chain(keys).copied().collect();
        let race = race(&all);
        race.points[0].contestants[0].runs[0].packets.down.lost
    };
    let near = [("overlap", "1m"), ("edge-loss", "50%")];
    let far = [("overlap", "1m"), ("edge-loss", "50%"), ("edge-length", "15m")];
    // The run ends before the client reaches the overlap of the networks, at 1.8 s.
    assert_eq!(lost(&near), 0);
    assert!(lost(&far) > 0);
}

/// Each wrong combination of handover settings must give an error of one line. The error must be the same for flags and
/// for a plan file.
#[test]
fn wrong_moves_are_answered_in_one_line() {
    let refused = |flags: &[(&str, &str)]| draft(flags).map(|_| ()).expect_err("refused");
    let lines = [
        refused(&[("overlap", "10m")]),
        refused(&[("handover", "soon")]),
        refused(&[("handover", "2")]),
        refused(&[("handover", "2s"), ("overlap", "10")]),
        refused(&[("handover", "2s"), ("overlap", "10m")]),
        refused(&[("handover", "2s"), ("overlap", "10m"), ("speed", "10m")]),
        refused(&[("handover", "2s"), ("overlap", "10m"), ("speed", "0m/s")]),
        refused(&[("handover", "2s"), ("overlap", "1000km"), ("speed", "1m/s")]),
        refused(&[("handover", "2s"), ("speed", "1m/s")]),
        refused(&[("handover", "2s"), ("detection", "2000min")]),
        refused(&[("handover", "2s"), ("cell", "0m"), ("speed", "1m/s")]),
        refused(&[("handover", "2s"), ("cell", "1m"), ("overlap", "2m"), ("speed", "1m/s")]),
        refused(&[("handover", "2s"), ("cell", "1mm"), ("speed", "100m/s")]),
        refused(&[("handover", "2s"), ("path", "rtt=1ms"), ("path", "rtt=1ms"), ("path", "rtt=1ms")]),
        refused(&[("handover", "2s"), ("world", "emulated")]),
        refused(&[("handover", "2s"), ("path", "overlap=1m")]),
        refused(&[("handover", "2s"), ("transport", "sctp:asconf_primary=yes")]),
        refused(&[("advertisement", "1s")]),
        refused(&[("handover", "2s"), ("edge-loss", "20%")]),
        refused(&[("handover", "2s"), ("edge-loss", "2")]),
        refused(&[("handover", "2s"), ("edge-length", "20m"), ("speed", "1m/s")]),
        refused(&[("handover", "2s"), ("edge-loss", "2%"), ("edge-length", "20m")]),
        refused(&[("handover", "2s"), ("edge-loss", "2%"), ("edge-length", "0m")]),
        refused(&[
            ("handover", "2s"),
            ("edge-loss", "2%"),
            ("edge-length", "20m"),
            ("cell", "30m"),
            ("speed", "1m/s"),
        ]),
        refused(&[("handover", "2s"), ("tunnel", "20")]),
        refused(&[("handover", "2s"), ("tunnel", "20B"), ("rate", "unlimited")]),
        refused(&[("handover", "2s"), ("tunnel", "20B"), ("shared-link", "yes")]),
        refused(&[("transport", "tcp:reconnect=yes")]),
        refused(&[("handover", "2s"), ("bulk", "1MB"), ("transport", "tcp:reconnect=yes")]),
        refused(&[("handover", "2s"), ("transport", "sctp:reconnect=yes")]),
    ];
    expect_test::expect![[r#"
        --overlap: goes with handover
        --handover: 'soon': write a time such as 2s, or random
        --handover: '2': the unit is missing; write a time such as 40ms, 1.08s, 250us, 10ns or 2min
        --overlap: '10': the unit is missing; write a length such as 10m, 12.5m or 1km
        --overlap: needs a speed; write speed 5m/s
        --speed: '10m': unknown unit 'm'; write a speed such as 5m/s or 12.5m/s
        --speed: '0m/s': nobody moves at speed 0; write a speed such as 5m/s or 12.5m/s
        --overlap: takes more than a day at this speed
        --speed: goes with overlap or cell
        --detection: '2000min': more than a day
        --cell: '0m': no length; write one such as 15m
        --overlap: '2m': longer than the cell
        --cell: '1mm': 60000000 moves until the deadline, more than 20000; write a larger cell, a lower speed or an earlier deadline
        --handover: between two networks, and there are 3 paths; write one or two
        --handover: moves clients of the virtual world only
        --path 1: unknown key 'overlap'; accepted: rate, delay, rtt, jitter, loss, overhead, packet-time, queue, aqm, ecn, reorder, duplicate, corrupt, mtu, trace, half-duplex, preset, up-.. and down-.. of the network's
        --transport sctp:asconf_primary=yes: sctp:asconf_primary=yes needs asconf=yes
        --advertisement: goes with handover
        --edge-loss: grows along the overlap, and there is none; write edge-length 20m
        --edge-loss: '2': the unit is missing (did you mean 2%?); write a share such as 1%, 0.05% or 0 (from 0% to 100%)
        --edge-length: goes with edge-loss
        --edge-length: needs a speed; write speed 5m/s
        --edge-length: '0m': no length; write one such as 20m
        --edge-length: '20m': longer than half the cell
        --tunnel: '20': the unit is missing; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB
        --tunnel: down: overhead needs a rate: it is the time that a packet takes on the medium
        --tunnel: adds to the packets of one client, and others share its network; leave shared-link and background out
        --transport tcp:reconnect=yes: reconnect=yes needs handover: nobody moves; leave it out
        --transport tcp:reconnect=yes: reconnect=yes needs a page: nothing else is asked for again; leave it out
        --transport sctp:reconnect=yes: 'reconnect' is a key of tcp, quic, mptcp, sctp-kernel
    "#]].assert_eq(&(lines.join("\n") + "\n"));
}

fn page_times(race: &Race) -> Vec<Vec<Option<u64>>> {
    let point = race.points.iter().flat_map(|point| &point.contestants);
    point.map(|contestant| contestant.runs.iter().map(|run| run.page_ns).collect()).collect()
}

/// The same seed must always give the same random time of the move. The results must depend only on the time that the
/// client spends in the overlap (the overlap's length divided by the client's speed), and not on length or speed alone.
#[test]
fn a_random_moment_repeats_and_only_the_time_of_overlap_counts() {
    let with = |overlap, speed| {
        let page = [("objects", "5x13500B"), ("rate", "2mbit"), ("runs", "6"), ("handover", "random")];
        let how = [("overlap", overlap), ("speed", speed), ("detection", "300ms")];
        let contestants = [("transport", "tcp"), ("transport", MOVES)];
        race(&page.into_iter().chain(how).chain(contestants).collect::<Vec<_>>())
    };
    let (one, again, alike, faster) =
        (with("2m", "10m/s"), with("2m", "10m/s"), with("1m", "5m/s"), with("2m", "20m/s"));
    assert_eq!(page_times(&one), page_times(&again));
    assert_eq!(page_times(&one), page_times(&alike));
    assert_ne!(page_times(&one), page_times(&faster));
    let all = one.points.iter().flat_map(|point| &point.contestants).flat_map(|one| &one.runs);
    assert!(all.clone().all(|run| run.outcome == Outcome::Done));
    assert!(all.clone().any(|run| run.packets.down.lost > 0), "somebody met it");
}

/// With an overlap and without detection time, no packet may be lost.
#[test]
fn an_overlap_without_detection_time_loses_no_packet() {
    let keys = [
        ("bulk", "2MB"),
        ("queue", "unlimited"),
        ("handover", "1200ms"),
        ("overlap", "20m"),
        ("speed", "20m/s"),
    ];
    let found =
        race(&keys.into_iter().chain([("transport", "tcp"), ("transport", MOVES)]).collect::<Vec<_>>());
    for run in found.points.iter().flat_map(|point| &point.contestants).flat_map(|one| &one.runs) {
        assert_eq!((run.outcome, run.packets.up.lost + run.packets.down.lost), (Outcome::Done, 0));
        assert!(run.series.paths.iter().all(|path| !path.up.wire.is_empty()), "both networks carry packets");
    }
}
