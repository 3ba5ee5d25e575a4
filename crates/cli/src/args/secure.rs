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
                "Certificates for https://, h3:// and https+sctp://, in PEM, the server's own first; with --key",
            )
            .requires("key"),
        )
        .arg(file("key", "Private key of the certificate, in PEM; with --cert").requires("cert"))
}

/// Adds the TLS flags of a client to `command`.
pub fn client_flags(command: Command) -> Command {
    command
        .arg(
            flag(
                "trust",
                "FILE|sha256:FINGERPRINT",
                "Over https://, h3:// and https+sctp:// believe these authorities (PEM), or one certificate; default: those of this system",
            )
            .conflicts_with("insecure"),
        )
        .arg(
            switch(
                "insecure",
                "Over https://, h3:// and https+sctp:// believe any server: whoever is in between can read and change traffic",
            ),
        )
}

/// Returns the `--qlog` flag, which logs QUIC connections.
pub fn qlog_flag() -> Arg {
    flag(
        "qlog",
        "DIR",
        "Over h3:// write a qlog file for each connection to this directory, for qvis and the like [default: QLOGDIR, if set]",
    )
}

/// Adds the `--http` flag, which selects the version of HTTP.
pub fn http_flag(command: Command) -> Command {
    command.arg(
        flag(
            "http",
            "VERSION",
            "Speak this version; 3 takes https:// URLs over QUIC at the same port; default: what the server chooses over https://, else 1.1",
        )
        .value_parser(["1.1", "2", "3"]),
    )
}
