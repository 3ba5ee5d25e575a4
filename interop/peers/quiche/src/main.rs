//! quiche as a peer of the HTTP/3 cases: a client and a server, based on the crate's examples, which support neither
//! tickets nor files.
//!
//! ```text
//! quiche-end server CASE ADDRESS PORT CERT KEY SITE
//! quiche-end client CASE ADDRESS PORT AUTHORITIES TARGET PATH..
//! ```
//!
//! CASE is the name in the QUIC interop runner. The server prints the address on which it listens. The client writes
//! the files to TARGET and prints one line per handshake. Its exit code is 0 if all files arrived. `SSLKEYLOGFILE`
//! names the file for the secrets of sessions.

use quiche::h3::{Event, Header, NameValue};
use quiche::{Connection, ConnectionId, RecvInfo};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A version that no implementation supports (RFC 9000 section 15).
const RESERVED: u32 = 0x1a2a_3a4a;
const DATAGRAM: usize = 1350;
/// The time after which a client gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["server", case, address, port, cert, key, site] => server(case, address, port, cert, key, site),
        ["client", case, address, port, authorities, target, ref paths @ ..] => {
            client(case, address, port, authorities, target, paths)
        }
        _ => Err("quiche-end server CASE ADDRESS PORT CERT KEY SITE | client CASE ADDRESS PORT AUTHORITIES TARGET PATH..".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quiche: {error}");
            ExitCode::FAILURE
        }
    }
}

fn config(case: &str, is_client: bool) -> Outcome<quiche::Config> {
    let version = if is_client && case == "versionnegotiation" { RESERVED } else { quiche::PROTOCOL_VERSION };
    let mut config = quiche::Config::new(version)?;
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(1500);
    config.set_max_send_udp_payload_size(DATAGRAM);
    // In the case `transfer`, the client's first window is small, so that it has to grow.
    let window = if is_client && case == "transfer" { 1 << 16 } else { 1 << 20 };
    config.set_initial_max_data(2 * window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_initial_max_stream_data_uni(window);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(10);
    config.set_active_connection_id_limit(4);
    if case == "zerortt" {
        config.enable_early_data();
    }
    config.log_keys();
    Ok(config)
}

fn log_keys(connection: &mut Connection) -> Outcome<()> {
    if let Some(file) = std::env::var_os("SSLKEYLOGFILE") {
        connection.set_keylog(Box::new(OpenOptions::new().append(true).create(true).open(file)?));
    }
    Ok(())
}

fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Sends all packets that the connection wants to send now.
fn send(connection: &mut Connection, socket: &UdpSocket) -> Outcome<()> {
    let mut packet = [0; DATAGRAM];
    loop {
        match connection.send(&mut packet) {
            Ok((length, how)) => {
                // quiche paces its packets, and the socket drops packets that do not fit into its queue. Sleeps until
                // the packet is due, at most 5 ms.
                let wait = how.at.saturating_duration_since(Instant::now());
                if wait > Duration::from_micros(200) {
                    std::thread::sleep(wait.min(Duration::from_millis(5)));
                }
                let _ = socket.send_to(&packet[..length], how.to);
            }
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the next packet, or `None` after `wait`.
fn receive(socket: &UdpSocket, room: &mut [u8], wait: Duration) -> Outcome<Option<(usize, SocketAddr)>> {
    socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
    match socket.recv_from(room) {
        Ok(received) => Ok(Some(received)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A connection of the server to one client.
struct Guest {
    connection: Connection,
    http: Option<quiche::h3::Connection>,
    /// Answers in progress, by stream: the head, the body, and the number of bytes of the body that were sent.
    answers: BTreeMap<u64, (Option<Vec<Header>>, Vec<u8>, usize)>,
}

impl Guest {
    /// Accepts requests, and sends as much of the answers as the peer and the network allow.
    fn serve(&mut self, site: &str) -> Outcome<()> {
        let connection = &mut self.connection;
        if self.http.is_none() && (connection.is_established() || connection.is_in_early_data()) {
            let config = quiche::h3::Config::new()?;
            self.http = Some(quiche::h3::Connection::with_transport(connection, &config)?);
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        loop {
            match http.poll(connection) {
                Ok((stream, Event::Headers { list, .. })) => {
                    let path = list.iter().find(|field| field.name() == b":path").map(|field| field.value().to_vec());
                    let path = String::from_utf8(path.unwrap_or_default())?;
                    let name = Path::new(&path).file_name().unwrap_or_default();
                    let (status, body) = match std::fs::read(Path::new(site).join(name)) {
                        Ok(body) => ("200", body),
                        Err(_) => ("404", Vec::new()),
                    };
                    let length = body.len().to_string();
                    let head = vec![
                        Header::new(b":status", status.as_bytes()),
                        Header::new(b"content-length", length.as_bytes()),
                    ];
                    self.answers.insert(stream, (Some(head), body, 0));
                }
                Ok(_) => {}
                Err(quiche::h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut finished = Vec::new();
        for (&stream, (head, body, sent)) in &mut self.answers {
            if let Some(fields) = head {
                match http.send_response(connection, stream, fields, body.is_empty()) {
                    Ok(()) => *head = None,
                    Err(quiche::h3::Error::StreamBlocked | quiche::h3::Error::Done) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            match http.send_body(connection, stream, &body[*sent..], true) {
                Ok(count) => *sent += count,
                Err(quiche::h3::Error::Done) => {}
                Err(error) => return Err(error.into()),
            }
            if *sent == body.len() {
                finished.push(stream);
            }
        }
        finished.iter().for_each(|stream| drop(self.answers.remove(stream)));
        Ok(())
    }
}

fn server(case: &str, address: &str, port: &str, cert: &str, key: &str, site: &str) -> Outcome<()> {
    let mut config = config(case, false)?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    let socket = UdpSocket::bind((address, port.parse::<u16>()?))?;
    let local = socket.local_addr()?;
    println!("listening {local}");
    let mut guests: Vec<Guest> = Vec::new();
    let mut known: HashMap<ConnectionId<'static>, usize> = HashMap::new();
    let mut room = vec![0; 65536];
    loop {
        let wait = guests.iter().filter_map(|guest| guest.connection.timeout()).min().unwrap_or(PATIENCE);
        match receive(&socket, &mut room, wait)? {
            None => {
                // Each connection has its own timer; `on_timeout` is called only when it has expired.
                for guest in &mut guests {
                    if guest.connection.timeout().is_some_and(|left| left.is_zero()) {
                        guest.connection.on_timeout();
                    }
                }
            }
            Some((length, from)) => {
                let packet = &mut room[..length];
                let Ok(header) = quiche::Header::from_slice(packet, quiche::MAX_CONN_ID_LEN) else { continue };
                let index = match known.get(&header.dcid) {
                    Some(&index) => index,
                    None => {
                        let Some(mut guest) = greet(case, &header, from, local, &socket, &mut config)? else { continue };
                        log_keys(&mut guest.connection)?;
                        known.insert(header.dcid.clone(), guests.len());
                        known.insert(guest.connection.source_id().into_owned(), guests.len());
                        guests.push(guest);
                        guests.len() - 1
                    }
                };
                let guest = &mut guests[index];
                if let Err(error) = guest.connection.recv(packet, RecvInfo { from, to: local }) {
                    eprintln!("quiche: {error}");
                    continue;
                }
                while guest.connection.scids_left() > 0 {
                    let id = ConnectionId::from_vec(random::<{ quiche::MAX_CONN_ID_LEN }>()?.to_vec());
                    if guest.connection.new_scid(&id, u128::from_be_bytes(random()?), false).is_err() {
                        break;
                    }
                    known.insert(id, index);
                }
                while guest.connection.path_event_next().is_some() {}
            }
        }
        for guest in &mut guests {
            if guest.connection.is_closed() {
                continue;
            }
            if let Err(error) = guest.serve(site).and_then(|()| send(&mut guest.connection, &socket)) {
                eprintln!("quiche: {error}");
                let _ = guest.connection.close(false, 1, b"");
            }
        }
    }
}

/// Returns a new connection for an unknown client. Returns `None` if the client gets a Retry packet, a Version
/// Negotiation packet or no answer instead.
fn greet(
    case: &str,
    header: &quiche::Header<'_>,
    from: SocketAddr,
    local: SocketAddr,
    socket: &UdpSocket,
    config: &mut quiche::Config,
) -> Outcome<Option<Guest>> {
    let mut out = [0; DATAGRAM];
    if header.ty == quiche::Type::VersionNegotiation || header.ty == quiche::Type::Short {
        return Ok(None);
    }
    if case == "versionnegotiation-only" {
        // The crate always lists version 1, so a packet with other versions is written here (RFC 9000 section
        // 17.2.1).
        let mut packet = vec![0x80, 0, 0, 0, 0];
        for id in [&header.scid, &header.dcid] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        for version in [RESERVED, 0x6b33_43cf] {
            packet.extend_from_slice(&version.to_be_bytes());
        }
        socket.send_to(&packet, from)?;
        return Ok(None);
    }
    if !quiche::version_is_supported(header.version) {
        let length = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
        socket.send_to(&out[..length], from)?;
        return Ok(None);
    }
    if header.ty != quiche::Type::Initial {
        return Ok(None);
    }
    let token = header.token.clone().unwrap_or_default();
    let fresh = ConnectionId::from_vec(random::<{ quiche::MAX_CONN_ID_LEN }>()?.to_vec());
    let (id, original) = if case != "retry" {
        (fresh, None)
    } else if token.is_empty() {
        let mut token = from.to_string().into_bytes();
        token.push(0);
        token.extend_from_slice(&header.dcid);
        let length = quiche::retry(&header.scid, &header.dcid, &fresh, &token, header.version, &mut out)?;
        socket.send_to(&out[..length], from)?;
        return Ok(None);
    } else {
        let Some(original) = token.strip_prefix(format!("{from}\0").as_bytes()) else { return Ok(None) };
        (header.dcid.clone().into_owned(), Some(ConnectionId::from_vec(original.to_vec())))
    };
    let connection = quiche::accept(&id, original.as_ref(), local, from, config)?;
    Ok(Some(Guest { connection, http: None, answers: BTreeMap::new() }))
}

fn client(case: &str, address: &str, port: &str, authorities: &str, target: &str, paths: &[&str]) -> Outcome<()> {
    let mut config = config(case, true)?;
    config.verify_peer(true);
    config.load_verify_locations_from_file(authorities)?;
    let server: SocketAddr = format!("{address}:{port}").parse()?;
    if !matches!(case, "resumption" | "zerortt") {
        return get(case, &mut config, server, target, paths, None).map(drop);
    }
    let session = get(case, &mut config, server, target, &paths[..1], None)?.ok_or("no ticket came")?;
    get(case, &mut config, server, target, &paths[1..], Some(&session)).map(drop)
}

/// Gets all paths in parallel over one connection. Returns the session ticket of the connection, if any.
fn get(
    case: &str,
    config: &mut quiche::Config,
    server: SocketAddr,
    target: &str,
    paths: &[&str],
    session: Option<&[u8]>,
) -> Outcome<Option<Vec<u8>>> {
    let socket = UdpSocket::bind(if server.ip().is_loopback() { "127.0.0.1:0" } else { "0.0.0.0:0" })?;
    let local = socket.local_addr()?;
    let id = random::<{ quiche::MAX_CONN_ID_LEN }>()?;
    // The server's certificate names this host.
    let mut connection = quiche::connect(Some("localhost"), &ConnectionId::from_ref(&id), local, server, config)?;
    log_keys(&mut connection)?;
    if let Some(session) = session {
        connection.set_session(session)?;
    }
    let begun = Instant::now();
    let mut http = None;
    let mut bodies: BTreeMap<u64, (usize, Vec<u8>)> = BTreeMap::new();
    let (mut asked, mut finished, mut early) = (0, 0, false);
    let mut room = vec![0; 65536];
    let mut kept = None;
    let mut took = Duration::ZERO;
    loop {
        // The ClientHello is sent first, because quiche knows only afterwards whether early data is possible.
        send(&mut connection, &socket)?;
        if http.is_none() && (connection.is_established() || connection.is_in_early_data()) {
            early = !connection.is_established();
            http = Some(quiche::h3::Connection::with_transport(&mut connection, &quiche::h3::Config::new()?)?);
        }
        while let (Some(http), Some(path)) = (&mut http, paths.get(asked)) {
            let fields = [
                Header::new(b":method", b"GET"),
                Header::new(b":scheme", b"https"),
                Header::new(b":authority", server.to_string().as_bytes()),
                Header::new(b":path", path.as_bytes()),
            ];
            match http.send_request(&mut connection, &fields, true) {
                Ok(stream) => drop(bodies.insert(stream, (asked, Vec::new()))),
                Err(quiche::h3::Error::StreamBlocked | quiche::h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(error) => return Err(error.into()),
            }
            asked += 1;
        }
        send(&mut connection, &socket)?;
        if connection.is_closed() {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return Err("nothing more came for too long".into());
        }
        match receive(&socket, &mut room, connection.timeout().unwrap_or(PATIENCE).min(PATIENCE))? {
            None => connection.on_timeout(),
            Some((length, from)) => {
                if let Err(error) = connection.recv(&mut room[..length], RecvInfo { from, to: local }) {
                    eprintln!("quiche: {error}");
                }
            }
        }
        while connection.path_event_next().is_some() {}
        while let Some(http) = &mut http {
            match http.poll(&mut connection) {
                Ok((stream, Event::Headers { list, .. })) => {
                    let status = list.iter().find(|field| field.name() == b":status");
                    if status.is_none_or(|status| status.value() != b"200") {
                        return Err(format!("stream {stream}: {list:?}").into());
                    }
                }
                Ok((stream, Event::Data)) => {
                    let (_, body) = bodies.get_mut(&stream).ok_or("data of a stream that was not asked for")?;
                    while let Ok(count) = http.recv_body(&mut connection, stream, &mut room) {
                        body.extend_from_slice(&room[..count]);
                    }
                }
                Ok((_, Event::Finished)) => finished += 1,
                Ok((stream, Event::Reset(code))) => return Err(format!("stream {stream}: reset, {code:#x}").into()),
                Ok(_) => {}
                Err(quiche::h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        kept = connection.session().map(<[u8]>::to_vec).or(kept);
        // A session ticket may arrive after the last answer.
        let waits = matches!(case, "resumption" | "zerortt") && kept.is_none();
        if finished == paths.len() && took.is_zero() {
            took = begun.elapsed();
        }
        if finished == paths.len() && !waits && !connection.is_draining() {
            let _ = connection.close(true, 0x100, b"");
        }
    }
    if finished < paths.len() {
        return Err(format!("the connection ended: {:?} {:?}", connection.peer_error(), connection.local_error()).into());
    }
    for (index, body) in bodies.into_values() {
        let name = Path::new(paths[index]).file_name().ok_or("a path without a name")?;
        std::fs::write(Path::new(target).join(name), body)?;
    }
    let early = early && connection.early_data_reason() == 2;
    println!("handshake resumed={} early={early} took={}ms", connection.is_resumed(), took.as_millis());
    Ok(kept)
}
