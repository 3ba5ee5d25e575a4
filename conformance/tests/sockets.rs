//! Tests how scripts use the socket API: notifications, ancillary data, and unknown names.

use anabranch_conformance::{Outcome, check};

/// Script lines that establish an association on descriptor 3, with five streams in each direction.
const UP: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3 +0 bind(3, ..., ...) = 0
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
    assert!(matches!(outcome, Outcome::Fail { .. }), "{text}");
    assert!(text.starts_with(&format!("script:{line}:")) && text.contains(words), "{text}");
}

/// Checks that the script is rejected, with a message that names this line and contains these words.
#[track_caller]
fn misunderstood(text: &str, line: usize, words: &str) {
    let outcome = check("script", text);
    let Outcome::Error { location, message } = &outcome else { panic!("{outcome}") };
    assert!(*location == format!("script:{line}") && message.contains(words), "{outcome}");
}

const ALL_EVENTS: &str = "sctp_data_io_event=1, sctp_association_event=0, sctp_address_event=0, sctp_send_failure_event=0, \
    sctp_peer_error_event=1, sctp_shutdown_event=1, sctp_partial_delivery_event=0, sctp_adaptation_layer_event=0, \
    sctp_authentication_event=0, sctp_sender_dry_event=0";

/// RFC 6458 §6.2: a socket must get exactly the notifications to which it subscribes.
#[test]
fn only_subscribed_notifications_are_delivered() {
    let off = ALL_EVENTS.replace("=1", "=0");
    let text = format!(
        "{UP}+0 getsockopt(3, IPPROTO_SCTP, SCTP_EVENTS, {{{off}}}, [10]) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENTS, {{{ALL_EVENTS}}}, 10) = 0
+0 getsockopt(3, IPPROTO_SCTP, SCTP_EVENTS, {{{ALL_EVENTS}}}, [10]) = 0
+0 getsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {{se_assoc_id=0, se_type=SCTP_SHUTDOWN_EVENT, se_on=1}}, [8]) = 0
+0 getsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {{se_assoc_id=0, se_type=SCTP_ASSOC_CHANGE, se_on=0}}, [8]) = 0
+0 < sctp: ERROR[flgs=0, INVALID_STREAM_IDENTIFIER[sid=77]]
+0 recvmsg(3, {{msg_name(...)=..., msg_iov(1)=[{{{{sre_type=SCTP_REMOTE_ERROR, sre_flags=0, sre_length=28, sre_error=1, sre_assoc_id=3, sre_data=[9, 0, 0, 12, 0, 1, 0, 8, 0, 77, 0, 0]}}, 1000}}], msg_control(0)=[], msg_flags=MSG_NOTIFICATION|MSG_EOR}}, 0) = 28
+0 < sctp: SHUTDOWN[flgs=0, cum_tsn=0]
+0 > sctp: SHUTDOWN_ACK[flgs=0]
+0 recvmsg(3, {{msg_iov(1)=[{{{{sse_type=SCTP_SHUTDOWN_EVENT, sse_flags=0, sse_length=12, sse_assoc_id=...}}, 1000}}], msg_flags=MSG_NOTIFICATION|MSG_EOR}}, 0) = 12
+0 < sctp: SHUTDOWN_COMPLETE[flgs=0]
+0 read(3, ..., 1000) = 0
"
    );
    passes(&text);
    // If the script does not subscribe to the notification, the read finds nothing.
    fails(&text.replace("sctp_peer_error_event=1", "sctp_peer_error_event=0"), 14, "-1 EAGAIN");
    let one = "SCTP_EVENT, {se_type=SCTP_SHUTDOWN_EVENT, se_on=1}, 8";
    let only = format!(
        "{UP}+0 setsockopt(3, IPPROTO_SCTP, {one}) = 0
+0 < sctp: ERROR[flgs=0, INVALID_STREAM_IDENTIFIER[sid=77]]
+0 recvmsg(3, {{msg_iov(1)=[{{..., 1000}}]}}, 0) = -1 EAGAIN
"
    );
    passes(&only);
    fails(&only.replace("SCTP_SHUTDOWN_EVENT", "SCTP_REMOTE_ERROR"), 10, "returned something else");
    fails(&text.replace("sre_error=1", "sre_error=2"), 14, "sre_error=2 is expected, 1 seen");
    fails(&text.replace("sre_data=[9", "sre_data=[8"), 14, "sre_data");
    misunderstood(&only.replace("SCTP_SHUTDOWN_EVENT", "SCTP_NO_EVENT"), 8, "SCTP_NO_EVENT is no event");
    misunderstood(&text.replace("sctp_address_event", "sctp_adress_event"), 8, "sctp_adress_event");
}

/// A script must fail if a read returns a notification where it expects a message, or a message where it expects a
/// notification.
#[test]
fn a_notification_is_expected_where_a_message_is_read() {
    let text = format!(
        "{UP}+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {{se_type=SCTP_SENDER_DRY_EVENT, se_on=1}}, 8) = 0
+0 < sctp: DATA[flgs=BE, len=20, tsn=1, sid=0, ssn=0, ppid=0]
+0 > sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[], dups=[]]
+0 recvmsg(3, {{msg_iov(1)=[{{{{sender_dry_type=SCTP_SENDER_DRY_EVENT}}, 100}}]}}, 0) = 12
+0 recvmsg(3, {{msg_iov(1)=[{{..., 100}}]}}, 0) = 4
"
    );
    passes(&text);
    fails(
        &text.replace("{..., 100}]}, 0) = 4", "{{sender_dry_type=10}, 100}]}, 0) = 4"),
        12,
        "4 bytes of a message seen",
    );
    fails(&text.replace("sender_dry_type=SCTP_SENDER_DRY_EVENT", "sse_type=5"), 11, "sse_type is no member");
}

/// RFC 6458 §5.3: the ancillary data of a message must determine how the message is sent.
#[test]
fn ancillary_data_determines_how_a_message_is_sent() {
    let message = "msg_name(...)=..., msg_iov(1)=[{iov_base=..., iov_len=100}]";
    let cmsg = |kind: &str, data: &str| {
        format!("{{cmsg_len=28, cmsg_level=IPPROTO_SCTP, cmsg_type={kind}, cmsg_data={{{data}}}}}")
    };
    let snd = cmsg(
        "SCTP_SNDINFO",
        "snd_sid=3, snd_flags=SCTP_UNORDERED, snd_ppid=htonl(7), snd_context=2, snd_assoc_id=0",
    );
    let old = cmsg(
        "SCTP_SNDRCV",
        "sinfo_stream=2, sinfo_ssn=9, sinfo_flags=0, sinfo_ppid=htonl(8), sinfo_context=0, sinfo_timetolive=0, sinfo_tsn=0, sinfo_cumtsn=0, sinfo_assoc_id=0",
    );
    let pr = cmsg("SCTP_PRINFO", "pr_policy=SCTP_PR_SCTP_RTX, pr_value=0");
    let text = format!(
        "{UP}+0 sendmsg(3, {{{message}, msg_control(28)=[{snd}], msg_flags=0}}, 0) = 100
+0 > sctp: DATA[flgs=UBE, len=116, tsn=1, sid=3, ssn=..., ppid=7]
+0 sendmsg(3, {{{message}, msg_control(44)=[{old}], msg_flags=0}}, 0) = 100
+0 > sctp: DATA[flgs=BE, len=116, tsn=2, sid=2, ssn=0, ppid=8]
+0 < sctp: SACK[flgs=0, cum_tsn=2, a_rwnd=9000, gaps=[], dups=[]]
+0 sendmsg(3, {{{message}, msg_control(0)=[], msg_flags=0}}, 0) = 100
+0 > sctp: DATA[flgs=BE, len=116, tsn=3, sid=0, ssn=0, ppid=0]
+0 < sctp: SACK[flgs=0, cum_tsn=3, a_rwnd=9000, gaps=[], dups=[]]
"
    );
    passes(&text);
    fails(&text.replace("snd_sid=3", "snd_sid=4"), 9, "sid=3 is expected, 4 seen");
    fails(&text.replace("sinfo_ppid=htonl(8)", "sinfo_ppid=htonl(9)"), 11, "ppid=8 is expected, 9 seen");
    fails(&text.replace("snd_flags=SCTP_UNORDERED", "snd_flags=0"), 9, "flgs=");
    fails(&text.replace("snd_sid=3", "snd_sid=5"), 8, "-1 EINVAL");
    misunderstood(&text.replace("snd_context", "snd_contxt"), 8, "sctp_sndinfo has no member snd_contxt");
    misunderstood(&text.replace("SCTP_SNDINFO", "SCTP_RCVINFO"), 8, "is not sent beside a message");
    misunderstood(&text.replace("SCTP_SNDINFO", "SCTP_SENDINFO"), 8, "cmsg_type=SCTP_SENDINFO");
    misunderstood(&text.replace("snd_flags=SCTP_UNORDERED", "snd_flags=0x10000"), 8, "0x10000");
    // A message that allows no retransmissions is abandoned at the first timeout.
    let given_up = format!(
        "`sysctl -w net.inet.sctp.pr_enable=1` {UP}+0 sendmsg(3, {{{message}, msg_control(56)=[{snd}, {pr}], msg_flags=0}}, 0) = 100
+0 > sctp: DATA[flgs=UBE, len=116, tsn=1, sid=3, ssn=..., ppid=7]
"
    );
    let given_up = given_up
        .replace("STATE_COOKIE[len=4, val=...]", "STATE_COOKIE[len=4, val=...], FORWARD_TSN_SUPPORTED[]");
    passes(&format!("{given_up}+1~+1.1 > sctp: FORWARD_TSN[cum_tsn=1, ids=[]]\n"));
    fails(
        &format!(
            "{}+1~+1.1 > sctp: FORWARD_TSN[cum_tsn=1, ids=[]]\n",
            given_up.replace("pr_value=0", "pr_value=1")
        ),
        10,
        "FORWARD_TSN is expected, DATA seen",
    );
}

/// RFC 6458 §5.3.1, §5.3.9: a message to a new peer must create the association.
#[test]
fn a_message_may_begin_its_association() {
    let text = "0 socket(..., SOCK_SEQPACKET, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 100}],
   msg_control(64)=[{cmsg_len=20, cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_INIT, cmsg_data={sinit_num_ostreams=7, sinit_max_instreams=9, sinit_max_attempts=2, sinit_max_init_timeo=100}},
                    {cmsg_len=28, cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_SNDINFO, cmsg_data={snd_sid=6, snd_flags=0, snd_ppid=htonl(1), snd_context=0, snd_assoc_id=0}},
                    {cmsg_len=16, cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_DSTADDRV4, cmsg_data={sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"192.0.2.1\")}}],
   msg_flags=0}, 0) = 100
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=7, is=9, tsn=1, ...]
+0 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=9000, os=9, is=9, tsn=1, STATE_COOKIE[len=4, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...]; DATA[flgs=BE, len=116, tsn=1, sid=6, ssn=0, ppid=1]
+0 getsockopt(3, IPPROTO_SCTP, SCTP_INITMSG, {sinit_num_ostreams=100, sinit_max_instreams=100, sinit_max_attempts=..., sinit_max_init_timeo=...}, [8]) = 0
";
    passes(text);
    fails(&text.replace("sinit_num_ostreams=7", "sinit_num_ostreams=8"), 9, "os=7 is expected, 8 seen");
}

/// RFC 6458 §5.3.5, §5.3.6, §5.3.2: a read must return the structures of ancillary data that the socket has requested.
#[test]
fn a_read_returns_the_requested_ancillary_data() {
    let data = "+0 < sctp: DATA[flgs=BE, len=20, tsn=1, sid=2, ssn=0, ppid=7]
+0 > sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[], dups=[]]
+0 < sctp: DATA[flgs=BE, len=26, tsn=2, sid=2, ssn=1, ppid=8]
* > sctp: SACK[flgs=0, cum_tsn=2, a_rwnd=..., gaps=[], dups=[]]
";
    let cmsg = |kind: &str, data: &str| {
        format!("{{cmsg_len=40, cmsg_level=IPPROTO_SCTP, cmsg_type={kind}, cmsg_data={{{data}}}}}")
    };
    let rcv = cmsg(
        "SCTP_RCVINFO",
        "rcv_sid=2, rcv_ssn=0, rcv_flags=0, rcv_ppid=htonl(7), rcv_tsn=1, rcv_cumtsn=2, rcv_context=0, rcv_assoc_id=3",
    );
    let next = cmsg(
        "SCTP_NXTINFO",
        "nxt_sid=2, nxt_flags=SCTP_COMPLETE, nxt_ppid=htonl(8), nxt_length=10, nxt_assoc_id=3",
    );
    let old = cmsg(
        "SCTP_SNDRCV",
        "sinfo_stream=2, sinfo_ssn=0, sinfo_flags=0, sinfo_ppid=htonl(7), sinfo_context=0, sinfo_timetolive=0, sinfo_tsn=1, sinfo_cumtsn=2",
    );
    let read = |asked: &str, control: &str| {
        format!(
            "{UP}{asked}\n{data}+0 recvmsg(3, {{msg_name(...)=..., msg_iov(1)=[{{..., 100}}], msg_control(99)=[{control}], msg_flags=MSG_EOR}}, 0) = 4\n"
        )
    };
    let on = |name: &str| format!("+0 setsockopt(3, IPPROTO_SCTP, {name}, [1], 4) = 0 ");
    let both = on("SCTP_RECVRCVINFO") + &on("SCTP_RECVNXTINFO");
    let data_io = format!("+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENTS, {{{ALL_EVENTS}}}, 10) = 0");
    passes(&read("", ""));
    passes(&read(&both, &format!("{rcv}, {next}")));
    passes(&read(&both, &format!("{next}, {rcv}")));
    passes(&read(&on("SCTP_RECVNXTINFO"), &next));
    passes(&read(&data_io, &old));
    fails(&read(&both, &rcv), 13, "SCTP_NXTINFO");
    fails(&read("", &rcv), 13, "is missing");
    fails(&read(&on("SCTP_RECVRCVINFO"), ""), 13, "SCTP_RCVINFO");
    fails(
        &read(&both, &format!("{rcv}, {next}")).replace("nxt_length=10", "nxt_length=14"),
        13,
        "nxt_length=14 is expected, 10 seen",
    );
    fails(
        &read(&both, &format!("{rcv}, {next}")).replace("SCTP_COMPLETE", "0"),
        13,
        "nxt_flags=0 is expected, 32 seen",
    );
    fails(
        &read(&both, &format!("{rcv}, {next}")).replace("nxt_ppid=htonl(8)", "nxt_ppid=htonl(7)"),
        13,
        "nxt_ppid",
    );
    misunderstood(
        &read(&both, &rcv).replace("msg_control", "msg_cntrl"),
        13,
        "msghdr has no member msg_cntrl",
    );
}

/// RFC 6458 §9.12: the flags of `sctp_sendv_spa` must select which of its structures are used.
#[test]
fn sendv_flags_select_the_valid_members() {
    let send = |flags: &str| {
        format!(
            "{UP}+0 sctp_sendv(3, [{{..., 100}}], 1, ..., 1, {{sendv_flags={flags}, sendv_sndinfo={{snd_sid=2, snd_flags=0, snd_ppid=htonl(5), snd_context=0, snd_assoc_id=0}}, sendv_prinfo={{pr_policy=SCTP_PR_SCTP_TTL, pr_value=10}}, sendv_authinfo={{auth_keynumber=9}}}}, 32, SCTP_SENDV_SPA, 0) = 100\n"
        )
    };
    passes(&format!(
        "{}+0 > sctp: DATA[flgs=BE, len=116, tsn=1, sid=2, ssn=0, ppid=5]",
        send("SCTP_SEND_SNDINFO_VALID")
    ));
    passes(&format!(
        "{}+0 > sctp: DATA[flgs=BE, len=116, tsn=1, sid=0, ssn=0, ppid=0]",
        send("SCTP_SEND_PRINFO_VALID")
    ));
    fails(&send("SCTP_SEND_AUTHINFO_VALID"), 8, "-1 EINVAL");
    misunderstood(&send("8"), 8, "sendv_flags");
}

/// An unknown name must be reported as a mistake of the script, with its line.
#[test]
fn unknown_names_are_told() {
    for (line, words) in [
        ("setsockopt(3, IPPROTO_SCTP, SCTP_NONSENSE, [1], 4) = 0", "SCTP_NONSENSE"),
        ("setsockopt(3, SOL_SOCKET, SCTP_NODELAY, [1], 4) = 0", "no option of SOL_SOCKET"),
        (
            "setsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, {srto_initial=1, srto_maximum=2}, 16) = 0",
            "srto_maximum",
        ),
        ("setsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, 5, 16) = 0", "is no sctp_rtoinfo"),
        ("setsockopt(3, IPPROTO_SCTP, SCTP_NODELAY, [ONE], 4) = 0", "ONE"),
        ("getsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, {srto_init=...}, [16]) = 0", "srto_init"),
        (
            "setsockopt(3, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, {spp_flags=SPP_DSCP, spp_dscp=4}, 152) = 0",
            "spp_flags",
        ),
        ("setsockopt(3, IPPROTO_SCTP, SCTP_NODELAY, [1]) = 0", "arguments"),
        ("send(3, ..., 10, MSG_OOB) = 10", "MSG_OOB"),
        ("recv(3, ..., 10, MSG_PEEK) = -1 EAGAIN", "flags 0x2"),
        ("gettimeofday(3) = 0", "no such call"),
        ("poll([{fd=3, event=POLLIN}], 1, 0) = 0", "event"),
        ("close(3) = NOTHING", "NOTHING"),
    ] {
        misunderstood(&format!("{UP}+0 {line}\n"), 8, words);
    }
}

/// RFC 6458 §9.1, §9.2, §9.3: `sctp_bindx` must bind addresses, and `sctp_peeloff` must separate an association. The
/// addresses of both ends must be listed.
#[test]
fn addresses_are_bound_and_listed() {
    let address =
        |text: &str| format!("{{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"{text}\")}}");
    let (own, peer) = (address("192.168.0.1"), address("192.0.2.1"));
    let text = format!(
        "0 socket(..., SOCK_SEQPACKET, IPPROTO_SCTP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sctp_bindx(3, [{own}], 1, SCTP_BINDX_ADD_ADDR) = 0
+0 sctp_connectx(3, [{peer}], 1, [3]) = 0
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=9000, os=5, is=5, tsn=1, STATE_COOKIE[len=4, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...]
+0 < sctp: COOKIE_ACK[flgs=0]
+0 sctp_getladdrs(3, 3, [{own}]) = 1
+0 sctp_getpaddrs(3, 3, [{peer}]) = 1
+0 sctp_peeloff(3, 4) = -1 ENOENT
+0 sctp_peeloff(3, 3) = 4
+0 sctp_sendmsg(4, ..., 10, {peer}, 16, htonl(3), 0, 1, 0, 0) = 10
+0 > sctp: DATA[flgs=BE, len=26, tsn=1, sid=1, ssn=0, ppid=3]
"
    );
    passes(&text);
    let other_address = address("192.0.2.9");
    fails(&text.replace(&format!("3, 3, [{peer}]"), &format!("3, 3, [{other_address}]")), 10, "sin_addr");
    fails(
        &text.replace(&format!("bindx(3, [{own}]"), &format!("bindx(3, [{other_address}]")),
        3,
        "EADDRNOTAVAIL",
    );
    fails(&text.replace(&format!("10, {peer}"), &format!("10, {other_address}")), 13, "EINVAL");
    misunderstood(&text.replace("SCTP_BINDX_ADD_ADDR", "SCTP_BIND_ADD"), 3, "SCTP_BIND_ADD");
    misunderstood(&text.replace("AF_INET,", "AF_INET6,"), 3, "no address of its family");
}

/// RFC 6525: stream reconfiguration must be enabled for a script that resets streams, even if it has no sysctl for it,
/// as on FreeBSD.
#[test]
fn scripts_that_reconfigure_speak_reconfig() {
    let text = UP.replace("val=...]]\n+0 > sctp: COOKIE", "val=...], SUPPORTED_EXTENSIONS[types=[RECONFIG]]]\n+0 > sctp: COOKIE")
        + "+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {se_type=SCTP_ASSOC_RESET_EVENT, se_on=1}, 8) = 0
+0 setsockopt(3, IPPROTO_SCTP, SCTP_RESET_ASSOC, [0], 4) = 0
+0 > sctp: RECONFIG[flgs=0, SSN_TSN_RESET[req_sn=1]]
+0 < sctp: RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=1, result=1, sender_next_tsn=9, receiver_next_tsn=20]]
+0 recvmsg(3, {msg_iov(1)=[{{assocreset_type=SCTP_ASSOC_RESET_EVENT, assocreset_flags=0, assocreset_length=20, assocreset_local_tsn=20, assocreset_remote_tsn=9}, 100}]}, 0) = 20
";
    passes(&text);
    fails(
        &text.replace("assocreset_local_tsn=20", "assocreset_local_tsn=21"),
        12,
        "assocreset_local_tsn=21 is expected, 20 seen",
    );
    fails(&format!("`sysctl -w net.inet.sctp.reconfig_enable=0` {text}"), 9, "EOPNOTSUPP");
}

/// RFC 6458 §6.1.8: AUTH must be enabled for a script that uses it, even if it has no sysctl for it, as on FreeBSD.
/// Other scripts must have no AUTH.
#[test]
fn scripts_that_use_authentication_have_it() {
    let content = "{auth_type=SCTP_AUTHENTICATION_EVENT, auth_flags=0, auth_length=20, auth_keynumber=0, \
        auth_indication=SCTP_AUTH_NO_AUTH, auth_assoc_id=3}";
    let expected = format!(
        "+0 recvmsg(3, {{msg_iov(1)=[{{{content}, 1000}}], msg_flags=MSG_NOTIFICATION|MSG_EOR}}, 0) = 20\n"
    );
    let on = "+0 setsockopt(3, IPPROTO_SCTP, SCTP_EVENT, {se_assoc_id=0, se_type=SCTP_AUTHENTICATION_EVENT, se_on=1}, 8) = 0\n";
    let (begin, rest) = UP.split_at(UP.find("+0 connect").expect("a call"));
    // The peer's INIT ACK does not offer AUTH, and the engine reports that only if its own AUTH is enabled.
    passes(&format!("{begin}{on}{rest}{expected}"));
    fails(
        &format!("0 `sysctl -w net.inet.sctp.auth_enable=0`\n+{begin}{on}{rest}{expected}"),
        10,
        "would block",
    );
    let key = "{sca_assoc_id=0, sca_keynumber=123, sca_keylength=2, sca_key=[0x00, 0x01]}";
    let set = format!("+0 setsockopt(3, IPPROTO_SCTP, SCTP_AUTH_KEY, {key}, 10) = 0\n");
    let asks = rest.replace("tsn=1, ...]", "tsn=1, SUPPORTED_EXTENSIONS[types=[AUTH]], ...]");
    for (text, has_it) in [(format!("{begin}{set}"), true), (begin.to_owned(), false)] {
        let outcome = check("script", &format!("{text}{asks}"));
        assert_eq!(!outcome.to_string().contains("SUPPORTED_EXTENSIONS"), has_it, "{outcome}");
    }
}

/// draft-natarajan-tsvwg-sctp-nrsack §4: with FreeBSD's sysctl, the engine must offer NR-SACKs. If the peer agrees,
/// NR-SACKs must replace SACKs.
#[test]
fn the_setting_for_nr_sacks_is_obeyed() {
    let up = UP
        .replace("tsn=1, ...]", "tsn=1, SUPPORTED_EXTENSIONS[types=[NR_SACK]], ...]")
        .replace("len=4, val=...]]", "len=4, val=...], SUPPORTED_EXTENSIONS[types=[NR_SACK]]]");
    let rest = "+0 < sctp: DATA[flgs=BE, len=20, tsn=2, sid=0, ssn=1, ppid=0]
+0 > sctp: NR_SACK[flgs=0, cum_tsn=0, a_rwnd=..., gaps=[], nr_gaps=[2:2], dups=[]]
";
    passes(&format!("0 `sysctl -w net.inet.sctp.nrsack_enable=1`\n+{up}{rest}"));
    fails(&format!("0 `sysctl -w net.inet.sctp.nrsack_enable=0`\n+{up}{rest}"), 5, "SUPPORTED_EXTENSIONS");
}
