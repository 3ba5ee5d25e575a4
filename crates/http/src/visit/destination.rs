//! Resolves the addresses that occur in documents.
//!
//! Implements RFC 3986 §5.2, as far as the addresses of fetched resources need it.

/// The resource that an address refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A resource on the same host, with this path and query.
    Here(String),
    /// A resource on another host, with this URL.
    OtherHost(String),
    /// The address does not lead to a resource that can be fetched. Examples are an empty address, and addresses with
    /// the schemes `data:` and `javascript:`.
    NotFetchable,
}

/// Resolves `address`, which occurs in a document on `host`. `host` is written as in the Host field, and `base` is the
/// path and query of the document.
#[must_use]
pub fn resolve(host: &str, base: &str, address: &str) -> Destination {
    let address = bare(address);
    if address.is_empty() {
        return Destination::NotFetchable;
    }
    let rest = match scheme(address) {
        // An address with one of these schemes may be on the document's host, over the same or another transport.
        Some(scheme)
            if ["http", "http+sctp", "http+sctp-ip"].iter().any(|own| scheme.eq_ignore_ascii_case(own)) =>
        {
            &address[scheme.len() + 1..]
        }
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => {
            return Destination::OtherHost(address.to_owned());
        }
        Some(_) => return Destination::NotFetchable,
        None => address,
    };
    if let Some(rest) = rest.strip_prefix("//") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        if !rest[..end].eq_ignore_ascii_case(host) {
            return Destination::OtherHost(address.to_owned());
        }
        let path =
            if rest[end..].starts_with('/') { rest[end..].to_owned() } else { format!("/{}", &rest[end..]) };
        return Destination::Here(normal(&path));
    }
    let path = base.split('?').next().unwrap_or_default();
    let joined = match rest.chars().next() {
        Some('/') => rest.to_owned(),
        Some('?') => format!("{path}{rest}"),
        _ => format!("{}/{rest}", path.rsplit_once('/').map_or("", |(directory, _)| directory)),
    };
    Destination::Here(normal(&joined))
}

/// Like [`resolve`], for a document that was fetched over TLS. An address without a scheme therefore means `https`.
#[must_use]
pub fn resolve_secure(host: &str, base: &str, address: &str) -> Destination {
    let bare = bare(address);
    let own = scheme(bare).filter(|scheme| scheme.eq_ignore_ascii_case("https"));
    match resolve(host, base, own.map_or(address, |scheme| &bare[scheme.len() + 1..])) {
        // An address without a scheme has the scheme of the document, which was fetched with `https`.
        Destination::OtherHost(url) if url.starts_with("//") => {
            Destination::OtherHost(format!("https:{url}"))
        }
        place => place,
    }
}

/// Resolves `address`, which occurs in a document on `host`. The document's base, `base`, is a URL on another host.
#[must_use]
pub fn resolve_from(host: &str, base: &str, address: &str) -> Destination {
    let address = bare(address);
    let (own, rest) = base.split_once("//").unwrap_or(("", base));
    if address.is_empty() || scheme(address).is_some() {
        return resolve(host, "/", address);
    }
    if address.starts_with("//") {
        // The address has no scheme, so it gets the scheme of the document's base URL.
        return resolve(host, "/", &format!("{own}{address}"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match resolve(&rest[..end], &rest[end..], address) {
        Destination::Here(target) => Destination::OtherHost(format!("{own}//{}{target}", &rest[..end])),
        place => place,
    }
}

/// Removes white space and the fragment, which are not part of a request.
fn bare(address: &str) -> &str {
    address.trim().split('#').next().unwrap_or_default()
}

/// RFC 3986 §3.1: returns the scheme of `address`, if it has one.
fn scheme(address: &str) -> Option<&str> {
    let end = address.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?;
    (end > 0 && address[end..].starts_with(':')).then(|| &address[..end])
}

/// Removes `.` and `..` segments (RFC 3986 §5.2.4), and encodes characters that a request line cannot contain.
fn normal(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut segments: Vec<&str> = Vec::new();
    let mut directory = false;
    for segment in path.split('/').skip(1) {
        directory = matches!(segment, "" | "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            // If the last segment is empty, it stands for a trailing slash.
            segment => segments.push(segment),
        }
    }
    let mut written = String::new();
    for segment in &segments {
        written.push('/');
        encode(segment, &mut written);
    }
    if written.is_empty() || directory && !written.ends_with('/') {
        written.push('/');
    }
    if let Some(query) = query {
        written.push('?');
        encode(query, &mut written);
    }
    written
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if !matches!(byte, b'"' | b'<' | b'>') => out.push(char::from(byte)),
            _ => *out += &format!("%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_rfc_3986_says() {
        let here = |address: &str| resolve("h:8080", "/b/c/d?q", address);
        for (address, target) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d?y"),
            ("g?y", "/b/c/g?y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("g.", "/b/c/g."),
            ("./g/.", "/b/c/g/"),
            ("g/../h", "/b/c/h"),
            ("a b", "/b/c/a%20b"),
            ("g#s", "/b/c/g"),
            ("http://H:8080/x", "/x"),
            ("http+sctp://h:8080", "/"),
            ("//h:8080?q", "/?q"),
        ] {
            assert_eq!(here(address), Destination::Here(target.to_owned()), "{address}");
        }
        for address in ["http://h/x", "//other/x", "https://h:8080/x", "http://h:80801/"] {
            assert_eq!(here(address), Destination::OtherHost(address.to_owned()), "{address}");
        }
        let of = |base: &str, address: &str| resolve_from("h:8080", base, address);
        for base in ["http://elsewhere.example/x/y?z", "//elsewhere.example/x/"] {
            let own = base.strip_suffix("//elsewhere.example/x/y?z").unwrap_or_default();
            for (address, target) in [("g", "/x/g"), ("/g", "/g"), ("../g?y", "/g?y"), ("g#s", "/x/g")] {
                let url = format!("{own}//elsewhere.example{target}");
                assert_eq!(of(base, address), Destination::OtherHost(url), "{base} {address}");
            }
            for address in ["http://h:8080/g", "//h:8080/g", "http+sctp://H:8080/g"] {
                assert_eq!(of(base, address), Destination::Here("/g".to_owned()), "{base} {address}");
            }
            let third = "http://third.example/g";
            assert_eq!(of(base, third), Destination::OtherHost(third.to_owned()));
            assert_eq!(of(base, "data:image/png;base64,AA"), Destination::NotFetchable);
            assert_eq!(of(base, "#top"), Destination::NotFetchable);
        }
        assert_eq!(of("https://e", "g"), Destination::OtherHost("https://e/g".to_owned()));
        assert_eq!(of("https://e/", "//h:8080/g"), Destination::OtherHost("https://h:8080/g".to_owned()));
        for address in ["", "#top", "data:image/png;base64,AA", "javascript:void 0", "mailto:a@b"] {
            assert_eq!(here(address), Destination::NotFetchable, "{address}");
        }
    }
}
