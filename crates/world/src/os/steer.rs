//! What the kernel is told of SCTP, so that a packet comes to the right one of
//! several sockets: by its verification tag, modulo their number. An INIT has
//! none and goes by its initiate tag, which is as random, and stays the same
//! when it is sent again, even to another address (RFC 9260 §5.3.1).
//!
//! Programs of the classic BPF, which need no privilege. One that reads beyond
//! the end of a packet ends with 0.

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
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

fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Offset in the common header (RFC 9260 §3.1).
const VERIFICATION_TAG: u32 = 4;
/// Offset of the tag in an INIT that follows the common header (RFC 9260 §3.3.2).
const INITIATE_TAG: u32 = 16;
