//! `anabranch lab`: writes or serves the laboratory as one self-contained web page.
//!
//! The page is built by `lab-page/build.sh`, and is in programs that were built with the feature `lab-page`. It needs
//! nothing else: the program runs in the browser, as WebAssembly. The server answers each request with the page, so it
//! reads of a request only its first line.

use crate::files::{self, PendingFile};
use crate::flag::flag;
use crate::{Completion, Failure, complain, say};
use clap::{ArgMatches, Command, value_parser};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// The page, if this program has one.
#[cfg(feature = "lab-page")]
const PAGE: Option<&[u8]> = Some(include_bytes!("../../../lab-page/dist/lab.html"));
#[cfg(not(feature = "lab-page"))]
const PAGE: Option<&[u8]> = None;

/// The policy of the page, which has it in its head as well. The page loads nothing and sends nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; \
     style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The maximum length of the head of a request. Browsers send less than 2 kB.
const MAX_HEAD: usize = 16 << 10;

/// The time after which a silent client is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the definition of the `lab` command.
pub fn command() -> Command {
    Command::new("lab")
        .about("The race as one self-contained web page")
        .long_about(
            "Serves the laboratory as a web page on this machine, or writes the page to a file that a browser opens. The \
             same program runs in the browser, as WebAssembly, so nothing is uploaded and no network is needed.\n\n\
             Without --out, the page is served on 127.0.0.1 until the command is interrupted.",
        )
        .after_long_help(
            "Examples:\n  anabranch lab\n  anabranch lab --out lab.html\n\n\
             Exit: 0 done, 2 usage, 3 not possible here (this program was built without the page), 130 interrupted.",
        )
        .arg(flag("out", "FILE", "Write the page to this file, and end").short('o').conflicts_with("port"))
        .arg(
            flag("port", "N", "Serve on this port of 127.0.0.1 [default: a free one]")
                .value_parser(value_parser!(u16)),
        )
}

/// Runs the `lab` command.
pub fn run(matches: &ArgMatches) -> Result<Completion, Failure> {
    let page = PAGE.ok_or_else(|| {
        let line = "this program was built without the page; build it with lab-page/build.sh, and then the program with \
                    cargo build --release --features lab-page";
        Failure::Host(line.to_owned())
    })?;
    match matches.get_one::<String>("out").map(String::as_str) {
        Some("") => Err(Failure::Usage("--out: a value is missing; write a file name".to_owned())),
        Some("-") => Err(Failure::Usage("--out: the page goes to a file; write its name".to_owned())),
        Some(path) => {
            files::publish(vec![PendingFile::new(Path::new(path))?.fill(page)?])?;
            Ok(Completion::Well)
        }
        None => serve(page, matches.get_one::<u16>("port").copied().unwrap_or(0)),
    }
}

fn serve(page: &'static [u8], port: u16) -> Result<Completion, Failure> {
    let refused = |error: io::Error| Failure::Host(format!("cannot listen on 127.0.0.1:{port}: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say(&format!("http://{address}/\n"))?;
    complain("open this address in a browser; an interrupt (Ctrl-C) ends the server");
    for client in listener.incoming() {
        let client = client.map_err(|error| Failure::Host(format!("cannot accept a connection: {error}")))?;
        // A client that leaves early has no answer to miss.
        std::thread::spawn(move || answer(client, page));
    }
    Ok(Completion::Well)
}

/// Answers one request, and closes the connection.
fn answer(mut client: TcpStream, page: &[u8]) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            read if head.len() + read > MAX_HEAD => return Ok(()),
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    let (head, body) = response(&head, page);
    client.write_all(head.as_bytes())?;
    client.write_all(body)
}

/// Returns the head and the body of the response to a request with this head.
fn response<'p>(request: &[u8], page: &'p [u8]) -> (String, &'p [u8]) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/" | b"/lab.html") => ("200 OK", page),
        (b"HEAD", b"/" | b"/lab.html") => ("200 OK", &page[..0]),
        (b"GET" | b"HEAD", _) => ("404 Not Found", &page[..0]),
        _ => ("405 Method Not Allowed", &page[..0]),
    };
    let length = if method == b"HEAD" && status.starts_with("200") { page.len() } else { body.len() };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n"
    );
    (head, body)
}

#[cfg(test)]
mod tests {
    use super::response;

    #[test]
    fn the_page_is_served_with_a_policy_that_allows_no_request() {
        let (head, body) = response(b"GET /?x HTTP/1.1\r\nHost: a\r\n\r\n", b"page");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 4\r\n"), "{head}");
        assert!(head.contains("Content-Security-Policy: default-src 'none';") && head.ends_with("\r\n\r\n"));
        assert_eq!(body, b"page");
        let (head, body) = response(b"HEAD / HTTP/1.1\r\n\r\n", b"page");
        assert!(head.contains("Content-Length: 4\r\n") && body.is_empty(), "{head}");
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        for (request, status) in
            [("GET /favicon.ico HTTP/1.1", "404"), ("POST / HTTP/1.1", "405"), ("", "405")]
        {
            let (head, body) = response(request.as_bytes(), b"page");
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && body.is_empty(), "{request}: {head}");
        }
    }
}
