//! Why a client last refused a server's certificates: a line that survives where an error of TLS goes through somebody
//! else's types (QUIC has TLS inside, and hands on a text of its own).

use crate::fault;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::sync::{Arc, Mutex, PoisonError};

/// What the last certificate was refused for. A clone is the same place; it is taken out within the call that has put it in.
#[derive(Clone, Debug, Default)]
pub struct Distrust(Arc<Mutex<Option<String>>>);

impl Distrust {
    /// The line, if a certificate was refused since this was last asked.
    #[must_use]
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: &Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault::line(error));
    }
}

/// A verifier that leaves a line where it refuses.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) verifier: Arc<dyn ServerCertVerifier>,
    pub(crate) distrust: Distrust,
}

impl ServerCertVerifier for Telling {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(own, others, name, ocsp, now);
        verified.inspect_err(|error| self.distrust.put(error))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
