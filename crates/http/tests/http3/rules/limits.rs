//! Tests how much data a peer may send, and for which parts of a request the server waits before it responds.

use super::*;

/// Runs `program` with the client's world and a session with a server that serves a page.
fn with_session<T, F: Future<Output = T>>(program: impl FnOnce(SimWorld, QuicSession<SimWorld>) -> F) -> T {
    run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page();
        let serving = serve::run(
            server.clone(),
            listener,
            Rc::new(PageSite::new(&page)),
            options(),
            Recorder::default(),
        );
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        program(client, session).await
    })
    .0
}

/// Reads a response to its end, and returns its status.
async fn answered(stream: &mut QuicStream<SimWorld>) -> u16 {
    let (mut answer, mut buffer) = (Vec::new(), [0; 10_000]);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    status(&answer)
}

/// Writes `part` every millisecond until the server stops the stream. Returns the code of its STOP_SENDING.
async fn stopped(client: &SimWorld, stream: &mut QuicStream<SimWorld>, part: &[u8]) -> Option<u64> {
    for _ in 0..2_000 {
        if stream.write_all(part).await.is_err() {
            break;
        }
        client.sleep_until(client.now() + Duration::from_millis(1)).await;
    }
    stream.cancel_code(false)
}

#[test]
fn control_frames_have_a_bound() {
    for (of, payload) in [(0x21, 12_000), (SETTINGS, 16_383)] {
        let reason = with_session(|client, session| async move {
            // The length of SETTINGS, 16,385 bytes, is encoded in four bytes.
            let begin = match of {
                SETTINGS => [&[0, SETTINGS][..], &0x8000_4001_u32.to_be_bytes()].concat(),
                _ => CONTROL.to_vec(),
            };
            let mut control = open_one_way(&session, &begin).await;
            let part = if of == SETTINGS { vec![0x21; payload] } else { frame(of, &vec![0; payload]) };
            let _ = stopped(&client, &mut control, &part).await;
            session.closed().await
        });
        assert_eq!(code_of(&reason), Code::H3_EXCESSIVE_LOAD, "{reason}");
    }
}

#[test]
fn frames_that_are_ignored_have_a_bound() {
    let many = [get(), frame(0x21, &[0; 12_000]).repeat(12)].concat();
    check_rows(
        vec![("few", vec![Request([get(), frame(0x21, &[0; 12_000]).repeat(10)].concat())], Status(200))],
        reaction_to_client,
    );
    let code = with_session(|client, session| async move {
        let _control = open_one_way(&session, &CONTROL).await;
        let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
        let _ = stream.write_all(&many).await;
        stopped(&client, &mut stream, &[0]).await
    });
    assert_eq!(code, Some(Code::H3_EXCESSIVE_LOAD.0));
    // A request with content may have more bytes in ignored frames: up to a sixteenth of its content, in addition to
    // the fixed limit.
    let mixed = [frame(DATA, &[0; 12_000]), frame(0x21, &[0; 600])].concat().repeat(40);
    let status = with_session(|_, session| async move {
        let _control = open_one_way(&session, &CONTROL).await;
        let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
        let head = head("", &[("content-length", "480000")]);
        stream.write_all(&[head, mixed].concat()).await.expect("written");
        stream.finish();
        answered(&mut stream).await
    });
    assert_eq!(status, 200);
}

#[test]
fn a_stream_of_an_unknown_type_is_stopped() {
    let code = with_session(|client, session| async move {
        let _control = open_one_way(&session, &CONTROL).await;
        let mut stream = open_one_way(&session, &[0x21]).await;
        stopped(&client, &mut stream, &[0; 1_000]).await
    });
    assert_eq!(code, Some(Code::H3_STREAM_CREATION_ERROR.0));
}

/// A server that has responded need not read the rest of the request (RFC 9114 §4.1). It must ask the client to stop
/// sending the request, with the code H3_NO_ERROR.
#[test]
fn content_without_end_is_answered_and_stopped() {
    for length in [None, Some("4000000")] {
        let (status, code) = with_session(|client, session| async move {
            let _control = open_one_way(&session, &CONTROL).await;
            let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
            let length: Vec<_> = length.into_iter().map(|length| ("content-length", length)).collect();
            stream.write_all(&head("", &length)).await.expect("written");
            let code = stopped(&client, &mut stream, &frame(DATA, &[0; 10_000])).await;
            (answered(&mut stream).await, code)
        });
        assert_eq!((status, code), (200, Some(Code::H3_NO_ERROR.0)), "{length:?}");
    }
}

/// The server must wait for content of declared length before it responds. If the client waits for 100 (Continue), the
/// server must respond at once, with 100 or a final status (RFC 9110 §10.1.1).
#[test]
fn content_whose_length_is_said_is_waited_for_unless_the_client_waits() {
    let request_with = |more: &'static [(&str, &str)]| {
        with_session(|client, session| async move {
            let _control = open_one_way(&session, &CONTROL).await;
            let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
            stream.write_all(&head("", more)).await.expect("written");
            let waited = client.timeout(Some(Duration::from_secs(5)), stream.read(&mut [0; 1])).await;
            if waited.is_some() {
                return None;
            }
            stream.write_all(&frame(DATA, b"abc")).await.expect("written");
            stream.finish();
            Some(answered(&mut stream).await)
        })
    };
    assert_eq!(request_with(&[("content-length", "3")]), Some(200));
    assert_eq!(request_with(&[("content-length", "3"), ("expect", "100-continue")]), None);
    assert_eq!(request_with(&[("content-length", "0")]), None);
    assert_eq!(request_with(&[]), None);
}

/// A client must not send a header section that is larger than the server accepts (RFC 9114 §4.2.2).
#[test]
fn a_head_that_the_server_does_not_take_is_not_sent() {
    let (got, _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, mut listener, connector } = hosts;
        server
            .spawn("server", async move {
                let session = listener.accept().await.expect("a session");
                let _control = open_one_way(&session, &[&[0][..], &frame(SETTINGS, &[6, 60])].concat()).await;
                session.closed().await;
            })
            .detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session, Version::Http3, true).await.expect("begun");
        client.spawn("conversation", conversation).detach();
        client.sleep_until(client.now() + Duration::from_millis(200)).await;
        request(&client, &requests, "/").await
    });
    let line = got.expect_err("too large").to_string();
    assert!(line.contains("where the server accepts 60"), "{line}");
}

/// The client must report a request as refused if the server's GOAWAY excludes it (RFC 9114 §5.2). It must still accept
/// the responses to earlier requests.
#[test]
fn a_request_beyond_goaway_is_refused_and_one_before_it_is_answered() {
    let (got, _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, mut listener, connector } = hosts;
        let world = server.clone();
        server
            .spawn("server", async move {
                let session = listener.accept().await.expect("a session");
                let mut control = open_one_way(&session, &CONTROL).await;
                let mut first = session.accept().await.expect("a request");
                let _second = session.accept().await.expect("a request");
                control.write_all(&frame(GOAWAY, &[4])).await.expect("written");
                world.sleep_until(world.now() + Duration::from_millis(500)).await;
                first
                    .write_all(&[headers(&[(":status", "200")]), frame(DATA, b"abc")].concat())
                    .await
                    .expect("written");
                first.finish();
                session.closed().await;
            })
            .detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session, Version::Http3, true).await.expect("begun");
        client.spawn("conversation", conversation).detach();
        let got = |path: &'static str| {
            let (client, requests) = (client.clone(), requests.clone());
            async move {
                let got = request(&client, &requests, path).await;
                got.map(|answer| answer.head.status).map_err(|error| error.to_string())
            }
        };
        let first = client.spawn("first", got("/1"));
        let second = client.spawn("second", got("/2"));
        let ended = (first.await, second.await);
        (ended, got("/3").await)
    });
    let ((first, second), third) = got;
    assert_eq!(first, Ok(200));
    for refused in [second, third] {
        assert!(refused.clone().is_err_and(|line| line.contains("GOAWAY")), "{refused:?}");
    }
}
