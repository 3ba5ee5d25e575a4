//! Tests old servers, such as CGI programs, whose bodies have no length and end with the connection (RFC 9112 §6.3).
//! Also tests the progress that `get` shows, with and without a known length.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, has, noise, run, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Starts a server that answers one request on each connection with `answer`, and then closes the connection.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut byte) {
                        Ok(1) => request.push(byte[0]),
                        _ => return,
                    }
                }
                let text = String::from_utf8_lossy(&request).into_owned();
                answer(text.split(' ').nth(1).unwrap_or_default(), &mut stream);
            });
        }
    });
    address
}

#[test]
fn a_body_that_ends_with_its_connection_is_whole() {
    let scratch = Scratch::new("old");
    let picture = noise(300_000);
    scratch.file("picture", &picture);
    let address = serve(move |target, stream| {
        let html = b"<img src=picture><img src=broken>".as_slice();
        let (kind, body) = match target {
            "/" => ("text/html", html),
            _ => ("image/png", picture.as_slice()),
        };
        let head = match target {
            "/broken" => "HTTP/1.0 200 OK\r\nContent-Length: 300001\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n\r\n"),
        };
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    });
    let url = |target: &str| format!("http://{address}/{target}");
    let got = run(anabranch().args(["get", "-q", &url("picture"), &url("picture"), "-o"]).arg(&scratch.0));
    assert_eq!(got.status.code(), Some(2), "one file twice: {}", errors(&got));
    let got = run(anabranch().args(["get", "-q", &url("picture")]));
    assert_eq!((got.status.code(), errors(&got).as_str()), (Some(0), ""));
    let whole = fs::read(scratch.0.join("picture")).expect("a file");
    assert!(got.stdout == whole);
    // The object `broken` ends one byte before its Content-Length. `get --page` must report it as failed.
    let page = scratch.0.join("page");
    let got = run(anabranch().args(["get", "-q", "--page", &url(""), "-o"]).arg(&page));
    let stderr = errors(&got);
    assert!(
        got.status.code() == Some(1) && stderr.lines().count() == 1 && stderr.contains("/broken: "),
        "{stderr}"
    );
    assert!(fs::read(page.join("picture")).expect("a file") == whole);
    assert!(page.join("index.html").exists() && !page.join("broken").exists());
    let arguments = ["load", &url("picture"), "-c", "2", "--requests", "10", "-q", "--json", "-"];
    let got = run(anabranch().args(arguments));
    assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(json.pointer("/replies/total").or(json.pointer("/replies/n")), Some(&10.into()), "{json:#}");
    let got = run(anabranch().args(["load", &url("broken"), "-c", "1", "--requests", "3", "-q"]));
    assert_eq!(got.status.code(), Some(1), "{}", errors(&got));
}

/// A server with an object of 250 kB. It sends the last 150 kB only after a client has printed its progress. Only the
/// response for `/known` has a `Content-Length`.
struct Slow {
    address: SocketAddr,
    /// The number of requests that the server has received.
    requests: Arc<AtomicUsize>,
    /// Whether a client has shown its progress.
    progress_shown: Arc<AtomicBool>,
}

impl Slow {
    fn start() -> Self {
        let (requests, progress_shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, is_shown) = (requests.clone(), progress_shown.clone());
        let address = serve(move |target, stream| {
            let length = if target == "/known" { "Content-Length: 250000\r\n" } else { "" };
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}\r\n").as_bytes());
            if target == "/short" {
                let _ = stream.write_all(&[b'x'; 10_000]);
                return;
            }
            let _ = stream.write_all(&[b'x'; 100_000]);
            counted.fetch_add(1, Ordering::Relaxed);
            wait_until("a client says how far it is", || is_shown.load(Ordering::Relaxed));
            let _ = stream.write_all(&[b'x'; 150_000]);
        });
        Self { address, requests, progress_shown }
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}/{target}", self.address)
    }

    /// Runs a client, and returns its output on the pipe `shown` (standard output or standard error). Sets
    /// `progress_shown` when this output contains `expected`.
    fn run_client(
        &self,
        command: &mut Command,
        shown: impl Fn(&mut Child) -> Box<dyn Read>,
        expected: &str,
    ) -> String {
        self.progress_shown.store(false, Ordering::Relaxed);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let (mut shown, mut output, mut piece) = (shown(&mut child), Vec::new(), [0; 4096]);
        // Standard output of the program is also read, so that the program does not block.
        let drained = child
            .stdout
            .take()
            .map(|mut out| thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink())));
        while let Ok(read @ 1..) = shown.read(&mut piece) {
            output.extend_from_slice(&piece[..read]);
            self.progress_shown
                .fetch_or(String::from_utf8_lossy(&output).contains(expected), Ordering::Relaxed);
        }
        drained.map(|drained| drained.join().expect("read"));
        let status = child.wait().expect("ended");
        let output = String::from_utf8_lossy(&output).into_owned();
        assert_eq!(status.code(), Some(0), "{output}");
        output
    }

    /// Runs `get`, and returns its output on standard error.
    fn get(&self, arguments: &[&str], target: &str, expected: &str) -> String {
        let mut command = anabranch();
        command.arg("get").args(arguments).arg(self.url(target));
        self.run_client(&mut command, |child| Box::new(child.stderr.take().expect("piped")), expected)
    }

    /// Runs `client` while another client fetches an object. `client` is in the middle of its transfer when the other
    /// client shows its progress. Returns the output of `client`.
    fn alongside_another(&self, client: impl FnOnce() -> Output + Send) -> Output {
        self.progress_shown.store(false, Ordering::Relaxed);
        let before = self.requests.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let client = scope.spawn(client);
            wait_until("it has asked", || self.requests.load(Ordering::Relaxed) > before);
            self.get(&[], "known", " s left");
            client.join().expect("it ends")
        })
    }
}

#[test]
fn what_takes_its_time_says_how_far_it_is() {
    let slow = Slow::start();
    let known = slow.get(&[], "known", "\n");
    let lines: Vec<&str> = known.lines().collect();
    assert!((1..=3).contains(&lines.len()), "{known}");
    assert!(lines.iter().all(|line| line.contains(" of 250.0 kB") && !line.contains('[')), "{known}");
    assert!(lines[0].ends_with(" s left"), "{known}");
    let unknown = slow.get(&["--page"], "unknown", "\n");
    let lines: Vec<&str> = unknown.lines().collect();
    assert!((1..=3).contains(&lines.len()), "{unknown}");
    assert!(lines.iter().all(|line| line.contains(" kB, ") && line.ends_with(" kB/s")), "{unknown}");
    assert_eq!(slow.get(&[], "short", "\n"), "");
    let quiet = slow.alongside_another(|| run(anabranch().args(["get", "-q", &slow.url("known")])));
    assert_eq!((quiet.status.code(), errors(&quiet).as_str()), (Some(0), ""));
}

#[test]
fn on_a_terminal_there_is_a_bar() {
    if !has("script") {
        println!("not tested here: there is no script");
        return;
    }
    let (slow, scratch) = (Slow::start(), Scratch::new("bar"));
    let on_a_terminal = |target: &str, output: &str| {
        let line = format!("{} get {}{output}", env!("CARGO_BIN_EXE_anabranch"), slow.url(target));
        let mut command = Command::new("script");
        command.current_dir(&scratch.0).args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
        command
    };
    let shown = |target: &str, expected: &str| {
        let out = |child: &mut Child| Box::new(child.stdout.take().expect("piped")) as Box<dyn Read>;
        slow.run_client(&mut on_a_terminal(target, " -o mine"), out, expected)
    };
    let known = shown("known", " s left");
    assert!(
        known.contains("\r[#") && known.contains(" of 250.0 kB, ") && known.contains(" s left"),
        "{known}"
    );
    assert!(known.trim_end().ends_with("\r\x1b[K"), "it is cleared: {known:?}");
    let unknown = shown("unknown", " kB/s");
    assert!(
        unknown.contains(" kB/s") && !unknown.contains(" of ") && !unknown.contains("\r["),
        "{unknown:?}"
    );
    // If the object itself goes to the terminal, progress must not be shown.
    let own = slow.alongside_another(|| run(&mut on_a_terminal("known", "")));
    assert!(!String::from_utf8_lossy(&own.stdout).contains(" kB"));
}

#[test]
fn no_content_is_no_failure() {
    let address = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
    let got = run(anabranch().args(["get", "-q", &format!("http://{address}/")]));
    assert_eq!((got.status.code(), errors(&got).as_str(), &got.stdout[..]), (Some(0), "", &b""[..]));
}
