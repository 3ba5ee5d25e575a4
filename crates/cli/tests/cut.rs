//! Tests that a truncated download never looks complete. `get` must end with exit code 1 and leave no file, over
//! HTTP/1.1 (RFC 9112 §8) and over HTTP/2 (RFC 9113 §8.1.1). For HTTP/3, tests of the crate `anabranch-http` have the
//! same cases.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;

/// How a server ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServerClose {
    Fin,
    /// With a reset. The test leaves data of the client unread, which makes the kernel reset the connection.
    Reset,
}

/// Runs `get` against a server that reads a request, sends `response` and then ends the connection. Returns the exit
/// code, the output, and whether `get` left a file.
fn get(
    scratch: &Scratch,
    response: &[u8],
    end: ServerClose,
    arguments: &[&str],
) -> (Option<i32>, String, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    let response = response.to_vec();
    let http2 = arguments.contains(&"2");
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        let mut byte = [0];
        // Returns whether the server has read enough of the request. Over HTTP/1.1, the server reads up to the empty
        // line after the fields. Over HTTP/2, the server reads up to the end of a HEADERS frame after the 24 bytes of
        // the preface.
        let is_whole = |request: &[u8]| match http2 {
            // To reset the connection, the server leaves the last byte of the empty line unread. When the server then
            // closes the socket, the kernel sends a reset because of the unread byte.
            false if end == ServerClose::Reset => request.ends_with(b"\r\n\r"),
            false => request.ends_with(b"\r\n\r\n"),
            true => has_headers(request.get(24..).unwrap_or_default()),
        };
        while !is_whole(&request) && stream.read(&mut byte).is_ok_and(|read| read > 0) {
            request.push(byte[0]);
        }
        stream.write_all(&response).expect("written");
        if end == ServerClose::Fin {
            stream.shutdown(Shutdown::Write).expect("shut");
            // Waits until the client has closed its side of the connection.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let file = format!("{}/got", scratch.text());
    let _ = std::fs::remove_file(&file);
    let url = format!("http://{address}/");
    let output = run(anabranch().args(["get", "--quiet", &url, "-o", &file]).args(arguments));
    serving.join().expect("served");
    (output.status.code(), errors(&output), std::fs::exists(&file).expect("looked"))
}

/// Whether these frames include a complete HEADERS frame.
fn has_headers(mut frames: &[u8]) -> bool {
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some(after) = rest.get(length..) else { return false };
        if *kind == 1 {
            return true;
        }
        frames = after;
    }
    false
}

/// Returns an HTTP/2 frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

#[test]
fn a_response_of_http_1_1_that_is_cut_is_a_failure() {
    let scratch = Scratch::new("cut-1");
    let (code, err, content) = get(
        &scratch,
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        ServerClose::Fin,
        &["--http", "1.1"],
    );
    assert_eq!((code, err.as_str(), content), (Some(0), "", true), "one that is whole");
    for response in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ] {
        for end in [ServerClose::Fin, ServerClose::Reset] {
            let (code, err, content) = get(&scratch, response.as_bytes(), end, &["--http", "1.1"]);
            assert_eq!((code, content), (Some(1), false), "{response:?} {end:?}: {err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
}

#[test]
fn a_response_of_http_2_that_is_cut_is_a_failure() {
    let scratch = Scratch::new("cut-2");
    // The server sends its SETTINGS frame, and acknowledges that of the client. The HEADERS frame has `:status: 200`
    // from the static table of RFC 7541, and optionally a content length.
    let begin = [frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat();
    let head = |length: &[u8], flags: u8| {
        let field = [&[0x0f, 0x0d, length.len() as u8][..], length].concat();
        let fields = if length.is_empty() { vec![0x88] } else { [&[0x88][..], &field].concat() };
        [&begin[..], &frame(1, flags, 1, &fields)].concat()
    };
    const END: u8 = 1;
    const WHOLE: u8 = 4;
    let say = |parts: &[&[u8]]| parts.concat();
    let data = |flags: u8| frame(0, flags, 1, b"abc");
    let reset = |code: u8| frame(3, 0, 1, &[0, 0, 0, code]);
    let goaway = frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let arguments = &["--http", "2"];
    for said in [say(&[&head(b"3", WHOLE), &data(END)]), say(&[&head(b"", WHOLE), &data(END)])] {
        let (code, err, content) = get(&scratch, &said, ServerClose::Fin, arguments);
        assert_eq!((code, err.as_str(), content), (Some(0), "", true), "one that is whole");
    }
    for (name, said) in [
        ("nothing", begin.clone()),
        ("a head alone", head(b"", WHOLE)),
        ("no end of the stream", say(&[&head(b"", WHOLE), &data(0)])),
        ("no end of the stream, and all of the length", say(&[&head(b"4", WHOLE), &data(0)])),
        ("less than the length", say(&[&head(b"4", WHOLE), &data(END)])),
        ("more than the length", say(&[&head(b"2", WHOLE), &data(END)])),
        ("a length and no content", head(b"4", WHOLE | END)),
        ("a reset without an error", say(&[&head(b"", WHOLE), &data(0), &reset(0)])),
        ("a cancelled stream", say(&[&head(b"", WHOLE), &data(0), &reset(8)])),
        ("an end in good order", say(&[&head(b"", WHOLE), &data(0), &goaway])),
    ] {
        let (code, err, content) = get(&scratch, &said, ServerClose::Fin, arguments);
        assert_eq!((code, content), (Some(1), false), "{name}: {err}");
        assert_eq!(err.lines().count(), 1, "{name}: {err}");
    }
}
