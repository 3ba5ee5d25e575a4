//! Tests how our client reacts to a server that violates the rules.

use super::*;

/// Returns our client's reaction to a server that performs these actions. The reaction is the code with which the
/// client closes the connection, or the code in the error of the exchange.
fn reaction_to_server(actions: &[PeerAction]) -> Verdict {
    let mut actions = actions.to_vec();
    if !actions
        .iter()
        .any(|action| matches!(action, OneWay(bytes) | OneWayEnd(bytes) if bytes.first() == Some(&0)))
    {
        actions.insert(0, control(&[]));
    }
    run(1, LINK, |hosts| async move {
        let Hosts { client, server, mut listener, connector } = hosts;
        let serving = server.spawn("server", async move {
            let session = listener.accept().await.expect("a session");
            let mut streams = Vec::new();
            let mut response = headers(&[(":status", "200")]);
            let mut ends = true;
            for action in actions {
                match action {
                    OneWay(bytes) => streams.push(open_one_way(&session, &bytes).await),
                    OneWayEnd(bytes) => {
                        let mut stream = open_one_way(&session, &bytes).await;
                        stream.finish();
                        streams.push(stream);
                    }
                    Request(bytes) => response = bytes,
                    Open(bytes) => (response, ends) = (bytes, false),
                    OneWayReset(_) | AfterAnswer(_) | EndWithinAnswer(_) | StopControl => {
                        unreachable!("of clients alone")
                    }
                }
            }
            if let Ok(mut stream) = session.accept().await {
                let _ = stream.write_all(&response).await;
                if ends {
                    stream.finish();
                }
                while let Ok(1..) = stream.read(&mut [0; 999]).await {}
                session.closed().await
            } else {
                session.closed().await
            }
        });
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session, Version::Http3, true).await.expect("begun");
        let talking = client.spawn("conversation", conversation);
        // Wait until the client has received the data that the server sends before any request.
        client.sleep_until(client.now() + Duration::from_millis(200)).await;
        let got = request(&client, &requests, "/").await;
        drop(requests);
        let _ = talking.await;
        let closed = code_of(&serving.await);
        match got {
            Ok(answer) => Status(answer.head.status),
            Err(error) if closed == Code(0) || closed == Code::H3_NO_ERROR => {
                let line = error.to_string();
                let named = [Code::H3_MESSAGE_ERROR, Code::H3_EXCESSIVE_LOAD]
                    .into_iter()
                    .find(|code| line.contains(&format!("({code})")));
                OfStream(named.unwrap_or(Code(0)))
            }
            Err(_) => Connection(closed),
        }
    })
    .0
}

#[test]
fn a_client_holds_a_server_to_the_rules() {
    let malformed = OfStream(Code::H3_MESSAGE_ERROR);
    let unexpected = Connection(Code::H3_FRAME_UNEXPECTED);
    let wrong_id = Connection(Code::H3_ID_ERROR);
    let ok = |more: &[(&str, &str)]| headers(&[&[(":status", "200")], more].concat());
    let interim = headers(&[(":status", "103"), ("link", "</x>")]);
    let trailers = headers(&[("x", "y")]);
    let data = |text: &str| frame(DATA, text.as_bytes());
    let rows = vec![
        ("9114 §4.1 a response", vec![Request([ok(&[]), data("abc")].concat())], Status(200)),
        (
            "9114 §4.1 interim responses, trailers and unknown frames",
            vec![Request(
                [grease(), interim.clone(), interim.clone(), ok(&[]), grease(), data("a"), trailers.clone()]
                    .concat(),
            )],
            Status(200),
        ),
        ("9114 §4.1 DATA first", vec![Request(data("a"))], unexpected),
        (
            "9114 §4.1 DATA after an interim response",
            vec![Request([interim.clone(), data("a")].concat())],
            unexpected,
        ),
        (
            "9114 §4.1 DATA after trailers",
            vec![Request([ok(&[]), trailers.clone(), data("a")].concat())],
            unexpected,
        ),
        (
            "9114 §4.1 HEADERS after trailers",
            vec![Request([ok(&[]), trailers.clone(), trailers.clone()].concat())],
            unexpected,
        ),
        ("9114 §4.1 no response", vec![Request(vec![])], malformed),
        ("9114 §4.1 interim responses alone", vec![Request(interim)], malformed),
        (
            "9114 §4.1.2 content of its length",
            vec![Request([ok(&[("content-length", "3")]), data("abc")].concat())],
            Status(200),
        ),
        (
            "9114 §4.1.2 content shorter than its length",
            vec![Request([ok(&[("content-length", "4")]), data("abc")].concat())],
            malformed,
        ),
        (
            "9114 §4.1.2 content longer than its length",
            vec![Open([ok(&[("content-length", "2")]), data("abc")].concat())],
            malformed,
        ),
        (
            "9114 §4.1.2 content where there is none",
            vec![Request([headers(&[(":status", "204")]), data("a")].concat())],
            malformed,
        ),
        (
            "9114 §4.1.2 a length where there is no content",
            vec![Request(headers(&[(":status", "304"), ("content-length", "9")]))],
            Status(304),
        ),
        ("9114 §4.2 connection", vec![Open(ok(&[("connection", "close")]))], malformed),
        ("9114 §4.2 transfer-encoding", vec![Open(ok(&[("transfer-encoding", "chunked")]))], malformed),
        ("9114 §4.2 an upper-case name", vec![Open(ok(&[("X", "y")]))], malformed),
        ("9114 §10.3 a value with a leading space", vec![Open(ok(&[("x", " y")]))], malformed),
        (
            "9114 §4.2.2 a large head",
            vec![Open(frame(HEADERS, &large_response()))],
            OfStream(Code::H3_EXCESSIVE_LOAD),
        ),
        (
            "9114 §4.2.2 large trailers",
            vec![Request([ok(&[]), data("abc"), frame(HEADERS, &large_response())].concat())],
            OfStream(Code::H3_EXCESSIVE_LOAD),
        ),
        ("9114 §4.3 a pseudo-header field in trailers", vec![Open([ok(&[]), ok(&[])].concat())], malformed),
        ("9114 §4.3.2 no :status", vec![Open(headers(&[("x", "y")]))], malformed),
        ("9114 §4.3.2 :status twice", vec![Open(ok(&[(":status", "200")]))], malformed),
        ("9114 §4.3.2 a pseudo-header field of requests", vec![Open(ok(&[(":path", "/")]))], malformed),
        ("9114 §4.5 the status 101", vec![Open(headers(&[(":status", "101")]))], malformed),
        ("9114 §4.6 a push stream", vec![OneWay(vec![1, 0])], wrong_id),
        ("9114 §7.2.5 PUSH_PROMISE", vec![Request([ok(&[]), frame(5, &[0, 0, 0, 0xd9])].concat())], wrong_id),
        ("9114 §7.2.5 PUSH_PROMISE on the control stream", vec![control(&[&frame(5, &[0])])], unexpected),
        ("9114 §7.2.3 CANCEL_PUSH", vec![control(&[&frame(3, &[0])])], wrong_id),
        ("9114 §7.2.7 MAX_PUSH_ID", vec![control(&[&frame(13, &[0])])], unexpected),
        ("9218 §7.2 PRIORITY_UPDATE", vec![control(&[&[0x80, 0x0f, 7, 0, 1, 0]])], unexpected),
        ("9114 §5.2 GOAWAY names no request", vec![control(&[&frame(GOAWAY, &[5])])], wrong_id),
        ("9114 §5.2 GOAWAY grows", vec![control(&[&frame(GOAWAY, &[4]), &frame(GOAWAY, &[8])])], wrong_id),
        (
            "9114 §7.1 GOAWAY without an identifier",
            vec![control(&[&frame(GOAWAY, &[])])],
            Connection(Code::H3_FRAME_ERROR),
        ),
        (
            "9114 §6.2.1 a second control stream",
            vec![control(&[]), control(&[])],
            Connection(Code::H3_STREAM_CREATION_ERROR),
        ),
        (
            "9114 §6.2.1 the control stream ends",
            vec![OneWayEnd(CONTROL.to_vec())],
            Connection(Code::H3_CLOSED_CRITICAL_STREAM),
        ),
        (
            "9114 §6.2.1 GOAWAY first",
            vec![OneWay([&[0][..], &frame(GOAWAY, &[0])].concat())],
            Connection(Code::H3_MISSING_SETTINGS),
        ),
        ("9114 §7.2.4 SETTINGS twice", vec![control(&[&frame(SETTINGS, &[])])], unexpected),
        ("9114 §7.2.4.1 setting 2", vec![settings(&[2, 0])], Connection(Code::H3_SETTINGS_ERROR)),
        (
            "9114 §7.2.4 SETTINGS on a request stream",
            vec![Request([ok(&[]), frame(SETTINGS, &[])].concat())],
            unexpected,
        ),
        ("9114 §7.2.8 type 6", vec![Request([ok(&[]), frame(6, &[])].concat())], unexpected),
        (
            "9114 §7.1 an end within DATA",
            vec![Request([&ok(&[])[..], &[DATA, 9, b'a']].concat())],
            Connection(Code::H3_FRAME_ERROR),
        ),
        (
            "9204 §4.2 the encoder stream ends",
            vec![OneWayEnd(vec![2])],
            Connection(Code::H3_CLOSED_CRITICAL_STREAM),
        ),
        (
            "9204 §4.3.1 a capacity beyond the limit",
            vec![OneWay(vec![2, 0x21])],
            Connection(Code::QPACK_ENCODER_STREAM_ERROR),
        ),
        (
            "9204 §4.4.3 an increment of 0",
            vec![OneWay(vec![3, 0x00])],
            Connection(Code::QPACK_DECODER_STREAM_ERROR),
        ),
        (
            "9204 §4.5.2 a dynamic field line",
            vec![Request(frame(HEADERS, &[0, 0, 0x80]))],
            Connection(Code::QPACK_DECOMPRESSION_FAILED),
        ),
    ];
    check_rows(rows, reaction_to_server);
}

/// Returns a header section of more than 64 KiB for a response.
fn large_response() -> Vec<u8> {
    [&[0, 0, 0xd9][..], &[0xc0 | 59; 1_500]].concat()
}

/// A client that has finished must close the connection. It must neither stop the server's control and QPACK streams
/// nor reset its own (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[test]
fn a_client_goes_away_without_closing_critical_streams() {
    let ((stopped, ended, reason), _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, mut listener, connector } = hosts;
        let serving = server.spawn("server", async move {
            let session = listener.accept().await.expect("a session");
            let (mut one_way_streams, mut peer_streams) = (Vec::new(), Vec::new());
            for bytes in [&CONTROL[..], &[2], &[3]] {
                one_way_streams.push(open_one_way(&session, bytes).await);
                peer_streams.push(poll_fn(|cx| session.poll_accept_one_way(cx)).await.expect("a stream"));
            }
            let mut stream = session.accept().await.expect("a request");
            stream.write_all(&headers(&[(":status", "200")])).await.expect("written");
            stream.finish();
            let (mut stopped, mut ended) = (Vec::new(), Vec::new());
            let reason = poll_fn(|cx| {
                for stream in &mut one_way_streams {
                    if let std::task::Poll::Ready(code) = stream.poll_stopped(cx) {
                        stopped.push(code);
                    }
                }
                for stream in &mut peer_streams {
                    let mut buffer = [0; 100];
                    while let std::task::Poll::Ready(read) = stream.poll_read(cx, &mut buffer) {
                        if !matches!(read, Ok(1..)) {
                            ended.push(read);
                            break;
                        }
                    }
                }
                session.poll_closed(cx)
            });
            let reason = reason.await;
            ended.retain(|read| matches!(read, Ok(_) | Err(CloseReason::Cancelled)));
            (stopped, ended, reason)
        });
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session.clone(), Version::Http3, true).await.expect("begun");
        let talking = client.spawn("conversation", conversation);
        request(&client, &requests, "/").await.expect("an answer");
        // The client closes the connection only after the server has acknowledged all data. This stream of a reserved
        // type (RFC 9114 §6.2.3) carries 20,000 bytes that must be acknowledged, so it delays the close.
        let _unacknowledged = open_one_way(&session, &[0x21; 20_000]).await;
        drop(requests);
        let _ = talking.await;
        serving.await
    });
    assert_eq!((stopped, ended, reason), (Vec::new(), Vec::new(), CloseReason::Finished));
}

/// Content must end only with the end of its stream. The end of the connection, graceful or not, must not count as the
/// end of content of unknown length.
#[test]
fn the_end_of_a_connection_is_not_the_end_of_content() {
    for code in [Code::H3_NO_ERROR, Code::H3_INTERNAL_ERROR] {
        let (got, _) = run(1, LINK, |hosts| async move {
            let Hosts { client, server, mut listener, connector } = hosts;
            let world = server.clone();
            server
                .spawn("server", async move {
                    let session = listener.accept().await.expect("a session");
                    let _control = open_one_way(&session, &CONTROL).await;
                    let mut stream = session.accept().await.expect("a request");
                    let response = [headers(&[(":status", "200")]), frame(DATA, b"abc")].concat();
                    stream.write_all(&response).await.expect("written");
                    // Wait until the client has received the response.
                    world.sleep_until(world.now() + Duration::from_secs(1)).await;
                    session.close_with(code.0, "");
                    session.closed().await;
                })
                .detach();
            let session = connector.connect(0).expect("begun");
            session.established().await.expect("stands");
            let (requests, conversation, _) =
                Requests::begin(session, Version::Http3, true).await.expect("begun");
            client.spawn("conversation", conversation).detach();
            request(&client, &requests, "/").await
        });
        assert!(got.is_err(), "{code}: {got:?}");
    }
}
