//! Tests `get --page`. A site of 50 objects must arrive identically over TCP and over SCTP, and its waterfall and files
//! must be correct.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, noise, run};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

/// Returns every file below a directory by its relative path.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below").to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

/// Creates a site: a document with scripts, pictures, a frame, and a style sheet that imports a second style sheet. It
/// has 50 objects, and one more file that no object embeds.
fn site(scratch: &Scratch) {
    let mut html =
        "<!doctype html><link rel=stylesheet href=css/a.css><iframe src=frame/></iframe>".to_owned();
    for number in 0..40 {
        let name = format!("img/picture {number}.png");
        scratch.file(&format!("site/{name}"), noise(1000 + number * 997));
        html += &format!("<img src='img/picture%20{number}.png'>");
    }
    for number in 0..4 {
        scratch.file(&format!("site/js/{number}.js"), format!("// {}", "x".repeat(number * 5000)));
        html += &format!("<script src=/js/{number}.js></script>");
    }
    html += "<img src=https://elsewhere.example/x.png><img src=data:image/png;base64,AA><img src='img/picture 0.png#again'>";
    scratch.file("site/index.html", html);
    scratch.file("site/css/a.css", "@import 'b.css'; p { background: url(../img/back.png) }");
    scratch.file("site/css/b.css", "@font-face { src: url('/font.woff2') }");
    scratch.file("site/img/back.png", noise(150_000));
    scratch.file("site/font.woff2", noise(30_000));
    scratch.file("site/frame/index.html", "<p>a frame");
}

#[test]
fn a_page_of_50_objects_is_the_same_over_both_transports() {
    let scratch = Scratch::new("page");
    site(&scratch);
    let right = files(&scratch.0.join("site"));
    assert_eq!(right.len(), 50);
    scratch.file("site/not-embedded", "x");
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&[
        "serve",
        &root,
        "-q",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "sctp://127.0.0.1:0",
    ]);
    for (scheme, http, client) in [
        ("http", "1.1", "plain"),
        ("http+sctp", "1.1", "plain"),
        ("http", "1.1", "chromium"),
        ("http", "2", "chromium"),
        ("http+sctp", "1.1", "chromium"),
    ] {
        let name = format!("{scheme}-{http}-{client}");
        let (out, har) = (scratch.0.join(&name), scratch.0.join(format!("{name}.har")));
        let version = ["--http", http];
        let got = run(anabranch()
            .args(["get", "--page", server.url(scheme), "--client", client])
            .args(if scheme == "http" { &version[..] } else { &[] })
            .arg("-o")
            .arg(&out)
            .arg("--har")
            .arg(&har));
        let (drawn, stderr) = (String::from_utf8_lossy(&got.stdout), String::from_utf8_lossy(&got.stderr));
        assert_eq!(got.status.code(), Some(0), "{name}: {stderr}");
        assert!(
            stderr.contains("1 addresses of other hosts left out") && stderr.contains("elsewhere.example"),
            "{stderr}"
        );
        assert!(files(&out) == right, "{name}: {:?}", files(&out).keys());
        assert!(drawn.contains("50 objects, "), "{drawn}");
        assert_eq!(drawn.lines().filter(|line| line.contains("   200 ")).count(), 50, "{drawn}");
        let har: serde_json::Value = serde_json::from_slice(&fs::read(har).expect("a HAR")).expect("JSON");
        assert_eq!(har["log"]["entries"].as_array().map(Vec::len), Some(50));
        let read =
            run(anabranch().args(["race", "--dry-run", "--page"]).arg(scratch.0.join(format!("{name}.har"))));
        assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stderr));
    }
}

#[test]
fn missing_objects_fail_alone() {
    let scratch = Scratch::new("page-missing");
    scratch.file("site/index.html", "<img src=there.png><img src=gone.png>");
    scratch.file("site/there.png", "picture");
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&[
        "serve",
        &root,
        "-q",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "sctp://127.0.0.1:0",
    ]);
    for scheme in ["http", "http+sctp"] {
        let out = scratch.0.join(scheme);
        let got = run(anabranch().args(["get", "-q", "--page", server.url(scheme), "-o"]).arg(&out));
        let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(got.status.code(), Some(1), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("/gone.png: status 404"), "{stderr}");
        assert_eq!(files(&out).keys().collect::<Vec<_>>(), ["index.html", "there.png"]);
        // Without `-o`, objects must only be counted.
        let got = run(anabranch().args(["get", "--page", &format!("{}there.png", server.url(scheme))]));
        assert!(got.status.success() && String::from_utf8_lossy(&got.stdout).contains("1 objects, 7 B"));
    }
    let got = run(anabranch().args(["get", "-q", "--page", &format!("{}none", server.url("http"))]));
    assert_eq!(got.status.code(), Some(1));
}

#[test]
fn redirections_are_followed_within_bounds() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut request = Vec::new();
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|read| read == 1) {
                    request.push(byte[0]);
                    if !request.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
                    let to = match target.as_str() {
                        "/a" => "b/c?d=e".to_owned(),
                        "/b/c?d=e" => format!("http://{address}/end"),
                        "/round" => "/round".to_owned(),
                        "/elsewhere" => "ftp://example.com/".to_owned(),
                        _ => String::new(),
                    };
                    let answer = if to.is_empty() {
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nhere"
                            .to_owned()
                    } else {
                        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
                    };
                    let _ = stream.write_all(answer.as_bytes());
                    request.clear();
                }
            });
        }
    });
    for page in [&["--page"][..], &[]] {
        let get = |path: &str| {
            run(anabranch().args(["get", "-q"]).args(page).arg(format!("http://{address}{path}")))
        };
        assert_eq!(get("/a").status.code(), Some(0));
        for (path, why) in [("/round", "redirected more than 10 times"), ("/elsewhere", "ftp://example.com/")]
        {
            let got = get(path);
            let stderr = String::from_utf8_lossy(&got.stderr);
            assert!(
                got.status.code() == Some(1) && stderr.lines().count() == 1 && stderr.contains(why),
                "{stderr}"
            );
        }
    }
    let got = run(anabranch().args(["get", "-q", &format!("http://{address}/a")]));
    assert_eq!(got.stdout, b"here");
}

#[test]
fn a_full_disk_is_one_line() {
    let scratch = Scratch::new("page-full");
    scratch.file("site/index.html", noise(100_000));
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&[
        "serve",
        &root,
        "-q",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "sctp://127.0.0.1:0",
    ]);
    for scheme in ["http", "http+sctp"] {
        let got = run(anabranch().args(["get", "-q", server.url(scheme), "-o", "/dev/full"]));
        let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(got.status.code(), Some(1), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("No space left"), "{stderr}");
        // If `-o` names a directory, an object must be stored there under its own name.
        let got = run(anabranch().args(["get", "-q", server.url(scheme), "-o"]).arg(&scratch.0));
        assert!(got.status.success() && scratch.0.join("index.html").exists());
    }
}

/// A limit on the file size simulates a full disk. Every missing object must be named.
#[test]
fn on_a_full_disk_every_object_that_is_missing_is_named_beside_the_har() {
    let scratch = Scratch::new("page-full-har");
    scratch.file("site/index.html", "<img src=one.png><img src=two.png>");
    scratch.file("site/one.png", noise(200_000));
    scratch.file("site/two.png", noise(200_000));
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    let full = |limit: &str, har: &Path| {
        let script = format!(
            "trap '' XFSZ; ulimit -f {limit}; exec \"$0\" get -q --page \"$1\" -o \"$2\" --har \"$3\""
        );
        let mut shell = std::process::Command::new("sh");
        let shell = shell.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_anabranch")).arg(server.url("http"));
        let got = run(shell.arg(scratch.0.join("out")).arg(har));
        (got.status.code(), String::from_utf8_lossy(&got.stderr).into_owned())
    };
    let har = scratch.0.join("page.har");
    let (code, stderr) = full("1", &har);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(["/one.png", "/two.png", "page.har"].iter().all(|name| stderr.contains(name)), "{stderr}");
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    assert_eq!(files(&scratch.0.join("out")).keys().collect::<Vec<_>>(), ["index.html"]);
    assert!(!har.exists());
    // In this run, only the HAR cannot be written.
    let (code, stderr) = full("1000", Path::new("/dev/full"));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("/dev/full"), "{stderr}");
}

/// The site has a directory that is requested twice without its slash, and pictures whose long queries differ only at
/// the end. Each object must have its own file.
#[test]
fn each_object_has_a_file_of_its_own() {
    let scratch = Scratch::new("page-names");
    let long = "q".repeat(150);
    let html = format!("<iframe src=docs></iframe><img src='x.png?{long}1'><img src='x.png?{long}2'>");
    scratch.file("site/index.html", html);
    scratch.file("site/x.png", "picture");
    scratch.file("site/docs/index.html", "<link rel=stylesheet href=style.css>");
    scratch.file("site/docs/style.css", "p {}");
    let root = format!("{}/site", scratch.text());
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    let server = Running::start(&[&["serve", &root, "-q"], &listen[..]].concat());
    for scheme in ["http", "http+sctp"] {
        let out = scratch.0.join(scheme);
        let url = server.url(scheme);
        let got = run(anabranch().args(["get", "-q", "--page", url, "-o"]).arg(&out));
        assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
        let names = files(&out);
        assert_eq!(names.len(), 5, "{:?}", names.keys());
        assert!(names.contains_key("docs/index.html") && names.contains_key("docs/style.css"));
        let got = run(anabranch().args(["get", "-q", "--page", &format!("{url}docs"), "-o"]).arg(&out));
        assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(files(&out), names);
    }
}

/// A base URL on another host must change relative URLs. It must change neither absolute URLs of this host nor `data:`
/// URLs.
#[test]
fn the_base_of_another_host_moves_only_what_is_relative() {
    let scratch = Scratch::new("page-base");
    let root = format!("{}/site", scratch.text());
    scratch.file("site/here.png", "picture");
    let server = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    let url = server.url("http");
    let html = format!(
        "<base href='http://elsewhere.example/x/'><img src='{url}here.png'><img src='data:image/png;base64,AA'>\
         <img src=y.png><img src=/z.png>"
    );
    scratch.file("site/index.html", html);
    let out = scratch.0.join("out");
    let got = run(anabranch().args(["get", "-q", "--page", url, "-o"]).arg(&out));
    let stderr = String::from_utf8_lossy(&got.stderr);
    assert_eq!(got.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("2 addresses of other hosts left out: http://elsewhere.example/x/y.png, http://elsewhere.example/z.png"), "{stderr}");
    assert_eq!(files(&out).keys().collect::<Vec<_>>(), ["here.png", "index.html"]);
}

/// The HAR must list the connection, scheme and status of each object. Over TCP, it must distinguish the six
/// connections.
#[test]
fn the_har_tells_connections_schemes_and_statuses() {
    let scratch = Scratch::new("page-har");
    let mut html = "<img src=gone.png>".to_owned();
    for number in 0..12 {
        scratch.file(&format!("site/{number}.png"), noise(200_000));
        html += &format!("<img src={number}.png>");
    }
    scratch.file("site/index.html", html);
    let root = format!("{}/site", scratch.text());
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    let server = Running::start(&[&["serve", &root, "-q"], &listen[..]].concat());
    for scheme in ["http", "http+sctp"] {
        let got = run(anabranch().args(["get", "--page", server.url(scheme), "--har", "-"]));
        let drawn = String::from_utf8_lossy(&got.stderr);
        assert_eq!(got.status.code(), Some(1), "{drawn}");
        assert!(drawn.contains("14 objects, "), "{drawn}");
        let har: serde_json::Value = serde_json::from_slice(&got.stdout).expect("a HAR, and nothing else");
        let entries = har["log"]["entries"].as_array().expect("entries");
        let mut connections: Vec<&str> =
            entries.iter().map(|entry| entry["connection"].as_str().expect("a name")).collect();
        connections.sort_unstable();
        connections.dedup();
        let right = if scheme == "http" { 2..=6 } else { 2..=14 };
        assert!(right.contains(&connections.len()), "{scheme}: {connections:?}");
        assert_eq!(scheme == "http", drawn.contains("    conn "), "{drawn}");
        for entry in entries {
            let url = entry["request"]["url"].as_str().expect("a URL");
            assert!(url.starts_with(server.url(scheme)), "{url}");
            let status = if url.ends_with("gone.png") { 404 } else { 200 };
            assert_eq!(entry["response"]["status"], status, "{url}");
        }
    }
}

#[test]
fn outputs_that_cannot_be_meant_are_refused_before_anything_is_got() {
    let scratch = Scratch::new("page-outputs");
    scratch.file("site/index.html", "home");
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    let url = server.url("http");
    let get = |arguments: &[&str]| {
        let got = run(anabranch().current_dir(&scratch.0).args(["get", "-q", url]).args(arguments));
        let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
        assert!(got.status.success() || stderr.lines().count() == 1, "{arguments:?}: {stderr}");
        (got.status.code(), stderr)
    };
    for arguments in [
        &["--page", "-o", "-"][..],
        &["--page", "-o", ""],
        &["--page", "--har", ""],
        &["-o", ""],
        &["--timeout", "0s"],
        &[url, "-o", "new/", "-o", "other"],
    ] {
        assert_eq!(get(arguments).0, Some(2), "{arguments:?}");
    }
    for arguments in [
        ["serve", "--idle"],
        ["gateway", "--idle"],
        ["serve", "--header-timeout"],
        ["gateway", "--connect-timeout"],
    ] {
        let got = run(anabranch().args(arguments).arg("0s"));
        assert_eq!(got.status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(files(&scratch.0).len(), 1);
    assert_eq!(get(&["-o", "new/"]).0, Some(0));
    assert_eq!(files(&scratch.0.join("new")).keys().collect::<Vec<_>>(), ["index.html"]);
    // A host name that does not resolve must count as a failed transfer, with and without `--page`.
    for arguments in [&[][..], &["--page"]] {
        for scheme in ["http", "http+sctp"] {
            let got = run(anabranch()
                .args(["get", "-q"])
                .args(arguments)
                .arg(format!("{scheme}://nosuch.invalid/")));
            let stderr = String::from_utf8_lossy(&got.stderr);
            assert!(got.status.code() == Some(1) && stderr.lines().count() == 1, "{stderr}");
            assert_eq!(stderr.matches("nosuch.invalid").count(), 1, "{stderr}");
        }
    }
}

/// The page has objects with the names of configuration files, such as `.bashrc`. The client writes into a home
/// directory that already has such files and links, and must change none of them.
#[test]
fn what_a_server_names_is_neither_hidden_nor_written_through_links() {
    let scratch = Scratch::new("page-links");
    let html = "<img src=.bashrc><img src=.ssh/authorized_keys><img src=%2eprofile><img src=link.png>\
                <img src=out/x.png><img src=hidden/x.png><img src=in/x.png><img src=pipe><img src=dangling/x.png>\
                <img src=fine/x.png>";
    for name in [".bashrc", ".ssh/authorized_keys", ".profile"] {
        scratch.file(&format!("site/{name}"), "theirs");
    }
    for name in ["link.png", "out/x.png", "hidden/x.png", "in/x.png", "pipe", "dangling/x.png", "fine/x.png"]
    {
        scratch.file(&format!("site/{name}"), "theirs");
    }
    scratch.file("site/index.html", html);
    let root = format!("{}/site", scratch.text());
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    let server = Running::start(&[&["serve", &root, "-q", "--dotfiles"], &listen[..]].concat());
    for scheme in ["http", "http+sctp"] {
        let mine = |name: &str| format!("{scheme}-mine/{name}");
        let home = |name: &str| format!("{scheme}/{name}");
        let secret = scratch.file(&mine("secret"), "mine");
        for name in [".bashrc", ".ssh/authorized_keys", ".profile", ".hidden/x.png"] {
            scratch.file(&home(name), "mine");
        }
        let (out, outside) = (scratch.0.join(scheme), scratch.0.join(mine("")));
        fs::create_dir_all(out.join("there")).expect("a directory");
        for (to, link) in [
            (secret.as_path(), "link.png"),
            (&secret, "index.html"),
            (&outside, "out"),
            (Path::new(".hidden"), "hidden"),
            (Path::new("there"), "in"),
            (Path::new("nowhere"), "dangling"),
        ] {
            std::os::unix::fs::symlink(to, out.join(link)).expect("linked");
        }
        let status = std::process::Command::new("mkfifo").arg(out.join("pipe")).status().expect("mkfifo");
        assert!(status.success());
        // The pipe has a reader, so that a write to it would not block.
        let _reader = fs::File::options().read(true).write(true).open(out.join("pipe")).expect("a pipe");
        let got = run(anabranch().args(["get", "-q", "--page", server.url(scheme), "-o"]).arg(&out));
        let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(got.status.code(), Some(1), "{stderr}");
        for name in ["/: ", "/link.png: ", "/out/x.png: ", "/hidden/x.png: ", "/pipe: ", "/dangling/x.png: "]
        {
            assert_eq!(stderr.matches(name).count(), 1, "{name} in {stderr}");
        }
        assert_eq!(stderr.lines().count(), 6, "{stderr}");
        // Files that existed before (`mine`) must be unchanged. The other objects must be stored (`theirs`), with `_`
        // in place of a leading dot.
        assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 1);
        assert!(fs::symlink_metadata(out.join("link.png")).expect("there").is_symlink());
        let read = |name: &str| fs::read_to_string(scratch.0.join(name)).expect(name);
        assert_eq!(read(&mine("secret")), "mine");
        for name in [".bashrc", ".ssh/authorized_keys", ".profile", ".hidden/x.png"] {
            assert_eq!(read(&home(name)), "mine", "{name}");
        }
        for name in ["_bashrc", "_ssh/authorized_keys", "_profile", "there/x.png", "fine/x.png"] {
            assert_eq!(read(&home(name)), "theirs", "{name}");
        }
    }
}

/// Somebody who knows the process ID can predict the names of hidden files, and create links of these names. The client
/// must not write through such links.
#[test]
fn what_is_under_way_is_not_written_through_links() {
    let scratch = Scratch::new("page-partial");
    scratch.file("site/index.html", "theirs");
    let secret = scratch.file("secret", "mine");
    let root = format!("{}/site", scratch.text());
    let server = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    for page in ["--page", "-q"] {
        let script = "mkdir \"$3\" && for n in 0 1 2 3 probe; do ln -s \"$4\" \"$3/.anabranch.$$.$n.partial\"; done; \
                      exec \"$0\" get \"$1\" \"$2\" -o \"$3\"";
        let mut shell = std::process::Command::new("sh");
        let shell = shell.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_anabranch"));
        let out = scratch.0.join(format!("out{page}"));
        let got = run(shell.arg(page).arg(server.url("http")).arg(&out).arg(&secret));
        assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(fs::read_to_string(&secret).expect("there"), "mine");
        assert_eq!(fs::read_to_string(out.join("index.html")).expect("there"), "theirs");
    }
}
