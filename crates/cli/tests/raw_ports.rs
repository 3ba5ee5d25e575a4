//! Tests several programs on a host over `sctp-ip://`. Each program receives every packet, and must not reply to
//! packets for another program.
//!
//! The tests run in a network namespace with addresses outside loopback, which needs root.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, namespace, run};

#[test]
fn programs_of_a_host_share_its_addresses_and_not_their_ports() {
    let Some(namespace) = namespace(&["192.0.2.1/32", "192.0.2.2/32"]) else { return };
    let site = Scratch::new("raw-ports");
    site.file("site/index.html", "<p>home");
    let root = format!("{}/site", site.text());
    let talk = || {
        let serve = |listen: &str| Running::start(&["serve", &root, "-q", "--listen", listen]);
        let get = |url: &str| {
            let got = run(anabranch().args(["get", "-q", "--timeout", "20s", url]));
            (got.status.code(), String::from_utf8_lossy(&got.stdout).into_owned(), errors(&got))
        };
        let refused = |listen: &str| {
            let second = run(anabranch().args(["serve", &root, "--listen", listen]));
            let stderr = errors(&second);
            assert!(second.status.code() == Some(3) && stderr.contains("in use"), "{listen}: {stderr}");
        };
        let servers = ["1:80", "1:81", "2:80"].map(|at| serve(&format!("sctp-ip://192.0.2.{at}")));
        for at in ["1", "1:81", "2", "1", "1:81", "2"] {
            let got = get(&format!("http+sctp-ip://192.0.2.{at}/"));
            assert_eq!((got.0, got.1.as_str()), (Some(0), "<p>home"), "{at}: {}", got.2);
        }
        // RFC 9260 §8.4: if nothing listens, the packet must be answered with an ABORT at once.
        let no_listener = get("http+sctp-ip://192.0.2.1:82/");
        assert!(no_listener.0 == Some(1) && no_listener.2.contains("refused"), "{no_listener:?}");
        refused("sctp-ip://192.0.2.1:80");
        refused("sctp-ip://192.0.2.1,192.0.2.2:81");
        for server in servers {
            assert_eq!(server.end(), 0);
        }
        // All servers have ended, so the port must be free again.
        assert_eq!(serve("sctp-ip://192.0.2.1:80").end(), 0);
    };
    namespace.run(talk).expect("inside");
}
