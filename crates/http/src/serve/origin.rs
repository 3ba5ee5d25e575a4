//! Determines whether a server is responsible for the origin that a request names (RFC 9110 §7.4).

use super::site::Answer;
use crate::authority::host_of;
use http::StatusCode;
use std::fmt;
use std::rc::Rc;

/// The origins for which a listener answers. The server refuses requests for other origins.
#[derive(Clone, Debug, Default)]
pub struct OwnOrigins {
    /// Whether sessions are encrypted, so that `https` resources may be requested.
    pub secure: bool,
    /// The hosts that the server's certificate names; `None` if requests for any host are answered.
    pub names: Option<Names>,
}

/// Whether the server's certificate names a host. The predicate gets a host name, or an address without brackets.
#[derive(Clone)]
pub struct Names(Rc<dyn Fn(&str) -> bool>);

impl Names {
    /// Creates the predicate. `includes` must return true for each host that the certificate names.
    pub fn new(includes: impl Fn(&str) -> bool + 'static) -> Self {
        Self(Rc::new(includes))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}

impl OwnOrigins {
    /// Returns the response to a request for another origin; `None` if the server is responsible. `scheme` and
    /// `authority` are those of the request.
    pub(super) fn refuse(&self, scheme: Option<&str>, authority: Option<&str>) -> Option<Answer> {
        match scheme {
            Some("https") if !self.secure => {
                // RFC 9110 §7.4: an `https` resource must not be served over an unencrypted connection.
                let message = "a resource of https is not served in the clear\n";
                return Some(Answer::plain_text(StatusCode::BAD_REQUEST, message));
            }
            None | Some("http" | "https") => {}
            Some(_) => {
                return Some(Answer::plain_text(
                    StatusCode::BAD_REQUEST,
                    "the scheme is neither http nor https\n",
                ));
            }
        }
        let host = host_of(authority.filter(|authority| !authority.is_empty())?);
        // RFC 9110 §15.5.20: the response to a request for another host has status 421.
        let elsewhere = self.names.as_ref().is_some_and(|names| !(names.0)(host));
        elsewhere.then(|| {
            Answer::plain_text(
                StatusCode::MISDIRECTED_REQUEST,
                "this server's certificate does not name that host\n",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_other_origins_are_refused() {
        let status = |own: &OwnOrigins, scheme, authority| {
            own.refuse(scheme, authority).map(|answer| answer.status.as_u16())
        };
        let clear = OwnOrigins::default();
        assert_eq!(status(&clear, Some("https"), Some("a")), Some(400));
        assert_eq!(status(&clear, Some("ftp"), Some("a")), Some(400));
        assert_eq!(status(&clear, Some("http"), Some("a")), None);
        let names = Names::new(|host| host == "a.example" || host == "::1");
        let secure = OwnOrigins { secure: true, names: Some(names) };
        for own in ["a.example", "a.example:8443", "a.example:", "[::1]:443", "[::1]", ""] {
            assert_eq!(status(&secure, Some("https"), Some(own)), None, "{own}");
        }
        for other in ["b.example", "[::2]:443", "127.0.0.1"] {
            assert_eq!(status(&secure, None, Some(other)), Some(421), "{other}");
        }
        assert_eq!(status(&secure, None, None), None);
    }
}
