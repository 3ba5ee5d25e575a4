//! Tests every kind of report in a browser: on screens of desktop and phone width, in light and dark colours, and
//! printed. The page must fetch nothing, report no error and not overflow sideways. It must draw what `results.json`
//! contains, and the features of its script must work.
//!
//! Needs chromium and chromedriver (Debian: `apt-get install chromium chromium-driver`). Without them the test prints a
//! message and passes, unless `ANABRANCH_REQUIRE_PEERS=1` is set, as it is in CI. With `SCREENSHOTS=DIR` in the
//! environment, screenshots of the pages are kept.

#![cfg(target_os = "linux")]

mod driver;
mod served;
mod wait;

use anabranch_base::testing::are_slow_tests_enabled;
use driver::{Browser, Look};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("anabranch-browser-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A race whose report is checked.
struct Report {
    kind: &'static str,
    page: PathBuf,
    results: Value,
}

/// Runs a race and returns its report, or `None` if the race is not possible on this host. A simulated race is run
/// twice, and both report pages must be identical.
fn report(directory: &Path, kind: &'static str, arguments: &str) -> Option<Report> {
    let out = directory.join(kind);
    let race = || {
        let output = Command::new(PROGRAM)
            .current_dir(directory)
            .args(["race", "--quiet", "--out", kind])
            .args(arguments.split_whitespace())
            .output()
            .expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = race();
    if code == Some(3) {
        println!("{kind}: not possible here: {stderr}");
        return None;
    }
    assert_eq!(code, Some(0), "{arguments}: {stderr}");
    let page = out.join("report.html");
    let first = fs::read(&page).expect("a report");
    if !arguments.contains("emulated") {
        assert_eq!(race().0, Some(0));
        assert!(fs::read(&page).expect("a report") == first, "{kind}: another run gives another report");
    }
    let results = fs::read_to_string(out.join("results.json")).expect("results");
    Some(Report { kind, page, results: serde_json::from_str(&results).expect("JSON") })
}

const KINDS: [(&str, &str); 10] = [
    ("default", "--runs 5"),
    ("one-point", "--runs 5 --loss 1% --pcap off"),
    (
        "page",
        "--page news --origins merge --loss 1% --runs 5 --transport tcp:connections=6 --transport tcp --transport sctp",
    ),
    (
        "messages",
        "--messages 50/s --size 300B --for 4s --loss 1% --runs 3 --transport tcp --transport sctp --transport sctp:num_ostreams=1",
    ),
    ("bulk", "--bulk 1MB --loss 1% --runs 4 --transport tcp --transport sctp"),
    (
        "failover",
        "--path rate=10mbit,rtt=40ms --path rate=5mbit,rtt=90ms --fail path=1,at=500ms --bulk 3MB --loss 0 --runs 2 \
         --transport sctp:paths=2 --transport sctp:paths=2,profile=modern",
    ),
    (
        "together",
        "--shared-link --page news --loss 1% --runs 3 --transport tcp:connections=6 --transport sctp",
    ),
    (
        "sweep",
        "--page news --loss 0,1%,3% --runs 3 --pcap off --transport tcp:connections=6 --transport sctp",
    ),
    (
        "map",
        "--objects 8x20kB --loss 0,1%,3% --rate 2mbit,20mbit --runs 3 --pcap off --transport tcp --transport sctp",
    ),
    (
        "emulated",
        "--world emulated --objects 4x5kB --rate 10mbit --rtt 20ms --loss 0 --runs 2 --transport tcp --transport sctp",
    ),
];

/// The most pages that the report of the default race has on paper.
const MAX_PAGES: usize = 12;

/// Whether the test runs as root, who can set up emulated links on any host.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn every_kind_of_report_is_whole_in_a_browser() {
    if !are_slow_tests_enabled() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let scratch = Scratch::new("reports");
    let kinds = KINDS.iter().filter(|(kind, _)| *kind != "emulated" || is_root());
    for report in kinds.filter_map(|(kind, words)| report(&scratch.0, kind, words)) {
        for look in Look::ALL {
            browser.open(&report.page, look);
            is_whole(&mut browser, &report, look);
        }
        if report.kind == "default" {
            let pages = browser.printed_pages();
            assert!((2..=MAX_PAGES).contains(&pages), "the default race has {pages} pages on paper");
        }
        browser.open(&report.page, Look::ALL[0]);
        says_what_results_say(&mut browser, &report);
        script_works(&mut browser, &report);
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{}: {complaints:?}", report.kind);
        if report.kind == "page" {
            course_is_drawn(&mut browser, &report);
            capture_is_drawn(&mut browser, &report);
        }
    }
}

/// Opens the pages of two studies that were run with few seeds. The pages must be complete on wide and narrow screens
/// and on paper, in light and dark colours. Every internal link must have a target, and every chart its marks.
#[test]
fn the_pages_of_studies_are_whole_in_a_browser() {
    if !are_slow_tests_enabled() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let scratch = Scratch::new("studies");
    let output = Command::new(PROGRAM)
        .current_dir(&scratch.0)
        .args([
            "study",
            "run",
            "rajamani-2002",
            "alternative-transport",
            "--runs",
            "2",
            "--quiet",
            "--out",
            "all",
        ])
        .output()
        .expect("it starts");
    // With so few seeds, some claims of a study may fail, so exit code 1 is also accepted.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let mut pages = 0;
    for entry in fs::read_dir(scratch.0.join("all")).expect("a directory") {
        let page = entry.expect("an entry").path().join("study.html");
        if !page.is_file() {
            continue;
        }
        pages += 1;
        let report = Report { kind: "study", page: page.clone(), results: Value::Null };
        for look in Look::ALL {
            browser.open(&page, look);
            is_whole(&mut browser, &report, look);
        }
        browser.open(&page, Look::ALL[0]);
        let found = browser.run(
            "const charts = [...document.querySelectorAll('figure[data-name^=change-]')];
             return {
               lost: [...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href'))
                 .filter((to) => !document.getElementById(to.slice(1))),
               charts: charts.length,
               bare: charts.filter((chart) => !chart.querySelector('.says').textContent.includes('x')).length,
               empty: charts.filter((chart) => chart.querySelectorAll('.wide circle').length
                 < chart.querySelector('pre.csv').textContent.trimEnd().split('\\n').length - 1).length,
             };",
        );
        let name = page.display();
        assert_eq!(found["lost"], Value::Array(Vec::new()), "{name}: links that lead nowhere");
        assert!(
            found["charts"].as_u64() > Some(0) && found["bare"] == 0 && found["empty"] == 0,
            "{name}: {found}"
        );
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
    assert_eq!(pages, 2, "a page a study");
}

/// Text from other people (names in a HAR file, a capture, a plan) must be escaped where a page quotes it. Even
/// unescaped text must not make the browser run a script, a handler or a style sheet, or load anything.
#[test]
fn a_page_runs_no_script_but_its_own() {
    let Some(mut browser) = Browser::start() else { return };
    let scratch = Scratch::new("policy");
    let race = |out: &str, arguments: &str| {
        let output = Command::new(PROGRAM)
            .current_dir(&scratch.0)
            .args(["race", "--quiet", "--out", out])
            .args(arguments.split_whitespace())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        scratch.0.join(out).join("report.html")
    };
    let people = "--population world:bytes=x0.1 --people 3 --runs 1 --transport tcp --transport sctp";
    for (kind, page) in [
        ("race", race("race", "--bulk 100kB --loss 0 --runs 2 --pcap off --transport tcp --transport sctp")),
        ("people", race("people", people)),
    ] {
        browser.open(&page, Look::ALL[0]);
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{kind}: {complaints:?}");
        let text = fs::read_to_string(&page).expect("a page");
        let strange = r#"<h2 id="strange">strange</h2><script>document.title = "ran";</script>
            <style>#strange { position: fixed; }</style>
            <img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onerror="document.title = 'ran'" onload="document.title = 'ran'">"#;
        let at = text.find("<h1>").expect("a heading");
        let changed = page.with_file_name("strange.html");
        fs::write(&changed, format!("{}{strange}{}", &text[..at], &text[at..])).expect("written");
        browser.open(&changed, Look::ALL[0]);
        let found = browser.run(
            "return { title: document.title, place: getComputedStyle(document.querySelector('#strange')).position };",
        );
        assert_ne!(found["title"], "ran", "{kind}: a script of the text runs");
        assert_eq!(found["place"], "static", "{kind}: a style sheet of the text is used");
        let refused = browser.complaints();
        let count = refused.iter().filter(|line| line.contains("Content Security Policy")).count();
        assert!(count >= 3, "{kind}: {refused:?}");
    }
}

/// Checks that the report draws the congestion windows, and each packet of the median run that was lost on its way to
/// the client.
fn course_is_drawn(browser: &mut Browser, report: &Report) {
    assert!(numbers(browser, "windows").len() > 5);
    let lost = numbers(browser, "queue").iter().filter(|row| !row[3].is_empty()).count();
    let first = &report.results["points"][0]["contestants"][0];
    let median =
        first["runs"].as_array().expect("runs").iter().find(|run| run["seed"] == first["median_seed"]);
    assert_eq!(Some(lost as u64), median.and_then(|run| run["packets"]["down"]["lost"].as_u64()));
}

/// Checks the page of `decode --html` for a capture. Every retransmission that `decode --json` counts must be drawn.
fn capture_is_drawn(browser: &mut Browser, report: &Report) {
    let directory = report.page.parent().expect("a directory");
    let files = fs::read_dir(directory).expect("files").flatten().map(|entry| entry.path());
    let capture = files.into_iter().find(|file| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("sctp.") && name.ends_with("server.pcapng.gz")
    });
    let capture = capture.expect("a capture of the server");
    let page = directory.join("decoded.html");
    let output = Command::new(PROGRAM)
        .args(["decode", "--json", "-", "--html"])
        .args([&page, &capture])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let decoded: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let repairs = &decoded["conversations"][0]["directions"][1]["repairs"];
    let counted: u64 = ["fast", "timeout", "other"].iter().filter_map(|cause| repairs[cause].as_u64()).sum();
    assert!(counted > 0, "nothing was lost: {repairs}");
    for look in Look::ALL {
        browser.open(&page, look);
        is_whole(browser, &Report { kind: "decoded", page: page.clone(), results: Value::Null }, look);
    }
    browser.open(&page, Look::ALL[0]);
    let drawn = browser.run(
        "return document.querySelector('figure[data-name=sequence] .wide svg').querySelectorAll('circle').length;",
    );
    assert_eq!(drawn.as_u64(), Some(counted));
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "decoded: {complaints:?}");
}

/// Checks a page that is displayed as `look` says: it must fit the width, label its figures, be readable, and cause no
/// complaint of the browser.
fn is_whole(browser: &mut Browser, report: &Report, look: Look) {
    let what = format!("{} {look:?}", report.kind);
    browser.keep(&format!("{}-{}", report.kind, look.name()));
    let found = browser.run(
        r"
        const seen = [...document.querySelectorAll('svg[role=img]')].filter((svg) => svg.getBoundingClientRect().width > 0);
        const style = getComputedStyle(document.body);
        const wide = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
            && !e.closest('.scroll, pre, [hidden], .tip, svg'));
        // Texts of one figure that cover each other.
        const covered = [];
        for (const svg of seen) {
            const boxes = [...svg.querySelectorAll('text')].map((text) => [text, text.getBoundingClientRect()]);
            boxes.forEach(([text, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (wide > 2 && high > 0.4 * Math.min(a.height, b.height)) covered.push([text.textContent, other.textContent]);
            }));
        }
        return {
            overflow: document.documentElement.scrollWidth - innerWidth,
            covered: covered.slice(0, 5),
            wide: wide.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)),
            headline: document.querySelector('h1').textContent,
            figures: seen.length,
            mute: seen.filter((svg) => !svg.getAttribute('aria-label')).length,
            scale: Math.min(...seen.map((svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)),
            nameless: [...document.querySelectorAll('button, [tabindex]')].filter((e) => !e.textContent.trim()).length,
            ink: style.color, paper: style.backgroundColor,
        };",
    );
    // The page must not need a horizontal scroll bar.
    assert!(found["overflow"].as_f64() <= Some(0.0), "{what}: sticks out sideways: {found}");
    assert_eq!(found["wide"], Value::Array(Vec::new()), "{what}");
    assert_eq!(found["covered"], Value::Array(Vec::new()), "{what}: texts that cover each other");
    assert!(
        found["figures"].as_u64() > Some(1) && found["mute"] == 0 && found["nameless"] == 0,
        "{what}: {found}"
    );
    assert!(found["headline"].as_str().is_some_and(|text| text.len() > 10), "{what}: {found}");
    // Figures must be drawn for the width of the page, because a figure that is scaled down too far is unreadable.
    // Printing may scale a page by 0.75, from 96 dots per inch (screen) to 72 (paper). The limit is lower, so a printed
    // page passes.
    assert!(found["scale"].as_f64() > Some(0.6), "{what}: {found}");
    let light = |key: &str| -> f64 {
        let text = found[key].as_str().expect("a colour");
        let parts = text.trim_matches(|c: char| !c.is_ascii_digit()).split(", ").take(3);
        parts.filter_map(|part| part.parse::<f64>().ok()).sum::<f64>() / 3.0
    };
    let (ink, paper) = (light("ink"), light("paper"));
    assert_eq!(ink > paper, look.is_dark(), "{what}: ink {ink} on paper {paper}");
}

/// Returns the CSV cells of the first figure that is named `figure`, row by row and without the header.
fn numbers(browser: &mut Browser, figure: &str) -> Vec<Vec<String>> {
    let script = format!(
        "return document.querySelector('figure[data-name=\"{figure}\"] pre.csv')?.textContent ?? '';"
    );
    let text = browser.run(&script);
    text.as_str().unwrap_or_default().lines().skip(1).map(split).collect()
}

/// Splits a row of CSV.
fn split(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().expect("one").push(c),
        }
    }
    cells
}

/// Returns a run's time in milliseconds from the results; for messages, the 95th percentile of their delays.
fn time_of(point: &Value, run: &Value) -> Option<f64> {
    if point["workload"]["messages"] != true {
        return run["page_ns"].as_u64().map(|ns| ns as f64 / 1e6);
    }
    let column = |name: &str| run["objects"][name].as_array().map(|column| column.iter().map(Value::as_u64));
    let times = column("delivered_ns")?.zip(column("issued_ns")?);
    let mut delays: Vec<u64> = times.filter_map(|(delivered, issued)| Some(delivered? - issued?)).collect();
    delays.sort_unstable();
    let rank = (delays.len() * 95).div_ceil(100).checked_sub(1)?;
    Some(delays[rank] as f64 / 1e6)
}

/// Checks that the diagrams, and the numbers beside them, agree with the results.
fn says_what_results_say(browser: &mut Browser, report: &Report) {
    let points = report.results["points"].as_array().expect("points");
    let point = &points[0];
    let mut expected = Vec::new();
    for contestant in point["contestants"].as_array().expect("contestants") {
        for run in contestant["runs"].as_array().expect("runs") {
            expected.push((
                contestant["name"].as_str().expect("a name"),
                run["seed"].to_string(),
                time_of(point, run),
            ));
        }
    }
    let rows = numbers(browser, "times");
    assert_eq!(rows.len(), expected.len(), "{}", report.kind);
    for (row, (name, seed, time)) in rows.iter().zip(&expected) {
        assert_eq!((&row[0], &row[1]), (&(*name).to_owned(), seed), "{}", report.kind);
        assert_eq!(row[2].parse::<f64>().ok(), *time, "{}: {row:?}", report.kind);
    }
    // Every dot must be at the position of its time, so all positions are the same linear function of the times.
    let dots = browser.run(
        "return [...document.querySelector('figure[data-name=times] .wide svg').querySelectorAll('circle')]
            .map((dot) => Number(dot.getAttribute('cx')));",
    );
    let mut dots: Vec<f64> = dots.as_array().expect("dots").iter().filter_map(Value::as_f64).collect();
    let mut times: Vec<f64> = expected.iter().filter_map(|(_, _, time)| *time).collect();
    dots.sort_by(f64::total_cmp);
    times.sort_by(f64::total_cmp);
    assert_eq!(dots.len(), times.len(), "{}", report.kind);
    let (last, end) = (times.len() - 1, times[times.len() - 1]);
    let scale = (dots[last] - dots[0]) / (end - times[0]).max(1e-9);
    for (dot, time) in dots.iter().zip(&times) {
        let x = dots[0] + scale * (time - times[0]);
        assert!((dot - x).abs() < 0.25, "{}: {time} ms lies at {dot}, not at {x}", report.kind);
    }
    // The bars must have the median of each contestant's times, to at least two significant digits.
    let metric = if point["workload"]["messages"] == true { "object_p95_ms" } else { "page_ms" };
    let text = browser.run("return document.body.textContent;");
    for contestant in point["contestants"].as_array().expect("contestants") {
        let median = contestant["summary"][metric]["median"].as_f64().expect("a median");
        let shown = match median {
            ms if ms >= 999.5 => format!("{:.1}\u{a0}s", ms / 1e3),
            ms => format!("{ms:.0}\u{a0}ms"),
        };
        assert!(text.as_str().is_some_and(|text| text.contains(&shown)), "{}: {shown}", report.kind);
    }
    // The first waterfall shows the best run of the first contestant, or its only run.
    let rows = numbers(browser, "waterfall");
    if !rows.is_empty() {
        let runs = point["contestants"][0]["runs"].as_array().expect("runs");
        let best = runs.iter().min_by_key(|run| run["page_ns"].as_u64().unwrap_or(u64::MAX)).expect("a run");
        let median =
            runs.iter().find(|run| run["seed"] == point["contestants"][0]["median_seed"]).expect("a run");
        let delivered = |run: &Value| -> Vec<String> {
            let delivered = run["objects"]["delivered_ns"].as_array().expect("objects").iter();
            delivered
                .map(|at| at.as_u64().map_or(String::new(), |ns| format!("{:.3}", ns as f64 / 1e6)))
                .collect()
        };
        let shown: Vec<String> = rows.iter().map(|row| row[5].clone()).collect();
        assert!(shown == delivered(best) || shown == delivered(median), "{}: {shown:?}", report.kind);
    }
    failover_is_that_of_the_results(browser, report.kind, point);
    shares_are_those_of_the_results(browser, report.kind, &point["sharing"]);
    let sent: u64 = numbers(browser, "wire")
        .iter()
        .filter(|row| row[1] == "to the client")
        .filter_map(|row| row[3].parse::<u64>().ok())
        .sum();
    let median = &point["contestants"][0]["median_seed"];
    let runs = point["contestants"][0]["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["seed"] == *median).expect("the median run");
    let paths = run["series"]["paths"].as_array().expect("paths").iter();
    let wire: u64 = paths
        .flat_map(|path| path["down"]["wire"].as_array().expect("buckets"))
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(sent, wire, "{}: bytes to the client", report.kind);
}

/// Checks the figure about a path failure against the results. For the median run of each contestant, it must show when
/// data arrived again and when service was restored.
fn failover_is_that_of_the_results(browser: &mut Browser, kind: &str, point: &Value) {
    let rows = numbers(browser, "failover");
    assert_eq!(rows.is_empty(), point["failure_ns"].is_null(), "{kind}");
    for contestant in
        point["contestants"].as_array().expect("contestants").iter().filter(|_| !rows.is_empty())
    {
        let mut runs = contestant["runs"].as_array().expect("runs").iter();
        let run = runs.find(|run| run["seed"] == contestant["median_seed"]).expect("the median run");
        for (what, key) in [("data again", "failover_ns"), ("service restored", "restored_ns")] {
            let shown = rows.iter().find(|row| row[1] == what && row[0] == contestant["name"]);
            let expected =
                run[key].as_u64().map_or("never".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6));
            assert_eq!(shown.map(|row| row[2].as_str()), Some(expected.as_str()), "{kind}: {what}");
        }
    }
}

/// Checks the figure of contestants that raced on a shared link. It must show the same shares of the link as the
/// results.
fn shares_are_those_of_the_results(browser: &mut Browser, kind: &str, sharing: &Value) {
    let rows = numbers(browser, "fairness");
    let sharing = sharing.as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!((rows.len(), kind == "together"), (sharing.len(), !sharing.is_empty()), "{kind}");
    for (row, run) in rows.iter().zip(sharing) {
        let shares = run["shares"].as_array().expect("shares").iter().chain([&run["jain"]]);
        let shown = shares.map(|share| format!("{:.4}", share.as_f64().expect("a number")));
        let expected: Vec<String> = std::iter::once(run["seed"].to_string()).chain(shown).collect();
        assert_eq!(*row, expected, "{kind}");
    }
}

/// Checks that terms have explanations, that runs can be stepped through, and that figures can be saved.
fn script_works(browser: &mut Browser, report: &Report) {
    let kind = report.kind;
    let tip = browser.run(
        "document.querySelector('dfn').focus(); const tip = document.getElementById('tip');
         return [tip.hidden, tip.textContent, document.querySelector('dfn').getAttribute('aria-describedby')];",
    );
    assert!(
        tip[0] == false && tip[1].as_str().is_some_and(|text| text.len() > 20) && tip[2] == "tip",
        "{kind}: {tip}"
    );
    let table = browser.run(
        "const details = document.querySelector('details.data'); details.open = true;
         details.dispatchEvent(new Event('toggle'));
         return [details.querySelectorAll('tr').length, details.querySelector('pre').textContent.trimEnd().split('\\n').length];",
    );
    assert!(table[0] == table[1] && table[0].as_u64() > Some(1), "{kind}: {table}");
    let saved = browser.run(
        "const saved = []; const made = URL.createObjectURL; URL.createObjectURL = (blob) => { saved.push(blob); return made(blob); };
         HTMLAnchorElement.prototype.click = () => {};
         for (const button of document.querySelectorAll('.save button')) button.click();
         URL.createObjectURL = made;
         return Promise.all(saved.map((blob) => blob.text())).then((texts) => {
           const svgs = texts.filter((text) => text.startsWith('<svg'));
           // A document that is parsed here gets the content policy of this page, which rejects other style sheets. So
           // the style sheet is removed.
           const plain = (text) => text.replace(/<style[^]*?<\\/style>/, '');
           const bad = svgs.filter((text) => new DOMParser().parseFromString(plain(text), 'image/svg+xml').querySelector('parsererror')
             || /var\\(--(?!\\w+\\))/.test(text) || !text.includes('viewBox'));
           return [texts.length, svgs.length, bad.length, texts.filter((text) => !text).length];
         });",
    );
    let [all, svgs, bad, empty] = [0, 1, 2, 3].map(|i| saved[i].as_u64().expect("a number"));
    assert!(svgs > 1 && all == 2 * svgs && bad == 0 && empty == 0, "{kind}: {saved}");
    let steps = browser.run(
        "const steps = document.querySelector('[data-steps]'); if (!steps || steps.children.length < 3) return null;
         const shown = () => [...steps.querySelectorAll('.step')].filter((step) => !step.hidden).map((step) => step.dataset.label);
         const before = shown(); const pressed = steps.querySelector('[aria-pressed=true]'); pressed.focus();
         pressed.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
         const after = shown(); document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
         return [before, after, shown(), document.activeElement.textContent];",
    );
    if kind == "page" {
        let expected = serde_json::json!([["median run"], ["worst run"], ["best run"], "best run"]);
        assert_eq!(steps, expected, "{kind}");
        let row = browser.run(
            "const svg = [...document.querySelectorAll('svg.rows')].find((svg) => svg.getBoundingClientRect().width > 0);
             svg.scrollIntoView(); const box = svg.getBoundingClientRect();
             svg.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 300, clientY: box.top + 22, bubbles: true }));
             return document.getElementById('tip').textContent;",
        );
        assert!(
            row.as_str()
                .is_some_and(|text| text.starts_with("object: /\n") && text.contains("delivered (ms): ")),
            "{row}"
        );
    }
}

#[test]
fn a_large_report_opens_at_once() {
    if !are_slow_tests_enabled() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let directory =
        Scratch(std::env::temp_dir().join(format!("anabranch-browser-large-{}", std::process::id())));
    fs::create_dir_all(&directory.0).expect("a directory");
    let flags = "--objects 300x2kB --loss 1% --runs 30 --pcap off --transport tcp --transport tcp:connections=6 --transport sctp \
                 --transport tcp:iw=2 --transport sctp:iw=4 --transport sctp:num_ostreams=10";
    let report = report(&directory.0, "large", flags).expect("it runs");
    browser.open(&report.page, Look::ALL[0]);
    let found = browser.run(
        "const [page] = performance.getEntriesByType('navigation');
         return [document.querySelectorAll('*').length, Math.round(page.loadEventEnd - page.startTime)];",
    );
    println!("30 seeds, 6 contestants, 300 objects: {} elements, open after {} ms", found[0], found[1]);
    // `found[1]` is the load time in milliseconds; its limit is high, because the machine may be busy. `found[0]` is
    // the number of elements.
    assert!(found[1].as_u64() < Some(20_000), "{found}");
    assert!(found[0].as_u64() < Some(20_000), "{found}");
    let bytes = fs::metadata(&report.page).expect("a page").len();
    assert!(bytes < 8_000_000, "{bytes} bytes");
}

/// `serve` must deliver a page of 72 objects to chromium over HTTP/2 and over HTTP/3.
#[test]
fn a_page_is_served_to_chromium_over_http_2_and_http_3() {
    if !are_slow_tests_enabled() {
        return;
    }
    let scratch = Scratch::new("served");
    served::a_page_comes_whole(PROGRAM, &scratch.0);
}
