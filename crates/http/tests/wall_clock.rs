//! Tests a wall clock that is stepped while a server runs. The Date field (RFC 9110 §6.6.1) must follow the wall clock,
//! and timers must not.
//!
//! RFC 9110 §6.6.1 (Date).

use crate::rig::page;
use crate::rig::sim::{Rig, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, PageSite};
use anabranch_transport::tcp::TcpConnector;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

thread_local! {
    /// The host's wall-clock time in seconds.
    static WALL: Cell<u64> = const { Cell::new(0) };
}

/// The date of the example in RFC 9110, as Unix time.
const BEFORE: u64 = 784_111_777;

/// Sends a request, reads the response, and returns its Date.
async fn date(stream: &mut impl Stream, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: server\r\n\r\n");
    let written = poll_fn(|cx| stream.poll_write(cx, request.as_bytes())).await;
    assert_eq!(written, Ok(request.len()));
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    // The response is complete when ten bytes of content have arrived.
    while answer.split_once("\r\n\r\n").is_none_or(|(_, content)| content.len() < 10) {
        let read = poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.expect("an answer");
        assert!(read > 0, "closed after: {answer}");
        answer += &String::from_utf8_lossy(&buffer[..read]);
    }
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("date: ")).expect("a Date");
    line[6..].to_owned()
}

/// Sends a request, steps the clock to `to`, sends another request, and waits until the server closes the idle
/// connection. Returns the Date fields of both responses, and the time of the close.
fn stepped(to: u64) -> ([String; 2], Instant) {
    WALL.set(BEFORE);
    let rig = Rig::new(&["rate=10mbit,rtt=10ms"], 1);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let listener = server.listen(80, 0).expect("listening");
        let page = page(10, &[]);
        let options = serve::Options {
            idle_timeout: Some(Duration::from_secs(3)),
            head_timeout: Some(Duration::from_secs(2)),
            wall_clock: Some(|| WALL.get()),
            ..serve::Options::default()
        };
        let site = Rc::new(PageSite::new(&page));
        let serving = serve::run(rig.server.clone(), listener, site, options, Recorder::default());
        let _server = rig.server.spawn("server", serving);
        let session = TcpConnector::new(client, vec![tcp_server(&rig)]).connect(0).expect("begun");
        session.established().await.expect("connected");
        let mut stream = session.open(0).expect("a stream");
        let target = &page.objects[0].name;
        let first = date(&mut stream, target).await;
        rig.client.sleep_until(rig.client.now() + Duration::from_secs(1)).await;
        WALL.set(to);
        let second = date(&mut stream, target).await;
        let mut buffer = [0; 64];
        let end = poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await;
        assert_eq!(end, Ok(0), "idle");
        ([first, second], rig.client.now())
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

#[test]
fn the_date_follows_the_wall_clock_and_timers_do_not() {
    let (dates, idle) = stepped(BEFORE + 1);
    assert_eq!(dates, ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"]);
    assert!(idle > Instant::from_millis(4_000) && idle < Instant::from_millis(4_500), "{idle:?}");
    for (to, then) in [
        (BEFORE + 86_400, "Mon, 07 Nov 1994 08:49:37 GMT"),
        (BEFORE - 86_400, "Sat, 05 Nov 1994 08:49:37 GMT"),
    ] {
        let (dates, at) = stepped(to);
        assert_eq!(dates, ["Sun, 06 Nov 1994 08:49:37 GMT", then]);
        assert_eq!(at, idle, "a timer has looked at the wall clock");
    }
}
