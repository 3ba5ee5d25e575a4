//! BPF programs for the kernel that deliver each packet to the right one of several sockets.
//!
//! SCTP packets go by their verification tag, modulo the number of sockets. An INIT has none and goes by its initiate
//! tag. That tag is as random, and stays the same when the INIT is retransmitted, even to another address
//! (RFC 9260 §5.3.1).
//!
//! QUIC packets go by the first four bytes of the destination connection id, modulo the number of sockets. A client's
//! first packets carry a random one of eight bytes or more (RFC 9000 §7.2). The world that receives them assigns an id
//! that leads to the same socket.
//!
//! For the sockets of a UDP port, the program returns the index of the socket. A raw socket gets every packet, and its
//! program decides whether to accept it.
//!
//! The programs are classic BPF, which needs no privilege. A program that reads beyond the end of a packet returns 0.

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{SockFilter, Socket};
use std::io;
use std::os::fd::AsFd;

/// Steers packets within the reuseport group of `socket` by verification tag; the socket bound first has index 0. The
/// UDP payload starts with SCTP's common header.
pub(super) fn by_tag(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, VERIFICATION_TAG),
        // Not 0: skip the next instruction.
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, INITIATE_TAG),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// Steers packets by connection id. The UDP payload is a QUIC packet, or starts with one.
pub(super) fn by_connection_id(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0),
        // A short header: skip the next two.
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

/// Makes a raw socket of one IP version accept only the packets for index `index` of `count`. Fragments are reassembled
/// before. A packet too short for a common header is rejected by all.
pub(super) fn by_share(socket: &Socket, v4: bool, index: u32, count: u32) -> io::Result<()> {
    // IPv4 packets come with their header, of variable length; IPv6 packets come without.
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
            // Not 0: skip the next five.
            libc::sock_filter { jf: 5, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X, 0),
            libc::sock_filter {
                jt: 1,
                ..step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, INITIATE_TAG + 4)
            },
            // Too short for an INIT: treated as if its tag were 0, too.
            step(libc::BPF_RET | libc::BPF_K, if index == 0 { WHOLE } else { 0 }),
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, INITIATE_TAG),
            step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
            libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, index) },
            step(libc::BPF_RET | libc::BPF_K, WHOLE),
            step(libc::BPF_RET | libc::BPF_K, 0),
        ],
    )
}

/// Makes a socket accept nothing.
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

/// The bit in the first byte that marks a long header (RFC 9000 §17.2).
const LONG_HEADER: u32 = 0x80;
/// Offsets of the destination connection id: after a long header's version and length, or a short header's first byte
/// (RFC 9000 §17.2, §17.3).
const LONG_DESTINATION: u32 = 6;
const SHORT_DESTINATION: u32 = 1;
/// Offset in the common header (RFC 9260 §3.1).
const VERIFICATION_TAG: u32 = 4;
/// Offset of the initiate tag in an INIT after the common header (RFC 9260 §3.3.2).
const INITIATE_TAG: u32 = 16;
/// The filter result for an accepted packet: all its bytes.
const WHOLE: u32 = u32::MAX;
