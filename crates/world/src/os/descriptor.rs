//! System calls for which no crate in use has a safe function. They watch file descriptors, perform ioctls, access
//! socket options, and return memory to the host.
//!
//! This is the only module of the workspace with `unsafe` code.

use crate::kernel::Counters;
use anabranch_base::time::Duration;
use rustix::ioctl::{Getter, Updater};
use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `descriptor` with the event loop of the calling thread.
pub(super) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    // SAFETY: the descriptor must be open and unchanged for as long as the `AsyncFd` lives. An `OwnedFd` is open until
    // it is dropped, and the `AsyncFd` owns it.
    #[expect(unsafe_code, reason = "tokio has no safe way to register a descriptor it did not open")]
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(Into::into)
}

/// Turns an open `/dev/net/tun` into the TUN device `name`. Packets that are read from the device start with their IP
/// header.
pub(super) fn become_tun(opened: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    // The last byte stays zero and terminates the name.
    let room = request.name.len() - 1;
    if name.is_empty() || name.len() > room {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name for an interface"));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads a `struct ifreq` and writes a `struct ifreq` back to the same memory. `InterfaceRequest`
    // has the layout of that struct. Nothing else has access to the memory until the call returns.
    #[expect(unsafe_code, reason = "an ioctl of a driver, which no crate of ours wraps")]
    let done = unsafe {
        rustix::ioctl::ioctl(opened, Updater::<{ TUNSETIFF }, InterfaceRequest>::new(&mut request))
    };
    done.map_err(Into::into)
}

/// Returns the number of bytes in a connection's send queue that the peer has not acknowledged (SIOCOUTQ, see tcp(7)).
pub(super) fn unacknowledged(connection: impl AsFd) -> io::Result<u64> {
    // SAFETY: TIOCOUTQ, another name of SIOCOUTQ, writes one `int`.
    #[expect(unsafe_code, reason = "an ioctl of sockets, which no crate of ours wraps")]
    let count = unsafe { rustix::ioctl::ioctl(connection, Getter::<{ SIOCOUTQ }, c_int>::new()) }?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Disables Nagle's algorithm on a kernel SCTP socket, so that small messages do not wait for outstanding
/// acknowledgements (RFC 6458 §8.1.5).
pub(super) fn disable_nagle(socket: impl AsFd) -> io::Result<()> {
    let on: c_int = 1;
    let (level, option) = (nix::libc::IPPROTO_SCTP, nix::libc::SCTP_NODELAY);
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the option value is read from `on`, an `int` of the size passed, which outlives the call.
    #[expect(unsafe_code, reason = "an option of SCTP's, which no crate of ours wraps")]
    let done = unsafe {
        let (value, size) = (std::ptr::from_ref(&on).cast(), size_of_val(&on) as nix::libc::socklen_t);
        nix::libc::setsockopt(descriptor, level, option, value, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option into `value`. If an older kernel fills only a part of `value`, the other bytes keep their
/// values.
fn option(socket: impl AsFd, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<()> {
    let mut size = value.len() as nix::libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: `value` has room for `size` bytes. The call writes at most `size` bytes to `value`, and then stores in
    // `size` how many bytes it has written. Both outlive the call.
    #[expect(unsafe_code, reason = "options of TCP's and MPTCP's, which no crate of ours wraps")]
    let done = unsafe {
        let (value, size) = (value.as_mut_ptr().cast(), std::ptr::from_mut(&mut size));
        nix::libc::getsockopt(descriptor, level, name, value, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether a kernel MPTCP socket has fallen back to TCP because its peer does not support MPTCP
/// (RFC 8684 §3.7).
///
/// # Errors
/// The kernel does not support the query: Linux before 5.16.
pub(super) fn has_fallen_back_to_tcp(socket: impl AsFd) -> io::Result<bool> {
    // `info` is the beginning of `struct mptcp_info`: six one-byte numbers, two bytes of padding, and the flags.
    let mut info = [0_u8; 12];
    option(socket, SOL_MPTCP, MPTCP_INFO, &mut info)?;
    let [.., a, b, c, d] = info;
    Ok(u32::from_ne_bytes([a, b, c, d]) & MPTCP_INFO_FLAG_FALLBACK != 0)
}

/// Returns the kernel's counters of a TCP connection (TCP_INFO, see tcp(7)).
pub(super) fn tcp_counters(socket: impl AsFd) -> io::Result<Counters> {
    // The fields of `struct tcp_info` that an older kernel does not know stay zero.
    let mut info = [0_u8; size_of::<nix::libc::tcp_info>()];
    option(socket, nix::libc::IPPROTO_TCP, nix::libc::TCP_INFO, &mut info)?;
    let number = |at: usize| {
        let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    };
    let segment = number(offset_of!(nix::libc::tcp_info, tcpi_snd_mss));
    let window = number(offset_of!(nix::libc::tcp_info, tcpi_snd_cwnd));
    let srtt = number(offset_of!(nix::libc::tcp_info, tcpi_rtt));
    Ok(Counters {
        retransmitted: number(offset_of!(nix::libc::tcp_info, tcpi_total_retrans)).into(),
        cwnd: u64::from(window) * u64::from(segment),
        srtt: Duration::from_micros(srtt.into()),
    })
}

/// Returns freed memory to the host. Without this call, the allocator keeps all free memory that lies below a block in
/// use. A server would keep the memory of its busiest moment for ever.
pub(super) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim touches only free memory, under the allocator's own locks.
        #[expect(unsafe_code, reason = "glibc's own call, which no crate of ours wraps")]
        let _ = unsafe { nix::libc::malloc_trim(MEMORY_KEPT) };
    }
}

/// `struct ifreq`. The driver reads only `name` and `flags`.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// The number of free bytes that trimming leaves at the end of the heap, which is the default of glibc. With a larger
/// number, the RSS would stay high after a busy time, which would look like a leak.
#[cfg(target_env = "gnu")]
const MEMORY_KEPT: usize = 128 << 10;
const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<c_int>(b'T', 202);
const SIOCOUTQ: rustix::ioctl::Opcode = nix::libc::TIOCOUTQ as rustix::ioctl::Opcode;
const SOL_MPTCP: c_int = 284;
const MPTCP_INFO: c_int = 1;
const MPTCP_INFO_FLAG_FALLBACK: u32 = 1;
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
