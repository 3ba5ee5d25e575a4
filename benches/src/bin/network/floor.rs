//! Measures the throughput of UDP alone, as a baseline. In one mode, datagrams are sent in trains (GSO, GRO), and both
//! ends compute the CRC32c of each packet. In the other mode, each datagram takes one system call, without a checksum.
//! Each end is a child process that runs this program again.

use crate::flows::Flow;
use anabranch_wire::sctp::crc32c;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use std::hint::black_box;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub const PACKET: usize = 1452;
const TRAIN: usize = 44;

/// Returns the rates of a transfer of `bytes` bytes in messages of `message` bytes. `seconds` is its duration, and
/// `spent` is its CPU time in seconds.
pub fn flow(bytes: f64, seconds: f64, spent: f64, message: usize) -> Flow {
    Flow {
        gbits: bytes * 8.0 / seconds / 1e9,
        messages: bytes / message as f64 / seconds,
        cpu: spent / bytes * 1e9,
    }
}

/// Runs one of the two ends of the UDP transfer, as a child process.
pub fn run(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["receive", "train", at] => receive_trains(at),
        ["receive", "single", at] => receive_singly(at),
        ["send", "train", to, seconds] => send_trains(to, seconds.parse().expect("seconds")),
        ["send", "single", to, seconds] => send_singly(to, seconds.parse().expect("seconds")),
        _ => panic!("floor receive train|single ADDRESS, or floor send train|single ADDRESS SECONDS"),
    }
}

/// Returns the processor time of this process in seconds.
pub fn own_cpu() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .expect("Linux has this call");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn end(socket: &UdpSocket, to: SocketAddr) {
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..10 {
        let _ = socket.send_to(b"end", to);
    }
    println!("{}", own_cpu());
}

fn send_trains(to: &str, seconds: u64) {
    let to: SocketAddr = to.parse().expect("an address");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let state = UdpSocketState::new((&socket).into()).expect("its state");
    socket.set_nonblocking(false).expect("it waits");
    let train = TRAIN.min(state.max_gso_segments());
    let mut bytes = vec![7_u8; PACKET * train];
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for packet in bytes.chunks_exact_mut(PACKET) {
            let sum = crc32c::crc32c(&packet[4..]);
            packet[..4].copy_from_slice(&sum.to_be_bytes());
        }
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &bytes,
            segment_size: Some(PACKET),
            src_ip: None,
        };
        // A send error is ignored: it means that the send queue was full, and counts as packet loss.
        let _ = state.try_send((&socket).into(), &transmit);
    }
    end(&socket, to);
}

fn receive_trains(at: &str) {
    let socket = UdpSocket::bind(at).expect("a socket");
    let state = UdpSocketState::new((&socket).into()).expect("its state");
    socket.set_nonblocking(false).expect("it waits");
    println!("{}", socket.local_addr().expect("its address"));
    let mut buffer = vec![0_u8; 65_536];
    receive(|| {
        let mut metas = [RecvMeta::default()];
        let got = state.recv((&socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut metas);
        if got.is_err() {
            return 0;
        }
        if metas[0].len > 3 {
            for packet in buffer[..metas[0].len].chunks(metas[0].stride.max(1)) {
                black_box(crc32c::crc32c(&packet[4.min(packet.len())..]));
            }
        }
        metas[0].len
    });
}

fn send_singly(to: &str, seconds: u64) {
    let to: SocketAddr = to.parse().expect("an address");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let bytes = vec![7_u8; PACKET];
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for _ in 0..TRAIN {
            let _ = socket.send_to(&bytes, to);
        }
    }
    end(&socket, to);
}

fn receive_singly(at: &str) {
    let socket = UdpSocket::bind(at).expect("a socket");
    println!("{}", socket.local_addr().expect("its address"));
    let mut buffer = vec![0_u8; 65_536];
    receive(|| socket.recv(&mut buffer).unwrap_or(0));
}

/// Receives until a datagram of three bytes arrives. Prints the number of bytes before that datagram, the seconds that
/// they took, and the processor time.
fn receive(mut next: impl FnMut() -> usize) {
    let (mut bytes, mut first, mut last) = (0, None, Instant::now());
    loop {
        match next() {
            0 => continue,
            3 => break,
            got => {
                last = Instant::now();
                first.get_or_insert(last);
                bytes += got;
            }
        }
    }
    let span = last.duration_since(first.unwrap_or(last)).as_secs_f64();
    println!("{bytes} {span} {}", own_cpu());
}
