//! Servers of old, as CGI still makes them: a body without a length ends with its connection (RFC 9112 §6.3). And what
//! `get` tells of how far it is, of such bodies and of others.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, has, noise, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Answers one request a connection, and closes it.
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
    let place = Scratch::new("old");
    let picture = noise(300_000);
    place.file("picture", &picture);
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
    let got = run(anabranch().args(["get", "-q", &url("picture"), &url("picture"), "-o"]).arg(&place.0));
    assert_eq!(got.status.code(), Some(2), "one file twice: {}", errors(&got));
    let got = run(anabranch().args(["get", "-q", &url("picture")]));
    assert_eq!((got.status.code(), errors(&got).as_str()), (Some(0), ""));
    let whole = fs::read(place.0.join("picture")).expect("a file");
    assert!(got.stdout == whole);
    // What has a length has it here, too.
    let page = place.0.join("page");
    let got = run(anabranch().args(["get", "-q", "--page", &url(""), "-o"]).arg(&page));
    let told = errors(&got);
    assert!(
        got.status.code() == Some(1) && told.lines().count() == 1 && told.contains("/broken: "),
        "{told}"
    );
    assert!(fs::read(page.join("picture")).expect("a file") == whole);
    assert!(page.join("index.html").exists() && !page.join("broken").exists());
    let words = ["load", &url("picture"), "-c", "2", "--requests", "10", "-q", "--json", "-"];
    let got = run(anabranch().args(words));
    assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(json.pointer("/replies/total").or(json.pointer("/replies/n")), Some(&10.into()), "{json:#}");
    let got = run(anabranch().args(["load", &url("broken"), "-c", "1", "--requests", "3", "-q"]));
    assert_eq!(got.status.code(), Some(1), "{}", errors(&got));
}

/// 25 pieces of 10 kB in two and a half seconds; `/known` says how many that are.
fn slow() -> SocketAddr {
    serve(|target, stream| {
        let length = if target == "/known" { "Content-Length: 250000\r\n" } else { "" };
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}\r\n").as_bytes());
        let pieces = if target == "/short" { 1 } else { 25 };
        for _ in 0..pieces {
            let _ = stream.write_all(&[b'x'; 10_000]);
            #[expect(clippy::disallowed_methods, reason = "programs run in the user's own time")]
            thread::sleep(Duration::from_millis(100));
        }
    })
}

#[test]
fn what_takes_its_time_says_how_far_it_is() {
    let address = slow();
    let get = |words: &[&str], target: &str| {
        let got = run(anabranch().arg("get").args(words).arg(format!("http://{address}/{target}")));
        assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
        errors(&got)
    };
    let known = get(&[], "known");
    let told: Vec<&str> = known.lines().collect();
    assert!((1..=3).contains(&told.len()), "{known}");
    assert!(told.iter().all(|line| line.contains(" of 250.0 kB") && !line.contains('[')), "{known}");
    assert!(told[0].ends_with(" s left"), "{known}");
    let unknown = get(&["--page"], "unknown");
    let told: Vec<&str> = unknown.lines().collect();
    assert!((1..=3).contains(&told.len()), "{unknown}");
    assert!(told.iter().all(|line| line.contains(" kB, ") && line.ends_with(" kB/s")), "{unknown}");
    assert_eq!(get(&[], "short"), "");
    assert_eq!(get(&["-q"], "known"), "");
}

#[test]
fn on_a_terminal_there_is_a_bar() {
    if !has("script") {
        println!("not tested here: there is no script");
        return;
    }
    let (address, place) = (slow(), Scratch::new("bar"));
    let shown = |target: &str, output: &str| {
        let program = env!("CARGO_BIN_EXE_anabranch");
        let line = format!("{program} get http://{address}/{target}{output}");
        let mut command = Command::new("script");
        command.current_dir(&place.0).args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null());
        let got = run(&mut command);
        assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
        String::from_utf8_lossy(&got.stdout).into_owned()
    };
    let known = shown("known", " -o mine");
    assert!(
        known.contains("\r[#") && known.contains(" of 250.0 kB, ") && known.contains(" s left"),
        "{known}"
    );
    assert!(known.trim_end().ends_with("\r\x1b[K"), "it is cleared: {known:?}");
    let unknown = shown("unknown", " -o mine");
    assert!(
        unknown.contains(" kB/s") && !unknown.contains(" of ") && !unknown.contains("\r["),
        "{unknown:?}"
    );
    // Where the object itself is shown there is no room for it.
    assert!(!shown("known", "").contains(" kB"));
}

#[test]
fn no_content_is_no_failure() {
    let address = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
    let got = run(anabranch().args(["get", "-q", &format!("http://{address}/")]));
    assert_eq!((got.status.code(), errors(&got).as_str(), &got.stdout[..]), (Some(0), "", &b""[..]));
}
