//! The command-line flags for TLS and DTLS.

use crate::flag::{flag, switch};
use clap::{Arg, Command};

/// Adds the TLS flags of a server to `command`.
pub fn server_flags(command: Command) -> Command {
    let file = |name, help| flag(name, "FILE", help);
    command
        .arg(
            file(
                "cert",
                "Certificate chain (PEM) for https://, h3:// and https+sctp://, the server's own certificate first; needs --key",
            )
            .requires("key"),
        )
        .arg(file("key", "Private key (PEM) of the certificate; needs --cert").requires("cert"))
}

/// Adds the TLS flags of a client to `command`.
pub fn client_flags(command: Command) -> Command {
    command
        .arg(
            flag(
                "trust",
                "FILE|sha256:FINGERPRINT",
                "Over https://, h3:// and https+sctp:// trust these authorities (PEM), or the certificate with this fingerprint [default: the authorities of this system]",
            )
            .conflicts_with("insecure"),
        )
        .arg(
            switch(
                "insecure",
                "Over https://, h3:// and https+sctp:// accept any certificate: anyone on the path can then read and change traffic",
            ),
        )
}

/// Returns the `--qlog` flag, which logs QUIC connections.
pub fn qlog_flag() -> Arg {
    flag(
        "qlog",
        "DIR",
        "Over h3:// write a qlog file for each connection to this directory, for tools such as qvis [default: QLOGDIR, if set]",
    )
}

/// Adds the `--http` flag, which selects the version of HTTP.
pub fn http_flag(command: Command) -> Command {
    command.arg(
        flag(
            "http",
            "VERSION",
            "Speak this version of HTTP; 3 gets https:// URLs over QUIC at the same port [default: the server's choice over https://, else 1.1]",
        )
        .value_parser(["1.1", "2", "3"]),
    )
}
