//! Tests that `serve` answers HTTP/1.1 requests over TCP, TLS and SCTP as the module `table` says. A gateway in front
//! of `serve` must give the same answers. The gateway's clients use TCP, TLS and SCTP, and its server uses TCP and
//! SCTP.

#![cfg(target_os = "linux")]

mod table;

use crate::peer::{associate, host, in_a_world};
use crate::running::{LONG, Running, Scratch, anabranch};
use anabranch_tls::{Client, ClientSettings, Surroundings, TlsConnector, Trust};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::process::Stdio;
use table::{Row, fault, is_whole, rows};

/// Sends a request on a stream, and reads the response to its end.
async fn ask(world: &OsWorld, stream: &mut impl Stream, bytes: &[u8]) -> Vec<u8> {
    let asking = async {
        // A write error is ignored: a server that rejects the beginning of a request may close before it has received
        // the rest.
        let _ = stream.write_all(bytes).await;
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while !is_whole(&all, bytes.starts_with(b"HEAD ")) {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(read) => all.extend_from_slice(&piece[..read]),
            }
        }
        all
    };
    world.timeout(LONG, asking).await.unwrap_or_default()
}

fn check_all(where_to: &str, rows: &[Row], answers: &[Vec<u8>], secure: bool) {
    let faults: Vec<String> = rows
        .iter()
        .zip(answers)
        .filter_map(|(row, answer)| fault(row, if secure { row.secure } else { row.clear }, answer))
        .collect();
    assert!(faults.is_empty(), "{where_to}: {} of {}\n{}", faults.len(), rows.len(), faults.join("\n"));
}

const LISTEN: [&str; 6] =
    ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0", "--streams", "400"];

fn site(name: &str) -> Scratch {
    let site = Scratch::new(name);
    site.file("site/index.html", "<p>home");
    site.file("site/sub/index.html", "<p>sub");
    site.file("site/empty", "");
    site
}

/// Starts a command that listens on TCP, SCTP and TLS, with a certificate of its own.
fn start(site: &Scratch, arguments: &[&str]) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", site.text()).args(arguments).arg("-q").args(LISTEN);
    command.args(["--listen", "https://127.0.0.1:0"]);
    Running::start_as(command, Stdio::null())
}

/// Returns the responses to `rows` over TCP, with a connection for each request.
fn over_tcp(target: &Running, rows: &[Row]) -> Vec<Vec<u8>> {
    in_a_world(async |world| {
        let mut answers = Vec::new();
        for row in rows {
            let connector = KernelConnector::new(world.clone(), vec![target.tcp()]);
            let session = connector.connect(0).expect("begun");
            session.established().await.expect("established");
            let mut stream = session.open(0).expect("a stream");
            answers.push(ask(&world, &mut stream, &row.bytes).await);
            session.abort();
        }
        answers
    })
}

/// Returns the responses to `rows` over TLS.
fn over_tls(target: &Running, rows: &[Row]) -> Vec<Vec<u8>> {
    let url = target.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned();
    in_a_world(async |world| {
        let settings = ClientSettings {
            trust: Trust::Anybody,
            protocols: vec![b"http/1.1".to_vec()],
            ..ClientSettings::default()
        };
        let client = Client::new(settings, Surroundings::Real).expect("a client");
        let mut answers = Vec::new();
        for row in rows {
            let kernel = KernelConnector::new(world.clone(), vec![url.parse().expect("an address")]);
            let names = ["localhost".to_owned()];
            let connector = TlsConnector::new(world.clone(), kernel, client.clone(), &names).expect("a name");
            let session = connector.connect(0).expect("begun");
            session.established().await.expect("established");
            let mut stream = session.open(0).expect("a stream");
            answers.push(ask(&world, &mut stream, &row.bytes).await);
            session.abort();
        }
        answers
    })
}

/// Returns the responses to `rows` on streams of an SCTP association.
fn over_sctp(target: &Running, rows: &[Row]) -> Vec<Vec<u8>> {
    in_a_world(async |world| {
        let host = host(&world, 400).await;
        let session = associate(&host, target).await;
        let mut answers = Vec::new();
        for (row, number) in rows.iter().zip(0..) {
            let mut stream = session.open(number).expect("a stream");
            answers.push(ask(&world, &mut stream, &row.bytes).await);
        }
        answers
    })
}

#[test]
fn requests_are_answered_as_the_table_says() {
    let (site, rows) = (site("requests"), rows());
    assert!(rows.len() >= 140, "{}", rows.len());
    let root = format!("{}/site", site.text());
    let server = start(&site, &["serve", &root]);
    check_all("serve over TCP", &rows, &over_tcp(&server, &rows), false);
    check_all("serve over TLS", &rows, &over_tls(&server, &rows), true);
    check_all("serve over SCTP", &rows, &over_sctp(&server, &rows), false);
    for scheme in ["http", "http+sctp"] {
        let gateway = start(&site, &["gateway", "--origin", server.url(scheme)]);
        check_all(&format!("gateway over TCP to {scheme}"), &rows, &over_tcp(&gateway, &rows), false);
        check_all(&format!("gateway over TLS to {scheme}"), &rows, &over_tls(&gateway, &rows), true);
        check_all(&format!("gateway over SCTP to {scheme}"), &rows, &over_sctp(&gateway, &rows), false);
    }
}
