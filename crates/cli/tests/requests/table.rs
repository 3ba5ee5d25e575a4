//! HTTP/1.1 requests as bytes, each with the status of its response and the section of the RFC that requires it.

/// Request lines, each followed by `Host: a`.
const LINES: &[(&str, u16, &str)] = &[
    // RFC 9112 §3.1: request lines with different methods.
    ("GET / HTTP/1.1", 200, "9110 9.3.1"),
    ("HEAD / HTTP/1.1", 200, "9110 9.3.2"),
    ("POST / HTTP/1.1", 405, "9110 9.1"),
    ("PUT / HTTP/1.1", 405, "9110 9.1"),
    ("PATCH / HTTP/1.1", 405, "9110 9.1"),
    ("DELETE / HTTP/1.1", 405, "9110 9.1"),
    ("OPTIONS / HTTP/1.1", 405, "9110 9.1"),
    ("OPTIONS * HTTP/1.1", 405, "9112 3.2.4"),
    ("TRACE / HTTP/1.1", 405, "9110 9.1"),
    ("BREW / HTTP/1.1", 501, "9110 9.1"),
    ("PROPFIND / HTTP/1.1", 501, "9110 9.1"),
    ("get / HTTP/1.1", 501, "9110 9.1"),
    ("GETS / HTTP/1.1", 501, "9110 9.1"),
    ("* / HTTP/1.1", 501, "9110 9.1"),
    ("!#$%&'*+-.^_`|~09az / HTTP/1.1", 501, "9110 5.6.2"),
    ("G(T / HTTP/1.1", 400, "9110 5.6.2"),
    ("G\u{e9}T / HTTP/1.1", 400, "9110 5.6.2"),
    ("\"GET\" / HTTP/1.1", 400, "9110 5.6.2"),
    (" GET / HTTP/1.1", 400, "9112 3"),
    // RFC 9112 §3.2.1: request targets in origin-form.
    ("GET /index.html HTTP/1.1", 200, "9112 3.2.1"),
    ("GET /?q=1&r=[2]|{3} HTTP/1.1", 200, "9112 3.2.1"),
    ("GET /?100% HTTP/1.1", 200, "9112 3.2.1"),
    ("GET /%69ndex.html HTTP/1.1", 200, "3986 2.1"),
    ("GET /none HTTP/1.1", 404, "9110 15.5.5"),
    ("GET /sub HTTP/1.1", 301, "9110 15.4.2"),
    ("GET index.html HTTP/1.1", 400, "9112 3.2"),
    ("GET a HTTP/1.1", 400, "9112 3.2"),
    ("GET a:80 HTTP/1.1", 400, "9112 3.2.3"),
    ("GET 127.0.0.1:80 HTTP/1.1", 400, "9112 3.2.3"),
    ("GET ?q HTTP/1.1", 400, "9112 3.2.1"),
    ("GET #f HTTP/1.1", 400, "9112 3.2.1"),
    ("GET /#f HTTP/1.1", 400, "9112 3.2.1"),
    ("GET /?q#f HTTP/1.1", 400, "9112 3.2.1"),
    ("GET /% HTTP/1.1", 400, "3986 2.1"),
    ("GET /%4 HTTP/1.1", 400, "3986 2.1"),
    ("GET /%zz HTTP/1.1", 400, "3986 2.1"),
    ("GET /%-1 HTTP/1.1", 400, "3986 2.1"),
    ("GET /\u{e9} HTTP/1.1", 400, "3986 3.3"),
    ("GET /?\u{e9} HTTP/1.1", 400, "3986 3.4"),
    ("GET /a<b HTTP/1.1", 400, "3986 3.3"),
    ("GET /a>b HTTP/1.1", 400, "3986 3.3"),
    ("GET /a\"b HTTP/1.1", 400, "3986 3.3"),
    ("GET /a\\b HTTP/1.1", 400, "3986 3.3"),
    ("GET /a{b} HTTP/1.1", 400, "3986 3.3"),
    ("GET /a\u{1}b HTTP/1.1", 400, "3986 3.3"),
    ("GET /a\u{7f}b HTTP/1.1", 400, "3986 3.3"),
    ("GET * HTTP/1.1", 400, "9112 3.2.4"),
    ("HEAD * HTTP/1.1", 400, "9112 3.2.4"),
    // RFC 9112 §3.2.2: request targets in absolute-form.
    ("GET http://a/ HTTP/1.1", 200, "9112 3.2.2"),
    ("GET HTTP://A.Example:81/index.html HTTP/1.1", 200, "9112 3.2.2"),
    ("GET http://a HTTP/1.1", 200, "9112 3.2.2"),
    ("GET http://a?q HTTP/1.1", 200, "9112 3.2.2"),
    ("GET http://[::1]:80/ HTTP/1.1", 200, "9112 3.2.2"),
    ("GET http:/a/ HTTP/1.1", 400, "9110 4.2.1"),
    ("GET http:a HTTP/1.1", 400, "9110 4.2.1"),
    ("GET http:// HTTP/1.1", 400, "9110 4.2.1"),
    ("GET http:///index.html HTTP/1.1", 400, "9110 4.2.1"),
    ("GET http://:80/ HTTP/1.1", 400, "9110 4.2.1"),
    ("GET http://user@a/ HTTP/1.1", 400, "9110 4.2.4"),
    ("GET http://user:pass@a/ HTTP/1.1", 400, "9110 4.2.4"),
    ("GET http://a:0/ HTTP/1.1", 400, "3986 3.2.3"),
    ("GET http://a:99999/ HTTP/1.1", 400, "3986 3.2.3"),
    ("GET http://a:8x/ HTTP/1.1", 400, "3986 3.2.3"),
    ("GET http://[::1/ HTTP/1.1", 400, "3986 3.2.2"),
    ("GET http://[a]/ HTTP/1.1", 400, "3986 3.2.2"),
    ("GET http://a%zz/ HTTP/1.1", 400, "3986 3.2.2"),
    ("GET http://a/#f HTTP/1.1", 400, "9112 3.2.2"),
    ("GET http://a/%zz HTTP/1.1", 400, "3986 2.1"),
    ("GET ftp://a/ HTTP/1.1", 400, "9110 4.2"),
    ("GET file:///index.html HTTP/1.1", 400, "9110 4.2"),
    // RFC 9112 §3.2.3: request targets in authority-form.
    ("CONNECT a HTTP/1.1", 400, "9110 9.3.6"),
    ("CONNECT a: HTTP/1.1", 400, "9110 9.3.6"),
    ("CONNECT a:0 HTTP/1.1", 400, "9110 9.3.6"),
    ("CONNECT a:port HTTP/1.1", 400, "9110 9.3.6"),
    ("CONNECT user@a:80 HTTP/1.1", 400, "9112 3.2.3"),
    ("CONNECT / HTTP/1.1", 400, "9112 3.2.3"),
    ("CONNECT http://a:80/ HTTP/1.1", 400, "9112 3.2.3"),
    // RFC 9112 §2.3, §3: versions, and the syntax of a request line.
    ("GET / HTTP/1.0", 200, "9112 2.3"),
    ("GET / HTTP/1.2", 200, "9110 6.2"),
    ("GET / HTTP/1.9", 200, "9110 6.2"),
    ("GET / HTTP/0.9", 505, "9110 15.6.6"),
    ("GET / HTTP/2.0", 505, "9110 15.6.6"),
    ("GET / HTTP/3.0", 505, "9110 15.6.6"),
    ("GET / HTTP/1.10", 400, "9112 2.3"),
    ("GET / HTTP/1", 400, "9112 2.3"),
    ("GET / HTTP/1.x", 400, "9112 2.3"),
    ("GET / HTTP/ 1.1", 400, "9112 2.3"),
    ("GET / http/1.1", 400, "9112 2.3"),
    ("GET / HTCPCP/1.1", 400, "9112 2.3"),
    ("GET /", 400, "9112 3"),
    ("GET", 400, "9112 3"),
    ("GET HTTP/1.1", 400, "9112 3"),
    ("GET  / HTTP/1.1", 400, "9112 3"),
    ("GET /  HTTP/1.1", 400, "9112 3"),
    ("GET / HTTP/1.1 ", 400, "9112 3"),
    ("GET /a b HTTP/1.1", 400, "9112 3"),
    ("GET\t/ HTTP/1.1", 400, "9112 3"),
    ("GET /\tHTTP/1.1", 400, "9112 3"),
];

/// Values of the Host field, each with the status of the response.
const HOSTS: &[(&str, u16)] = &[
    ("", 200),
    ("a", 200),
    ("A.Example", 200),
    ("a.example.", 200),
    ("a_b", 200),
    ("xn--bcher-kva.example", 200),
    ("a:80", 200),
    ("a:", 200),
    ("127.0.0.1:8080", 200),
    ("[::1]", 200),
    ("[2001:db8::1]:443", 200),
    ("[::1", 400),
    ("::1", 400),
    ("::1]", 400),
    ("[]", 400),
    ("[::g]", 400),
    ("[127.0.0.1]", 400),
    ("[::1]x", 400),
    ("[::1]80", 400),
    ("[::1%25lo]", 400),
    ("user@h", 400),
    ("user:pass@h", 400),
    ("@h", 400),
    ("ex%zz", 400),
    ("ex%", 400),
    ("ex%4", 400),
    ("a b", 400),
    ("a\tb", 400),
    ("a,b", 400),
    ("a, b", 400),
    ("a/", 400),
    ("/", 400),
    ("http://a", 400),
    ("a?b", 400),
    ("a#b", 400),
    ("a\\b", 400),
    ("a|b", 400),
    ("<a>", 400),
    ("\"a\"", 400),
    ("{a}", 400),
    ("a^b", 400),
    ("a`b", 400),
    ("\u{e9}", 400),
    (":80", 400),
    ("a:x", 400),
    ("a:80x", 400),
    ("a:-1", 400),
    ("a:+1", 400),
    ("a:80:81", 400),
    ("a:0", 400),
    ("a:65536", 400),
];

/// Fields of a GET of `/`, after `Host: a`.
const FIELDS: &[(&str, u16, &str)] = &[
    ("X:", 200, "9110 5.5"),
    ("X:y", 200, "9112 5"),
    ("X:  y \t", 200, "9112 5.1"),
    ("X: \u{e9}", 200, "9110 5.5"),
    ("x-Y!#$%&'*+.^_`|~: z", 200, "9110 5.6.2"),
    ("Connection: close", 200, "9112 9.3"),
    ("Expect: 100-continue", 200, "9110 10.1.1"),
    ("Upgrade: h2c\r\nConnection: upgrade", 200, "9110 7.8"),
    ("TE: trailers\r\nConnection: TE", 200, "9110 10.1.4"),
    ("X", 400, "9112 5"),
    (": x", 400, "9112 5"),
    ("X : y", 400, "9112 5.1"),
    ("X\t: y", 400, "9112 5.1"),
    ("X Y: z", 400, "9110 5.1"),
    ("X(Y): z", 400, "9110 5.1"),
    ("\u{e9}: z", 400, "9110 5.1"),
    ("X: a\u{0}b", 400, "9110 5.5"),
    ("X: a\u{1}b", 400, "9110 5.5"),
    ("X: a\u{7f}b", 400, "9110 5.5"),
    ("X: a\rb", 400, "9112 2.2"),
    ("X: a\nY: b", 400, "9112 2.2"),
    ("X: a\r\n b", 400, "9112 5.2"),
    ("X: a\r\n\tb", 400, "9112 5.2"),
    ("Host: a", 400, "9112 3.2"),
    ("host: b", 400, "9112 3.2"),
    ("Range: bytes=0-0", 206, "9110 14.2"),
    ("Range: bytes=-1", 206, "9110 14.1.2"),
    ("Range: bytes=2-", 206, "9110 14.1.2"),
    ("Range: bytes=100-", 416, "9110 15.5.17"),
    ("Range: bytes=-0", 416, "9110 14.1.2"),
    ("Range: bytes=5-2", 200, "9110 14.1.1"),
    ("Range: bytes=a-b", 200, "9110 14.1.1"),
    ("Range: lines=0-1", 200, "9110 14.2"),
    ("If-None-Match: *", 304, "9110 13.1.2"),
    ("If-None-Match: \"x\"", 200, "9110 13.1.2"),
    ("If-Match: *", 200, "9110 13.1.1"),
    ("If-Match: \"x\"", 412, "9110 13.1.1"),
    ("If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT", 304, "9110 13.1.3"),
    ("If-Modified-Since: tomorrow", 200, "9110 13.1.3"),
    ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 412, "9110 13.1.4"),
];

/// The fields that follow `Host: a` in a POST of `/`, the bytes after the head, the expected status, and the RFC
/// section.
const BODIES: &[(&str, &str, u16, &str)] = &[
    ("Content-Length: 0", "", 405, "9112 6.3"),
    ("Content-Length: 5", "abcde", 405, "9112 6.3"),
    ("Transfer-Encoding: chunked", "5\r\nabcde\r\n0\r\n\r\n", 405, "9112 7.1"),
    ("Transfer-Encoding: CHUNKED", "5;x=\"y\"\r\nabcde\r\n0\r\nT: v\r\n\r\n", 405, "9112 7.1.1"),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 400, "9112 6.1"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n", 400, "9112 6.1"),
    ("Content-Length: 5\r\nContent-Length: 6", "abcde", 400, "9112 6.3"),
    ("Content-Length: 5\r\nContent-Length: 5", "abcde", 400, "9112 6.3"),
    ("Content-Length: 5, 5", "abcde", 400, "9112 6.3"),
    ("Content-Length:", "abcde", 400, "9110 8.6"),
    ("Content-Length: +5", "abcde", 400, "9110 8.6"),
    ("Content-Length: -5", "abcde", 400, "9110 8.6"),
    ("Content-Length: 0x5", "abcde", 400, "9110 8.6"),
    ("Content-Length: 5 5", "abcde", 400, "9110 8.6"),
    ("Content-Length: five", "abcde", 400, "9110 8.6"),
    ("Content-Length: 99999999999999999999", "abcde", 400, "9110 8.6"),
    ("Content-Length : 5", "abcde", 400, "9112 5.1"),
    ("Transfer-Encoding:", "", 400, "9112 6.3"),
    ("Transfer-Encoding: gzip", "abcde", 400, "9112 6.3"),
    ("Transfer-Encoding: identity", "abcde", 400, "9112 6.3"),
    ("Transfer-Encoding: xchunked", "abcde", 400, "9112 6.3"),
    ("Transfer-Encoding: chunked, gzip", "abcde", 400, "9112 6.3"),
    ("Transfer-Encoding: chunked, chunked", "abcde", 400, "9112 7"),
    ("Transfer-Encoding: gzip, chunked", "0\r\n\r\n", 501, "9112 6.1"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 400, "9112 7"),
    ("Transfer-Encoding : chunked", "0\r\n\r\n", 400, "9112 5.1"),
    ("Transfer-Encoding: \u{b}chunked", "0\r\n\r\n", 400, "9110 5.5"),
];

/// A request, the status of its response without and with TLS, and the RFC and section that require this status.
pub struct Row {
    pub bytes: Vec<u8>,
    pub clear: u16,
    pub secure: u16,
    pub section: String,
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |text: String, status: u16, section: &str| {
        rows.push(Row {
            bytes: text.into_bytes(),
            clear: status,
            secure: status,
            section: section.to_owned(),
        });
    };
    for &(line, status, section) in LINES {
        row(format!("{line}\r\nHost: a\r\n\r\n"), status, section);
    }
    for &(host, status) in HOSTS {
        row(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), status, "9110 7.2");
    }
    for &(fields, status, section) in FIELDS {
        row(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"), status, section);
    }
    for &(fields, body, status, section) in BODIES {
        row(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}"), status, section);
    }
    let long = |length: usize| "x".repeat(length);
    for (text, status, section) in [
        (
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nTunnel-Framing: chunked\r\n\r\n".to_owned(),
            405,
            "9110 9.3.6",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400, "9112 3.2"),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), 200, "9112 3.2"),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(), 400, "9112 3.2"),
        ("GET http://a/ HTTP/1.1\r\n\r\n".to_owned(), 400, "9112 3.2"),
        ("GET http://a/ HTTP/1.1\r\nHost: b:81\r\n\r\n".to_owned(), 200, "9112 3.2.2"),
        ("GET http://a/ HTTP/1.1\r\nHost: [::1\r\n\r\n".to_owned(), 400, "9112 3.2"),
        (
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
            400,
            "9112 6.1",
        ),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 200, "9112 2.2"),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400, "9112 2.2"),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 400, "9112 2.2"),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n".to_owned(), 400, "9112 2.2"),
        ("GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n".to_owned(), 400, "9112 2.2"),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", long(8000)), 404, "9112 3"),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", long(20_000)), 414, "9112 3"),
        (format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(20_000)), 501, "9112 3"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", long(20_000)), 431, "6585 5"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101)), 431, "6585 5"),
        ("GET /empty HTTP/1.1\r\nHost: a\r\nRange: bytes=-1\r\n\r\n".to_owned(), 200, "9110 14.1.2"),
        ("GET /empty HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n".to_owned(), 416, "9110 15.5.17"),
    ] {
        row(text, status, section);
    }
    for url in ["https://a/", "HTTPS://a:443/index.html"] {
        let bytes = format!("GET {url} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
        rows.push(Row { bytes, clear: 400, secure: 200, section: "9110 7.4".to_owned() });
    }
    rows
}

/// Describes the error in the response to a row, if there is one.
pub fn fault(row: &Row, status: u16, answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let head = text.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    let response_status: u16 = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut shown = row.bytes.escape_ascii().to_string();
    shown.truncate(200);
    let fault = |what: &str| Some(format!("{shown}: {what} ({}): {text}", row.section));
    if response_status != status {
        return fault(&format!("{response_status} instead of {status}"));
    }
    // RFC 9110 §6.6.1: every response has a Date. RFC 9112 §9.6: a request that cannot be parsed ends the connection.
    if !head.contains("\r\ndate: ") {
        return fault("no date");
    }
    let unreadable = matches!(status, 400 | 414 | 431 | 505) && row.clear == row.secure;
    if unreadable && !head.contains("\r\nconnection: close") {
        return fault("the connection goes on");
    }
    None
}

/// Whether the response is complete.
pub fn is_whole(answer: &[u8], head_only: bool) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length = length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    answer.len() >= end + 4 + if head_only { 0 } else { length }
}
