//! Tests features of the script language that the suites do not use, and malformed scripts.

use crate::mutate::mutate;
use anabranch_conformance::{Outcome, check};

const CLIENT: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=9000, os=5, is=5, tsn=1, STATE_COOKIE[len=4, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...]
+0 < sctp: COOKIE_ACK[flgs=0]
";

#[track_caller]
fn passes(text: &str) {
    let outcome = check("script", text);
    assert!(outcome.is_pass(), "{outcome}\n{}", outcome.log().join("\n"));
}

#[track_caller]
fn fails(text: &str, line: usize, words: &str) {
    let outcome = check("script", text);
    let text = outcome.to_string();
    assert!(text.starts_with(&format!("script:{line}:")) && text.contains(words), "{text}");
}

#[test]
fn calls_that_block_return_when_they_can() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0...0.3 accept(3, ..., ...) = 4
+0.1 < sctp: INIT[flgs=0, tag=1, a_rwnd=9000, os=5, is=5, tsn=1]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=5, is=..., tsn=1, ...]
+0.2 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0.1...0.3 read(4, ..., 100) = 20
+0.2 < sctp: DATA[flgs=BE, len=36, tsn=1, sid=0, ssn=0, ppid=0]
+0 > sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[], dups=[]]
";
    passes(text);
    fails(&text.replace("...0.3 accept", "...0.2 accept"), 4, "another time");
    fails(&text.replace("+0.2 < sctp: COOKIE_ECHO", "+0.5 < sctp: COOKIE_ECHO"), 4, "another time");
    fails(&text[..text.find("+0.2 < sctp: COOKIE_ECHO").expect("a line")], 4, "did not return");
    fails(&text.replace("...0.3 read(4", " read(4"), 9, "would block");
}

#[test]
fn times_may_be_absolute_relative_ranges_or_open() {
    let text = "--tolerance_usecs=1000
0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
0 connect(3, ..., ...) = -1 EINPROGRESS
0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
1.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+1.5~+2.5 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
* > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
14.0~16.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
";
    // Without O_NONBLOCK, `connect` would block.
    let text = text.replace("= 3\n", "= 3\n0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n");
    passes(&text);
    fails(&text.replace("1.0 > sctp", "0.9 > sctp"), 6, "no packet was sent");
    fails(&text.replace("14.0~16.0", "15.5~16.0"), 9, "is expected at");
}

#[test]
fn one_branch_of_ifdef_counts() {
    passes(&format!("#ifdef FreeBSD\n{CLIENT}#endif\n#ifdef Linux\n+0 nonsense(\n#endif\n+0 close(3) = 0"));
}

#[test]
fn information_and_options_are_compared_member_by_member() {
    let text = format!(
        "{CLIENT}+0 setsockopt(3, IPPROTO_SCTP, SCTP_NODELAY, [1], 4) = 0 +0 setsockopt(3, IPPROTO_SCTP, SCTP_RECVRCVINFO, [1], 4) = 0
+0 getsockopt(3, IPPROTO_SCTP, SCTP_NODELAY, [1], [4]) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_DELAYED_SACK, {{sack_delay=300, sack_freq=3}}, 12) = 0
+0 getsockopt(3, IPPROTO_SCTP, SCTP_DELAYED_SACK, {{sack_assoc_id=..., sack_delay=300, sack_freq=3}}, [12]) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_DELAYED_SACK, {{sack_delay=501, sack_freq=3}}, 12) = -1 EINVAL
+0 sctp_sendv(3, [{{..., 30}}], 1, ..., 0, {{snd_sid=2, snd_flags=SCTP_UNORDERED, snd_ppid=htonl(99)}}, 16, SCTP_SENDV_SNDINFO, 0) = 30
+0 > sctp: DATA[flgs=BEU, len=46, tsn=1, sid=2, ssn=..., ppid=99]
+0 < sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=9000, gaps=[], dups=[]];
           DATA[flgs=BEU, len=20, tsn=1, sid=4, ssn=3, ppid=17]
+0 > sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[], dups=[]]
+0 sctp_recvv(3, [{{..., 100}}], 1, ..., ..., {{rcv_sid=4, rcv_ssn=3, rcv_flags=SCTP_UNORDERED, rcv_ppid=htonl(17), rcv_tsn=1, rcv_cumtsn=1}}, ..., [SCTP_RECVV_RCVINFO], [MSG_EOR]) = 4
+0 poll([{{fd=3, events=POLLIN|POLLOUT, revents=POLLOUT}}], 1, 0) = 1
"
    );
    passes(&text);
    fails(&text.replace("rcv_ppid=htonl(17)", "rcv_ppid=18"), 19, "rcv_ppid=18 is expected, 17 seen");
    fails(&text.replace("rcv_ssn=3", "rcv_ssn=0"), 19, "rcv_ssn=0 is expected, 3 seen");
    fails(&text.replace("rcv_tsn=1", "rcv_tsn=2"), 19, "rcv_tsn=2 is expected, 1 seen");
    fails(&text.replace("rcv_cumtsn=1", "rcv_cumtsn=0"), 19, "rcv_cumtsn=0 is expected, 1 seen");
    fails(&text.replace("[SCTP_RECVV_RCVINFO], [MSG_EOR]", "..., [0]"), 19, "flags=0 is expected");
    fails(&text.replace("revents=POLLOUT", "revents=POLLIN"), 20, "revents");
    fails(&text.replace("= -1 EINVAL", "= 0"), 13, "-1 EINVAL");
}

#[test]
fn one_to_many_sockets_tell_of_their_associations() {
    let text = "0 socket(..., SOCK_SEQPACKET, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {se_assoc_id=SCTP_FUTURE_ASSOC, se_type=SCTP_ASSOC_CHANGE, se_on=1}, 8) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {se_assoc_id=SCTP_FUTURE_ASSOC, se_type=SCTP_SHUTDOWN_EVENT, se_on=1}, 8) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=9000, os=5, is=5, tsn=1]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=5, is=..., tsn=1, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0 recvmsg(3, {msg_name(...)=..., msg_iov(1)=[{{sac_type=SCTP_ASSOC_CHANGE, sac_flags=0, sac_length=20, sac_state=SCTP_COMM_UP, sac_error=0, sac_outbound_streams=5, sac_inbound_streams=5, sac_assoc_id=3}, 1000}], msg_flags=MSG_NOTIFICATION|MSG_EOR}, 0) = 20
+0 sctp_send(3, ..., 10, {sinfo_stream=1, sinfo_flags=0, sinfo_ppid=0, sinfo_context=0, sinfo_assoc_id=3}, 0) = 10
+0 > sctp: DATA[flgs=BE, len=26, tsn=1, sid=1, ssn=0, ppid=0]
+0 sctp_peeloff(3, 3) = 4
+0 < sctp: SHUTDOWN[flgs=0, cum_tsn=1]
+0 > sctp: SHUTDOWN_ACK[flgs=0]
+0 recvmsg(4, {msg_iov(1)=[{{sse_type=SCTP_SHUTDOWN_EVENT, sse_flags=0, sse_length=12}, 1000}], msg_flags=MSG_NOTIFICATION|MSG_EOR}, 0) = 12
+0 recvmsg(3, {msg_iov(1)=[{..., 1000}]}, 0) = -1 EAGAIN
";
    passes(text);
    fails(&text.replace("SCTP_COMM_UP", "SCTP_COMM_LOST"), 11, "sac_state");
}

#[test]
fn parameters_are_sets_where_their_order_is_free() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=9000, os=5, is=5, tsn=1, PARAMETER[type=0xd001, len=4, val=[]]]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=5, is=..., tsn=1, FIRST, SECOND]";
    let cookie = "STATE_COOKIE[len=..., val=...]";
    let unknown = "UNRECOGNIZED_PARAMETER[params=[PARAMETER[type=0xd001, len=4, val=[]]]]";
    passes(&text.replace("FIRST", cookie).replace("SECOND", unknown));
    passes(&text.replace("FIRST", unknown).replace("SECOND", cookie));
    passes(&text.replace("FIRST", unknown).replace("SECOND", "..."));
    fails(&text.replace("FIRST, SECOND", unknown), 5, "is not expected");
    fails(&text.replace("FIRST", "ECN_CAPABLE[]").replace("SECOND", "..."), 5, "ECN_CAPABLE[] is missing");
}

/// Every malformed script must get a result that names a line. No malformed script may make the interpreter hang.
#[test]
fn malformed_scripts_never_panic() {
    let mut rng = anabranch_base::Rng::new(7);
    let text = format!(
        "{CLIENT}+0 write(3, ..., 40) = 40\n+0 > sctp: DATA[flgs=BE, len=56, tsn=1, sid=0, ssn=0, ppid=0]\n"
    );
    let pool = "0123456789abcx.+-*~[]{}()<>=,;:|\"`#%/ \n\u{e9}sctpSACKtagval";
    for _ in 0..3_000 {
        let mut mutated = mutate(&text, pool, &mut rng);
        if rng.below(4) == 0 {
            let left = rng.below(mutated.chars().count() as u64) as usize;
            mutated = mutated.chars().take(left).collect();
        }
        let outcome = check("script", &mutated);
        if let Outcome::Fail { location, .. } | Outcome::Error { location, .. } = outcome {
            assert!(location.starts_with("script:"), "{location}");
        }
    }
}
