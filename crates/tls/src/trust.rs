//! The certificates that a client trusts: those signed by authorities, the certificate with a given fingerprint, or any
//! certificate.

use crate::identity::fingerprint;
use crate::simulation::Surroundings;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The certificates that a client trusts.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Certificates signed by the system's authorities.
    #[default]
    System,
    /// The certificates in this list, and all certificates that the authorities in this list have signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// The certificate with this fingerprint, whatever names and dates it has.
    Certificate(Fingerprint),
    /// Any certificate. An attacker between client and server can read all data.
    Anybody,
}

/// The reason why a set of trusted certificates cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read, or contains no certificate. The fields are the file and the reason.
    #[error("{0}: {1}")]
    File(String, String),
    /// The system has no certificates of authorities. The field is the reason, if known.
    #[error(
        "this system has no certificates of authorities{0}; --trust names a file of them, or a fingerprint"
    )]
    NoSystem(String),
    /// A certificate to trust cannot be used. The field is the reason.
    #[error("a certificate to trust is of no use: {0}")]
    Certificate(String),
}

/// The SHA-256 hash of a certificate in DER. Its text form is `sha256:` and 64 hexadecimal digits. Colons may separate
/// the digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no fingerprint: sha256: and 64 hexadecimal digits are needed");
        let digits: Vec<u8> = text
            .strip_prefix("sha256:")
            .ok_or_else(wrong)?
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).map(|digit| digit as u8).ok_or_else(wrong))
            .collect::<Result<_, _>>()?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        if !rest.is_empty() {
            return Err(wrong());
        }
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

impl Trust {
    /// Reads the certificates to trust from a PEM file.
    ///
    /// # Errors
    /// [`TrustError::File`], if the file cannot be read or contains no certificate.
    pub fn from_file(path: &Path) -> Result<Self, TrustError> {
        let wrong = |error: String| TrustError::File(path.display().to_string(), error);
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|error| wrong(format!("no PEM: {error}")))?;
        if found.is_empty() {
            return Err(wrong("it holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
        }
        Ok(Self::Authorities(found))
    }

    /// Creates the verifier that checks server certificates.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let algorithms = provider.signature_verification_algorithms;
        let roots = match self {
            Self::Certificate(fingerprint) => {
                return Ok(Arc::new(FingerprintVerifier { fingerprint: Some(*fingerprint), algorithms }));
            }
            Self::Anybody => return Ok(Arc::new(FingerprintVerifier { fingerprint: None, algorithms })),
            Self::Authorities(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in authorities {
                    roots
                        .add(authority.clone())
                        .map_err(|error| TrustError::Certificate(crate::fault::line(&error)))?;
                }
                let verifier = webpki(roots, provider)?;
                let own = authorities.iter().map(|one| Fingerprint(fingerprint(one))).collect();
                return Ok(Arc::new(AuthorityVerifier { authorities: verifier, fingerprints: own }));
            }
            Self::System => system()?,
        };
        webpki(roots, provider).map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
    }
}

/// Verifies server certificates for a protocol in which a server sends only one certificate. The protocol must itself
/// check that the server has the certificate's private key.
#[derive(Debug)]
pub struct CertificateJudge {
    verifier: Arc<dyn ServerCertVerifier>,
    surroundings: Surroundings,
}

impl CertificateJudge {
    /// Creates a verifier that trusts the certificates of `trust`.
    ///
    /// # Errors
    /// [`TrustError`], if the trusted certificates cannot be used.
    pub fn new(trust: &Trust, surroundings: Surroundings) -> Result<Self, TrustError> {
        let verifier = trust.verifier(&Arc::new(surroundings.provider()))?;
        Ok(Self { verifier, surroundings })
    }

    /// Verifies the certificate (DER) of a server. The certificate must be for `name`, a host name or an address.
    ///
    /// # Errors
    /// A one-line text that says why the certificate is not trusted.
    pub fn verify(&self, certificate: &[u8], name: &str) -> Result<(), String> {
        let certificate = CertificateDer::from(certificate);
        let name = ServerName::try_from(name)
            .map_err(|_| format!("'{name}' is no name that a certificate can be for"))?;
        let now = self.surroundings.within(|| self.surroundings.clock().current_time());
        let now = now.ok_or("there is no time of day")?;
        self.verifier
            .verify_server_cert(&certificate, &[], &name, &[], now)
            .map(drop)
            .map_err(|error| crate::fault::line(&error))
    }
}

fn webpki(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TrustError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| TrustError::Certificate(error.to_string()))
}

/// Loads the certificates of the authorities that this system trusts. Certificates that TLS cannot use are skipped.
#[cfg(not(target_family = "wasm"))]
fn system() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(TrustError::NoSystem(why));
    }
    Ok(roots)
}

/// Always fails, because WebAssembly has no access to the authorities that the system trusts.
#[cfg(target_family = "wasm")]
fn system() -> Result<RootCertStore, TrustError> {
    Err(TrustError::NoSystem(" (WebAssembly has no access to them)".to_owned()))
}

/// Trusts only the certificate with the given fingerprint, or any certificate if no fingerprint is given. Also checks
/// that the server has the private key of its certificate.
#[derive(Debug)]
struct FingerprintVerifier {
    fingerprint: Option<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is = Fingerprint(fingerprint(end_entity));
        if self.fingerprint.is_none_or(|expected| expected == is) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General(format!("the server's certificate has another fingerprint, {is}")))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Trusts certificates signed by the listed authorities, and the listed certificates themselves, for example a server's
/// self-signed certificate.
#[derive(Debug)]
struct AuthorityVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    fingerprints: Vec<Fingerprint>,
}

impl ServerCertVerifier for AuthorityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.authorities.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // webpki rejects a server whose own certificate is that of an authority. If `fingerprints` contains the
            // certificate, it is accepted nevertheless, provided that it names the server. webpki has already checked
            // its dates.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.fingerprints.contains(&Fingerprint(fingerprint(end_entity))) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_as_it_prints() {
        let fingerprint = Fingerprint(std::array::from_fn(|at| at as u8 * 7));
        let text = fingerprint.to_string();
        assert_eq!(text.parse(), Ok(fingerprint));
        let colons: Vec<String> = fingerprint.0.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(format!("sha256:{}", colons.join(":")).parse(), Ok(fingerprint));
        for wrong in ["", "sha256:", "sha1:00", &text[..70], &format!("{text}0"), &text.replace('0', "g")] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
