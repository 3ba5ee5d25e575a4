//! Classic BPF programs with which the kernel chooses the socket for each packet, if several sockets share a port or
//! protocol.
//!
//! An SCTP packet goes to the socket with the index *verification tag modulo number of sockets*. The verification tag
//! of a packet with an INIT is 0, so the initiate tag is used instead. The initiate tag is also random, and stays the
//! same when the INIT is retransmitted, even to another address (RFC 9260 §5.3.1).
//!
//! A QUIC packet goes to the socket with the index *first four bytes of the destination connection id modulo number of
//! sockets*. A client's first packets carry a random destination connection id of eight bytes or more (RFC 9000 §7.2).
//! The server thread that receives these packets assigns a connection id that leads to the same socket.
//!
//! On a UDP port, all sockets share one BPF program, which returns the index of the socket that gets the packet. The
//! kernel offers each packet of an IP protocol to every raw socket. Each raw socket has its own BPF program, which
//! accepts or rejects the packet.
//!
//! Classic BPF needs no privilege. A program that reads beyond the end of a packet returns 0. On a UDP port, the
//! value 0 selects the first socket. On a raw socket, it rejects the packet.

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{SockFilter, Socket};
use std::io;
use std::os::fd::AsFd;

/// Makes the kernel deliver each packet of the reuseport group of `socket` to the socket with the index *verification
/// tag modulo `count`*. Sockets are indexed from 0, in the order in which they were bound. The UDP payload must start
/// with SCTP's common header. If the verification tag is 0, the initiate tag of the INIT is used.
pub(super) fn by_tag(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, VERIFICATION_TAG),
        // Skips the next instruction if the verification tag is not 0.
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, INITIATE_TAG),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// Steers the packets of the reuseport group of `socket` by QUIC connection id. Offset 0 of the filter is the first
/// byte of the QUIC packet, because the kernel runs the filter on the UDP payload.
pub(super) fn by_connection_id(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0),
        // Skips the next two instructions if the packet has a short header.
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

/// Makes a raw SCTP socket of one IP version accept only its share of the packets. The socket is number `index` of
/// `count` sockets. The kernel reassembles fragments before it runs the filter. All sockets reject a packet that is too
/// short for a common header.
pub(super) fn by_share(socket: &Socket, v4: bool, index: u32, count: u32) -> io::Result<()> {
    // The filter gets IPv4 packets with their IP header, whose length varies, and IPv6 packets without their IP header.
    // This step loads the header length into X.
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
            // Skips the next five instructions if the verification tag is not 0.
            libc::sock_filter { jf: 5, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0) },
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X, 0),
            libc::sock_filter {
                jt: 1,
                ..step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, INITIATE_TAG + 4)
            },
            // A packet with tag 0 that is too short for an INIT goes to the socket with index 0.
            step(libc::BPF_RET | libc::BPF_K, if index == 0 { WHOLE } else { 0 }),
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, INITIATE_TAG),
            step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
            libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, index) },
            step(libc::BPF_RET | libc::BPF_K, WHOLE),
            step(libc::BPF_RET | libc::BPF_K, 0),
        ],
    )
}

/// Makes a raw socket reject all packets.
pub(super) fn reject_all(socket: &Socket) -> io::Result<()> {
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
/// Offsets in bytes of the destination connection id (RFC 9000 §17.2, §17.3). In a long header, the id follows the
/// version and the length of the id. In a short header, it follows the first byte.
const LONG_DESTINATION: u32 = 6;
const SHORT_DESTINATION: u32 = 1;
/// Offset in bytes of the verification tag in the common header (RFC 9260 §3.1).
const VERIFICATION_TAG: u32 = 4;
/// Offset in bytes of the initiate tag in a packet that starts with an INIT (RFC 9260 §3.3.2).
const INITIATE_TAG: u32 = 16;
/// The filter result that accepts a packet with all its bytes.
const WHOLE: u32 = u32::MAX;
