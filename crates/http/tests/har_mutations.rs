//! Tests HARs that no browser would write. Each file must be read, or be rejected with an error of one line.
//! The warnings must count every entry that does not become an object of the page.

use anabranch_base::Rng;
use anabranch_http::har;
use serde_json::{Value, json};

/// Returns a random value of any kind. Most of the values are unusual.
fn odd(rng: &mut Rng) -> Value {
    match rng.below(20) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(-2),
        4 => json!(0),
        5 => json!(i64::MIN),
        6 => json!(u64::MAX),
        7 => json!(1e308),
        8 => json!(-1e-308),
        9 => json!(0.5),
        10 => json!(""),
        11 => json!("NaN"),
        12 => json!("0000-00-00T99:99:99Z"),
        13 => json!("9999-12-31T23:59:60.999999999999999+99:99"),
        14 => json!("https://h/\u{0}\u{7f}\u{202e}☃?#"),
        15 => json!("://@:"),
        16 => json!([]),
        17 => json!({}),
        18 => json!([[[{"callFrames": [{"url": 7}], "parent": {"parent": null}}]]]),
        _ => json!(rng.next_u32()),
    }
}

fn entry(rng: &mut Rng, index: u64) -> Value {
    let url = format!(
        "http{}://h{}.example/{}",
        ["", "s"][rng.below(2) as usize],
        rng.below(3),
        rng.below(index + 1)
    );
    let status = [200, 200, 200, 301, 304, 404, 0, 101][rng.below(8) as usize];
    let page = ["p1", "p1", "p2"][rng.below(3) as usize];
    json!({
        "pageref": page,
        "startedDateTime": format!("2024-05-01T10:00:{:02}.{:03}Z", rng.below(60), rng.below(1000)),
        "time": rng.below(500),
        // The initiator is the entry's own URL. It may stand for this entry, or for an earlier or later entry with the
        // same URL.
        "_initiator": {"type": "script", "url": url, "stack": {"callFrames": [{"url": url}]}},
        "request": {"method": "GET", "url": url, "headersSize": -1, "bodySize": 0,
            "headers": [{"name": "Referer", "value": url}]},
        "response": {"status": status, "headersSize": 300, "bodySize": rng.below(5000), "redirectURL": url,
            "_transferSize": rng.below(5000), "content": {"size": rng.below(9000), "mimeType": "text/html"}},
    })
}

/// Sets or removes a random value within `value`.
fn mutate(value: &mut Value, rng: &mut Rng) {
    let size = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if size == 0 || rng.below(6) == 0 {
        *value = odd(rng);
        return;
    }
    let at = rng.below(size as u64) as usize;
    match value {
        Value::Object(fields) => {
            let key = fields.keys().nth(at).cloned().unwrap_or_default();
            if rng.below(6) == 0 {
                fields.remove(&key);
            } else if let Some(child) = fields.get_mut(&key) {
                mutate(child, rng);
            }
        }
        Value::Array(items) => mutate(&mut items[at], rng),
        _ => {}
    }
}

/// Returns the number of entries that the warnings report as not fetched.
fn left_out(warnings: &[String]) -> usize {
    const REASONS: [&str; 7] = [
        "belongs to another page",
        "never crossed a network",
        "the scheme of the URL is not one of HTTP",
        "left HTTP",
        "got no answer",
        "no usable size",
        "came from the browser's cache, with no size given",
    ];
    // The warning about several pages has no count of entries.
    let counted = |line: &String| {
        if line.contains(" pages in one file, ") {
            return None;
        }
        let (count, rest) = line.split_once(" of ").expect("a count");
        let (_, warning) = rest.split_once(" entries: ").expect("a reason");
        REASONS
            .iter()
            .any(|reason| warning.starts_with(reason))
            .then(|| count.parse::<usize>().expect("a number"))
    };
    warnings.iter().filter_map(counted).sum()
}

#[test]
fn mutated_files_are_read_or_refused_and_every_entry_is_accounted_for() {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(12);
        let entries: Vec<Value> = (0..count).map(|index| entry(&mut rng, index)).collect();
        let mut file =
            json!({"log": {"pages": [{"id": "p1", "title": "a\nb"}, {"id": "p2"}], "entries": entries}});
        for _ in 0..rng.below(4) {
            if rng.below(10) == 0 {
                mutate(&mut file, &mut rng);
            } else if let Some(entries) = file.pointer_mut("/log/entries").and_then(Value::as_array_mut) {
                let at = rng.below(entries.len().max(1) as u64) as usize;
                if let Some(entry) = entries.get_mut(at) {
                    mutate(entry, &mut rng);
                }
            }
        }
        let mut text = file.to_string();
        if rng.below(12) == 0 {
            let at = (0..=rng.below(text.len() as u64) as usize).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(at.unwrap_or(0));
        }
        match har::read("x.har", &text) {
            Ok(page) => {
                page.validate().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let entries = file.pointer("/log/entries").and_then(Value::as_array).map_or(0, Vec::len);
                let left_out_count = left_out(&page.warnings);
                assert_eq!(
                    page.objects.len() + left_out_count,
                    entries,
                    "seed {seed}: {:?}\n{text}",
                    page.warnings
                );
                assert!(page.warnings.iter().all(|line| !line.contains(char::is_control)), "seed {seed}");
                read += 1;
            }
            Err(error) => {
                let line = error.to_string();
                assert!(
                    line.starts_with("x.har: ") || line.starts_with("page 'x.har'"),
                    "seed {seed}: {line}"
                );
                assert!(!line.contains('\n'), "seed {seed}: {line}");
                refused += 1;
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn many_entries_of_one_address_take_no_quadratic_time() {
    let mut rng = Rng::new(1);
    let mut one = entry(&mut rng, 0);
    one["response"]["status"] = json!(200);
    one["pageref"] = json!("p1");
    let entries = vec![one; 40_000];
    let page = har::read("x.har", &json!({"log": {"entries": entries}}).to_string()).expect("a page");
    assert_eq!(page.objects.len(), 40_000);
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(1_000_000), "{\"log\":".repeat(200_000)] {
        let line = har::read("x.har", &text).expect_err("refused").to_string();
        assert!(line.starts_with("x.har: not a HAR") && !line.contains('\n'), "{line}");
    }
}
