//! Tests that wrong input causes exit code 2, one line on standard error, and no file. The line must name the wrong
//! part and the accepted forms.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command lines, and the error line for each. Long lists of accepted names are cut after the second name, because the
/// tables from which they come grow.
const WRONG: &[(&str, &str)] = &[
    // An unknown transport, key, profile or value.
    (
        "race --transport quick",
        "--transport quick: unknown transport 'quick' (did you mean 'quic'?); accepted: http1, http2, ...",
    ),
    (
        "race --transport tpc",
        "--transport tpc: unknown transport 'tpc' (did you mean 'tcp'?); accepted: http1, http2, ...",
    ),
    (
        "race --transport tcp:conections=6",
        "--transport tcp:conections=6: unknown key 'conections' (did you mean 'connections'?); accepted: connections, \
         per-object, ...",
    ),
    (
        "race --transport sctp:connections",
        "--transport sctp:connections: 'connections' where key=value was expected",
    ),
    (
        "race --transport tcp:iw=many",
        "--transport tcp:iw=many: iw: 'many' is not a number of segments from 1 to 64, rfc5681 or \
         rfc6928",
    ),
    (
        "race --transport tcp:profile=reno",
        "--transport tcp:profile=reno: unknown profile 'reno'; accepted: reno-2002, linux-2.6.11, linux-2.6, \
         ns2, modern",
    ),
    (
        "race --transport sctp:profile=rfc1",
        "--transport sctp:profile=rfc1: unknown profile 'rfc1'; accepted: rfc9260, rfc2960, \
         kame-2002, lksctp-2.6.11, lksctp-2.6, ns2, modern",
    ),
    // Bounds of the RTO that contradict each other or the initial RTO.
    (
        "race --transport sctp:rto_min=3s,rto_max=1s",
        "--transport sctp:rto_min=3s,rto_max=1s: sctp:rto_min=3s is more than rto_max=1s",
    ),
    (
        "race --transport sctp:rto_min=61s",
        "--transport sctp:rto_min=61s: sctp:rto_min=61s is more than rto_max=60s",
    ),
    (
        "race --transport sctp:rto_max=10ms",
        "--transport sctp:rto_max=10ms: sctp:rto_min=200ms is more than rto_max=10ms",
    ),
    (
        "race --transport sctp:rto_initial=2min",
        "--transport sctp:rto_initial=2min: sctp:rto_initial=120s is more than rto_max=60s",
    ),
    (
        "race --transport tcp:rto_min=3s,rto_max=1s",
        "--transport tcp:rto_min=3s,rto_max=1s: tcp:rto_min=3s is more than rto_max=1s",
    ),
    ("serve --set rto_min=61s", "--set sctp:rto_min=61s is more than rto_max=60s"),
    // Too many streams for SCTP.
    (
        "race --transport sctp:num_ostreams=70000",
        "--transport sctp:num_ostreams=70000: num_ostreams=70000: out of range (outbound streams, \
         from 1 to 65535; with max_instreams=auto as many inbound ones)",
    ),
    (
        "race --transport sctp:num_ostreams=0",
        "--transport sctp:num_ostreams=0: num_ostreams=0: out of range (outbound streams, from 1 \
         to 65535; with max_instreams=auto as many inbound ones)",
    ),
    // Addresses that no server can have.
    (
        "get http://[::1",
        "http://[::1: an IPv6 address is written in brackets, as [::1]; write http://HOST[:PORT]/PATH, \
         https://HOST[:PORT]/PATH, http+sctp://HOST[:PORT]/PATH (SCTP in UDP), \
         http+sctp-ip://HOST[:PORT]/PATH (IP protocol 132), https+sctp://HOST[:PORT]/PATH (SCTP over DTLS) \
         or h3://HOST[:PORT]/PATH (HTTP/3)",
    ),
    (
        "get http+sctp://127.0.0.1:0/",
        "http+sctp://127.0.0.1:0/: port 0 is nobody's; write http://HOST[:PORT]/PATH, \
         https://HOST[:PORT]/PATH, http+sctp://HOST[:PORT]/PATH (SCTP in UDP), \
         http+sctp-ip://HOST[:PORT]/PATH (IP protocol 132), https+sctp://HOST[:PORT]/PATH (SCTP over DTLS) \
         or h3://HOST[:PORT]/PATH (HTTP/3)",
    ),
    // Two objects for the same file.
    (
        "get http://127.0.0.1:1/a/x http://127.0.0.1:1/b/x?y -o .",
        "http://127.0.0.1:1/a/x and http://127.0.0.1:1/b/x?y would be one file; write -o FILE once for each",
    ),
    (
        "get http://127.0.0.1:1/a http://127.0.0.1:1/b -o x -o x",
        "http://127.0.0.1:1/a and http://127.0.0.1:1/b would be one file; write -o FILE once for each",
    ),
    // Flags that a server does not use.
    (
        "bulk --listen tcp://127.0.0.1:0 --once --size 5MB -R --unordered --connections 3 --json x.json",
        "the argument '--listen <URL>' cannot be used with: --size <BYTES> --reverse --unordered \
         --connections <N> --json <FILE|-> (see --help)",
    ),
    ("decode nothing.pcapng", "nothing.pcapng: No such file or directory (os error 2)"),
    // Numbers of threads that are out of range.
    ("serve --threads 0", "invalid value '0' for '--threads <N>': 0 is not in 1..=64 (see --help)"),
    (
        "gateway --threads 65 --origin http://127.0.0.1/",
        "invalid value '65' for '--threads <N>': 65 is not in 1..=64 (see --help)",
    ),
    // A limit out of range is rejected, not replaced silently.
    ("gateway --origin http://127.0.0.1/ --max-header 100MB", "--max-header 100MB: 1KiB to 1MiB"),
    ("gateway --origin http://127.0.0.1/ --max-header 0B", "--max-header 0B: 1KiB to 1MiB"),
    ("serve --max-header 100MB", "--max-header 100MB: must be 1 B to 1 MiB"),
    // Values with missing or wrong units.
    (
        "race --rate 10",
        "--rate: '10': the unit is missing; write a rate such as 56kbit, 10mbit, 1gbit or 300bit \
         (bits per second)",
    ),
    (
        "race --rate 10mbps",
        "--rate: '10mbps': 'bps' means bits to some tools and bytes to others (did you mean 10mbit?); \
         write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)",
    ),
    (
        "race --rate 0mbit",
        "--rate: '0mbit': nothing moves at rate 0; write a rate such as 56kbit, 10mbit, 1gbit or \
         300bit (bits per second)",
    ),
    (
        "race --delay 40",
        "--delay: '40': the unit is missing; write a time such as 40ms, 1.08s, 250us, 10ns or \
         2min",
    ),
    ("race --queue 50", "--queue: '50': not a queue's limit; write 50p (packets), 100kB, 1bdp or unlimited"),
    (
        "race --objects 8x100",
        "--objects: objects '8x100': '8x100': '100': the unit is missing; write a size such as \
         300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB; write 8x100kB, \
         1kB,10kB,100kB or 1x20kB,7x100kB",
    ),
    (
        "race --arrivals 25",
        "--arrivals: '25': the unit is missing (did you mean 25/s?); write how often, such as 25/s, 0.5/s or 90/min",
    ),
    // Duplicate values, and shares above 100 %.
    ("race --loss 1%,0,1%", "--loss: '1%' stands twice among its values"),
    (
        "race --loss 101%",
        "--loss: '101%' is more than 100%; write a share such as 1%, 0.05% or 0 (from 0% to 100%)",
    ),
    (
        "race --duplicate 1.5",
        "--duplicate: '1.5': the unit is missing (did you mean 1.5%?); write a share such as 1%, 0.05% or 0 (from 0% \
         to 100%)",
    ),
    (
        "race --corrupt 200%",
        "--corrupt: '200%' is more than 100%; write a share such as 1%, 0.05% or 0 (from 0% to \
         100%)",
    ),
    // Contradictions.
    (
        "race --delay 40ms --rtt 80ms",
        "--delay, --rtt: delay is one way and rtt the round trip: give one of them",
    ),
    (
        "race --objects 1kB --bulk 1MB",
        "--objects: cannot be combined with --bulk: give one of page, objects and bulk",
    ),
    ("race --fail path=2,at=1s", "--fail: path 2: there is one path, numbered from 1"),
    (
        "race --bulk 1MB --message-size 64KiB --transport sctp:profile=kame-2002",
        "--transport sctp:profile=kame-2002: message-size 65536B: more than its send buffer, \
         sndbuf=32768B",
    ),
    // Negative values.
    (
        "race --loss -1%",
        "--loss: '-1%': a number was expected; write a share such as 1%, 0.05% or 0 (from 0% to 100%)",
    ),
    (
        "race --rate -3mbit",
        "--rate: '-3mbit': a number was expected; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)",
    ),
    ("race --runs -1", "--runs: '-1': write a number from 1 to 1000000"),
    ("race --seed -1", "--seed: '-1': write a number from 0 to 4294967295"),
    ("race --threads -1", "invalid value '-1' for '--threads <N>': -1 is not in 1..=4096 (see --help)"),
    (
        "load http://127.0.0.1/ --rate -1/s",
        "--rate '-1/s': not a number; write how often, such as 25/s, 0.5/s or 90/min",
    ),
    // Settings without an effect.
    ("race --timeout 0s", "--timeout: no time; write one such as 15s, or leave it out for none"),
    (
        "race --fail path=1,at=1s,for=0s",
        "--fail: for=0s: no time; write how long, such as for=5s, or leave it out: for good",
    ),
    ("race --bulk 0B", "--bulk: nothing to transfer; write a size such as 100MB"),
    ("race --arrivals-of connections", "--arrivals-of: goes with arrivals only; write --arrivals 25/s"),
    (
        "race --objects 1kB --origins keep",
        "--origins: keep goes with a page, which has them; --objects has none",
    ),
    (
        "race --bulk 1MB --think recorded",
        "--think: recorded goes with a page, which has them; --bulk has none",
    ),
    (
        "race --bulk 1MB --message-size 2kB --transport tcp",
        "--message-size: the size of writes to SCTP, and no contestant is SCTP",
    ),
    (
        "race --list pages --runs 3",
        "the argument '--list <WHAT>' cannot be used with one or more of the other specified arguments (see --help)",
    ),
    // Workloads that do not end in time.
    (
        "race --messages 1/s --for 700s",
        "--for: messages are sent for 700s, and a run ends after 600s; write a --deadline that is later, or fewer \
         messages",
    ),
    (
        "race --rate unlimited --rtt 0 --background tcp:flows=1",
        "--background: traffic that never ends needs a path that takes time; give the network a rate or a delay",
    ),
    // Pages that cannot be used.
    (
        "race --page nothing.har",
        "--page: 'nothing.har': no such file; write a HAR file, a directory, or a shipped page \
         (news, gallery, article, osterdahl-news, osterdahl-gallery)",
    ),
    (
        "race --page words.har",
        "--page: words.har: not a HAR, not even JSON: expected ident at line 1 column 2; correct it there, or save the HAR \
         again",
    ),
    (
        "race --page list.har",
        "--page: list.har: a list of neither HARs nor entries; a HAR is {\"log\": {\"entries\": [..]}}, which a browser saves \
         in the network tab of its developer tools",
    ),
    ("race --page empty.har", "--page: empty.har: log.entries: empty, so there is nothing to fetch"),
    ("race --page hollow", "--page: hollow: the directory is empty; an index.html is needed"),
    (
        "race --objects 0x1kB",
        "--objects: objects '0x1kB': '0x1kB': none is no object; write 8x100kB, 1kB,10kB,100kB or \
         1x20kB,7x100kB",
    ),
    // Plan files that cannot be used.
    (
        "race nothing.toml",
        "nothing.toml: no such file; write a plan (TOML), a HAR file, a directory with index.html, or a shipped page \
         (news, gallery, article, osterdahl-news, osterdahl-gallery)",
    ),
    (
        "race galery",
        "galery: no such file (did you mean 'gallery'?); write a plan (TOML), a HAR file, a directory with index.html, or \
         a shipped page (news, gallery, article, osterdahl-news, osterdahl-gallery)",
    ),
    ("race -n 10", "10: no such file; for 10 seeds write --runs 10 (-n is --dry-run)"),
    // The file's content, not its name, decides whether a positional argument is a plan or a page.
    ("race empty.har", "empty.har: log.entries: empty, so there is nothing to fetch"),
    (
        "race nil.har",
        "nil.har: the file is empty; write a plan (TOML), a HAR file, a directory with index.html, or a shipped page",
    ),
    (
        "race blank.toml",
        "blank.toml: the file is empty; write a plan (TOML), a HAR file, a directory with index.html, or a shipped page",
    ),
    (
        "race zeros.har",
        "zeros.har: the file begins with 16 MiB of NUL bytes; write a plan (TOML), a HAR file, a directory with \
         index.html, or a shipped page",
    ),
    ("race --page zeros.har", "--page: zeros.har: 3221225472 bytes, more than 536870912"),
    ("race --page nil.har", "--page: nil.har: the file is empty; a HAR was expected"),
    (
        "race cut.har",
        "cut.har: the file is cut: it ends within its JSON, at line 1 column 29; save or download it again",
    ),
    ("race x.zip", "x.zip: a zip archive: unpack it, and name the HAR file that is in it"),
    (
        "race sockets.har",
        "sockets.har: no entry can be fetched: 1 of 2 entries: left HTTP (WebSocket): [0] ws://a.example/; 1 of 2 entries: \
         never crossed a network (data:, blob:, file:, about: or an extension): [1] blob:https://a.example/1",
    ),
    (
        "race host.har",
        "host.har: log.entries[0].request.url: 'http://no host/': no request can name the host 'no host'; write a name in \
         ASCII (xn--... for others) or an IP address, or remove the entry",
    ),
    // Files that are not a HAR: JSON of another kind, a saved page, and JavaScript.
    (
        "race null.har",
        "null.har: null; a HAR is {\"log\": {\"entries\": [..]}}, which a browser saves in the network tab of its developer \
         tools",
    ),
    (
        "race nolog.har",
        "nolog.har: log: null; a HAR is {\"log\": {\"entries\": [..]}}, which a browser saves in the network tab of its \
         developer tools",
    ),
    (
        "race --page login.har",
        "--page: login.har: HTML, not a HAR: save the network log of the page as HAR with the browser's developer tools",
    ),
    (
        "race script.har",
        "script.har: the JavaScript does not contain JSON: key must be a string at line 1 column 2; a HAR has every key in \
         double quotes",
    ),
    // Traces with columns that cannot be used.
    (
        "race --trace back.csv",
        "--trace: trace 'back.csv': line 3: its time lies before that of the line above; times never decrease",
    ),
    (
        "link --trace three.txt -- true",
        "--trace: trace 'three.txt': line 1: 3 columns without a header; begin the file with one, such as \
         time_s,rate_mbps, and perhaps rtt_ms and loss",
    ),
    (
        "race --trace trip.csv --rtt 10ms",
        "--rtt, --trace: trace 'trip.csv': its column rtt says what rtt would: leave out one of them",
    ),
    (
        "race --trace trip.csv --loss 1%",
        "--loss, --trace: trace 'trip.csv': its column loss says what loss would: leave out one of them",
    ),
    ("race hollow", "hollow: the directory is empty; an index.html is needed"),
    (
        "race empty.har --bulk 1MB",
        "empty.har: cannot be combined with --bulk: give one of page, objects and bulk",
    ),
    ("race old.json", "old.json: a result of race: --compare old.json compares with it"),
    ("race x.pcapng", "x.pcapng: a capture: anabranch decode x.pcapng reads it"),
    // Units and flags that other programs accept, but `anabranch` does not.
    (
        "race --rate 10Mbps",
        "--rate: '10Mbps': 'bps' means bits to some tools and bytes to others (did you mean 10mbit?); write a rate such as \
         56kbit, 10mbit, 1gbit or 300bit (bits per second)",
    ),
    (
        "race --bulk 100Kb",
        "--bulk: '100Kb': unknown unit 'Kb' (did you mean 100kB?); write a size such as 300B, 100kB (= 100KB, 100,000 \
         bytes), 100KiB (102,400), 2MB, 1MiB or 1GB",
    ),
    (
        "link --preset 4g -- true",
        "--preset: '4g' is unknown (did you mean 'lte'?); write one of gprs, edge, 3g, lte, lte-recorded, 5g, dialup, dsl-poor, dsl, \
         vdsl, cable, fibre, wifi, wifi-weak, wifi-lossy, starlink, satellite, serial-14.4, serial-32, serial-64, serial-128",
    ),
    (
        "load http://127.0.0.1/ -n 100",
        "unexpected argument '100' found; -n is --dry-run, where a verb has it (see --help)",
    ),
    ("race words.toml", "words.toml: line 1: string values must be quoted, expected literal string"),
    ("race key.toml", "key.toml: unknown key 'los' (did you mean 'loss'?); accepted: rate, delay, ..."),
    (
        "race path.toml",
        "path.toml: [[path]] 1: unknown key 'los' (did you mean 'loss'?); accepted: rate, delay, \
         ...",
    ),
    (
        "race unit.toml",
        "unit.toml: delay: '40': the unit is missing; write a time such as 40ms, 1.08s, 250us, \
         10ns or 2min",
    ),
    // Wrong flags and values of the commands themselves.
    ("race --los 1%", "unexpected argument '--los' found; a similar argument exists: '--loss' (see --help)"),
    ("race --runs 0", "--runs: '0': write a number from 1 to 1000000"),
    ("race --threads 0", "invalid value '0' for '--threads <N>': 0 is not in 1..=4096 (see --help)"),
    (
        "race --pcap most",
        "invalid value 'most' for '--pcap <WHICH>' [possible values: median, ends, all, off] (see \
         --help)",
    ),
    ("race --compare words.har", "--compare: words.har: not JSON: expected ident at line 1 column 2"),
    ("race --json - --csv -", "--json and --csv cannot both go to standard output"),
    ("rcae", "unrecognized subcommand 'rcae'; a similar subcommand exists: 'race' (see --help)"),
    (
        "study run nothing",
        "no study 'nothing'; there are osterdahl-2005, sasikala-2008, ha-2005, rajamani-2002, alternative-transport, today, and folders with a study.toml",
    ),
];

/// Files that the command lines refer to.
const FILES: &[(&str, &str)] = &[
    ("words.har", "this is no JSON"),
    ("list.har", "[1, 2, 3]"),
    ("nil.har", ""),
    ("blank.toml", " \t\r\n\n"),
    ("cut.har", r#"{"log": {"entries": [{"reques"#),
    ("x.zip", "PK\x03\x04rest"),
    ("back.csv", "time_s,rate_mbps\n1,10\n0.5,10\n"),
    ("three.txt", "0 1000000 40\n"),
    ("trip.csv", "time_s,rate_mbps,rtt_ms,loss\n0,10,40,0\n1,10,40,0.01\n"),
    ("null.har", "null\n"),
    ("nolog.har", r#"{"log": null}"#),
    ("login.har", "<!doctype html><title>Log in</title>\n"),
    (
        "host.har",
        r#"{"log": {"entries": [{"request": {"url": "http://no host/"}, "response": {"status": 200, "bodySize": 9}}]}}"#,
    ),
    ("script.har", "onInputData({log: {entries: []}});"),
    (
        "sockets.har",
        r#"{"log": {"entries": [{"request": {"url": "ws://a.example/"}, "response": {"status": 101}},
            {"request": {"url": "blob:https://a.example/1"}, "response": {"status": 200}}]}}"#,
    ),
    ("empty.har", r#"{"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": []}}"#),
    (
        "negative.har",
        r#"{"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": [
            {"startedDateTime": "2026-01-01T00:00:00.000Z", "time": 1,
             "request": {"method": "GET", "url": "http://a.example/", "headersSize": -1, "bodySize": 0},
             "response": {"status": 200, "headersSize": -1, "bodySize": -700, "content": {"size": -5}}}]}}"#,
    ),
    ("old.json", r#"{"schema": "anabranch.race/1"}"#),
    ("x.pcapng", "\n\r\r\n"),
    ("words.toml", "rate = 10mbit\n"),
    ("key.toml", "rate = '10mbit'\nlos = '1%'\n"),
    ("path.toml", "[[path]]\nrate = '10mbit'\nlos = '1%'\n"),
    ("unit.toml", "rate = '10mbit'\ndelay = '40'\n"),
];

fn create_files(name: &str) -> PathBuf {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-input-{name}-{}", std::process::id()));
    fs::create_dir_all(directory.join("hollow")).expect("a temporary directory");
    for (name, text) in FILES {
        fs::write(directory.join(name), text).expect("a temporary file");
    }
    // A sparse file: 3 GiB of NUL bytes that take no room on the disk.
    let zeros = File::create(directory.join("zeros.har")).expect("a temporary file");
    zeros.set_len(3 << 30).expect("a sparse file");
    directory
}

/// Runs a command line. Returns its exit code, standard output and standard error.
fn run_line(directory: &Path, line: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(line.split_whitespace())
        .current_dir(directory)
        .output()
        .expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn listing(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn abridged(line: &str) -> String {
    let Some((head, list)) = line.split_once("accepted: ") else { return line.to_owned() };
    let names: Vec<&str> = list.split(", ").collect();
    if names.len() < 12 {
        line.to_owned()
    } else {
        format!("{head}accepted: {}, {}, ...", names[0], names[1])
    }
}

#[test]
fn every_wrong_input_gets_one_line_and_exit_2_and_writes_nothing() {
    let scratch = create_files("table");
    let before = listing(&scratch);
    let mut wrong = Vec::new();
    for (line, expected) in WRONG {
        // The result files of this command line, which must not appear.
        let outputs = match line.starts_with("race") && !line.contains("--json") {
            true => " --json out.json --csv out.csv --out results",
            false => "",
        };
        let (code, out, stderr) = run_line(&scratch, &format!("{line}{outputs}"));
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {stderr}");
        let stderr =
            stderr.strip_suffix('\n').unwrap_or_else(|| panic!("{line}: an unfinished line: {stderr:?}"));
        assert!(!stderr.contains('\n'), "{line}: more than one line: {stderr:?}");
        let stderr = stderr.strip_prefix("anabranch: ").unwrap_or_else(|| panic!("{line}: {stderr:?}"));
        if abridged(stderr) != *expected {
            wrong.push(format!("{line}\n    says     {}\n    expected {expected}", abridged(stderr)));
        }
        assert_eq!(listing(&scratch), before, "{line}: something was written");
    }
    fs::remove_dir_all(&scratch).expect("a temporary directory");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In a HAR, a negative size means "unknown". A page in which every entry has a negative size must be rejected as
/// empty.
#[test]
fn entries_with_sizes_below_zero_are_told_of() {
    let scratch = create_files("negative");
    let (code, _, stderr) = run_line(&scratch, "race --page negative.har --runs 1 --json out.json");
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("negative.har") && stderr.lines().count() == 1, "{stderr}");
    assert!(!listing(&scratch).contains(&"out.json".to_owned()));
    fs::remove_dir_all(&scratch).expect("a temporary directory");
}

/// HAR files as found in practice. A HAR that is compressed, in another text encoding, or inside JavaScript or an array
/// must give the results of the plain file. If responses or times are missing, standard error must say how the entries
/// are raced.
#[test]
fn a_har_is_raced_however_it_comes() {
    let scratch = create_files("forms");
    let entry = |path: &str, body: u64, rest: &str| {
        format!(
            r#"{{{rest}"time": 9, "request": {{"method": "POST", "url": "http://a.example/{path}", "headersSize": -1,
            "bodySize": {body}}}, "response": {{"status": 200, "headersSize": -1, "bodySize": -2, "statusText": "\ud83d",
            "content": {{"size": 5000, "mimeType": "text/html"}}}}}}"#
        )
    };
    let start = r#""startedDateTime": "2026-01-01T00:00:00.000Z", "#;
    let plain = format!(r#"{{"log": {{"entries": [{}, {}]}}}}"#, entry("", 0, start), entry("1", 0, start));
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(plain.as_bytes()).expect("packed");
    let files: [(&str, Vec<u8>); 6] = [
        ("plain.har", plain.clone().into_bytes()),
        ("page.har.gz", packed.finish().expect("packed")),
        ("named.har", format!("\u{feff}callback({plain});").into_bytes()),
        ("var.js", format!("var x = {plain};\n").into_bytes()),
        ("list.json", format!("[{plain}]").into_bytes()),
        ("utf16.har", utf16(&plain)),
    ];
    let mut results = Vec::new();
    for (name, bytes) in files {
        fs::write(scratch.join(name), bytes).expect("written");
        let (code, out, stderr) =
            run_line(&scratch, &format!("race {name} --runs 1 --loss 0 --cleartext -q --csv -"));
        assert_eq!(code, 0, "{name}: {stderr}");
        assert!(!stderr.contains("anabranch: "), "{name}: {stderr}");
        results.push(out);
    }
    assert!(results[0].lines().count() > 2 && results.iter().all(|one| *one == results[0]), "{results:?}");
    let k6 = format!(r#"{{"log": {{"entries": [{}, {}]}}}}"#, entry("", 0, ""), entry("1", 50_000, ""));
    fs::write(scratch.join("k6.har"), k6).expect("written");
    let bare = r#"{"log": {"entries": [{"request": {"method": "GET", "url": "http://a.example/"}}]}}"#;
    fs::write(scratch.join("bare.har"), bare).expect("written");
    let (code, _, stderr) = run_line(&scratch, "race bare.har --runs 1 --loss 0 --cleartext -q --csv -");
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("bare: 1 of 1 entries: no response is recorded: fetched with a body of 1 kB"),
        "{stderr}"
    );
    assert_eq!(stderr.matches("no response is recorded").count(), 1, "{stderr}");
    let (code, _, stderr) = run_line(&scratch, "race k6.har --runs 1 --loss 0 --cleartext -q --csv -");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with("anabranch: ")).collect();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        lines,
        [
            "anabranch: k6: 2 of 2 entries: no startedDateTime: raced in the order of the file",
            "anabranch: k6: 1 of 2 entries: a request body that is cut: head and body are sent as 32 KiB in the head \
             of a GET: [1] http://a.example/1"
        ]
    );
    // A warning that was printed before the race must not be repeated in the table.
    assert_eq!(stderr.matches("startedDateTime").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("not a GET").count(), 1, "{stderr}");
    let (code, json, _) = run_line(&scratch, "race k6.har --runs 1 --loss 0 --cleartext -q --json -");
    assert_eq!((code, json.matches("startedDateTime").count()), (0, 1));
    let (code, out, stderr) =
        run_line(&scratch, "race k6.har --runs 1 --loss 0 --rate 1mbit,2mbit --cleartext -q --out sweep");
    assert_eq!((code, (out + &stderr).matches("startedDateTime").count()), (0, 1));
    fs::remove_dir_all(&scratch).expect("a temporary directory");
}

/// A trace whose rate, RTT and loss never change must give the same results, to the nanosecond, as a link with this
/// rate, RTT and loss.
#[test]
fn a_trace_in_columns_is_a_link() {
    let scratch = create_files("columns");
    fs::write(scratch.join("rate.txt"), "0 10000000\n7 10000000\n").expect("written");
    let trip = "# of a train\ntime_ms;rtt_s;throughput (Mbit/s);loss_%\n100;0.08;10;0\n350;0.08;10;0\n";
    fs::write(scratch.join("trip.csv"), trip).expect("written");
    fs::write(scratch.join("lossy.csv"), "time_s,rate_mbps,rtt_ms,loss\n0,10,80,0.02\n").expect("written");
    let race = |network: &str| {
        let arguments = "--objects 6x40kB --transport tcp,sctp --queue 50p -q --csv -";
        let (code, out, stderr) = run_line(&scratch, &format!("race {network} {arguments}"));
        assert_eq!(code, 0, "{network}: {stderr}");
        out
    };
    let plain = race("--rate 10mbit --rtt 80ms --loss 0 --runs 1");
    assert!(plain.lines().count() > 12, "{plain}");
    assert_eq!(race("--trace rate.txt --rtt 80ms --loss 0 --runs 1"), plain);
    assert_eq!(race("--trace trip.csv --runs 1"), plain);
    // A trace whose loss column is constant must lose the same packets as a link with this loss rate.
    assert_eq!(race("--trace lossy.csv --runs 3"), race("--rate 10mbit --rtt 80ms --loss 2% --runs 3"));
    // A plan file and the command `link` may name a trace, too.
    fs::write(scratch.join("plan.toml"), "trace = 'trip.csv'\nobjects = '6x40kB'\n").expect("written");
    assert_eq!(race("plan.toml --runs 1"), plain);
    let (code, stderr, _) = run_line(&scratch, "link --trace trip.csv --dry-run -- true");
    assert_eq!(code, 0);
    assert!(
        stderr.contains("trace trip.csv") && stderr.contains("rtt of the trace, loss of the trace"),
        "{stderr}"
    );
    fs::remove_dir_all(&scratch).expect("a temporary directory");
}

/// A truncated capture must be shown up to its end, with a note that it is incomplete. A read error must be reported as
/// an error of this host, with exit code 3.
#[test]
fn captures_that_are_cut_or_cannot_be_read() {
    let scratch = create_files("captures");
    let mut cut = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 101, 0, 0, 0];
    cut.extend([0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0, 0x45, 0]);
    fs::write(scratch.join("cut.pcap"), cut).expect("a file");
    fs::write(scratch.join("noise.pcap"), "no capture at all, by any reading").expect("a file");
    let (code, out, stderr) = run_line(&scratch, "decode cut.pcap");
    assert_eq!(code, 1, "{stderr}");
    assert!(out.contains("ends in the middle of a packet"), "{out}");
    assert_eq!(
        stderr,
        "anabranch: cut.pcap: ends in the middle of a packet, at byte 24; what comes before is shown\n"
    );
    assert_eq!(run_line(&scratch, "decode noise.pcap").0, 2);
    assert_eq!(run_line(&scratch, "decode .").0, 2);
    if cfg!(target_os = "linux") {
        let (code, _, stderr) = run_line(&scratch, "decode /proc/self/mem");
        assert!(code == 3 && stderr.lines().count() == 1 && stderr.contains("/proc/self/mem: "), "{stderr}");
    }
    fs::remove_dir_all(&scratch).expect("a temporary directory");
}

/// A HAR with more entries than a page may have must be rejected before it takes more memory than the largest page.
#[test]
fn a_har_of_many_entries_is_refused_in_bounded_memory() {
    const ENTRIES: usize = 300_000;
    /// The limit of the program's address space in KiB. If the program kept all entries of the HAR, it would need more
    /// than 1 GB.
    const LIMIT: &str = "800000";
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("many-entries-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    let entry = r#"{"startedDateTime":"2024-05-01T10:00:00.000Z","time":50,"request":{"method":"GET","url":"http://a/","headersSize":410,"bodySize":0},"response":{"status":200,"headersSize":310,"bodySize":1000,"content":{"size":3000,"mimeType":"image/png"}}}"#;
    let text = format!("{{\"log\":{{\"entries\":[{entry}{}]}}}}", format!(",{entry}").repeat(ENTRIES - 1));
    fs::write(directory.join("many.har"), text).expect("written");
    let output = Command::new("sh")
        .current_dir(&directory)
        .args(["-c", "ulimit -v \"$1\" && exec \"$0\" race --page many.har"])
        .args([env!("CARGO_BIN_EXE_anabranch"), LIMIT])
        .output()
        .expect("sh");
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    let _ = fs::remove_dir_all(&directory);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(
        line.trim_end(),
        "anabranch: --page: many.har: log.entries: more than 100000 entries; split the recording into files of fewer"
    );
}
