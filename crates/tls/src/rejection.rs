//! Keeps the reason why a client last refused a server's certificate. QUIC, which has TLS built in, replaces the reason
//! with its own text, so the reason would otherwise be lost.

use crate::fault;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why the last certificate was refused, shared by all clones. The reason must be taken within the call that
/// has stored it, because the next refusal replaces it.
#[derive(Clone, Debug, Default)]
pub struct CertificateRejection(Arc<Mutex<Option<String>>>);

impl CertificateRejection {
    /// Removes and returns the reason, if a certificate was refused since the last call.
    #[must_use]
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: &Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault::line(error));
    }
}

/// A certificate verifier that wraps another verifier. When the wrapped verifier refuses a certificate, the reason is
/// stored.
#[derive(Debug)]
pub(crate) struct RecordingVerifier {
    pub(crate) verifier: Arc<dyn ServerCertVerifier>,
    pub(crate) rejection: CertificateRejection,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        verified.inspect_err(|error| self.rejection.put(error))
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
