//! Tests a `gateway` when an origin, a client or the network fails. The gateway must report the failure to the client
//! or cut the response, and must serve the next request.
//!
//! The failures: an origin is killed and restarted, a client is killed, a path fails, a port is in use. The tests of
//! missing and malformed responses are in `gateway.rs` and `gateway_answers.rs`.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, emulated_links, errors, has, noise, run, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");
const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Returns an address whose port is free for TCP and UDP.
fn free_address() -> SocketAddr {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = tcp.local_addr().expect("an address");
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

fn site(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.file("site/big", noise(30_000_000));
    scratch.file("site/index.html", "<p>home");
    scratch
}

fn gateway(origin: &str) -> Running {
    Running::start(&[&["gateway", "-q", "--origin", origin][..], &TCP_AND_SCTP].concat())
}

/// Starts a client that has read the beginning of a large response and reads no further for now.
fn in_the_middle(url: &str) -> (Child, ChildStdout) {
    let mut client = anabranch();
    client.args(["get", "-q", "--timeout", "60s", &format!("{url}big")]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut out = client.stdout.take().expect("its output");
    out.read_exact(&mut [0; 1000]).expect("the beginning");
    (client, out)
}

/// Returns the status that a client of this transport receives.
fn status(gateway: &Running, scheme: &str) -> String {
    let got = run(anabranch().args(["get", "-q", gateway.url(scheme)]));
    match got.status.code() {
        Some(0) => "200".to_owned(),
        _ => errors(&got).trim().rsplit(' ').next().unwrap_or_default().to_owned(),
    }
}

/// The origin is killed in mid-transfer, and the client must notice the truncation. While the origin is down, requests
/// must be answered with 502. When it is back, they must be answered as before.
#[test]
fn a_killed_origin_is_noticed_and_used_again_after_its_restart() {
    for (scheme, listens) in [("http", "tcp"), ("http+sctp", "sctp")] {
        let scratch = site(&format!("gateway-killed-{listens}"));
        let (root, address) = (format!("{}/site", scratch.text()), free_address());
        let listen = format!("{listens}://{address}");
        let arguments = ["serve", &root, "-q", "--listen", &listen];
        let mut gateway = gateway(&format!("{scheme}://{address}"));
        for client_scheme in ["http", "http+sctp"] {
            let description = format!("from {client_scheme} to {scheme}");
            let origin = Running::start(&arguments);
            assert_eq!(status(&gateway, client_scheme), "200", "{description}");
            let (client, mut out) = in_the_middle(gateway.url(client_scheme));
            drop(origin);
            let mut rest = Vec::new();
            out.read_to_end(&mut rest).expect("the rest");
            let ended = client.wait_with_output().expect("ended");
            assert_eq!(ended.status.code(), Some(1), "{description}: {}", errors(&ended));
            assert!(rest.len() < 29_999_000, "{description}: the transfer was over too soon to tell");
            assert_eq!(status(&gateway, client_scheme), "502", "{description}");
            assert!(gateway.still_runs());
        }
    }
}

/// Clients are killed during downloads. The gateway must end their exchanges: it closes the connections to the origin,
/// and releases the memory of the exchanges.
#[test]
fn exchanges_of_killed_clients_end() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let origin = listener.local_addr().expect("an address");
    let open = Arc::new(AtomicUsize::new(0));
    let counted = open.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counted = counted.clone();
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                pour(stream);
                counted.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let gateway = gateway(&format!("http://{origin}"));
    for scheme in ["http", "http+sctp"] {
        let mut before = 0;
        for round in 0..3 {
            let clients: Vec<(Child, ChildStdout)> =
                (0..4).map(|_| in_the_middle(gateway.url(scheme))).collect();
            assert!(open.load(Ordering::SeqCst) >= 4);
            for (mut client, _out) in clients {
                client.kill().expect("killed");
                client.wait().expect("ended");
            }
            wait_until(&format!("{scheme}: the origin sends no more"), || open.load(Ordering::SeqCst) == 0);
            if round == 0 {
                before = gateway.resident();
            }
            // Waits until the memory has shrunk, because the allocator returns free memory to the system only after
            // some time.
            let limit = before + 8_000;
            wait_until(&format!("{scheme}: it holds {limit} KiB at most"), || gateway.resident() < limit);
        }
    }
}

/// Sends an endless response, until the receiver closes the connection.
fn pour(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n");
    while stream.write_all(&[b'x'; 65_536]).is_ok() {}
}

/// The path between two gateways fails for six seconds in mid-transfer, and the client must still get its file. Then
/// the path fails permanently, and the client must be cut off within the gateway's timeout.
#[test]
fn a_path_outage_between_gateways_is_survived() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = site("gateway-cut");
    let far = format!(
        "{PROGRAM} serve site -q --listen tcp://127.0.0.1:8080 &
         exec {PROGRAM} gateway -q --listen sctp://*:9899 --origin http://127.0.0.1:8080"
    );
    let statuses_behind = |cut: &str, idle: &str| {
        let near = format!(
            "{PROGRAM} gateway -q --listen tcp://127.0.0.1:8081 --idle {idle} \
             --origin http+sctp://${{ANABRANCH_FAR%%,*}}:9899 & gateway=$!
             for i in $(seq 100); do {PROGRAM} get -q http://127.0.0.1:8081/ -o home && break; sleep 0.1; done
             {PROGRAM} get -q --timeout 60s http://127.0.0.1:8081/big -o mine; status=$?
             {PROGRAM} get -q --timeout 60s http://127.0.0.1:8081/ -o home; next=$?
             kill $gateway; wait $gateway; echo $status $next >statuses"
        );
        let mut command = anabranch();
        command
            .current_dir(&scratch.0)
            .args(["link", "--quiet", "--rate", "60mbit", "--rtt", "10ms", "--fail"]);
        let output = run(command.args([cut, "--far", &far, "--", "sh", "-c", &near]));
        (fs::read_to_string(scratch.0.join("statuses")).unwrap_or_default(), errors(&output))
    };
    let (statuses, log) = statuses_behind("path=1,at=3s,for=6s", "60s");
    assert_eq!(statuses, "0 0\n", "{log}");
    assert!(
        fs::read(scratch.0.join("mine")).expect("a file")
            == fs::read(scratch.0.join("site/big")).expect("a file")
    );
    fs::remove_file(scratch.0.join("mine")).expect("it was there");
    let (statuses, log) = statuses_behind("path=1,at=3s", "4s");
    assert_eq!(statuses, "1 1\n", "{log}");
    assert!(!scratch.0.join("mine").exists());
}

/// Anything that prevents the start of a gateway must give one line and exit code 3.
#[test]
fn a_failed_start_is_reported_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tcp = format!("tcp://{}", taken.local_addr().expect("an address"));
    let taken_too = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let sctp = format!("sctp://{}", taken_too.local_addr().expect("an address"));
    let assert_start_fails = |command: &mut Command, what: &str| {
        let output = run(command);
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.lines().count() == 1 && message.contains(what), "{message}");
    };
    for listen in [&tcp, &sctp] {
        let arguments = ["gateway", "--listen", listen, "--origin", "http://127.0.0.1:1"];
        let port = listen.rsplit(':').next().unwrap_or_default();
        let one = format!("port {port} is in use");
        assert_start_fails(anabranch().args(arguments), &one);
        assert_start_fails(anabranch().args(arguments).args(["--threads", "2"]), &one);
        assert_start_fails(anabranch().args(["bulk", "--listen", listen]), &one);
        assert_start_fails(anabranch().args(["serve", "--threads", "1", "--listen", listen]), &one);
    }
    let everybody = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if everybody.is_ok_and(|first| first.trim() != "1024") {
        return;
    }
    let scratch = Scratch::new("gateway-nobody");
    // A copy of the program, which every user can execute.
    let program = scratch.0.join("anabranch");
    fs::copy(PROGRAM, &program).expect("a copy");
    let root = fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    let mut unprivileged = Command::new(&program);
    if root {
        if !has("setpriv") {
            return;
        }
        unprivileged = Command::new("setpriv");
        unprivileged.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]);
        unprivileged.arg(&program);
    }
    unprivileged.args(["gateway", "--listen", "tcp://127.0.0.1:81", "--origin", "http://127.0.0.1:1"]);
    assert_start_fails(&mut unprivileged, "ermission denied");
}
