//! Checks whether a certificate is for a host (RFC 9110 §4.3.4, RFC 9525 §6).

use crate::Identity;
use crate::server::{CurrentCertificate, SendableServer};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// The hosts that the server's current certificate names.
pub struct CertificateNames {
    current: Arc<CurrentCertificate>,
    /// The last host that matched, and the certificate that names it.
    last: RefCell<Option<(Arc<CertifiedKey>, String)>>,
}

impl fmt::Debug for CertificateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateNames").finish_non_exhaustive()
    }
}

impl CertificateNames {
    /// Returns whether the server's certificate names `host`, a host name or an address without brackets. An old
    /// certificate without any subject alternative names matches every host.
    #[must_use]
    pub fn include(&self, host: &str) -> bool {
        let current = self.current.current();
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_some_and(|(by, named)| Arc::ptr_eq(by, &current) && named == host) {
            return true;
        }
        let included = current.cert.first().is_none_or(|certificate| names(certificate, host));
        if included {
            *last = Some((current, host.to_owned()));
        }
        included
    }
}

impl SendableServer {
    /// Returns the hosts that the server's certificate names.
    #[must_use]
    pub fn names(&self) -> CertificateNames {
        CertificateNames { current: self.1.clone(), last: RefCell::default() }
    }
}

impl Identity {
    /// Returns whether the server's own certificate names this host; see [`CertificateNames::include`].
    #[must_use]
    pub fn names(&self, host: &str) -> bool {
        self.chain.first().is_none_or(|certificate| names(certificate, host))
    }
}

fn names(certificate: &CertificateDer<'_>, host: &str) -> bool {
    // RFC 9525 §6.3: the trailing dot of a host name (the DNS root) is not part of the names in certificates.
    let host = host.strip_suffix('.').unwrap_or(host);
    let Ok(name) = ServerName::try_from(host) else { return false };
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return true };
    match verify_server_name(&certificate, &name) {
        Ok(()) => true,
        Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })) => {
            presented.is_empty()
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Server, ServerSettings, Surroundings};

    fn identity(names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Identity::self_signed(&names).expect("a certificate")
    }

    #[test]
    fn hosts_are_those_of_the_certificate_that_is_shown() {
        let settings = ServerSettings::of(identity(&["a.example", "*.b.example", "127.0.0.1", "::1"]));
        let server = Server::new(settings, Surroundings::Real).expect("a server").shared();
        let names = server.names();
        for host in ["a.example", "A.Example", "a.example.", "x.b.example", "127.0.0.1", "::1"] {
            assert!(names.include(host) && names.include(host), "{host}");
        }
        for host in ["b.example", "x.y.b.example", "aa.example", "127.0.0.2", "::2", "", "a b"] {
            assert!(!names.include(host), "{host}");
        }
        assert!(names.include("a.example"));
        server.set_identity(identity(&["c.example"])).expect("shown");
        assert!(names.include("c.example") && !names.include("a.example"));
        let nobody = identity(&[]);
        assert!(nobody.names("a.example") && identity(&["a.example"]).names("a.example"));
    }
}
