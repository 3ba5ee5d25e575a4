//! Heads of requests and responses: read strictly, passed on without what was
//! meant for this hop alone.
//!
//! Two programs that see the same bytes as different messages let one client
//! speak in the name of another (request smuggling). So what this one does not
//! understand exactly it does not pass on: a line that ends with a bare CR or LF,
//! a folded field, two lengths, a length beside a transfer coding, a transfer
//! coding other than chunked, a target and a Host that differ. And what it does
//! pass on it writes anew.
//!
//! Home of RFC 9112 §2.2, §3, §5, §6.1–6.3, §11.2 and RFC 9110 §7.6 (Connection,
//! Max-Forwards, Via) as far as a gateway obeys them.

use anabranch_http::framing::Framing;
use super::forwarded::Forwarded;
use super::target::Target;
use anabranch_http::authority::Authority;

/// The most fields a head may have.
const MAX_FIELDS: usize = 128;
/// What a field takes beside its name and its value: itself, and what an allocator adds to each.
const FIELD: usize = size_of::<Field>() + 32;

/// A request that is refused, or a response that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) why: &'static str,
}

impl Refusal {
    pub(super) fn new(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }
}

fn bad(why: &'static str) -> Refusal {
    Refusal::new(400, why)
}

/// A field as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Field {
    name: String,
    value: Vec<u8>,
}

impl Field {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// It is none of those that say where a message ends, but who tells `-` from no other mark (RFC 3875 §4.1.18) takes it
    /// for one.
    fn passes_for_framing(&self) -> bool {
        let same = |(ours, theirs): (u8, u8)| {
            ours.eq_ignore_ascii_case(&theirs) || theirs == b'-' && !ours.is_ascii_alphanumeric()
        };
        ["content-length", "transfer-encoding"].iter().any(|name| {
            let alike = name.len() == self.name.len() && self.name.bytes().zip(name.bytes()).all(same);
            alike && !self.is(name)
        })
    }
}

/// The head of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: Target,
    /// As it was written, for the log.
    pub(super) written: String,
    /// 0 or 1.
    pub(super) minor: u8,
    fields: Vec<Field>,
    /// What Host says.
    pub(super) host: Option<Authority>,
    pub(super) framing: Framing,
    /// The client closes the connection, or has us do so.
    pub(super) close: bool,
}

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    reason: String,
    minor: u8,
    fields: Vec<Field>,
    pub(super) framing: Framing,
    /// What Content-Length says, which is not the length of the body after HEAD.
    length: Option<u64>,
    /// The server closes the connection.
    pub(super) close: bool,
}

/// Looks for the end of a head in `bytes`, from `at` on, which moves. Lines end with CR LF and nothing else.
pub(super) fn end_of_head(bytes: &[u8], at: &mut usize) -> Result<Option<usize>, Refusal> {
    while let Some(&byte) = bytes.get(*at) {
        match byte {
            b'\n' if *at == 0 || bytes[*at - 1] != b'\r' => return Err(bad("a line ends with LF alone")),
            b'\n' if bytes[..*at + 1].ends_with(b"\r\n\r\n") => {
                *at += 1;
                return Ok(Some(*at));
            }
            b'\r' if bytes.get(*at + 1).is_some_and(|next| *next != b'\n') => {
                return Err(bad("a CR is not followed by LF"));
            }
            // What follows is not known yet.
            b'\r' if *at + 1 == bytes.len() => return Ok(None),
            0 => return Err(bad("there is a NUL in the head")),
            _ => {}
        }
        *at += 1;
    }
    Ok(None)
}

/// Refuses what cannot become the status line of an answer, however little of it has come: another protocol, another
/// version, a status that there is none of. RFC 9112 §4: `HTTP/1.1 200 OK`, the reason is optional.
pub(super) fn begins_answer(bytes: &[u8]) -> Result<(), Refusal> {
    const LINE: &[u8] = b"HTTP/1.V SDD";
    let fits = |(&byte, &wanted): (&u8, &u8)| match wanted {
        b'V' => matches!(byte, b'0' | b'1'),
        // RFC 9110 §15: the first digit is its class. Classes from 6 on are as errors of the server to who reads them.
        b'S' => matches!(byte, b'1'..=b'9'),
        b'D' => byte.is_ascii_digit(),
        _ => byte == wanted,
    };
    let ends = bytes.get(LINE.len()).is_none_or(|end| matches!(end, b' ' | b'\r'));
    // An empty line before it is no beginning.
    let begins = matches!(bytes, b"" | b"\r") || (bytes.iter().zip(LINE).all(fits) && ends);
    if begins { Ok(()) } else { Err(bad("it is no answer of HTTP/1")) }
}

fn fields_of(parsed: &[httparse::Header<'_>]) -> Vec<Field> {
    parsed.iter().map(|field| Field { name: field.name.to_owned(), value: field.value.to_vec() }).collect()
}

/// RFC 9112 §5.2: a line that begins with white space would go on with the field before.
fn is_folded(head: &[u8]) -> bool {
    head.windows(2).any(|pair| pair[0] == b'\n' && matches!(pair[1], b' ' | b'\t'))
}

impl Request {
    /// Reads a whole head.
    ///
    /// # Errors
    /// How the request is to be answered.
    pub(super) fn parse(head: &[u8]) -> Result<Self, Refusal> {
        if is_folded(head) {
            return Err(bad("a field is folded"));
        }
        let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut room);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(bad("the head is malformed")),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::new(431, "there are too many fields"));
            }
            Err(httparse::Error::Version) => {
                return Err(Refusal::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken"));
            }
            Err(_) => return Err(bad("the head is malformed")),
        }
        let (Some(method), Some(text), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(bad("the request line is malformed"));
        };
        let target = Target::parse(method, text).map_err(bad)?;
        let fields = fields_of(parsed.headers);
        if fields.iter().any(Field::passes_for_framing) {
            return Err(bad("a field has a name that some read as another"));
        }
        let framing = request_framing(&fields, minor)?;
        let host = host_of(&fields, minor, &target)?;
        // RFC 9110 §9.3.6: nothing is said of what a tunnel's request would carry.
        if matches!(target, Target::Tunnel(_)) && framing != Framing::Empty {
            return Err(bad("CONNECT has no body"));
        }
        let options = connection_options(&fields).map_err(bad)?;
        let close = minor == 0 || has(&options, "close");
        let (method, written) = (method.to_owned(), text.to_owned());
        Ok(Self { method, target, written, minor, fields, host, framing, close })
    }

    /// The request as it goes on: to `host`, for `target`, with `via` among those it came by, and with what is told of its
    /// client.
    pub(super) fn onward(
        &self,
        host: &str,
        target: &str,
        via: &str,
        forwarded: Option<&Forwarded>,
    ) -> Vec<u8> {
        let mut out = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        let own = |field: &Field| {
            let rewritten = field.is("host") || field.is("content-length") || field.is("max-forwards");
            rewritten || forwarded.is_some_and(|forwarded| forwarded.replaces(field))
        };
        write_fields(&mut out, &self.fields, own);
        if let Some(forwarded) = forwarded {
            forwarded.write(&mut out, &self.fields, self.host.as_ref());
        }
        if let Some(left) = self.max_forwards() {
            write_field(&mut out, "Max-Forwards", left.saturating_sub(1).to_string().as_bytes());
        }
        write_framing(&mut out, self.framing);
        write_field(&mut out, "Via", format!("1.{} {via}", self.minor).as_bytes());
        out
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let fields: usize =
            self.fields.iter().map(|field| field.name.len() + field.value.len() + FIELD).sum();
        // The target is there as it was written, too.
        fields + 2 * self.written.len()
    }

    /// RFC 9110 §7.6.2: how many hops are left to a question about the way.
    pub(super) fn max_forwards(&self) -> Option<u64> {
        if !matches!(self.method.as_str(), "OPTIONS" | "TRACE") {
            return None;
        }
        let field = self.fields.iter().find(|field| field.is("max-forwards"))?;
        number(&field.value)
    }

    /// It has been here before.
    pub(super) fn came_by(&self, via: &str) -> bool {
        self.fields.iter().filter(|field| field.is("via")).any(|field| {
            let entries = field.value.split(|&byte| byte == b',');
            entries
                .filter_map(|entry| std::str::from_utf8(entry).ok())
                .any(|entry| entry.split_ascii_whitespace().nth(1).is_some_and(|by| by == via))
        })
    }

    /// A field says exactly this.
    pub(super) fn says(&self, name: &str, value: &str) -> bool {
        says(&self.fields, name, value)
    }

    /// A tunnel is asked for.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self.target, Target::Tunnel(_))
    }

    /// Doing it twice is as good as doing it once (RFC 9110 §9.2.2), and there is nothing to send twice.
    pub(super) fn can_be_repeated(&self) -> bool {
        self.framing == Framing::Empty
            && matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "CONNECT")
    }
}

impl Response {
    /// Reads a whole head of an answer to `method`; `closing`: the end of the connection can be the end of the body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(head: &[u8], method: &str, closing: bool) -> Result<Self, &'static str> {
        if is_folded(head) {
            return Err("a field of the answer is folded");
        }
        let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut room);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            _ => return Err("the head of the answer is malformed"),
        }
        let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
            return Err("the status line is malformed");
        };
        begins_answer(head).map_err(|_| "the status line is malformed")?;
        let reason = parsed.reason.unwrap_or_default().to_owned();
        let fields = fields_of(parsed.headers);
        let length = length_of(&fields).map_err(|_| "Content-Length of the answer is not one number")?;
        let coded = fields.iter().filter(|field| field.is("transfer-encoding")).count();
        let chunked = coded == 1 && says(&fields, "transfer-encoding", "chunked");
        if coded > 0 && (!chunked || length.is_some() || minor == 0) {
            return Err("the answer's length and transfer coding make no sense");
        }
        // RFC 9112 §6.3: these have no body, whatever the fields say.
        let bodiless = method == "HEAD"
            || status < 200
            || status == 204
            || status == 304
            || (method == "CONNECT" && (200..300).contains(&status));
        let framing = match (bodiless, chunked, length) {
            (true, ..) => Framing::Empty,
            (_, true, _) => Framing::Chunked,
            (_, _, Some(length)) => Framing::Length(length),
            _ if closing => Framing::Close,
            _ => return Err("the answer has no length and is not chunked"),
        };
        let options = connection_options(&fields)?;
        let close = match minor {
            0 => !has(&options, "keep-alive"),
            _ => has(&options, "close"),
        } || framing == Framing::Close;
        Ok(Self { status, reason, minor, fields, framing, length, close })
    }

    /// Interim: the final answer comes later.
    pub(super) fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// The answer as it goes back, with this framing. Where `origin` names itself in Location, it becomes a path.
    pub(super) fn back(
        &self,
        framing: Framing,
        close: bool,
        via: &str,
        origin: Option<&Authority>,
    ) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason).into_bytes();
        write_fields(&mut out, &self.fields, |field| {
            field.is("content-length") || (field.is("location") && self.at_home(field, origin).is_some())
        });
        for field in self.fields.iter().filter(|field| field.is("location")) {
            if let Some(path) = self.at_home(field, origin) {
                write_field(&mut out, "Location", path);
            }
        }
        match framing {
            // What HEAD would have brought, and what a 304 stands for.
            Framing::Empty if self.status >= 200 && self.status != 204 => {
                if let Some(length) = self.length {
                    write_field(&mut out, "Content-Length", length.to_string().as_bytes());
                }
            }
            framing => write_framing(&mut out, framing),
        }
        if close {
            write_field(&mut out, "Connection", b"close");
        }
        write_field(&mut out, "Via", format!("1.{} {via}", self.minor).as_bytes());
        out
    }

    /// The path of a Location at the origin itself.
    fn at_home<'a>(&self, field: &'a Field, origin: Option<&Authority>) -> Option<&'a [u8]> {
        let url = std::str::from_utf8(&field.value).ok()?;
        let rest = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &url[7..])?;
        let end = rest.find('/')?;
        let there = Authority::parse(&rest[..end], Some(80))?;
        let path = &rest.as_bytes()[end..];
        // `//` at the beginning would name another host; and so would what browsers read as that: they take `\\` for `/`,
        // and leave controls out.
        let other =
            path.starts_with(b"//") || path.iter().any(|&byte| byte == b'\\' || byte.is_ascii_control());
        (Some(&there) == origin && !other).then_some(path)
    }

    /// A field says exactly this.
    pub(super) fn says(&self, name: &str, value: &str) -> bool {
        says(&self.fields, name, value)
    }
}

/// RFC 9112 §6.3: how the body of a request ends.
fn request_framing(fields: &[Field], minor: u8) -> Result<Framing, Refusal> {
    let coded: Vec<_> = fields.iter().filter(|field| field.is("transfer-encoding")).collect();
    let length = length_of(fields).map_err(|()| bad("Content-Length is not one number"))?;
    match (coded.as_slice(), length) {
        ([], None) => Ok(Framing::Empty),
        ([], Some(0)) => Ok(Framing::Length(0)),
        ([], Some(length)) => Ok(Framing::Length(length)),
        (_, Some(_)) => Err(bad("there are a length and a transfer coding")),
        ([one], None) if minor == 1 && one.value.trim_ascii().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        (_, None) if minor == 0 => Err(bad("HTTP/1.0 knows no transfer coding")),
        ([_], None) => Err(Refusal::new(501, "a transfer coding other than chunked")),
        _ => Err(bad("there are several transfer codings")),
    }
}

/// RFC 9112 §6.3: one field with one number. A second one is refused even if it says the same.
fn length_of(fields: &[Field]) -> Result<Option<u64>, ()> {
    let mut lengths = fields.iter().filter(|field| field.is("content-length"));
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(field), None) => number(&field.value).map(Some).ok_or(()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// RFC 9112 §3.2: exactly one Host, well-formed. Of whom something is asked, the target says where it names one.
fn host_of(fields: &[Field], minor: u8, target: &Target) -> Result<Option<Authority>, Refusal> {
    let mut hosts = fields.iter().filter(|field| field.is("host"));
    let host = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Err(bad("there are several Hosts")),
        (None, _) if minor == 1 => return Err(bad("there is no Host")),
        (None, _) => return Ok(None),
        (Some(field), None) => std::str::from_utf8(&field.value).ok().map(str::trim),
    };
    // RFC 9110 §7.2: empty where the target has no authority.
    if host == Some("") && matches!(target, Target::Origin(_) | Target::Server) {
        return Ok(None);
    }
    let default = if let Target::Tunnel(authority) = target { authority.port } else { 80 };
    let host = host.and_then(|host| Authority::parse(host, Some(default)));
    let host = host.ok_or_else(|| bad("Host is not a host"))?;
    match target {
        // RFC 9112 §3.2.2: a proxy ignores the Host that came with a URL, and sends on the URL's.
        Target::Absolute(authority, _) => Ok(Some(authority.clone())),
        Target::Tunnel(authority) if *authority != host => {
            Err(bad("the target and Host name different hosts"))
        }
        _ => Ok(Some(host)),
    }
}

/// RFC 9110 §7.6.1: fields for the next hop alone, by their own right or because `options` of Connection name them.
fn is_hop_by_hop(field: &Field, options: &[&[u8]]) -> bool {
    const HOP_BY_HOP: [&str; 12] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "proxy-authentication-info",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        TUNNEL_FRAMING,
    ];
    HOP_BY_HOP.iter().any(|name| field.is(name)) || has(options, &field.name)
}

fn write_fields(out: &mut Vec<u8>, fields: &[Field], own: impl Fn(&Field) -> bool) {
    // A head with too many was refused when it was read.
    let options = connection_options(fields).unwrap_or_default();
    for field in fields.iter().filter(|field| !own(field) && !is_hop_by_hop(field, &options)) {
        write_field(out, &field.name, &field.value);
    }
}

/// Appends a field.
pub(super) fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Empty | Framing::Close => {}
        Framing::Length(length) => write_field(out, "Content-Length", length.to_string().as_bytes()),
        Framing::Chunked => write_field(out, "Transfer-Encoding", b"chunked"),
    }
}

/// What Connection says (RFC 9110 §7.6.1). Each field is held against each of them: so there are no more than fields.
fn connection_options(fields: &[Field]) -> Result<Vec<&[u8]>, &'static str> {
    let mut options = Vec::new();
    for field in fields.iter().filter(|field| field.is("connection")) {
        let tokens = field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        for token in tokens.filter(|token| !token.is_empty()) {
            if options.len() == MAX_FIELDS {
                return Err("Connection names more than there can be");
            }
            options.push(token);
        }
    }
    Ok(options)
}

fn has(options: &[&[u8]], name: &str) -> bool {
    options.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}

fn says(fields: &[Field], name: &str, value: &str) -> bool {
    let mut named = fields.iter().filter(|field| field.is(name));
    named.next().is_some_and(|field| field.value.trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
        && named.next().is_none()
}

/// RFC 9110 §8.6: digits only, no sign, no list.
fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The field by which two gateways agree how a tunnel's bytes are framed on a stream that cannot be half-closed.
pub(super) const TUNNEL_FRAMING: &str = "tunnel-framing";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Request, u16> {
        Request::parse(text.as_bytes()).map_err(|refusal| refusal.status)
    }

    #[test]
    fn smuggling_forms_are_refused() {
        let cases: [(&str, u16); 30] = [
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
                400,
            ),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n", 400),
            ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\ncontent.length: 5\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400),
            ("CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 400),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 5\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ];
        for (text, status) in cases {
            assert_eq!(request(text).map(|_| ()), Err(status), "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS));
        assert_eq!(request(&many).map(|_| ()), Err(431));
    }

    #[test]
    fn of_whom_is_asked_says_the_url_whatever_host_says() {
        for host in ["b", "a", "a:80", "b:81", "[::1]"] {
            let read = request(&format!("GET http://A:81/x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let read = read.expect("a request");
            let target = Authority { host: "a".to_owned(), port: 81 };
            assert_eq!(read.target, Target::Absolute(target.clone(), "/x".to_owned()));
            assert_eq!(read.host, Some(target));
            let onward = read.onward("a:81", "/x", "me", None);
            assert_eq!(onward, b"GET /x HTTP/1.1\r\nHost: a:81\r\nVia: 1.1 me\r\n", "{host}");
        }
    }

    #[test]
    fn heads_end_with_an_empty_line_of_cr_lf_only() {
        let end = |text: &[u8]| {
            let (mut at, mut found) = (0, Ok(None));
            // However it is cut.
            for length in 1..=text.len() {
                found = end_of_head(&text[..length], &mut at);
                if !matches!(found, Ok(None)) {
                    break;
                }
            }
            found.map_err(|refusal| refusal.status)
        };
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"), Ok(Some(27)));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        assert_eq!(end(b"GET / HTTP/1.1\nHost: a\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\n\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\r\n\r\n"), Err(400));
    }

    #[test]
    fn what_was_for_this_hop_stays_here() {
        let head = "GET http://a/x HTTP/1.1\r\nHost: A:80\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\n\
                    Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\n\
                    Upgrade: h2c\r\nVia: 1.0 other\r\nAccept: */*\r\nMax-Forwards: 3\r\n\r\n";
        let read = request(head).expect("a request");
        assert!(read.close && read.came_by("other") && !read.came_by("me"));
        let onward = String::from_utf8(read.onward("a", "/x", "me", None)).expect("text");
        assert_eq!(onward, "GET /x HTTP/1.1\r\nHost: a\r\nVia: 1.0 other\r\nAccept: */*\r\nVia: 1.1 me\r\n");
        let read = request("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\nContent-Length: 0\r\n\r\n");
        let onward = String::from_utf8(read.expect("a request").onward("a", "*", "me", None)).expect("text");
        assert!(onward.contains("Max-Forwards: 2\r\nContent-Length: 0\r\nVia: 1.1 me\r\n"), "{onward}");
    }

    #[test]
    fn connection_names_no_more_than_there_can_be() {
        let named = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
            format!("Connection: a,, ,\r\nConnection: {}\r\nX9: hop\r\nY: on\r\n\r\n", names.join(","))
        };
        let asked = |count| request(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}", named(count)));
        let most = MAX_FIELDS - 1;
        let onward = asked(most).expect("a request").onward("a", "/", "me", None);
        assert_eq!(onward, b"GET / HTTP/1.1\r\nHost: a\r\nY: on\r\nVia: 1.1 me\r\n");
        assert_eq!(asked(most + 1).map(|_| ()), Err(400));
        let answered = |count| response(&format!("HTTP/1.1 204 No Content\r\n{}", named(count)), "GET");
        assert!(answered(most).is_ok() && answered(most + 1).is_err());
    }

    #[test]
    fn a_location_that_becomes_a_path_stays_at_home() {
        let origin = Authority { host: "o".to_owned(), port: 81 };
        let back = |location: &str| {
            let head = format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let read = response(&head, "GET").expect("a response");
            let back = String::from_utf8(read.back(read.framing, false, "me", Some(&origin))).expect("text");
            back.split("Location: ").nth(1).and_then(|rest| rest.split("\r\n").next()).map(str::to_owned)
        };
        for path in ["/", "/there?a", "/%09/evil.example", "/./evil.example", "/a//b"] {
            assert_eq!(back(&format!("http://O:81{path}")).as_deref(), Some(path));
        }
        // Browsers read these as `//evil.example`, another host, where they stand alone.
        for path in ["//evil.example/x", "/\\evil.example/x", "/\t/evil.example/x", "/a\\..\\..\\x"] {
            let whole = format!("http://o:81{path}");
            assert_eq!(back(&whole), Some(whole));
        }
    }

    #[test]
    fn what_cannot_become_an_answer_is_not_waited_for() {
        for good in [
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 404\r\n",
            "HTTP/1.1 999 x\r\n",
            "HTTP/1.1 100 \r\n",
            "HTTP/1.1 600 \r\n",
        ] {
            for length in 0..=good.len() {
                assert!(begins_answer(&good.as_bytes()[..length]).is_ok(), "{good} {length}");
            }
        }
        for (wrong, from) in [
            ("HTTP/1.1 000 OK\r\n", 10),
            ("HTTP/1.1 099 OK\r\n", 10),
            ("HTTP/1.1 2x0 OK\r\n", 11),
            ("HTTP/1.1 2000 OK\r\n", 13),
            ("HTTP/1.1 20 OK\r\n", 12),
            ("HTTP/1.1 -20 OK\r\n", 10),
            ("HTTP/1.1  200 OK\r\n", 10),
            ("HTTP/1.2 200 OK\r\n", 8),
            ("HTTP/2 200\r\n", 6),
            ("http/1.1 200 OK\r\n", 1),
            ("SSH-2.0-OpenSSH_9.2\r\n", 1),
            ("220 mail ESMTP\r\n", 1),
            ("<html>", 1),
            ("\0\0\x12\x04", 1),
            ("\rX", 2),
        ] {
            for length in 0..=wrong.len() {
                let refused = begins_answer(&wrong.as_bytes()[..length]).is_err();
                assert_eq!(refused, length >= from, "{wrong} {length}");
            }
        }
    }

    fn response(text: &str, method: &str) -> Result<Response, &'static str> {
        Response::parse(text.as_bytes(), method, false)
    }

    #[test]
    fn answers_are_framed_as_they_are_or_refused() {
        let framing = |text, method| response(text, method).map(|response| response.framing);
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(framing(sized, "GET"), Ok(Framing::Length(5)));
        assert_eq!(framing(sized, "HEAD"), Ok(Framing::Empty));
        assert_eq!(
            framing("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
            Ok(Framing::Empty)
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "GET"),
            Ok(Framing::Chunked)
        );
        assert!(framing("HTTP/1.1 200 OK\r\n\r\n", "GET").is_err());
        let closing = Response::parse(b"HTTP/1.0 200 OK\r\n\r\n", "GET", true).expect("a response");
        assert!(closing.framing == Framing::Close && closing.close);
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTP/1.1 000 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\n",
        ] {
            assert!(framing(wrong, "GET").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn answers_go_back_with_their_own_fields_only() {
        let head = "HTTP/1.1 301 Moved\r\nContent-Length: 5\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\
                    Location: http://O:81/there?a\r\nServer: s\r\n\r\n";
        let read = response(head, "GET").expect("a response");
        let origin = Authority { host: "o".to_owned(), port: 81 };
        let back = String::from_utf8(read.back(read.framing, true, "me", Some(&origin))).expect("text");
        assert_eq!(
            back,
            "HTTP/1.1 301 Moved\r\nServer: s\r\nLocation: /there?a\r\nContent-Length: 5\r\nConnection: close\r\nVia: 1.1 me\r\n"
        );
        let back = String::from_utf8(read.back(Framing::Chunked, false, "me", None)).expect("text");
        assert!(
            back.contains("Location: http://O:81/there?a\r\n")
                && back.contains("Transfer-Encoding: chunked\r\n")
        );
        assert!(!back.contains("Content-Length"), "{back}");
    }
}
