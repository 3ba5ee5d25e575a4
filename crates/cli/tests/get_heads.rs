//! Tests the flags of `get` that concern heads, over each version of HTTP: `-I`, `-H` and `-v`.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, run};

#[test]
fn heads_are_requested_and_printed_over_every_version_of_http() {
    let scratch = Scratch::new("get-heads");
    scratch.file("a.txt", "twelve bytes");
    let listen = ["tcp://127.0.0.1:0", "sctp://127.0.0.1:0", "https://127.0.0.1:0", "h3://127.0.0.1:0"];
    let listen = listen.iter().flat_map(|url| ["--listen", url]);
    let server =
        Running::start(&["serve", scratch.text(), "-q"].into_iter().chain(listen).collect::<Vec<_>>());
    for (scheme, version) in
        [("http", "HTTP/1.1"), ("http+sctp", "HTTP/1.1"), ("https", "HTTP/2"), ("h3", "HTTP/3")]
    {
        let get = |name: &str, flags: &[&str]| {
            let url = format!("{}{name}", server.url(scheme));
            let encrypted: &[&str] = if version == "HTTP/1.1" { &[] } else { &["--insecure"] };
            let got = run(anabranch().args(["get", "-q", &url]).args(encrypted).args(flags));
            (got.status.code(), String::from_utf8_lossy(&got.stdout).into_owned(), errors(&got))
        };
        let (code, out, err) = get("a.txt", &["-I"]);
        assert!(code == Some(0) && out.starts_with(&format!("{version} 200 ")), "{scheme}: {out}{err}");
        let out = out.to_lowercase();
        assert!(out.contains("\r\ncontent-length: 12\r\n") && out.ends_with("\r\n\r\n"), "{scheme}: {out}");
        let (code, out, err) = get("none", &["-I"]);
        assert_eq!(
            (code, out.starts_with(&format!("{version} 404 "))),
            (Some(1), true),
            "{scheme}: {out}{err}"
        );
        let (code, out, err) = get("a.txt", &["-v", "-H", "X-One: 1", "-H", "user-agent: mine"]);
        assert_eq!((code, out.as_str()), (Some(0), "twelve bytes"), "{scheme}: {err}");
        let heads = err.to_lowercase();
        let line = format!("> get /a.txt {}\n", version.to_lowercase());
        assert!(heads.contains(&line) && heads.contains("\n> x-one: 1\n"), "{scheme}: {err}");
        assert!(
            heads.contains("\n> user-agent: mine\n") && !heads.contains("> user-agent: anabranch"),
            "{err}"
        );
        assert!(heads.contains(&format!("\n< {} 200", version.to_lowercase())), "{scheme}: {err}");
        let (code, _, err) = get("a.txt", &["-H", "no colon"]);
        let last = err.lines().last().unwrap_or_default();
        let line = "anabranch: --header 'no colon': no colon; write NAME: VALUE";
        assert_eq!((code, last), (Some(2), line), "{scheme}: {err}");
    }
    assert_eq!(server.end(), 0);
}
