//! Redirects requests to the `https` site on another port of the same host (RFC 9110 §15.4.9). A site that does not
//! redirect can advertise HTTP/3 (RFC 7838).

use super::site::{Answer, Resource, Site, SiteRequest};
use crate::alt_svc::Alternative;
use crate::authority::Authority;
use http::header::{ALT_SVC, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use std::rc::Rc;

/// A site that this server either serves or redirects to `https`.
#[derive(Debug)]
pub struct Redirected<S> {
    /// The site that is served.
    pub site: Rc<S>,
    /// The `https` port to which requests are redirected; `None` if this listener serves the site itself.
    pub https: Option<u16>,
    /// The UDP port on which the site is also served over HTTP/3. Each response announces it.
    pub http3: Option<u16>,
}

impl<S: Site> Site for Redirected<S> {
    fn find(&self, target: &str) -> Option<Resource> {
        self.site.find(target)
    }

    fn answer(&self, request: &SiteRequest<'_>) -> Answer {
        let Some(port) = self.https else {
            let mut answer = self.site.answer(request);
            let alternative = self.http3.map(Alternative::written);
            if let Some(value) = alternative.and_then(|value| HeaderValue::from_str(&value).ok()) {
                answer.fields.insert(ALT_SVC, value);
            }
            return answer;
        };
        if !matches!(*request.method, Method::GET | Method::HEAD) {
            return Answer::refuse_method(request.method);
        }
        // The redirect uses the host name of the request, because the client knows the server by that name.
        let host = request.host.and_then(|host| Authority::parse(host, Some(port)));
        let to =
            host.map(|host| format!("https://{}{}", Authority { port, ..host }.written(443), request.target));
        match to.and_then(|to| HeaderValue::from_str(&to).ok()) {
            Some(to) => {
                let mut answer =
                    Answer::plain_text(StatusCode::PERMANENT_REDIRECT, "this is served over https\n");
                answer.fields.insert(LOCATION, to);
                answer
            }
            None => Answer::plain_text(
                StatusCode::BAD_REQUEST,
                "a request names its host: it is redirected to https\n",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    struct Nothing;

    impl Site for Nothing {
        fn find(&self, _: &str) -> Option<Resource> {
            None
        }
    }

    #[test]
    fn redirects_keep_host_path_and_query() {
        let lead = |port: u16, host: Option<&str>, target: &str| {
            let fields = HeaderMap::new();
            let request = SiteRequest { method: &Method::GET, target, host, fields: &fields };
            let answer =
                Redirected { site: Rc::new(Nothing), https: Some(port), http3: None }.answer(&request);
            let to = answer.fields.get(LOCATION).map(|to| to.to_str().expect("text").to_owned());
            (answer.status.as_u16(), to)
        };
        let to = |url: &str| (308, Some(url.to_owned()));
        assert_eq!(lead(443, Some("a.example:8080"), "/x?y=%20"), to("https://a.example/x?y=%20"));
        assert_eq!(lead(8443, Some("[::1]"), "/"), to("https://[::1]:8443/"));
        for none in [None, Some(""), Some("a b"), Some("user@a")] {
            assert_eq!(lead(443, none, "/"), (400, None), "{none:?}");
        }
        let fields = HeaderMap::new();
        let request = SiteRequest { method: &Method::GET, target: "/", host: None, fields: &fields };
        let answer = Redirected { site: Rc::new(Nothing), https: None, http3: Some(4433) }.answer(&request);
        let alt_svc = answer.fields.get(ALT_SVC).and_then(|value| value.to_str().ok());
        assert_eq!((answer.status, alt_svc), (StatusCode::NOT_FOUND, Some("h3=\":4433\"; ma=86400")));
    }
}
