//! Tests for peculiarities of real HAR exports. Each test uses a minimal file.

use super::write::{Fetch, write};
use super::*;
use anabranch_base::time::Instant;
use serde_json::json;
use std::time::Duration;

const AT: [&str; 5] = [
    "2024-05-01T10:00:00.000Z",
    "2024-05-01T10:00:00.100Z",
    "2024-05-01T10:00:00.200Z",
    "2024-05-01T10:00:00.300Z",
    "2024-05-01T10:00:00.400Z",
];

/// Returns a plain HAR entry: status 200, a body of 1000 bytes, and a total time of 50 ms.
pub(super) fn entry(at: usize, url: &str) -> Value {
    json!({
        "startedDateTime": AT[at],
        "time": 50,
        "request": {"method": "GET", "url": url, "headersSize": 410, "bodySize": 0, "headers": []},
        "response": {"status": 200, "headersSize": 310, "bodySize": 1000, "redirectURL": "",
            "content": {"size": 3000, "mimeType": "image/png"}},
    })
}

pub(super) fn document() -> Value {
    with(entry(0, "https://news.example/"), "/response/content/mimeType", json!("text/html; charset=utf-8"))
}

/// Returns `entry` with the member at `pointer` set.
pub(super) fn with(mut entry: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = entry.pointer_mut(parent).expect("a parent");
    parent.as_object_mut().expect("an object").insert(key.to_owned(), value);
    entry
}

pub(super) fn har(entries: Vec<Value>) -> String {
    json!({"log": {"version": "1.2", "creator": {"name": "a browser"}, "entries": entries}}).to_string()
}

pub(super) fn page(entries: Vec<Value>) -> Page {
    read("page.har", &har(entries)).expect("a page")
}

fn error(entries: Vec<Value>) -> String {
    let error = read("page.har", &har(entries)).expect_err("refused").to_string();
    assert!(!error.contains('\n') && error.starts_with("page.har: "), "{error}");
    error
}

/// Reads a page from a HAR that contains a document and `entry`. Returns the sizes in bytes of the response head and
/// the body of `entry`.
fn bytes(entry: Value) -> (u64, u64) {
    let page = page(vec![document(), entry]);
    assert_eq!(page.objects.len(), 2, "{:?}", page.warnings);
    (page.objects[1].response_head, page.objects[1].body)
}

#[test]
fn a_plain_file_becomes_a_page() {
    let page = page(vec![document(), entry(2, "https://cdn.example:8443/a/b.png?v=1#part")]);
    assert_eq!(page.hosts, ["news.example", "cdn.example:8443"]);
    let image = &page.objects[1];
    assert_eq!((image.name.as_str(), image.host, image.initiator), ("/a/b.png?v=1", 1, Some(0)));
    assert_eq!((image.request_head, image.response_head, image.body), (410, 310, 1000));
    assert_eq!(image.think, Duration::from_millis(150));
    assert_eq!(
        (page.objects[0].content_type.as_str(), image.content_type.as_str()),
        ("text/html", "image/png")
    );
    assert_eq!(page.objects[0].initiator, None);
    assert!(page.warnings.is_empty(), "{:?}", page.warnings);
    assert!(page.source.contains("a browser"), "{}", page.source);
}

#[test]
fn entries_are_ordered_by_their_start_and_need_not_be_listed_so() {
    let page =
        page(vec![entry(3, "http://h/3"), entry(1, "http://h/1"), document(), entry(3, "http://h/3b")]);
    let names: Vec<_> = page.objects.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["/", "/1", "/3", "/3b"]);
}

#[test]
fn the_body_is_taken_from_the_first_field_that_knows() {
    let plain = || entry(1, "http://h/x");
    let unknown = || with(plain(), "/response/bodySize", json!(-1));
    assert_eq!(bytes(plain()), (310, 1000));
    // For HTTP/2, Chrome records the sizes of head and body only as a sum, in `_transferSize`.
    let h2 =
        with(with(unknown(), "/response/headersSize", json!(-1)), "/response/_transferSize", json!(2500));
    assert_eq!(bytes(h2.clone()), (300, 2200));
    assert_eq!(bytes(with(h2, "/response/_transferSize", json!(120))), (120, 0));
    assert_eq!(bytes(with(unknown(), "/response/_transferSize", json!(2500))), (310, 2190));
    // WebPagetest writes zeros in the standard fields of HAR. It writes the sizes in fields of its own, sometimes as
    // strings.
    let zeros = with(with(plain(), "/response/bodySize", json!(0)), "/response/content", json!({"size": 0}));
    assert_eq!(bytes(with(zeros.clone(), "/_objectSize", json!("2048"))), (310, 2048));
    assert_eq!(bytes(with(zeros.clone(), "/_bytesIn", json!(2310))), (310, 2000));
    assert_eq!(bytes(zeros), (310, 0));
    // If an entry gives no transfer size, its content size is used as the body size. If Chrome recorded the bytes saved
    // by compression, they are subtracted.
    assert_eq!(bytes(unknown()), (310, 3000));
    assert_eq!(bytes(with(unknown(), "/response/content/compression", json!(2100))), (310, 900));
    // Firefox writes -1 as the size of a response head, or leaves the field out.
    let firefox =
        with(with(plain(), "/response/headersSize", json!(-1)), "/response/content/size", json!(-1));
    assert_eq!(bytes(firefox), (300, 1000));
    // A redirect has no body.
    let redirect = with(with(unknown(), "/response/content/size", json!(0)), "/response/status", json!(302));
    assert_eq!(bytes(redirect), (310, 0));
}

#[test]
fn assumptions_are_reported_with_counts() {
    let decoded = with(entry(1, "http://h/x"), "/response/bodySize", json!(-1));
    let post = with(entry(2, "http://h/log"), "/request/method", json!("POST"));
    let post = with(post, "/request/bodySize", json!(500));
    let page = page(vec![document(), decoded, post]);
    assert_eq!(page.objects[2].request_head, 910);
    assert_eq!(page.warnings.len(), 2, "{:?}", page.warnings);
    assert!(page.warnings.iter().any(|w| w.contains("1 of 3 entries") && w.contains("decompression")));
    assert!(page.warnings.iter().any(|w| w.contains("not a GET") && w.contains("[2] http://h/log")));
}

#[test]
fn cached_entries_are_fetched_as_on_a_first_visit() {
    let plain = || entry(1, "http://h/x");
    let status = |entry, status: u16| with(entry, "/response/status", json!(status));
    let zero = || with(plain(), "/response/bodySize", json!(0));
    let revalidated = with(status(zero(), 304), "/response/_transferSize", json!(310));
    let marked = with(zero(), "/_fromCache", json!("disk"));
    let chrome = with(with(zero(), "/response/_transferSize", json!(0)), "/response/headersSize", json!(-1));
    let firefox = with(zero(), "/response/fromDiskCache", json!(true));
    for cached in [revalidated, marked, chrome, firefox] {
        let page = page(vec![document(), cached]);
        assert_eq!(page.objects[1].body, 3000);
        assert!(
            page.warnings.iter().any(|w| w.contains("1 of 2") && w.contains("cache")),
            "{:?}",
            page.warnings
        );
    }
    let empty = with(with(zero(), "/_fromCache", json!("disk")), "/response/content/size", json!(0));
    let page = page(vec![document(), empty]);
    assert_eq!((page.objects[1].body, page.warnings.len()), (0, 1));
    assert!(
        page.warnings[0].contains("with a size of 0: fetched here with an empty body"),
        "{:?}",
        page.warnings
    );
    let unknown = with(status(zero(), 304), "/response/content/size", json!(0));
    let page = self::page(vec![document(), unknown]);
    assert_eq!(page.objects.len(), 1);
    assert!(page.warnings[0].contains("no size given") && page.warnings[0].contains("http://h/x"));
}

#[test]
fn unfetchable_entries_are_left_out_with_a_warning() {
    let plain = || entry(1, "http://h/x");
    let no_size = with(
        with(plain(), "/response/bodySize", json!(-1)),
        "/response/content",
        json!({"size": -1, "mimeType": "a/b"}),
    );
    let cases = [
        (with(plain(), "/response/status", json!(0)), "answer"),
        (with(plain(), "/response/_error", json!("net::ERR_BLOCKED_BY_CLIENT")), "answer"),
        (no_size, "no usable size"),
        (with(plain(), "/request/url", json!("data:image/png;base64,AAAA")), "never crossed"),
        (with(plain(), "/request/url", json!("chrome-extension://abc/x.js")), "never crossed"),
        (with(plain(), "/request/url", json!("file:///tmp/x")), "never crossed"),
        (with(plain(), "/request/url", json!("ftp://h/x")), "not one of HTTP"),
        (with(plain(), "/request/url", json!("wss://h/socket")), "WebSocket"),
        (with(plain(), "/response/status", json!(101)), "WebSocket"),
    ];
    for (odd, why) in cases {
        // Status 0 with a body counts as a response, because old Firefox omitted the status. The case `answer` needs an
        // entry without a response, so its body size is set to 0.
        let odd = if why == "answer" { with(odd, "/response/bodySize", json!(0)) } else { odd };
        let url = odd.pointer("/request/url").and_then(Value::as_str).expect("a url").to_owned();
        let page = page(vec![document(), odd, entry(3, "http://h/last")]);
        assert_eq!(page.objects.len(), 2, "{why}");
        assert_eq!(page.warnings.len(), 1, "{:?}", page.warnings);
        let warning = &page.warnings[0];
        assert!(warning.starts_with("1 of 3 entries") && warning.contains(why), "{warning}");
        assert!(warning.contains("[1]") && warning.contains(&url), "{warning}");
    }
    let only = error(vec![with(document(), "/request/url", json!("data:,x"))]);
    assert!(only.contains("no entry can be fetched") && only.contains("never crossed"), "{only}");
}

#[test]
fn a_status_that_firefox_forgot_is_not_a_failure() {
    assert_eq!(bytes(with(entry(1, "http://h/x"), "/response/status", json!(0))), (310, 1000));
}

#[test]
fn many_odd_entries_share_one_warning() {
    let odd = |i: usize| with(entry(1, &format!("data:,{i}")), "/response/bodySize", json!(-1));
    let page = page(std::iter::once(document()).chain((0..9).map(odd)).collect());
    assert_eq!(page.warnings.len(), 1);
    assert!(page.warnings[0].starts_with("9 of 10 entries") && page.warnings[0].ends_with(", …"));
}

#[test]
fn errors_name_the_entry_and_the_field() {
    for (text, why) in [
        ("rate = 1", "expected value at line 1 column 1"),
        ("{\"log\": NaN}", "expected value at line 1 column 9"),
        ("{\"log\": {},}", "trailing comma at line 1 column 12"),
    ] {
        assert_eq!(
            read("x.har", text).expect_err("no JSON").to_string(),
            format!("x.har: not a HAR, not even JSON: {why}; correct it there, or save the HAR again")
        );
    }
    assert_eq!(
        read("x.har", " <!doctype html><title>Log in</title>").expect_err("HTML").to_string(),
        "x.har: HTML, not a HAR: save the network log of the page as HAR with the browser's developer tools"
    );
    for (text, what) in [
        ("null", "null"),
        ("7", "a number"),
        ("\"log\"", "a text"),
        ("true", "true or false"),
        ("[]", "an empty list"),
        ("[1]", "a list of neither HARs nor entries"),
        ("{}", "JSON without a 'log'"),
        ("{\"log\": null}", "log: null"),
        ("{\"log\": []}", "log: a list"),
        ("{\"log\": {}}", "log.entries: missing"),
        ("{\"log\": {\"entries\": null}}", "log.entries: null"),
        ("{\"log\": {\"entries\": 7}}", "log.entries: a number"),
    ] {
        assert_eq!(
            read("x.har", text).expect_err(text).to_string(),
            format!(
                "x.har: {what}; a HAR is {{\"log\": {{\"entries\": [..]}}}}, which a browser saves in the network tab of its \
                 developer tools"
            )
        );
    }
    assert_eq!(
        read("x.har", "").expect_err("empty").to_string(),
        "x.har: the file is empty; a HAR was expected"
    );
    assert!(error(Vec::new()).contains("empty"));
    let plain = || entry(1, "http://h/x");
    let cases = [
        ("/response/bodySize", json!("many"), "response.bodySize: \"many\""),
        ("/response/bodySize", json!(1e300), "response.bodySize: 1e+300"),
        ("/response/status", json!("OK"), "response.status"),
        ("/request/url", json!(null), "request.url"),
        ("/startedDateTime", json!("yesterday"), "startedDateTime: 'yesterday'"),
        ("/startedDateTime", json!(5), "startedDateTime"),
        ("/time", json!("long"), "time"),
    ];
    for (pointer, value, told) in cases {
        let error = error(vec![document(), with(plain(), pointer, value)]);
        assert!(error.contains("log.entries[1].") && error.contains(told), "{error}");
    }
    // The entry or its request is not a JSON object.
    for odd in [json!(5), json!(null), with(document(), "/request", json!(null))] {
        assert_eq!(
            error(vec![odd, document()]),
            "page.har: log.entries[0].request.url: missing or not a text; correct it, or remove the entry"
        );
    }
    assert_eq!(
        error(vec![with(document(), "/startedDateTime", json!("garbage"))]),
        "page.har: log.entries[0].startedDateTime: 'garbage' is not an ISO 8601 date and time such as \
         2026-01-31T12:00:00Z; correct it, or remove the entry"
    );
}

#[test]
fn a_negative_size_is_unknown_whatever_it_is() {
    // Chrome redirects a URL to https internally, without a transfer. Chrome's exporters compute the body size as the
    // transferred size, 0, minus the size of the head, 310.
    let odd = with(entry(1, "http://h/x"), "/response/bodySize", json!(-310));
    let odd = with(with(odd, "/response/_transferSize", json!(0)), "/response/status", json!(307));
    let odd = with(odd, "/response/content/size", json!(0));
    assert_eq!(bytes(odd), (310, 0));
    let plain = || entry(1, "http://h/x");
    for size in [json!(-2), json!(-2.0), json!("-2"), json!(i64::MIN), json!(-1e300)] {
        assert_eq!(bytes(with(plain(), "/response/bodySize", size.clone())), (310, 3000), "{size}");
        assert_eq!(bytes(with(plain(), "/response/headersSize", size.clone())), (300, 1000), "{size}");
        assert_eq!(bytes(with(plain(), "/response/_transferSize", size.clone())), (310, 1000), "{size}");
        assert_eq!(bytes(with(plain(), "/response/content/size", size.clone())), (310, 1000), "{size}");
        let request = with(with(plain(), "/request/headersSize", size.clone()), "/request/bodySize", size);
        assert_eq!(page(vec![document(), request]).objects[1].request_head, 400);
    }
}

#[test]
fn numbers_may_be_fractions_or_texts_and_optional_fields_null() {
    let odd = with(entry(1, "http://h/x"), "/response/bodySize", json!(1000.0));
    let odd = with(with(odd, "/response/status", json!("200")), "/time", json!("50.5"));
    let odd = with(with(odd, "/response/headersSize", json!("310")), "/request/headersSize", json!(null));
    assert_eq!(bytes(odd), (310, 1000));
    let socket = with(entry(1, "http://h/x"), "/response/status", json!("101"));
    assert_eq!(page(vec![document(), socket]).objects.len(), 1);
    let mut bare = entry(1, "http://h/x");
    for (pointer, key) in
        [("/request", "method"), ("/request", "headers"), ("/response", "redirectURL"), ("", "time")]
    {
        bare = with(bare, &format!("{pointer}/{key}"), Value::Null);
    }
    bare = with(bare, "/response/content/mimeType", Value::Null);
    assert_eq!(bytes(bare), (310, 1000));
    // An aborted request has no response.
    let aborted = with(entry(1, "http://h/x"), "/response", Value::Null);
    assert!(page(vec![document(), aborted]).warnings[0].contains("got no answer"));
}

#[test]
fn entries_without_a_start_are_taken_in_the_order_of_the_file() {
    let without = |mut entry: Value| {
        entry.as_object_mut().expect("an object").remove("startedDateTime");
        entry
    };
    let page = page(vec![
        without(document()),
        without(entry(3, "http://h/3")),
        with(entry(1, "http://h/1"), "/startedDateTime", json!("")),
    ]);
    let names: Vec<_> = page.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["/", "/3", "/1"]);
    assert_eq!(page.warnings, ["3 of 3 entries: no startedDateTime: raced in the order of the file"]);
    assert!(page.objects.iter().all(|object| object.think.is_zero()));
    // An entry without a start is sent together with the entry before it in the file. If the file begins with such
    // entries, they are sent with the first entry that has a start.
    let page = self::page(vec![
        without(document()),
        entry(4, "http://h/4"),
        entry(2, "http://h/2"),
        without(entry(0, "http://h/2b")),
        entry(3, "http://h/3"),
    ]);
    let names: Vec<_> = page.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["/2", "/2b", "/3", "/", "/4"]);
    assert!(page.warnings[0].starts_with("2 of 5 entries: no startedDateTime"), "{:?}", page.warnings);
    // The start is a Unix time, in seconds or milliseconds.
    let unix = |time: Value| with(entry(0, "http://h/x"), "/startedDateTime", time);
    for time in [json!(1_714_557_600.2), json!(1_714_557_600_200_u64), json!("1714557600200")] {
        let page = self::page(vec![entry(4, "http://h/4"), unix(time), document()]);
        assert_eq!(page.objects[1].name, "/x");
    }
}

/// The input resembles the examples of k6's converter. It has only requests.
#[test]
fn a_file_of_requests_alone_is_fetched_with_small_bodies() {
    let request =
        |url: &str, response: Value| json!({"request": {"method": "GET", "url": url}, "response": response});
    let page = page(vec![request("http://h/b", Value::Null), request("http://h/a", json!({}))]);
    let seen: Vec<_> = page.objects.iter().map(|o| (o.name.as_str(), o.response_head, o.body)).collect();
    assert_eq!(seen, [("/b", 300, 1000), ("/a", 300, 1000)]);
    assert_eq!(
        page.warnings,
        [
            "2 of 2 entries: no startedDateTime: raced in the order of the file".to_owned(),
            format!("2 of 2 entries: {NO_RESPONSE}: [0] http://h/b, [1] http://h/a")
        ]
    );
}

#[test]
fn a_list_of_hars_of_logs_or_of_entries_is_read() {
    let one = |url: &str| json!({"log": {"entries": [document(), entry(1, url)]}});
    let read = |value: &Value, number| read_page("x.har", &value.to_string(), number);
    let hars = json!([one("http://h/a"), one("http://h/b")]);
    let logs = json!([one("http://h/a")["log"], one("http://h/b")["log"]]);
    for list in [hars, logs] {
        let page = read(&list, None).expect("a page");
        assert_eq!((page.objects.len(), page.objects[1].name.as_str()), (2, "/a"));
        assert_eq!(
            page.warnings,
            [
                "2 pages in one file, of which the first is taken: 1 '' (2 entries), 2 '' (2 entries)",
                "2 of 4 entries: belongs to another page of the file: [2] https://news.example/, [3] http://h/b"
            ]
        );
        assert_eq!(read(&list, Some(2)).expect("a page").objects[1].name, "/b");
        assert!(read(&list, Some(3)).expect_err("no such page").to_string().contains("no page 3"));
    }
    for value in [json!([document(), entry(1, "http://h/a")]), one("http://h/a")["log"].clone()] {
        let page = read(&value, None).expect("a page");
        assert_eq!((page.objects.len(), page.warnings.len()), (2, 0));
    }
    for (value, told) in [
        (
            json!([one("http://h/"), {}]),
            "x.har: [1]: no HAR, and no entry: there is no 'log' and no 'request' in it",
        ),
        (
            json!([{"log": {}}]),
            "x.har: [0].log.entries: missing; a HAR is {\"log\": {\"entries\": [..]}}, which a browser saves in the network tab of its developer tools",
        ),
        (
            json!([document(), {"request": {}}]),
            "x.har: [1].request.url: missing or not a text; correct it, or remove the entry",
        ),
    ] {
        assert_eq!(read(&value, None).expect_err("refused").to_string(), told);
    }
}

#[test]
fn pages_may_have_numbers_for_names() {
    let entries =
        [with(document(), "/pageref", json!(7)), with(entry(1, "http://h/x"), "/pageref", json!(8))];
    let text =
        json!({"log": {"pages": [{"id": 8, "title": "B"}, {"id": 7, "title": "A"}], "entries": entries}});
    let page = read("x.har", &text.to_string()).expect("a page");
    assert_eq!((page.objects[0].name.as_str(), page.source.as_str()), ("/x", "HAR of B"));
}

#[test]
fn a_file_is_read_however_it_is_packed_encoded_and_wrapped() {
    let text = har(vec![document(), with(entry(1, "http://h/x"), "/comment", json!("SURROGATE"))]);
    let text = text.replace("SURROGATE", r"\ud83d");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).expect("packed");
    let gzip = gzip.finish().expect("packed");
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wrapped = format!("onInputData({text});");
    for bytes in [text.as_bytes(), &gzip, &utf16, wrapped.as_bytes()] {
        let page = read_bytes("x.har", bytes, None).expect("a page");
        assert_eq!((page.objects.len(), page.warnings.len()), (2, 0));
    }
    let refused = |bytes: &[u8]| read_bytes("x.har", bytes, None).expect_err("refused").to_string();
    for empty in [&b""[..], b" \n\t", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff\xfe \0\n\0"] {
        assert_eq!(refused(empty), "x.har: the file is empty; a HAR was expected", "{empty:?}");
    }
    for zeros in [&b"\0\0\0\0\0"[..], b"\n\n\0\0\0\0\n", &[0; 100_000]] {
        assert_eq!(refused(zeros), "x.har: the file holds only NUL bytes; a HAR was expected");
    }
    assert!(refused(&gzip[..gzip.len() / 2]).starts_with("x.har: gzip: the file is cut, after "));
    assert_eq!(
        refused(b"PK\x03\x04"),
        "x.har: a zip archive: unpack it, and name the HAR file that is in it"
    );
    let brotli = b"\x8b\x02\x80{\"a\": 1}\x03";
    let packed = read_bytes("x.har.br", brotli, None).expect_err("refused").to_string();
    assert_eq!(packed, "x.har.br: packed by brotli: unpack it with brotli -d");
    assert!(read_bytes("x.br", text.as_bytes(), None).is_ok(), "the content decides");
    let cut = refused(&text.as_bytes()[..500]);
    assert_eq!(
        cut,
        "x.har: the file is cut: it ends within its JSON, at line 1 column 500; save or download it again"
    );
    let at = text.len() + 1;
    assert_eq!(
        refused(format!("{text}{text}").as_bytes()),
        format!(
            "x.har: the HAR ends, and at line 1 column {at} there is more, '{{\"log\":{{\"version\":\"1'; remove it: a file is one \
             HAR"
        )
    );
    let literal = refused(b"onInputData({log: {entries: []}});");
    assert!(literal.contains("every key in double quotes") && !literal.contains('\n'), "{literal}");
}

#[test]
fn a_request_body_that_is_not_sent_whole_is_told() {
    let post = with(entry(1, "http://h/log"), "/request/method", json!("POST"));
    let small = page(vec![document(), with(post.clone(), "/request/bodySize", json!(30_000))]);
    assert_eq!((small.objects[1].request_head, small.warnings.len()), (30_410, 1));
    let large = page(vec![document(), with(post, "/request/bodySize", json!(100_000))]);
    assert_eq!(large.objects[1].request_head, MAX_HEAD);
    let told = format!("1 of 2 entries: {CUT_BODY}: [1] http://h/log");
    assert!(large.warnings.contains(&told), "{:?}", large.warnings);
}

#[test]
fn the_initiator_comes_from_the_most_reliable_field() {
    let script = || entry(1, "http://h/app.js");
    let initiator = |how: Value| {
        let page = page(vec![document(), script(), with(entry(2, "http://h/x"), "/_initiator", how)]);
        page.objects[2].initiator
    };
    assert_eq!(initiator(json!("http://h/app.js")), Some(1));
    assert_eq!(initiator(json!({"type": "parser", "url": "http://h/app.js", "lineNumber": 3})), Some(1));
    let frames = |url: &str| json!([{"url": "http://h/inline"}, {"url": url}]);
    assert_eq!(
        initiator(json!({"type": "script", "stack": {"callFrames": frames("http://h/app.js")}})),
        Some(1)
    );
    let parent = json!({"callFrames": frames("http://h/app.js")});
    assert_eq!(initiator(json!({"type": "script", "stack": {"callFrames": [], "parent": parent}})), Some(1));
    assert_eq!(initiator(json!({"type": "other"})), Some(0));
    assert_eq!(initiator(json!("http://elsewhere/unseen.js")), Some(0));
    assert_eq!(initiator(json!(7)), Some(0));

    let referer = json!([{"name": "referer", "value": "http://h/style.css#x"}]);
    let referred = with(entry(2, "http://h/font"), "/request/headers", referer);
    assert_eq!(
        page(vec![document(), entry(1, "http://h/style.css"), referred]).objects[2].initiator,
        Some(1)
    );
}

#[test]
fn a_redirect_causes_its_target_wherever_it_points() {
    for location in ["https://news.example/home", "//news.example/home", "/home", "home"] {
        let redirect = with(entry(0, "https://news.example/"), "/response/status", json!(301));
        let redirect = with(redirect, "/response/redirectURL", json!(location));
        let target =
            with(entry(1, "https://news.example/home"), "/response/content/mimeType", json!("text/html"));
        let page = page(vec![redirect, target, entry(2, "https://news.example/x.png")]);
        let causes: Vec<_> = page.objects.iter().map(|o| o.initiator).collect();
        assert_eq!(causes, [None, Some(0), Some(1)], "{location}");
    }
}

#[test]
fn left_out_entries_cause_no_fetches() {
    let failed =
        with(with(entry(1, "http://h/app.js"), "/response/status", json!(0)), "/response/bodySize", json!(0));
    let caused = with(entry(2, "http://h/x"), "/_initiator", json!("http://h/app.js"));
    assert_eq!(page(vec![document(), failed, caused]).objects[1].initiator, Some(0));
}

#[test]
fn an_address_fetched_twice_gets_two_names() {
    let page = page(vec![document(), entry(1, "http://a/x"), entry(2, "http://a/x"), entry(3, "http://b/x")]);
    let names: Vec<_> = page.objects.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["/", "/x", "/x~2", "/x~3"]);
}

#[test]
fn targets_are_made_fit_for_a_request_line() {
    let long = format!("http://h/{}", "q".repeat(5000));
    let page =
        page(vec![document(), entry(1, "http://h/a b\u{e9}?c|d"), entry(2, &long), entry(3, "http://h?q")]);
    assert_eq!(page.objects[1].name, "/a%20b%C3%A9?c|d");
    assert_eq!(page.objects[2].name, long["http://h".len()..]);
    assert_eq!(page.objects[3].name, "/?q");
    assert!(page.warnings.is_empty(), "{:?}", page.warnings);
    let bare = with(entry(1, &long), "/request/headersSize", json!(20));
    let page = self::page(vec![document(), bare]);
    assert_eq!(page.objects[1].request_head, 5001 + 1 + 25);
}

#[test]
fn a_url_is_requested_in_full_up_to_31_kib_and_a_longer_one_is_counted() {
    let of = |length: usize| {
        with(entry(1, &format!("http://h/{}", "q".repeat(length - 1))), "/request/headersSize", json!(-1))
    };
    let page = page(vec![document(), of(MAX_TARGET), of(MAX_TARGET + 1), of(70_000)]);
    let lengths: Vec<usize> = page.objects[1..].iter().map(|object| object.name.len()).collect();
    // The last two targets are shortened to `MAX_TARGET`. They would then equal the first target, so a number is
    // appended to each of the two.
    assert_eq!(lengths, [MAX_TARGET, MAX_TARGET + 2, MAX_TARGET + 2]);
    let heads: Vec<u64> = page.objects[1..].iter().map(|object| object.request_head).collect();
    assert_eq!(heads, [MAX_TARGET as u64 + 26, MAX_TARGET as u64 + 28, MAX_HEAD]);
    let shown = format!("http://h/{}…", "q".repeat(71));
    assert_eq!(
        page.warnings,
        [format!(
            "2 of 4 entries: a URL of more than 31 KiB, cut to this length in the request: [2] {shown}, [3] {shown}"
        )]
    );
    // The host name is long, and the target is too long. The target is cut, and a number is appended to it, because two
    // entries have the same URL. The request head must still have room for the fields that the client adds.
    let host = format!("{}.example:65535", "h".repeat(245));
    let url = format!("http://{host}/{}", "q".repeat(70_000));
    let page = self::page(vec![document(), entry(1, &url), entry(2, &url)]);
    let least = crate::fetch::request::min_head_size(&page.objects[2].name, &host, true);
    assert!((least as u64) < MAX_HEAD - 100, "{least}");
}

#[test]
fn urls_that_take_too_much_memory_are_refused() {
    let long = |i: usize| entry(1, &format!("http://h/{i}/{}", "q".repeat(30_000)));
    assert_eq!(
        error((0..1200).map(long).collect()),
        "page.har: the URLs have more than 32 MiB; split the recording into files of fewer entries"
    );
}

/// chrome-har writes a `bodySize` of -1. Chrome writes 0 for an upload. k6 writes no `bodySize`.
#[test]
fn the_body_of_a_request_has_the_first_size_that_is_known() {
    let post = |size: Value, data: Value, length: Value| {
        let post = with(entry(1, "http://h/log"), "/request/method", json!("POST"));
        let post = with(with(post, "/request/bodySize", size), "/request/postData", data);
        let headers = json!([{"name": "content-length", "value": length}]);
        let page = page(vec![document(), with(post, "/request/headers", headers)]);
        let is_told = page
            .warnings
            .iter()
            .any(|line| *line == format!("1 of 2 entries: {UNKNOWN_BODY}: [1] http://h/log"));
        (page.objects[1].request_head - 410, is_told)
    };
    let text = || json!({"mimeType": "application/json", "text": "{\"a\": \"\u{e9}\"}"});
    for size in [json!(-1), json!(null), json!(0)] {
        assert_eq!(post(size.clone(), text(), json!(null)), (11, false), "{size}");
        assert_eq!(post(size.clone(), text(), json!("2000")), (2000, false), "{size}");
        assert_eq!(post(size.clone(), json!(null), json!("2000")), (2000, false), "{size}");
        let form = json!({"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a", "value": "b c"}]});
        assert_eq!(post(size.clone(), form, json!(null)), (5, false), "{size}");
        let upload =
            json!({"mimeType": "multipart/form-data", "params": [{"name": "f", "fileName": "x.png"}]});
        assert_eq!(post(size, upload, json!(null)), (0, true));
    }
    assert_eq!(post(json!(7), text(), json!("2000")), (7, false));
    assert_eq!(post(json!(-1), json!(null), json!(null)), (0, true));
    assert_eq!(post(json!(0), json!(null), json!(null)), (0, false));
    assert_eq!(post(json!(-1), json!({"text": ""}), json!(null)), (0, false));
    assert_eq!(post(json!(-1), json!(null), json!("0")), (0, false));
    // A GET request has no body unless the file records a body.
    let get = with(entry(1, "http://h/x"), "/request/bodySize", json!(-1));
    assert!(page(vec![document(), get]).warnings.is_empty());
    // An entry of a file for k6 (a load generator) has only a request. `request_head` counts the head, which contains a
    // long URL, and the five bytes of the body.
    let url = format!("http://h/{}", "q".repeat(1000));
    let k6 = json!({"request": {"method": "POST", "url": url, "postData": {"text": "12345"}}});
    assert_eq!(page(vec![k6]).objects[0].request_head, 1027 + 5);
}

#[test]
fn a_url_that_no_contestant_can_send_is_an_error() {
    let odd = |url: &str| with(entry(1, "http://h/x"), "/request/url", json!(url));
    for (url, why) in [
        (
            "http://no host/x",
            "'http://no host/x': no request can name the host 'no host'; write a name in ASCII (xn--... for others) or an \
             IP address, or remove the entry",
        ),
        ("http:///x", "'http:///x': a URL without a host; write http://HOST/PATH, or remove the entry"),
        ("/x", "'/x': a URL without a scheme; write http://HOST/PATH, or remove the entry"),
    ] {
        let line = error(vec![document(), odd(url), entry(2, "http://h/y")]);
        assert_eq!(line, format!("page.har: log.entries[1].request.url: {why}"));
    }
    let long = error(vec![odd(&format!("http://no host/{}", "x".repeat(70_000)))]);
    assert!(long.contains("xxx…': no request can name") && long.len() < 400, "{long}");
    // An entry that is left out is not requested, so its invalid URL is not an error.
    let failed =
        with(with(odd("http://no host/"), "/response/status", json!(0)), "/response/bodySize", json!(0));
    let page = page(vec![document(), failed, odd("wss://no host/")]);
    assert_eq!((page.objects.len(), page.warnings.len()), (1, 2), "{:?}", page.warnings);
}

#[test]
fn a_page_load_over_each_scheme_of_this_program_reads_back() {
    for scheme in ["http", "https", "http+sctp", "http+sctp-ip", "https+sctp", "h3"] {
        let page = page(vec![entry(0, &format!("{scheme}://h/"))]);
        assert_eq!(
            (page.objects.len(), page.tls_objects == 1),
            (1, !scheme.starts_with("http+") && scheme != "http")
        );
    }
}

#[test]
fn the_first_page_that_has_entries_is_taken() {
    let of = |entry, page: &str| with(entry, "/pageref", json!(page));
    let entries = [of(document(), "b"), of(entry(1, "http://h/x"), "b"), of(entry(2, "http://h/y"), "c")];
    let text = json!({"log": {"pages": [{"id": "a"}, {"id": "b", "title": "News"}, {"id": "c"}], "entries": entries}});
    let page = read("x.har", &text.to_string()).expect("a page");
    assert_eq!(page.objects.len(), 2);
    assert_eq!(page.source, "HAR of News");
    assert_eq!(page.name, "x.har, page 1 of 2 'News'");
    let [pages, others] = page.warnings.as_slice() else { panic!("{:?}", page.warnings) };
    assert_eq!(
        pages,
        "2 pages in one file, of which the first is taken: 1 'News' (2 entries), 2 'c' (1 entries)"
    );
    assert!(others.contains("1 of 3 entries: belongs to another page"), "{others}");
    let second = read_page("x.har", &text.to_string(), Some(2)).expect("a page");
    assert_eq!((second.objects.len(), second.warnings.len()), (1, 1), "{:?}", second.warnings);
    for number in [0, 3] {
        let error =
            read_page("x.har", &text.to_string(), Some(number)).expect_err("no such page").to_string();
        let told =
            format!("x.har: there is no page {number}; its pages: 1 'News' (2 entries), 2 'c' (1 entries)");
        assert_eq!(error, told);
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert!(read("x.har", &format!("\u{feff}{}", har(vec![document()]))).is_ok());
}

#[test]
fn a_page_load_is_written_as_a_har_that_reads_back() {
    let page = page(vec![document(), entry(1, "http://cdn.example/x.png")]);
    let fetch = |object: usize, issued: u64, ended: u64| Fetch {
        object,
        issued: Instant::from_millis(issued),
        assigned: Some(Instant::from_millis(issued + 5)),
        first_byte: Some(Instant::from_millis(ended - 5)),
        ended: Instant::from_millis(ended),
        version: ["HTTP/1.1", "HTTP/2"][object],
        connection: "49152/3".to_owned(),
        status: 200,
        failure: None,
    };
    let fetches = [fetch(0, 0, 100), fetch(1, 120, 300)];
    let text = write(&page, "http+sctp", &fetches, 0, "0.1.0", "tcp, seed 1");
    let again = read("again.har", &text).expect("a HAR");
    assert_eq!(again.objects.len(), 2);
    for (ours, theirs) in page.objects.iter().zip(&again.objects) {
        assert_eq!(
            (ours.body, ours.response_head, ours.request_head),
            (theirs.body, theirs.response_head, theirs.request_head)
        );
        assert_eq!((&ours.name, ours.initiator), (&theirs.name, theirs.initiator));
    }
    // The request was sent 5 ms after it was issued.
    assert_eq!(again.objects[1].think, Duration::from_millis(25));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let version = |entry: usize| value.pointer(&format!("/log/entries/{entry}/response/httpVersion"));
    assert_eq!((version(0), version(1)), (Some(&json!("HTTP/1.1")), Some(&json!("HTTP/2"))));
    let timings = value.pointer("/log/entries/1/timings").expect("timings");
    let sum: f64 = ["blocked", "send", "wait", "receive"].iter().filter_map(|k| timings[*k].as_f64()).sum();
    assert!((sum - 180.0).abs() < 1e-9, "HAR 1.2 wants the timings to add up to the time: {sum}");

    let failed = Fetch {
        failure: Some("no progress within the timeout".into()),
        first_byte: None,
        status: 0,
        ..fetch(1, 120, 300)
    };
    let missing = Fetch { failure: Some("status 404".into()), status: 404, ..fetch(0, 0, 10) };
    let text = write(&page, "http", &[failed, missing], 0, "0.1.0", "");
    assert!(text.contains("no progress") && text.contains("\"status\": 0"));
    assert!(text.contains("\"status\": 404") && text.contains("\"statusText\": \"Not Found\""));
}

#[test]
fn heads_beyond_what_is_sent_are_cut_counted_and_named() {
    let large = with(entry(1, "https://news.example/large"), "/response/headersSize", json!(3_000_000));
    let page = page(vec![document(), large]);
    assert_eq!((page.objects[0].response_head, page.objects[1].response_head), (310, MAX_HEAD));
    let told: Vec<&String> = page.warnings.iter().filter(|line| line.contains("32 KiB")).collect();
    assert!(matches!(told.as_slice(), [line] if line.starts_with("1 of 2 entries: ")), "{:?}", page.warnings);
}
