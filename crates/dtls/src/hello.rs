//! Parses a ClientHello without keeping state, and builds the answer that asks for a cookie: HelloVerifyRequest (RFC
//! 6347 §4.2.1) or HelloRetryRequest (RFC 9147 §5.1, RFC 8446 §4.1.4). The answer is byte-identical to dimpl's answer.
//!
//! The server keeps no state for the first hello. The cookie in the second hello proves when the cookie was made, and
//! for which address and hello. dimpl must process the first hello before the second hello. The first hello is
//! therefore reconstructed by removing the cookie from the second hello.

use dimpl::crypto::{Dtls13CipherSuite, NamedGroup};

/// The parameters of a server that determine its answer to a client's first ClientHello.
#[derive(Debug)]
pub(crate) struct ServerParameters {
    /// Whether the server supports DTLS 1.2, and whether it supports DTLS 1.3.
    pub versions: [bool; 2],
    /// The cipher suites for DTLS 1.3.
    pub suites: Vec<Dtls13CipherSuite>,
    pub groups: Vec<NamedGroup>,
}

/// A ClientHello that fills one datagram: it is complete, and the datagram contains nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientHello<'a> {
    datagram: &'a [u8],
    /// The body of the message, without the record header and the message header.
    body: &'a [u8],
    /// The message number: 0 for a first hello, 1 for a hello with a cookie.
    number: u16,
    /// The start and end of the DTLS 1.2 cookie in `body`. The length byte in front of the cookie is not included.
    legacy: (usize, usize),
    suites: &'a [u8],
    /// The offset in `body` of the first extension, after the length field of the extension list.
    extensions: usize,
    /// The start and end of the DTLS 1.3 cookie extension in `body`. The extension's header is included.
    cookie: Option<(usize, usize)>,
    versions: &'a [u8],
    shares: &'a [u8],
}

/// The server's answer to a ClientHello. The `bool` in a variant is true for DTLS 1.3.
#[derive(Debug)]
pub(crate) enum HelloAnswer {
    /// The hello has no cookie, so the server asks for one. The `bool` is true for DTLS 1.3.
    RequestCookie(bool),
    /// The hello has this cookie, which the caller must check. The `bool` is true for DTLS 1.3.
    CheckCookie(bool, [u8; 32]),
    /// This hello has no key share that the server supports, or too many extensions to record their order in a cookie.
    /// The server could not reconstruct this hello from the client's second hello, so it must keep state for the
    /// handshake.
    NeedKeyShare,
    /// Client and server have no version or no cipher suite in common.
    NoCommonParameters,
}

impl<'a> ClientHello<'a> {
    /// Parses a ClientHello. Returns `None` if the datagram is not one complete ClientHello.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let (head, body) = datagram.split_first_chunk::<HEADERS>()?;
        let (record, length) = (be(&head[11..13]), be(&head[14..17]));
        // The datagram must contain exactly one handshake record of epoch 0, and the record exactly one unfragmented
        // ClientHello.
        let whole = head[0] == 22
            && head[1] == 0xfe
            && head[3..5] == [0, 0]
            && record == body.len() + MESSAGE_HEADER_LEN
            && head[13] == 1
            && length == body.len()
            && head[19..22] == [0, 0, 0]
            && be(&head[22..25]) == length;
        if !whole || body.get(..2) != Some(&[0xfe, 0xfd]) {
            return None;
        }
        // Skips the version (2 bytes) and the random value (32 bytes) at the start of the hello.
        let mut at = 34;
        vector(body, &mut at, 1).filter(|session| session.len() <= 32)?;
        let legacy = vector(body, &mut at, 1)?;
        let legacy = (at - legacy.len(), at);
        let suites = vector(body, &mut at, 2).filter(|suites| suites.len() % 2 == 0)?;
        vector(body, &mut at, 1)?;
        let mut hello = Self {
            datagram,
            body,
            number: u16::from_be_bytes([head[17], head[18]]),
            legacy,
            suites,
            extensions: at + 2,
            cookie: None,
            versions: &[],
            shares: &[],
        };
        if at == body.len() {
            return Some(hello);
        }
        let all = vector(body, &mut at, 2)?.len();
        if at != body.len() {
            return None;
        }
        let mut at = body.len() - all;
        while at < body.len() {
            let begins = at;
            let kind = be(body.get(at..at + 2)?);
            at += 2;
            let value = vector(body, &mut at, 2)?;
            match kind {
                43 => hello.versions = vector(value, &mut 0, 1)?,
                COOKIE => hello.cookie = Some((begins, at)),
                51 => hello.shares = vector(value, &mut 0, 2)?,
                _ => {}
            }
        }
        Some(hello)
    }

    /// Decides how a server with these parameters answers the hello.
    pub fn answer(&self, parameters: &ServerParameters) -> HelloAnswer {
        // RFC 8446 §4.2.1: a client with a supported_versions extension supports only the listed versions. A client
        // without the extension supports the version of its hello.
        let has = |wanted| self.versions.chunks_exact(2).any(|version| version == wanted);
        if !(has([0xfe, 0xfc]) && parameters.versions[1]) {
            let older = parameters.versions[0] && (self.versions.is_empty() || has([0xfe, 0xfd]));
            return if older { self.older() } else { HelloAnswer::NoCommonParameters };
        }
        if self.suite(parameters).is_none() {
            return HelloAnswer::NoCommonParameters;
        }
        let given = match self.cookie {
            // The cookie follows the header of the extension (4 bytes) and the length of the cookie (2 bytes).
            Some((begins, end)) => match <[u8; 32]>::try_from(&self.body[(begins + 6).min(end)..end]) {
                Ok(cookie) if self.number == 1 => Some(cookie),
                _ => return HelloAnswer::NoCommonParameters,
            },
            None => None,
        };
        if !self.has_share(parameters) || self.order().is_none() {
            return HelloAnswer::NeedKeyShare;
        }
        given.map_or(HelloAnswer::RequestCookie(true), |cookie| HelloAnswer::CheckCookie(true, cookie))
    }

    fn older(&self) -> HelloAnswer {
        let cookie = &self.body[self.legacy.0..self.legacy.1];
        match <[u8; 32]>::try_from(cookie) {
            _ if cookie.is_empty() => HelloAnswer::RequestCookie(false),
            Ok(cookie) if self.number == 1 => HelloAnswer::CheckCookie(false, cookie),
            // RFC 6347 §4.2.1: a malformed cookie is treated like a missing one.
            _ => HelloAnswer::RequestCookie(false),
        }
    }

    /// Returns the first of the client's cipher suites that the server supports. dimpl, the library that does the
    /// handshake, selects the same suite.
    fn suite(&self, parameters: &ServerParameters) -> Option<[u8; 2]> {
        let suites = self.suites.chunks_exact(2).map(|suite| [suite[0], suite[1]]);
        let known =
            |suite: &[u8; 2]| parameters.suites.iter().any(|one| one.as_u16() == u16::from_be_bytes(*suite));
        suites.into_iter().find(known)
    }

    fn has_share(&self, parameters: &ServerParameters) -> bool {
        let mut at = 0;
        while let Some(group) = self.shares.get(at..at + 2) {
            let group = NamedGroup::from_u16(u16::from_be_bytes([group[0], group[1]]));
            if parameters.groups.contains(&group) {
                return true;
            }
            at += 2;
            if vector(self.shares, &mut at, 2).is_none() {
                return false;
            }
        }
        false
    }

    /// Returns the extensions of the hello except the cookie, sorted by type. Each entry has the type and the bytes of
    /// the extension, including its header.
    fn sorted(&self) -> Vec<(usize, &'a [u8])> {
        let (mut at, mut all) = (self.extensions, Vec::new());
        while let Some(kind) = self.body.get(at..at + 2).map(be) {
            let begins = at;
            at += 2;
            if vector(self.body, &mut at, 2).is_none() {
                break;
            }
            if kind != COOKIE {
                all.push((kind, &self.body[begins..at]));
            }
        }
        all.sort_by_key(|(kind, bytes)| (*kind, bytes.as_ptr() as usize));
        all
    }

    /// Returns the order in which the hello contains its extensions. An extension is represented by its index in the
    /// list of extensions sorted by type. The order is needed because clients may reorder the extensions in the second
    /// hello, as wolfSSL does. Returns `None` if there are too many extensions.
    pub fn order(&self) -> Option<Order> {
        let sorted = self.sorted();
        if sorted.len() > 2 * ORDER {
            return None;
        }
        let mut positions: Vec<(usize, u8)> = Vec::new();
        for ((_, bytes), number) in sorted.iter().zip(0_u8..) {
            positions.push((bytes.as_ptr() as usize, number));
        }
        positions.sort_unstable();
        let mut order = [0; ORDER];
        for (at, (_, number)) in positions.into_iter().enumerate() {
            order[at / 2] |= number << (4 * (at % 2));
        }
        Some(order)
    }

    /// Returns the bytes that the cookie authenticates. In DTLS 1.2, these bytes are the part of the hello that a
    /// client does not change (RFC 6347 §4.2.1). In DTLS 1.3, they are the whole first hello, because the handshake's
    /// transcript covers both hellos.
    ///
    /// `order` is the order of the first hello's extensions. `padded` is true if the client shortened the padding (RFC
    /// 7685) of its second hello by the size of the cookie. Both hellos then have the same length (RFC 8446 §4.1.2).
    pub fn lasting(&self, newer: bool, order: &Order, padded: bool) -> Vec<u8> {
        match newer {
            true => self.without_cookie(true, order, padded),
            false => self.body[..self.legacy.0 - 1].to_vec(),
        }
    }

    /// Returns the body of the client's first ClientHello: the body of `self`, the second ClientHello, without the
    /// cookie.
    fn without_cookie(&self, newer: bool, order: &Order, padded: bool) -> Vec<u8> {
        if !newer {
            let (begins, end) = self.legacy;
            return [&self.body[..begins - 1], &[0], &self.body[end..]].concat();
        }
        let sorted = self.sorted();
        let cookie = self.cookie.map_or(0, |(begins, end)| end - begins);
        let mut extensions = Vec::with_capacity(self.body.len());
        for at in 0..sorted.len() {
            let number = order.get(at / 2).map_or(0, |two| two >> (4 * (at % 2)) & 15);
            let Some((kind, bytes)) = sorted.get(usize::from(number)) else { continue };
            if *kind == PADDING && padded {
                let length = u16::try_from(bytes.len() - 4 + cookie).unwrap_or_default().to_be_bytes();
                extensions.extend([0, 21]);
                extensions.extend(length);
                extensions.extend(&bytes[4..]);
                extensions.resize(extensions.len() + cookie, 0);
            } else {
                extensions.extend_from_slice(bytes);
            }
        }
        let length = u16::try_from(extensions.len()).unwrap_or_default().to_be_bytes();
        let head = &self.body[..(self.extensions - 2).min(self.body.len())];
        [head, &length, &extensions].concat()
    }

    /// Returns a datagram with the client's first ClientHello. It is reconstructed from `self`, the client's second
    /// ClientHello.
    pub fn first(&self, newer: bool, order: &Order, padded: bool) -> Vec<u8> {
        let body = self.without_cookie(newer, order, padded);
        message(&self.datagram[1..3], 1, 0, &body)
    }

    /// Returns this hello as a datagram. If its record number is 0, the number is raised to 1, because the
    /// reconstructed first hello has record number 0.
    pub fn second(&self) -> Vec<u8> {
        let mut datagram = self.datagram.to_vec();
        if datagram[5..11] == [0; 6] {
            datagram[10] = 1;
        }
        datagram
    }

    /// Builds a datagram that asks the client to return `cookie`. Returns `None` if there is no common cipher suite.
    pub fn request_cookie(
        &self,
        newer: bool,
        parameters: &ServerParameters,
        cookie: &[u8; 32],
    ) -> Option<Vec<u8>> {
        let mut body = Vec::with_capacity(96);
        if newer {
            body.extend([0xfe, 0xfd]);
            body.extend(RETRY);
            body.push(0);
            body.extend(self.suite(parameters)?);
            // The end of the HelloRetryRequest: compression method 0 (none), and the extensions supported_versions (43)
            // and cookie (44).
            body.extend([0, 0, 6 + 38, 0, 43, 0, 2, 0xfe, 0xfc, 0, 44, 0, 34, 0, 32]);
        } else {
            // RFC 6347 §4.2.1: the version field of a HelloVerifyRequest contains DTLS 1.0.
            body.extend([0xfe, 0xff, 32]);
        }
        body.extend(cookie);
        Some(message(&[0xfe, 0xfd], if newer { 2 } else { 3 }, 0, &body))
    }
}

/// Builds a record with the number 0 that contains one whole handshake message.
fn message(version: &[u8], kind: u8, number: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or_default().to_be_bytes();
    let record = u16::try_from(body.len() + MESSAGE_HEADER_LEN).unwrap_or_default().to_be_bytes();
    let mut all = Vec::with_capacity(HEADERS + body.len());
    all.push(22);
    all.extend(version);
    all.extend([0; 8]);
    all.extend(record);
    all.push(kind);
    all.extend(&length[1..]);
    all.extend(number.to_be_bytes());
    all.extend([0; 3]);
    all.extend(&length[1..]);
    all.extend(body);
    all
}

/// Reads a vector (RFC 8446 §3.4) whose length field has `width` bytes. Moves `at` to the first byte after the vector.
fn vector<'a>(bytes: &'a [u8], at: &mut usize, width: usize) -> Option<&'a [u8]> {
    let length = be(bytes.get(*at..*at + width)?);
    let begins = *at + width;
    let value = bytes.get(begins..begins + length)?;
    *at = begins + length;
    Some(value)
}

fn be(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The order of the extensions of a hello, in four bits for each extension. The first four bits stand for the first
/// extension in the hello, and so on. The four bits are an index into the list of the hello's extensions, sorted by
/// type.
pub(crate) type Order = [u8; ORDER];
pub(crate) const ORDER: usize = 8;

/// Extension types (RFC 7685 §3, RFC 8446 §4.2): padding and cookie.
const PADDING: usize = 21;
const COOKIE: usize = 44;

/// Sizes in bytes. `MESSAGE_HEADER_LEN`: a message header (RFC 6347 §4.2.2). `HEADERS`: a record header and a message
/// header.
const MESSAGE_HEADER_LEN: usize = 12;
const HEADERS: usize = 13 + MESSAGE_HEADER_LEN;

/// RFC 8446 §4.1.3: the random value that marks a ServerHello as a HelloRetryRequest.
pub(crate) const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Returns whether a datagram begins with an unencrypted ClientHello or with the first fragment of a ClientHello (RFC
/// 6347 §4.2.2).
pub(crate) fn is_client_hello(datagram: &[u8]) -> bool {
    /// The size in bytes of a record header (13) and a message header (12).
    const HEADERS: usize = 13 + 12;
    let Some(head) = datagram.first_chunk::<HEADERS>() else { return false };
    let length = usize::from(u16::from_be_bytes([head[11], head[12]]));
    // Checks for a handshake record of any DTLS version in epoch 0. The record must contain the start of a ClientHello
    // (message type 1, fragment offset 0).
    head[0] == 22
        && head[1] == 0xfe
        && head[3..5] == [0, 0]
        && length + 13 <= datagram.len()
        && head[13] == 1
        && head[19..22] == [0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::{HostConfig, Settings, Version};
    use anabranch_base::Instant;
    use anabranch_tls::{Surroundings, Trust};

    /// Returns the first datagram that our client sends.
    fn hello_bytes(version: Version) -> Vec<u8> {
        let settings = Settings { version, trust: Some(Trust::Anybody), ..Settings::default() };
        let host = HostConfig::new(settings, Surroundings::Real).expect("a configuration");
        let mut client = Connection::begin(&host, true, "", 1_400, Instant::from_millis(5)).expect("begun");
        let (mut buffer, mut first) = (vec![0; crate::peers::MAX_OUTPUT], Vec::new());
        client.receive(
            &host,
            Instant::from_millis(5),
            None,
            &mut buffer,
            |_| {},
            |sent| first = sent.to_vec(),
        );
        first
    }

    fn server_parameters(versions: [bool; 2]) -> ServerParameters {
        ServerParameters {
            versions,
            suites: vec![Dtls13CipherSuite::AES_128_GCM_SHA256],
            groups: vec![NamedGroup::X25519, NamedGroup::Secp256r1],
        }
    }

    #[test]
    fn hellos_are_read_and_answered_by_what_is_spoken() {
        let answers = |version, versions: [bool; 2]| {
            let bytes = hello_bytes(version);
            match ClientHello::read(&bytes).expect("a hello").answer(&server_parameters(versions)) {
                HelloAnswer::RequestCookie(newer) => {
                    if newer {
                        "1.3"
                    } else {
                        "1.2"
                    }
                }
                HelloAnswer::NoCommonParameters => "nothing",
                other => panic!("{other:?}"),
            }
        };
        for (version, each) in [
            (Version::Only12, ["1.2", "1.2", "nothing"]),
            (Version::Only13, ["1.3", "nothing", "1.3"]),
            (Version::From12, ["1.3", "1.2", "1.3"]),
        ] {
            let versions = [[true, true], [true, false], [false, true]];
            assert_eq!(versions.map(|versions| answers(version, versions)), each, "{version:?}");
        }
    }

    #[test]
    fn a_missing_key_share_requires_state() {
        let bytes = hello_bytes(Version::Only13);
        let hello = ClientHello::read(&bytes).expect("a hello");
        let groups = vec![NamedGroup::Secp384r1];
        let more = hello.answer(&ServerParameters { groups, ..server_parameters([true, true]) });
        assert!(matches!(more, HelloAnswer::NeedKeyShare), "{more:?}");
        let suites = vec![Dtls13CipherSuite::from_u16(0x13ff)];
        let none = hello.answer(&ServerParameters { suites, ..server_parameters([true, true]) });
        assert!(matches!(none, HelloAnswer::NoCommonParameters), "{none:?}");
    }

    /// Removing the cookie from a second hello gives the bytes of the first hello.
    #[test]
    fn the_first_hello_is_in_the_second() {
        let with = |first: &[u8], cut: (usize, usize), put: &[u8], lengths: &[usize]| {
            let mut second = [&first[..cut.0], put, &first[cut.1..]].concat();
            let longer = second.len() - first.len();
            for &at in lengths {
                let length = be(&second[at..at + 2]) + longer;
                second[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
            }
            (second[18], second[10]) = (1, 1);
            second
        };
        let old = hello_bytes(Version::Only12);
        let hello = ClientHello::read(&old).expect("a hello");
        let at = HEADERS + hello.legacy.0;
        let second = with(&old, (at - 1, at), &[&[32][..], &[9; 32]].concat(), &[11, 15, 23]);
        let hello = ClientHello::read(&second).expect("a hello");
        let answer = hello.answer(&server_parameters([true, true]));
        assert!(matches!(answer, HelloAnswer::CheckCookie(false, cookie) if cookie == [9; 32]), "{answer:?}");
        assert_eq!(hello.first(false, &[0; ORDER], false), old);

        let new = hello_bytes(Version::Only13);
        let hello = ClientHello::read(&new).expect("a hello");
        let order = hello.order().expect("not too many");
        // Tests two variants of the second ClientHello. The cookie is the first extension in one variant, and the last
        // extension in the other.
        for at in [HEADERS + hello.extensions, new.len()] {
            let extension = [&[0, 44, 0, 34, 0, 32][..], &[9; 32]].concat();
            let all = HEADERS + hello.extensions - 2;
            let second = with(&new, (at, at), &extension, &[11, 15, 23, all]);
            let hello = ClientHello::read(&second).expect("a hello");
            let answer = hello.answer(&server_parameters([true, true]));
            assert!(
                matches!(answer, HelloAnswer::CheckCookie(true, cookie) if cookie == [9; 32]),
                "{answer:?}"
            );
            assert_eq!(hello.first(true, &order, false), new);
        }
        // The client reorders the extensions of its second ClientHello, as wolfSSL does. The cookie and the previously
        // first extension are moved to the end.
        let first = HEADERS + hello.extensions;
        let length = 4 + be(&new[first + 2..first + 4]);
        let cookie = [&[0, 44, 0, 34, 0, 32][..], &[9; 32]].concat();
        let turned = [&new[..first], &new[first + length..], &cookie, &new[first..first + length]].concat();
        let mut turned = with(&turned, (first, first), &[], &[]);
        for at in [11, 15, 23, first - 2] {
            let length = be(&turned[at..at + 2]) + cookie.len();
            turned[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        }
        assert_eq!(ClientHello::read(&turned).expect("a hello").first(true, &order, false), new);
        // The client pads its first ClientHello. In the second, it shortens the padding by the size of the cookie.
        let last = hello.sorted().into_iter().find(|(kind, _)| *kind == PADDING).expect("padding").1.len();
        let (opens, closes) = (new.len() - last, new.len());
        let mut shorter = new.clone();
        shorter.drain(closes - 38..closes);
        let length = (be(&new[opens + 2..opens + 4]) - 38) as u16;
        shorter[opens + 2..opens + 4].copy_from_slice(&length.to_be_bytes());
        for at in [HEADERS + hello.extensions, shorter.len()] {
            let extension = [&[0, 44, 0, 34, 0, 32][..], &[9; 32]].concat();
            let mut second = [&shorter[..at], &extension, &shorter[at..]].concat();
            (second[18], second[10]) = (1, 1);
            let hello = ClientHello::read(&second).expect("a hello");
            assert_eq!(hello.first(true, &order, true), new);
        }
    }

    #[test]
    fn truncated_and_oversized_hellos_are_rejected() {
        for version in [Version::Only12, Version::From12] {
            let bytes = hello_bytes(version);
            for end in 0..bytes.len() {
                assert!(ClientHello::read(&bytes[..end]).is_none(), "{version:?}: {end}");
            }
            assert!(ClientHello::read(&[&bytes[..], &[0]].concat()).is_none(), "{version:?}");
        }
    }
}
