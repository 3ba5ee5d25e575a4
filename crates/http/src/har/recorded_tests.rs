//! Tests what is inferred from the times and the texts of a recording.

use super::tests::{document, entry, har, page, with};
use super::*;
use crate::page::recorded::{HttpVersion, Interval};
use crate::page::reference::{LoadPriority, ResourceType, ScriptMode};
use serde_json::json;
use std::time::Duration;

/// Returns an entry as Chromium writes it: queued `at` milliseconds after the start, with these timings in
/// milliseconds. A timing of `-1.0` means that it is not recorded.
fn timed(at: u32, url: &str, [blocked, connect, ssl, wait, receive]: [f64; 5]) -> Value {
    let took: f64 = [blocked, connect, wait, receive].into_iter().filter(|part| *part > 0.0).sum();
    let timings = json!({"blocked": blocked, "dns": -1, "connect": connect, "ssl": ssl, "send": 0, "wait": wait,
        "receive": receive, "_blocked_queueing": 0.5});
    let entry = with(entry(0, url), "/timings", timings);
    let entry = with(entry, "/time", json!(took));
    let start = format!("2024-05-01T10:00:{:02}.{:03}Z", at / 1000, at % 1000);
    with(entry, "/startedDateTime", json!(start))
}

fn html(entry: Value) -> Value {
    with(entry, "/response/content/mimeType", json!("text/html"))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Chromium opens the connection of a navigation before it sends the request. Its `dns` is then 0, and the beginning of
/// `connect` is missing.
#[test]
fn a_cut_handshake_is_completed_by_that_of_tls() {
    let begun_before = |connect: f64, ssl: f64| {
        let entry = timed(0, "https://h/", [2.0, connect, ssl, 100.0, 50.0]);
        with(entry, "/timings/dns", json!(0))
    };
    let rtt =
        |entries: Vec<Value>| page(entries).recording.expect("times").rtt_ns.expect("a round trip").value;
    assert_eq!(rtt(vec![begun_before(159.0, 84.0)]), 79_500_000, "between 75 and 84 ms");
    assert_eq!(rtt(vec![begun_before(239.0, 164.0)]), 75_000_000, "TLS 1.2 takes two round trips");
    let other = timed(300, "https://h/1", [1.0, 162.0, 82.0, 80.0, 5.0]);
    assert_eq!(
        rtt(vec![begun_before(159.0, 84.0), other]),
        79_000_000,
        "a third of the way from 78.5 to 80 ms"
    );
    let quic = with(begun_before(82.0, 82.0), "/response/httpVersion", json!("h3"));
    assert_eq!(rtt(vec![quic]), 82_000_000);
}

#[test]
fn a_request_is_sent_after_it_was_blocked() {
    let document = html(timed(0, "https://h/", [3.0, 160.0, 80.0, 100.0, 50.0]));
    let late = timed(400, "https://h/a.png", [500.0, -1.0, -1.0, 80.0, 5.0]);
    let page = page(vec![document, late]);
    let image = &page.objects[1];
    let recorded = image.recorded.expect("times");
    assert_eq!((millis(recorded.queued), millis(recorded.blocked)), (400.0, 500.0));
    assert_eq!((millis(recorded.first_byte), millis(recorded.ended)), (980.0, 985.0));
    // The request for the image was sent at 900 ms, which is 587 ms after the document ended at 313 ms.
    assert_eq!(millis(image.think), 587.0);
}

#[test]
fn the_server_s_time_is_the_wait_less_a_round_trip() {
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 500.0, 50.0]));
    let quick = timed(800, "https://h/quick", [0.0, -1.0, -1.0, 80.0, 5.0]);
    let shorter = timed(900, "https://h/shorter", [0.0, -1.0, -1.0, 79.0, 5.0]);
    let other = timed(1000, "https://other/x", [0.0, 30.0, 15.0, 30.0, 5.0]);
    let page = page(vec![document, quick, shorter, other]);
    let times: Vec<f64> = page
        .objects
        .iter()
        .map(|object| millis(object.recorded.expect("times").server_time.expect("a time")))
        .collect();
    // The round trip is inferred for each host: 80 ms to `h`, and 15 ms to `other`.
    assert_eq!(times, [420.0, 0.0, 0.0, 15.0]);
}

#[test]
fn the_second_round_trip_of_a_first_tls_record_is_not_the_server_s_time() {
    let time = |bytes: u64, connection: &str| {
        let entry = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 180.0, 50.0]));
        let entry = with(entry, "/response/bodySize", json!(bytes));
        let page = page(vec![with(entry, "/connection", json!(connection))]);
        millis(page.objects[0].recorded.expect("times").server_time.expect("a time"))
    };
    assert_eq!([time(63_000, "7"), time(5_000, "7")], [20.0, 100.0]);
    // If the connection is unknown, only the 13 ms in which the record arrived are subtracted.
    assert!((time(63_000, "") - 87.0).abs() < 0.1);
}

#[test]
fn waiting_behind_other_responses_is_not_the_server_s_time() {
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let first =
        with(timed(300, "https://h/1", [0.0, -1.0, -1.0, 80.0, 400.0]), "/response/bodySize", json!(500_000));
    let second = timed(300, "https://h/2", [0.0, -1.0, -1.0, 500.0, 5.0]);
    let page = page(vec![document, first, second]);
    // The first response arrived from 380 ms to 780 ms. Only after that did the second request wait for the server. Its
    // 1,000 bytes took 0.8 ms.
    let time = page.objects[2].recorded.expect("times").server_time.expect("a time");
    assert!((millis(time) - 19.2).abs() < 0.01, "{time:?}");
}

#[test]
fn the_time_in_which_a_tls_record_arrived_is_not_the_server_s_time() {
    let time = |scheme: &str| {
        let large = html(timed(0, &format!("{scheme}://h/"), [0.0, 160.0, 80.0, 80.0, 400.0]));
        let large = with(large, "/response/bodySize", json!(500_000));
        let small = timed(1000, &format!("{scheme}://h/1"), [0.0, -1.0, -1.0, 92.0, 0.0]);
        let page = page(vec![large, with(small, "/response/bodySize", json!(14_000))]);
        millis(page.objects[1].recorded.expect("times").server_time.expect("a time"))
    };
    // At 10 Mbit/s, 14,000 bytes take 11.2 of the 12 ms that `wait` exceeds the round trip.
    assert!((time("https") - 0.8).abs() < 0.05, "{}", time("https"));
    assert!((time("http") - 12.0).abs() < 0.05, "{}", time("http"));
}

#[test]
fn cached_objects_have_no_server_time() {
    let cached =
        with(timed(300, "https://h/1", [0.0, -1.0, -1.0, 50.0, 1.0]), "/_fromCache", json!("memory"));
    let page = page(vec![html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0])), cached]);
    let recorded = page.objects[1].recorded.expect("times");
    assert!(recorded.from_cache && recorded.server_time.is_none());
}

#[test]
fn the_round_trip_comes_from_connecting_without_tls() {
    let rtt =
        |document: Value| page(vec![html(document)]).recording.expect("times").rtt_ns.map(|rtt| rtt.value);
    assert_eq!(rtt(timed(0, "https://h/", [0.0, 161.5, 80.5, 500.0, 50.0])), Some(81_000_000));
    // Firefox does not count TLS in `connect`. The total time of the entry shows this.
    let firefox =
        with(timed(0, "https://h/", [0.0, 81.0, 80.5, 500.0, 50.0]), "/time", json!(81.0 + 80.5 + 550.0));
    assert_eq!(rtt(firefox), Some(81_000_000));
    // A QUIC handshake takes one round trip, and Chromium counts all of it as TLS.
    let quic = timed(0, "https://h/", [0.0, 84.0, 84.0, 500.0, 50.0]);
    assert_eq!(rtt(quic.clone()), None);
    assert_eq!(rtt(with(quic, "/response/httpVersion", json!("h3"))), Some(79_800_000));
    // Without a new connection, the round trip is unknown.
    assert_eq!(rtt(timed(0, "https://h/", [0.0, -1.0, -1.0, 500.0, 50.0])), None);
}

#[test]
fn the_rate_comes_from_the_fastest_stretch() {
    let large = |at: u32, url: &str, bytes: u64, receive: f64| {
        with(timed(at, url, [0.0, -1.0, -1.0, 80.0, receive]), "/response/bodySize", json!(bytes))
    };
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    // Two concurrent bodies are received at 10 Mbit/s together. A later body is slower.
    let page = page(vec![
        document,
        large(300, "https://h/1", 500_000, 800.0),
        large(300, "https://h/2", 500_000, 800.0),
        large(1300, "https://h/3", 10_000, 300.0),
    ]);
    let recording = page.recording.expect("times");
    let Interval { value, low, high } = recording.rate_bps.expect("a rate");
    assert!((10_000_000..11_000_000).contains(&value), "{value}");
    assert!(low <= value && value <= high && high < 13_000_000, "{low} {high}");
    assert_eq!(recording.load.as_millis(), 1680);
}

#[test]
fn the_load_ends_with_the_last_response_requested_before_the_load_event() {
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let entries = vec![
        with(document, "/pageref", json!("p")),
        with(timed(300, "https://h/1", [0.0, -1.0, -1.0, 80.0, 20.0]), "/pageref", json!("p")),
        with(timed(5000, "https://h/beacon", [0.0, -1.0, -1.0, 80.0, 20.0]), "/pageref", json!("p")),
    ];
    let log = json!({"log": {"entries": entries, "pages": [{"id": "p", "pageTimings": {"onLoad": 410.0}}]}});
    let page = read("x.har", &log.to_string()).expect("a page");
    let recording = page.recording.expect("times");
    assert_eq!((millis(recording.load), recording.on_load.map(millis)), (400.0, Some(410.0)));
}

#[test]
fn a_file_without_timings_is_no_recording_of_a_network() {
    let without = page(vec![document(), entry(1, "https://h/x")]);
    assert_eq!((without.recording, without.objects[1].recorded), (None, None));
    let zeros = page(vec![html(timed(0, "https://h/", [0.0; 5])), timed(100, "https://h/x", [0.0; 5])]);
    assert_eq!((zeros.recording, zeros.objects[1].recorded), (None, None));
}

#[test]
fn a_preflight_is_sent_before_the_request_that_needs_it() {
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let script = timed(300, "https://h/a.js", [0.0, -1.0, -1.0, 80.0, 20.0]);
    let named = |entry| with(entry, "/_initiator", json!({"type": "script", "url": "https://h/a.js"}));
    let request = named(timed(450, "https://api/v1", [120.0, -1.0, -1.0, 90.0, 5.0]));
    let options =
        with(timed(451, "https://api/v1", [1.0, 60.0, 30.0, 31.0, 1.0]), "/request/method", json!("OPTIONS"));
    let page = page(vec![document, script, request, options]);
    let graph: Vec<_> = page.objects.iter().map(|object| (object.name.as_str(), object.initiator)).collect();
    assert_eq!(graph, [("/", None), ("/a.js", Some(0)), ("/v1", Some(1)), ("/v1~2", Some(2))]);
}

#[test]
fn kinds_priorities_and_versions_are_read() {
    let image = timed(300, "https://h/a", [0.0, -1.0, -1.0, 80.0, 20.0]);
    let image = with(with(image, "/_priority", json!("VeryHigh")), "/_resourceType", json!("fetch"));
    let image = with(image, "/_initiator", json!({"type": "script", "url": "https://h/"}));
    let image = with(image, "/response/httpVersion", json!("h2"));
    let image = with(image, "/_fetchedViaServiceWorker", json!(true));
    let page = page(vec![html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0])), image]);
    let (reference, recorded) = (&page.objects[1].reference, page.objects[1].recorded.expect("times"));
    assert_eq!(
        (reference.kind, reference.priority),
        (Some(ResourceType::Fetch), Some(LoadPriority::VeryHigh))
    );
    assert!(reference.by_script && recorded.by_service_worker);
    assert_eq!(recorded.version, Some(HttpVersion::Http2));
}

#[test]
fn references_are_found_in_the_text() {
    let text = "<html><head>\n<script async src=\"/js/a.js?x=1&amp;y=2\"></script>\n<script src='b.js'></script>\n\
        <body class=x>\n<img loading=lazy src=//h/i/c.png>\n</body>";
    let document = html(timed(0, "https://h/d/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    // The body was compressed to half its size.
    let document = with(document, "/response/bodySize", json!(text.len() / 2));
    let document = with(document, "/response/content/text", json!(text));
    let by_parser = |url: &str| {
        let entry = timed(300, url, [0.0, -1.0, -1.0, 80.0, 20.0]);
        with(entry, "/_initiator", json!({"type": "parser", "url": "https://h/d/"}))
    };
    let urls = ["https://h/js/a.js?x=1&y=2", "https://h/d/b.js", "https://h/i/c.png", "https://h/unnamed"];
    let page = page(std::iter::once(document).chain(urls.iter().map(|url| by_parser(url))).collect());
    let end = |needle: &str| {
        let at = text.find(needle).expect(needle);
        Some((at + text[at..].find('>').expect("a tag")).div_ceil(2) as u64)
    };
    let references: Vec<_> = page.objects[1..].iter().map(|object| &object.reference).collect();
    let [first, second, image, unnamed] = references[..] else { panic!("{references:?}") };
    assert_eq!(
        (first.offset, first.script, first.in_head),
        (end("/js/a.js"), Some(ScriptMode::Async), Some(true))
    );
    assert_eq!((second.offset, second.script), (end("b.js"), Some(ScriptMode::Blocking)));
    assert_eq!((image.offset, image.lazy, image.in_head), (end("c.png"), true, Some(false)));
    assert_eq!(unnamed.offset, None);
    assert_eq!(page.body_start, end("<body"));
}

#[test]
fn the_body_begins_in_the_document_and_not_in_a_redirect_to_it() {
    let text = "<html><head></head><body>and so on";
    let with_text = |entry, text: &str| {
        let entry = with(html(entry), "/response/bodySize", json!(text.len()));
        with(entry, "/response/content/text", json!(text))
    };
    let moved = with_text(timed(0, "http://h/", [0.0, -1.0, 80.0, 80.0, 1.0]), "<body>moved");
    let moved = with(moved, "/response/status", json!(301));
    let moved = with(moved, "/response/redirectURL", json!("https://h/"));
    let document = with_text(timed(200, "https://h/", [0.0, -1.0, 80.0, 80.0, 1.0]), text);
    let page = page(vec![moved, document]);
    assert_eq!((page.document(), page.objects[1].reference.redirected), (1, true));
    assert_eq!(page.body_start, Some((text.find("and").expect("the body")) as u64));
}

#[test]
fn an_address_in_an_inline_script_is_found_outside_of_tags() {
    let text = "<link rel=preload href=a.js><script>load('a.js')</script><body>";
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let document = with(document, "/response/bodySize", json!(2 * text.len()));
    let document = with(document, "/response/content/text", json!(text));
    let script = timed(300, "https://h/a.js", [0.0, -1.0, -1.0, 80.0, 20.0]);
    let frames = json!({"callFrames": [{"url": "https://h/"}]});
    let script = with(script, "/_initiator", json!({"type": "script", "stack": frames}));
    let page = page(vec![document, script]);
    let end = text.find("<body>").expect("the body") as u64;
    assert_eq!(page.objects[1].reference.offset.map(|offset| offset.div_ceil(2)), Some(end));
    assert!(page.objects[1].reference.by_script && !page.objects[1].reference.preload);
}

#[test]
fn the_memory_for_lines_and_words_is_bounded() {
    let text = format!("<p>{}/a.js\n<script src=a.js></script>{}", "x".repeat(5_000), "\n".repeat(700_000));
    let entry_of = |at, url: &str| {
        let entry = html(timed(at, url, [0.0, 160.0, 80.0, 80.0, 50.0]));
        with(entry, "/response/content/text", json!(text))
    };
    let named = |at, url: &str, by: &str| {
        let entry = timed(at, url, [0.0, -1.0, -1.0, 80.0, 20.0]);
        with(entry, "/_initiator", json!({"type": "parser", "url": by, "lineNumber": 600_000}))
    };
    let kept = vec![
        entry_of(0, "https://h/1"),
        entry_of(1, "https://h/2"),
        named(2, "https://h/a.js", "https://h/1"),
        named(3, "https://h/unnamed", "https://h/2"),
    ];
    let page = page(kept);
    assert_eq!(page.objects[2].reference.script, Some(ScriptMode::Blocking), "the giant word is not taken");
    // The first text takes 600,001 of a million lines, so line 600,000 of the second text is not kept.
    assert_eq!(page.objects[3].reference.offset, None);
}

#[test]
fn a_preload_is_found_with_the_tag_that_uses_it() {
    let text = "<link rel=preload as=script href=a.js><body>\n<script defer src=a.js></script>";
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let document = with(document, "/response/bodySize", json!(text.len()));
    let document = with(document, "/response/content/text", json!(text));
    let script = timed(300, "https://h/a.js", [0.0, -1.0, -1.0, 80.0, 20.0]);
    let script = with(script, "/_initiator", json!({"type": "parser", "url": "https://h/"}));
    let page = page(vec![document, script]);
    let reference = &page.objects[1].reference;
    assert!(reference.preload);
    let end = |needle: &str| Some((text.find(needle).expect(needle) + needle.len()) as u64);
    assert_eq!((reference.offset, reference.used_at), (end("script href=a.js>"), end("defer src=a.js>")));
    assert_eq!(reference.script, Some(ScriptMode::Defer));
}

#[test]
fn only_a_script_without_a_call_stack_is_imported() {
    let script = |url: &str, initiator| {
        let entry = timed(300, url, [0.0, -1.0, -1.0, 80.0, 20.0]);
        with(with(entry, "/_resourceType", json!("script")), "/_initiator", initiator)
    };
    let frames = json!({"callFrames": [{"url": "https://h/a.js"}]});
    let page = page(vec![
        html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0])),
        script("https://h/a.js", json!({"type": "parser", "url": "https://h/"})),
        script("https://h/b.js", json!({"type": "script", "url": "https://h/a.js"})),
        script("https://h/c.js", json!({"type": "script", "stack": frames})),
    ]);
    let of = |n: usize| (page.objects[n].initiator, page.objects[n].reference.by_script);
    assert_eq!([of(2), of(3)], [(Some(1), false), (Some(1), true)]);
    assert_eq!(page.objects[2].reference.script, Some(ScriptMode::AsyncModule));
    assert_eq!(page.objects[3].reference.script, None);
}

#[test]
fn without_a_text_the_lines_give_the_offset() {
    let document = html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0]));
    let on_line = |url: &str, line: u32| {
        let entry = timed(300, url, [0.0, -1.0, -1.0, 80.0, 20.0]);
        with(entry, "/_initiator", json!({"type": "parser", "url": "https://h/", "lineNumber": line}))
    };
    let page = page(vec![document, on_line("https://h/1", 3), on_line("https://h/2", 18)]);
    let offsets: Vec<_> = page.objects.iter().map(|object| object.reference.offset).collect();
    assert_eq!(offsets, [None, Some(200), Some(950)]);
}

#[test]
fn hosts_share_connections_if_the_file_shows_it() {
    let at = |url: &str, address: &str, connection: &str| {
        let entry = with(timed(300, url, [0.0, -1.0, -1.0, 80.0, 20.0]), "/serverIPAddress", json!(address));
        with(with(entry, "/connection", json!(connection)), "/response/httpVersion", json!("h2"))
    };
    let certified = |entry, names: &[&str]| {
        with(entry, "/_securityDetails", json!({"subjectName": names[0], "sanList": names}))
    };
    let same = page(vec![
        at("https://a.example/", "192.0.2.1", "17"),
        at("https://b.example/", "192.0.2.1", "17"),
        at("https://c.example/", "192.0.2.1", "18"),
        at("http://d.example/", "192.0.2.1", "17"),
    ]);
    assert_eq!(same.coalesce, [0, 0, 2, 3]);
    let by_name = page(vec![
        certified(at("https://a.example/", "192.0.2.1", "17"), &["a.example", "*.cdn.example"]),
        at("https://x.cdn.example/", "192.0.2.1", "18"),
        at("https://y.x.cdn.example/", "192.0.2.1", "19"),
        at("https://z.cdn.example/", "192.0.2.2", "20"),
        at("https://a.example:8443/", "192.0.2.1", "21"),
    ]);
    assert_eq!(by_name.coalesce, [0, 0, 2, 3, 4]);
    // Firefox writes the port as the connection.
    let firefox = page(vec![at("https://a/", "192.0.2.1", "443"), at("https://b/", "192.0.2.1", "443")]);
    assert_eq!(firefox.coalesce, [0, 1]);
    let other_port =
        page(vec![at("https://a:8443/", "192.0.2.1", "8443"), at("https://b:8443/", "192.0.2.1", "8443")]);
    assert_eq!(other_port.coalesce, [0, 1]);
}

#[test]
fn hosts_are_public_by_their_recorded_address() {
    let addresses = [
        "8.8.8.8",
        "192.0.2.1",
        "100.64.0.1",
        "198.19.0.1",
        "[2a00::1]",
        "fd00::1",
        "::ffff:10.0.0.1",
        "",
        "100.128.0.1",
        "240.0.0.1",
    ];
    let entries = addresses.iter().enumerate().map(|(n, address)| {
        let entry = timed(300, &format!("https://h{n}/"), [0.0, -1.0, -1.0, 80.0, 20.0]);
        with(entry, "/serverIPAddress", json!(address))
    });
    assert_eq!(page(entries.collect()).public, [0, 4, 8]);
}

#[test]
fn extreme_times_are_bounded() {
    let odd = [1e300, -5.0, 1e-300];
    for (blocked, wait) in odd.iter().flat_map(|a| odd.iter().map(move |b| (*a, *b))) {
        let late = timed(300, "https://h/1", [blocked, wait, blocked, wait, blocked]);
        let text = har(vec![html(timed(0, "https://h/", [0.0, 160.0, 80.0, 80.0, 50.0])), late]);
        assert!(read("page.har", &text).expect("a page").validate().is_ok());
    }
}

/// Chromium recorded these loads on emulated links. The name of each file ends in the rate and the round trip of its
/// link.
#[test]
fn recordings_at_known_networks_show_them() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/browser/har");
    let Ok(files) = std::fs::read_dir(&directory) else {
        eprintln!("skipped: there is no {}", directory.display());
        return;
    };
    for path in files.map(|file| file.expect("a file").path()) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let known =
            |unit: &str| name.split('-').find_map(|part| part.strip_suffix(unit)?.parse::<f64>().ok());
        let (Some(rate), Some(rtt)) = (known("mbit"), known("ms")) else { continue };
        let recording = load_page(&path, None).expect("a page").recording.expect("times");
        let found = recording.rtt_ns.expect("a round trip");
        let error = found.value as f64 / (rtt * 1e6) - 1.0;
        assert!(error.abs() <= 0.1, "{name}: {found:?}");
        let found = recording.rate_bps.expect("a rate");
        let error = found.value as f64 / (rate * 1e6) - 1.0;
        assert!(error.abs() <= 0.25, "{name}: {found:?}");
    }
}
