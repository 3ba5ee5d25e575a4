//! The options of a request: whether it asks only for the head of the response, and fields that the user adds.

use http::header::{HOST, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, Request, Uri};

/// The options of a request, apart from its target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestOptions {
    /// Whether only the head of the response is requested (HEAD, RFC 9110 §9.3.2).
    pub(super) head_only: bool,
    /// Fields of the request. A field replaces the field of the same name that the client sends by itself.
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl RequestOptions {
    /// Creates options without fields. With `head_only`, only the head of the response is requested.
    #[must_use]
    pub fn new(head_only: bool) -> Self {
        Self { head_only, ..Self::default() }
    }

    /// Returns whether only the head of the response is requested.
    #[must_use]
    pub fn is_head_only(&self) -> bool {
        self.head_only
    }

    /// Adds to the request a field that is written as `NAME: VALUE`.
    ///
    /// # Errors
    /// One line, if the text has another form, or if the field would change how the message is framed.
    pub fn add_field(&mut self, text: &str) -> Result<(), String> {
        let wrong = |why: &str| format!("'{text}': {why}; write NAME: VALUE");
        let (name, value) = text.split_once(':').ok_or_else(|| wrong("no colon"))?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("not the name of a field"))?;
        let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong("a character is not permitted"))?;
        if FRAMING.contains(&name.as_str()) {
            return Err(format!("'{text}': a request without a body has no such field; leave it out"));
        }
        self.fields.push((name, value));
        Ok(())
    }

    /// Returns the head of a request over HTTP/1.1.
    #[must_use]
    pub fn http1_request(&self, host: &str, target: &str) -> String {
        let method = if self.head_only { Method::HEAD } else { Method::GET };
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        let own = [("Host", host), ("User-Agent", AGENT), ("Accept", "*/*")];
        for (name, value) in own {
            if !self.fields.iter().any(|(given, _)| given.as_str().eq_ignore_ascii_case(name)) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in &self.fields {
            head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
        }
        head + "\r\n"
    }

    /// Applies the options to a request over HTTP/2 or HTTP/3. The field Host becomes the authority of the URL
    /// (RFC 9113 §8.3.1, RFC 9114 §4.3.1).
    pub(super) fn apply(&self, request: &mut Request<()>) {
        if self.head_only {
            *request.method_mut() = Method::HEAD;
        }
        let fields = request.headers_mut();
        for (name, _) in &self.fields {
            fields.remove(name);
        }
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != HOST) {
            fields.append(name, value.clone());
        }
        let host = self.fields.iter().rfind(|(name, _)| *name == HOST);
        let authority = host.and_then(|(_, value)| Authority::try_from(value.as_bytes()).ok());
        if let Some(authority) = authority {
            let mut parts = request.uri().clone().into_parts();
            parts.authority = Some(authority);
            if let Ok(uri) = Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
        }
    }
}

/// Returns the head of a request over HTTP/2 or HTTP/3 in the text form of HTTP/1.1, for display.
pub(super) fn text(request: &Request<()>, version: &str) -> String {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let authority = request.uri().authority().map_or("", Authority::as_str);
    let mut head = format!("{} {target} {version}\r\n:authority: {authority}\r\n", request.method());
    for (name, value) in request.headers() {
        head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
    }
    head + "\r\n"
}

/// The value of the field User-Agent.
const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));

/// Fields that say how a message is framed or how its connection is used.
const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "te"];

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, USER_AGENT};

    #[test]
    fn fields_of_the_user_replace_those_of_the_client() {
        let plain = RequestOptions::new(false);
        let mut options = RequestOptions::new(true);
        assert_eq!(
            plain.http1_request("a.example", "/x"),
            format!("GET /x HTTP/1.1\r\nHost: a.example\r\nUser-Agent: {AGENT}\r\nAccept: */*\r\n\r\n")
        );
        for field in ["Host: b.example", "accept: text/css", "X-A: 1", "X-A:2"] {
            options.add_field(field).expect(field);
        }
        assert_eq!(
            options.http1_request("a.example", "/x"),
            format!(
                "HEAD /x HTTP/1.1\r\nUser-Agent: {AGENT}\r\nhost: b.example\r\naccept: text/css\r\nx-a: 1\r\nx-a: 2\r\n\r\n"
            )
        );
        let mut request = Request::builder().uri("https://a.example/x?y=1").header(ACCEPT, "*/*");
        request = request.header(USER_AGENT, AGENT);
        let mut request = request.body(()).expect("a request");
        options.apply(&mut request);
        assert_eq!(
            text(&request, "HTTP/2"),
            format!(
                "HEAD /x?y=1 HTTP/2\r\n:authority: b.example\r\nuser-agent: {AGENT}\r\naccept: text/css\r\nx-a: 1\r\nx-a: 2\r\n\r\n"
            )
        );
    }

    #[test]
    fn text_that_is_no_field_is_refused_in_one_line() {
        for (text, why) in [
            ("Accept", "no colon"),
            ("A b: c", "not the name of a field"),
            ("a: b\r\nc: d", "not permitted"),
            ("Content-Length: 3", "without a body"),
            (":path: /x", "not the name of a field"),
        ] {
            let error = RequestOptions::default().add_field(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
