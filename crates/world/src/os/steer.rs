//! What the kernel is told, so that a packet comes to the right one of several
//! sockets.
//!
//! Of SCTP: by its verification tag, modulo their number. An INIT has none and
//! goes by its initiate tag, which is as random, and stays the same when it is
//! retransmitted, even to another address (RFC 9260 §5.3.1).
//!
//! Of QUIC: by the first four bytes of the destination connection id, modulo
//! their number. A client's first packets have one that it has drawn, of eight
//! bytes or more (RFC 9000 §7.2), and whoever gets them gives it one that leads
//! to the same socket.
//!
//! Of the sockets of a UDP port the kernel asks which is meant. Raw sockets are
//! given every packet each, and each is asked whether it wants it.
//!
//! Programs of the classic BPF, which need no privilege. One that reads beyond
//! the end of a packet ends with 0.

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{SockFilter, Socket};
use std::io;
use std::os::fd::AsFd;

/// Has the sockets of the group that `socket` is of get the packets that are
/// theirs, the first bound number 0. A UDP payload begins with the common header.
pub(super) fn by_tag(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, VERIFICATION_TAG),
        // Not 0: over the next one.
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, INITIATE_TAG),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// The same by connection ids. A UDP payload is a packet of QUIC, or begins with one.
pub(super) fn by_connection_id(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0),
        // A short header: over the next two.
        libc::sock_filter { jf: 2, ..step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, LONG_HEADER) },
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, LONG_DESTINATION),
        step(libc::BPF_JMP | libc::BPF_JA, 1),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, SHORT_DESTINATION),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// Has a raw socket of an IP version take only what is for number `index` of `count`. Fragments are put together
/// before; what has not even a common header is nobody's.
pub(super) fn by_share(socket: &Socket, v4: bool, index: u32, count: u32) -> io::Result<()> {
    // IPv4's header comes along, of whatever length; of IPv6's headers none.
    let before = if v4 {
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0)
    } else {
        step(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0)
    };
    attach(
        socket,
        &[
            before,
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, VERIFICATION_TAG),
            // Not 0: over the next five.
            libc::sock_filter { jf: 5, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X, 0),
            libc::sock_filter {
                jt: 1,
                ..step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, INITIATE_TAG + 4)
            },
            // Too short for an INIT: as if that tag were 0, too.
            step(libc::BPF_RET | libc::BPF_K, if index == 0 { WHOLE } else { 0 }),
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, INITIATE_TAG),
            step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
            libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, index) },
            step(libc::BPF_RET | libc::BPF_K, WHOLE),
            step(libc::BPF_RET | libc::BPF_K, 0),
        ],
    )
}

/// Has a socket take nothing.
pub(super) fn by_nothing(socket: &Socket) -> io::Result<()> {
    attach(socket, &[step(libc::BPF_RET | libc::BPF_K, 0)])
}

fn attach(socket: &Socket, program: &[libc::sock_filter]) -> io::Result<()> {
    let program: Vec<_> =
        program.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k)).collect();
    socket.attach_filter(&program)
}

fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// The bit of a long header in the first byte (RFC 9000 §17.2).
const LONG_HEADER: u32 = 0x80;
/// Offsets of the destination connection id behind a long header's version and length, and behind a short one's first byte
/// (RFC 9000 §17.2, §17.3).
const LONG_DESTINATION: u32 = 6;
const SHORT_DESTINATION: u32 = 1;
/// Offset in the common header (RFC 9260 §3.1).
const VERIFICATION_TAG: u32 = 4;
/// Offset of the tag in an INIT that follows the common header (RFC 9260 §3.3.2).
const INITIATE_TAG: u32 = 16;
/// What a filter returns for a packet that is taken: all of its bytes.
const WHOLE: u32 = u32::MAX;
