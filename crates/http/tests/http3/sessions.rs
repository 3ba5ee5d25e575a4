//! Tests the sessions of a server: the first and last frames that it sends, and which session loses its slot to a new
//! session.

use super::*;
use anabranch_http::limits::ConcurrencyLimit;
use std::cell::Cell;

/// Returns a HEADERS frame with GET https://a/0.
fn get() -> Vec<u8> {
    frame(HEADERS, &[0, 0, 0xc0 | 17, 0xc0 | 23, 0x50, 1, b'a', 0x51, 2, b'/', b'0'])
}

/// Sends a request on a new stream.
async fn send_request(session: &QuicSession<SimWorld>) -> QuicStream<SimWorld> {
    let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
    stream.write_all(&get()).await.expect("written");
    stream.finish();
    stream
}

/// Reads to the end of the stream. Returns the number of bytes, and whether the stream ended gracefully.
async fn whole(stream: &mut QuicStream<SimWorld>) -> (usize, bool) {
    let (mut bytes, mut buffer) = (0, [0; 10_000]);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return (bytes, true),
            Ok(read) => bytes += read,
            Err(_) => return (bytes, false),
        }
    }
}

/// SETTINGS must be the first frame (RFC 9114 §6.2.1, §7.2.4). GOAWAY must name the first request that is not answered
/// (§5.2).
#[test]
fn a_control_stream_begins_with_settings_and_ends_with_goaway() {
    let (result, _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let (page, stop) = (page(), Stop::new());
        let options = serve::Options { stop: Some(stop.clone()), ..options() };
        let serving =
            serve::run(server.clone(), listener, Rc::new(PageSite::new(&page)), options, Recorder::default());
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let _own = open_one_way(&session, &CONTROL).await;
        for _ in 0..2 {
            assert!(whole(&mut send_request(&session).await).await.1);
        }
        let mut control = poll_fn(|cx| session.poll_accept_one_way(cx)).await.expect("a control stream");
        let (mut result, mut buffer) = (Vec::new(), [0; 100]);
        let read = control.read(&mut buffer).await.expect("settings");
        result.push(buffer[..read].to_vec());
        stop.stop();
        // This request wakes the server's task, which then detects the stop.
        let _last = send_request(&session).await;
        let read = client.timeout(Some(Duration::from_secs(1)), control.read(&mut buffer)).await;
        result.push(buffer[..read.expect("in time").expect("a frame")].to_vec());
        result
    });
    // The expected bytes are the stream type and SETTINGS of 19 bytes. The settings are SETTINGS_MAX_FIELD_SECTION_SIZE
    // of 64 KiB, and two reserved settings.
    let settings =
        [0, SETTINGS, 19, 6, 0x80, 1, 0, 0, 0x81, 0xf0, 0, 0x21, 0, 0xc0, 0, 0x1f, 0, 0, 0, 0, 0x21, 0];
    // The third request stream has the identifier 8 (RFC 9000 §2.1).
    assert_eq!(result, [settings.to_vec(), vec![GOAWAY, 1, 8]]);
}

/// Runs a server that allows only one session. The client of the first session waits for a response of `bytes` bytes.
/// After the time `after`, a second session arrives. Returns whether the server refuses the second session, and the
/// length and completeness of the response.
fn newcomer(link: &str, options: serve::Options, bytes: u64, after: Duration) -> (bool, (usize, bool)) {
    run(1, link, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page_of(vec![Object::new("/0".to_owned(), bytes)]);
        let options = serve::Options { sessions: Some(ConcurrencyLimit::new(1)), ..options };
        let serving =
            serve::run(server.clone(), listener, Rc::new(PageSite::new(&page)), options, Recorder::default());
        server.spawn("server", async move { drop(serving.await) }).detach();
        let first = connector.connect(0).expect("begun");
        first.established().await.expect("stands");
        let _control = open_one_way(&first, &CONTROL).await;
        let mut stream = send_request(&first).await;
        let answer = client.spawn("answer", async move { whole(&mut stream).await });
        client.sleep_until(client.now() + after).await;
        let second = connector.connect(0).expect("begun");
        let refused = client.timeout(Some(Duration::from_secs(5)), second.closed()).await;
        (refused.is_some(), answer.await)
    })
    .0
}

#[test]
fn a_session_keeps_its_slot_while_the_server_works_on_its_request() {
    let options = serve::Options { service_time: Duration::from_secs(8), ..options() };
    let (was_refused, (bytes, whole)) = newcomer(LINK, options, 5_000, Duration::from_secs(1));
    assert!(was_refused && whole && bytes > 5_000, "{was_refused} {whole} {bytes}");
}

#[test]
fn a_session_keeps_its_slot_while_its_client_takes_the_answer() {
    // The link needs 16 s to transfer 2 MB.
    let link = "rate=1mbit,rtt=40ms,queue=50p";
    let (was_refused, (bytes, whole)) = newcomer(link, options(), 2_000_000, Duration::from_secs(10));
    assert!(was_refused && whole && bytes > 2_000_000, "{was_refused} {whole} {bytes}");
}

/// The client must retry only requests that a server has not processed (RFC 9114 §4.1.1).
#[test]
fn a_malformed_answer_is_not_asked_for_again() {
    let requests = Rc::new(Cell::new(0));
    let count = requests.clone();
    let outcome = with_server(move |_, session| {
        let count = count.clone();
        async move {
            let _control = open_one_way(&session, &CONTROL).await;
            while let Ok(mut stream) = session.accept().await {
                count.set(count.get() + 1);
                // The response has no `:status`.
                let _ = stream.write_all(&frame(HEADERS, &[0, 0])).await;
                stream.finish();
            }
        }
    });
    assert_eq!((outcome.failed(), outcome.connections, requests.get()), (1, 1, 1));
}
