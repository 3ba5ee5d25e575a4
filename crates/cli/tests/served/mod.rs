//! Debian's chromium as a client of `serve`. It loads a page of 72 objects over HTTP/2 and over HTTP/3, and computes
//! the digest of each body. Its net log must show the version of HTTP.

use crate::driver::is_required;
use crate::wait::comes_true;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The number of objects besides the document.
const OBJECTS: u32 = 71;

/// A document that requests all objects at once, and replaces its own text by their digests.
const DOCUMENT: &str = "<!doctype html><meta charset=utf-8><title>72</title><body><script>
const hex = bytes => Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, '0')).join('');
const digest = async number => {
  const answer = await fetch('o/' + number + '.bin');
  return hex(await crypto.subtle.digest('SHA-256', await answer.arrayBuffer()));
};
Promise.all(Array.from({length: 71}, (_, number) => digest(number)))
  .then(all => { document.body.textContent = 'digests ' + all.join(' ') + ' end'; });
</script>";

fn body(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let length = 500 + u64::from(number) * 997 % 40_000;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A server, and its ports for TLS and for HTTP/3.
struct Server {
    child: Child,
    ports: [u16; 2],
}

impl Server {
    fn start(program: &str, directory: &Path) -> Self {
        let mut child = Command::new(program)
            .env("XDG_STATE_HOME", directory)
            .args(["serve", directory.to_str().expect("UTF-8"), "--quiet", "--listen", "https://127.0.0.1:0"])
            .args(["--listen", "h3://127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("a line");
        std::thread::spawn(move || stderr.lines().for_each(drop));
        let port = |scheme: &str| {
            let url = line.split(' ').find(|word| word.starts_with(scheme)).expect("a URL");
            url.trim_end()
                .trim_end_matches('/')
                .rsplit(':')
                .next()
                .and_then(|port| port.parse().ok())
                .expect("a port")
        };
        let ports = [port("https://"), port("h3://")];
        Self { child, ports }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the SHA-256 of a certificate's public key, in the form that browsers expect.
fn key_hash(certificate: &Path) -> Option<String> {
    let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary \
                  | openssl base64";
    let output = Command::new("sh").args(["-c", script]).arg(certificate).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|hash| hash.len() == 44)
}

/// Loads `url` in chromium. Returns the final document and chromium's log of network events; `None` if chromium is not
/// installed.
fn load(directory: &Path, url: &str, arguments: &[String]) -> Option<(String, Value)> {
    let (profile, log) = (directory.join("profile"), directory.join("net.json"));
    let _ = fs::remove_dir_all(&profile);
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--virtual-time-budget=60000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()))
        .args(arguments)
        .args(["--dump-dom", url])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(!is_required(), "chromium: {error}; apt-get install chromium");
            println!("chromium: {error}; skipped: apt-get install chromium");
            return None;
        }
    };
    let mut out = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut out, &mut text).map(|_| text)
    });
    if !comes_true(|| child.try_wait().expect("a child").is_some()) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("chromium has not ended");
    }
    let text = reader.join().expect("read").expect("text");
    let log = fs::read_to_string(&log).expect("a net log");
    Some((text, serde_json::from_str(&log).expect("JSON")))
}

/// Returns the number of requests sent over HTTP/2 and over HTTP/3, according to the net log.
fn requests(log: &Value) -> [usize; 2] {
    let kinds = &log["constants"]["logEventTypes"];
    let events = log["events"].as_array().expect("events");
    let count = |name: &str| {
        let kind = kinds[name].as_u64();
        events.iter().filter(|event| kind.is_some() && event["type"].as_u64() == kind).count()
    };
    [count("HTTP2_SESSION_SEND_HEADERS"), count("HTTP3_HEADERS_SENT")]
}

/// Loads the page over HTTP/2 and over HTTP/3 in a browser, and checks that all objects arrive complete.
pub fn a_page_comes_whole(program: &str, directory: &Path) {
    fs::create_dir_all(directory.join("o")).expect("a directory");
    fs::write(directory.join("index.html"), DOCUMENT).expect("a file");
    let mut digests = Vec::new();
    for number in 0..OBJECTS {
        let bytes = body(number);
        fs::write(directory.join(format!("o/{number}.bin")), &bytes).expect("a file");
        digests.push(hex(&Sha256::digest(&bytes)));
    }
    let expected = format!("digests {} end", digests.join(" "));
    let server = Server::start(program, directory);
    let hash =
        key_hash(&directory.join("anabranch/self-signed.pem")).expect("openssl (apt-get install openssl)");
    let trust = format!("--ignore-certificate-errors-spki-list={hash}");
    // Maps `localhost` to its IPv4 address, because nothing listens on its IPv6 address.
    let resolver_rules = "--host-resolver-rules=MAP localhost 127.0.0.1".to_owned();
    for (version, port) in server.ports.into_iter().enumerate() {
        // Responses over TLS advertise HTTP/3, which the browser must not use in the run over HTTP/2.
        let flags = [format!("--origin-to-force-quic-on=localhost:{port}"), "--disable-quic".to_owned()];
        let arguments = [trust.clone(), resolver_rules.clone(), flags[usize::from(version == 0)].clone()];
        let Some((text, log)) = load(directory, &format!("https://localhost:{port}/"), &arguments) else {
            return;
        };
        let shown = || text.chars().take(600).collect::<String>();
        assert!(text.contains(&expected), "{arguments:?}: another document: {}", shown());
        let sent = requests(&log);
        assert!(sent[version] > OBJECTS as usize && sent[1 - version] == 0, "{arguments:?}: {sent:?}");
    }
}
