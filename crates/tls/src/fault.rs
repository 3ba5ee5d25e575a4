//! Converts TLS errors to one-line messages for people.

use anabranch_transport::CloseReason;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible, PeerMisbehaved};

/// Converts a TLS error to the reason why the session closes.
pub(crate) fn reason(error: &Error) -> CloseReason {
    match error {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => CloseReason::Untrusted(line(error)),
        // Our own certificate verifiers report their errors as `General`.
        Error::General(why) => CloseReason::Untrusted(why.clone()),
        _ => CloseReason::Protocol(line(error)),
    }
}

/// Converts a TLS error to one line without Rust identifiers.
pub(crate) fn line(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(wrong) => certificate(wrong),
        Error::NoCertificatesPresented => "the server has shown no certificate".to_owned(),
        Error::AlertReceived(alert) => ended_by_peer(u8::from(*alert)),
        Error::NoApplicationProtocol => "the two share no application protocol (ALPN)".to_owned(),
        Error::InvalidMessage(_) => "what the peer sent is not TLS".to_owned(),
        Error::PeerIncompatible(why) => incompatible(why),
        // RFC 8446 §4.1.3: the server supports TLS 1.3, but the ClientHello that it received did not offer TLS 1.3 (a
        // downgrade). The server's random value shows this.
        Error::PeerMisbehaved(PeerMisbehaved::AttemptedDowngradeToTls12WhenTls13IsSupported) => {
            "somebody on the way took TLS 1.3 out of the offer".to_owned()
        }
        Error::DecryptError => "a record was changed on the way, or is of other keys".to_owned(),
        Error::General(why) => why.clone(),
        other => format!("TLS: {other}").replace('\n', " "),
    }
}

fn certificate(wrong: &CertificateError) -> String {
    match wrong {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "the server's certificate is signed by nobody who is trusted".to_owned()
        }
        CertificateError::NotValidForName => "the server's certificate is for another name".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            format!("the server's certificate is not for {}: it names nobody", expected.to_str())
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is not for {}, but for {}",
            expected.to_str(),
            presented.join(", ").replace("DnsName(\"", "").replace("\")", "")
        ),
        CertificateError::Revoked => "the server's certificate has been revoked".to_owned(),
        CertificateError::BadSignature => "the server's certificate has a wrong signature".to_owned(),
        CertificateError::BadEncoding => "the server's certificate cannot be read".to_owned(),
        other => format!("the server's certificate is of no use: {other}").replace('\n', " "),
    }
}

fn incompatible(why: &PeerIncompatible) -> String {
    match why {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired => {
            "the peer speaks no version of TLS that is spoken here (1.3, 1.2)".to_owned()
        }
        PeerIncompatible::NoCipherSuitesInCommon => "the two share no cipher suite".to_owned(),
        other => format!("the peer's TLS does not go with ours: {other:?}"),
    }
}

/// Returns a one-line text that says that the peer ended TLS with this alert (RFC 8446 §6).
#[must_use]
pub fn ended_by_peer(alert: u8) -> String {
    format!("the peer ended TLS: {}", said(alert.into()))
}

/// Returns a one-line text that says that this side ended TLS with this alert. For an alert without its own text,
/// returns the text `otherwise`.
#[must_use]
pub fn ended_here(alert: u8, otherwise: &str) -> String {
    match AlertDescription::from(alert) {
        AlertDescription::NoApplicationProtocol => line(&Error::NoApplicationProtocol),
        AlertDescription::DecodeError | AlertDescription::UnexpectedMessage => {
            "what the peer sent is not TLS".to_owned()
        }
        _ => format!("TLS: {otherwise}").replace('\n', " "),
    }
}

fn said(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA => "it does not know who signed the certificate",
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept the certificate"
        }
        AlertDescription::CertificateExpired => "the certificate has expired",
        AlertDescription::ProtocolVersion => "it does not speak this version of TLS",
        AlertDescription::HandshakeFailure => "the two share no cipher suite or key exchange",
        AlertDescription::NoApplicationProtocol => "the two share no application protocol (ALPN)",
        AlertDescription::UnrecognisedName => "it does not know the server's name",
        AlertDescription::CertificateRequired => "it asks for a client's certificate",
        AlertDescription::InternalError => "an internal error",
        _ => "a fatal alert",
    }
}
