//! Associations over DTLS: a server with a certificate, clients that know its fingerprint, and clients that expect a
//! different fingerprint.
#![cfg(target_os = "linux")]

use crate::ends::{LONG, addresses, options};
use anabranch_tokio::{
    CloseReason, ConnectError, ConnectOptions, Dtls, Endpoint, Fingerprint, Identity, SendOptions, Trust,
    Version,
};
use tokio::time::timeout;

fn identity() -> Identity {
    Identity::self_signed(&["chat.test".to_owned()]).expect("a certificate")
}

async fn server(identity: Identity, version: Version) -> Endpoint {
    let dtls = Dtls::server(identity).version(version);
    Endpoint::new(options(&addresses(1), &[]).listen(80).dtls(dtls)).await.expect("an endpoint")
}

async fn client(dtls: Dtls) -> Endpoint {
    Endpoint::new(options(&addresses(1), &[]).dtls(dtls)).await.expect("an endpoint")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_fingerprint_is_accepted() {
    for version in [Version::Only12, Version::Only13] {
        let identity = identity();
        let known = Dtls::client_with_fingerprint(Fingerprint(identity.fingerprint())).version(version);
        let server = server(identity, version).await;
        let client = client(known).await;
        let accepting = async { server.accept().await.expect("somebody").accept() };
        let both = async { tokio::join!(client.connect(server.local_addresses(), 80), accepting) };
        let (ours, theirs) = timeout(LONG, both).await.expect("in time");
        let (ours, theirs) = (ours.expect("associated"), theirs.expect("associated"));
        let large = vec![9; 300_000];
        ours.send(3, &large, &SendOptions::new().ppid(51)).await.expect("sent");
        let message = timeout(LONG, theirs.recv()).await.expect("in time").expect("a message");
        assert!((message.stream, message.ppid) == (3, 51) && message.bytes == large);
        theirs.send(3, "and back", &SendOptions::new()).await.expect("sent");
        let back = timeout(LONG, ours.recv()).await.expect("in time").expect("a message");
        assert_eq!(back.bytes, "and back");
        ours.close();
        assert_eq!(timeout(LONG, theirs.closed()).await.expect("in time"), CloseReason::Finished);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_fingerprint_is_reported_as_untrusted() {
    let server = server(identity(), Version::From12).await;
    let client = client(Dtls::client_with_fingerprint(Fingerprint(identity().fingerprint()))).await;
    let refused = timeout(LONG, client.connect(server.local_addresses(), 80)).await.expect("in time");
    let Err(ConnectError::Failed(CloseReason::Untrusted(why))) = refused else { panic!("{refused:?}") };
    assert!(!why.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_is_believed_for_the_name_that_is_asked_for() {
    let identity = identity();
    let trust = Trust::Authorities(identity.chain.clone());
    let server = server(identity, Version::From12).await;
    let client = client(Dtls::client(trust)).await;
    let at = server.local_addresses();
    let named = ConnectOptions::new().server_name("chat.test");
    let accepting = async { server.accept().await.expect("somebody").accept() };
    let both = async { tokio::join!(client.connect_with(at, 80, named), accepting) };
    let (ours, theirs) = timeout(LONG, both).await.expect("in time");
    drop((ours.expect("associated"), theirs.expect("associated")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_dtls_at_the_other_end_there_is_no_association() {
    let server = Endpoint::new(options(&addresses(1), &[]).listen(80)).await.expect("an endpoint");
    let client = client(Dtls::client(Trust::Anybody)).await;
    let dropped = timeout(std::time::Duration::from_secs(1), client.connect(server.local_addresses(), 80));
    assert!(dropped.await.is_err(), "nobody answers");
    assert_eq!(server.associations(), 0);
}
