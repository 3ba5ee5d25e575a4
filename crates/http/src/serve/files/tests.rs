//! What a directory answers, asked in every way.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// A directory with a secret beside it, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> (Self, FileSite) {
        let path = std::env::temp_dir().join(format!("anabranch-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let root = path.join("root");
        fs::create_dir_all(root.join("sub/empty")).expect("directories");
        for (file, text) in [
            ("secret.txt", "secret"),
            ("root/index.html", "<p>home"),
            ("root/sub/index.html", "<p>sub"),
            ("root/sub/a b.css", "p{}"),
            ("root/ten", "0123456789"),
            ("root/nothing", ""),
        ] {
            fs::write(path.join(file), text).expect("a file");
        }
        symlink("../secret.txt", root.join("out")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        symlink("/etc", root.join("etc")).expect("a link");
        symlink("ten", root.join("within")).expect("a link");
        symlink("loop", root.join("loop")).expect("a link");
        let site = FileSite::new(&root).expect("a site");
        (Self(path), site)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ask_with(site: &FileSite, method: &Method, target: &str, fields: &[(HeaderName, &str)]) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name.clone(), HeaderValue::from_str(value).expect("a value"));
    }
    site.answer(&Asked { method, target, fields: &map })
}

fn ask(site: &FileSite, target: &str) -> (u16, Vec<u8>, String) {
    let answer = ask_with(site, &Method::GET, target, &[]);
    (answer.status.as_u16(), body(&answer), answer.resource.content_type)
}

fn body(answer: &Answer) -> Vec<u8> {
    let content = &answer.resource.content;
    let mut body = Vec::new();
    while (body.len() as u64) < content.length() {
        body.extend_from_slice(&content.bytes(body.len() as u64).expect("bytes"));
    }
    body
}

#[test]
fn files_have_their_types_and_directories_their_index() {
    let (_scratch, site) = Scratch::new("types");
    assert_eq!(ask(&site, "/"), (200, b"<p>home".to_vec(), "text/html".to_owned()));
    assert_eq!(ask(&site, "/index.html?x=1").0, 200);
    assert_eq!(ask(&site, "/sub/"), (200, b"<p>sub".to_vec(), "text/html".to_owned()));
    assert_eq!(ask(&site, "/sub/a%20b.css"), (200, b"p{}".to_vec(), "text/css".to_owned()));
    assert_eq!(ask(&site, "//sub//.//a%20b.css").0, 200);
    assert_eq!(ask(&site, "/within").1, b"0123456789");
    assert_eq!(ask(&site, "/nothing"), (200, Vec::new(), "application/octet-stream".to_owned()));
    let moved = ask_with(&site, &Method::GET, "//sub?q", &[]);
    assert_eq!((moved.status.as_u16(), &moved.fields[LOCATION]), (301, &HeaderValue::from_static("/sub/?q")));
    for missing in ["/none", "/sub/empty/", "/ten/", "/ten/x", "/loop", "/index.html/"] {
        assert_eq!(ask(&site, missing).0, 404, "{missing}");
    }
    assert_eq!(ask_with(&site, &Method::POST, "/", &[]).status, 405);
}

#[test]
fn nothing_outside_is_ever_served() {
    let (_scratch, site) = Scratch::new("traversal");
    let ups =
        ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "up", "sub/../..", "..%5c.."];
    for up in ups {
        for slash in ["/", "%2f", "%2F", "\\", "%5c", "%252f", "%c0%af"] {
            for target in
                [format!("/{up}{slash}secret.txt"), format!("/sub/{up}{slash}{up}{slash}secret.txt")]
            {
                assert_eq!(ask(&site, &target).0, 404, "{target}");
            }
        }
    }
    let others = [
        "/out",
        "/up/",
        "/up",
        "/etc/passwd",
        "/etc/",
        "/etc",
        "secret.txt",
        "*",
        "",
        "/%",
        "/%2",
        "/%zz",
        "/ten%00.txt",
        "http://x/ten",
        "/../root/ten",
        "/....//secret.txt",
        "/sub/%2e%2e/ten",
    ];
    for target in others {
        assert_eq!(ask(&site, target).0, 404, "{target}");
    }
}

/// RFC 9110 §14: one range; anything else is answered with the whole.
#[test]
fn parts_are_what_was_asked_for() {
    let (_scratch, site) = Scratch::new("parts");
    let get = |range: &str| {
        let answer = ask_with(&site, &Method::GET, "/ten", &[(RANGE, range)]);
        let said = answer.fields.get(CONTENT_RANGE).map(|value| value.to_str().expect("text").to_owned());
        (answer.status.as_u16(), body(&answer), said)
    };
    let part = |text: &str, said: &str| (206, text.as_bytes().to_vec(), Some(said.to_owned()));
    assert_eq!(get("bytes=0-0"), part("0", "bytes 0-0/10"));
    assert_eq!(get("bytes=3-"), part("3456789", "bytes 3-9/10"));
    assert_eq!(get("bytes=-4"), part("6789", "bytes 6-9/10"));
    assert_eq!(get("bytes=-99"), part("0123456789", "bytes 0-9/10"));
    assert_eq!(get("Bytes=2-99999999999999999999999"), part("23456789", "bytes 2-9/10"));
    for beyond in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999999-"] {
        let (status, _, said) = get(beyond);
        assert_eq!((status, said.as_deref()), (416, Some("bytes */10")), "{beyond}");
    }
    for whole in ["bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes=x-1", "bytes=-", "bytes", "bytes=+1-2"] {
        assert_eq!(get(whole), (200, b"0123456789".to_vec(), None), "{whole}");
    }
    let head = ask_with(&site, &Method::HEAD, "/ten", &[(RANGE, "bytes=1-2")]);
    assert_eq!((head.status.as_u16(), head.resource.content.length()), (200, 10));
    let empty = ask_with(&site, &Method::GET, "/nothing", &[(RANGE, "bytes=0-")]);
    assert_eq!(empty.status, 416);
}

/// RFC 9110 §13.2.2, step by step.
#[test]
fn conditions_are_obeyed_in_their_order() {
    let (_scratch, site) = Scratch::new("conditions");
    let first = ask_with(&site, &Method::GET, "/ten", &[]);
    let tag = first.fields[ETAG].to_str().expect("text").to_owned();
    let modified = first.fields[LAST_MODIFIED].to_str().expect("text").to_owned();
    let weak = format!("W/{tag}");
    let (early, late) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    let status =
        |fields: &[(HeaderName, &str)]| ask_with(&site, &Method::GET, "/ten", fields).status.as_u16();
    assert_eq!(status(&[(IF_NONE_MATCH, &tag)]), 304);
    assert_eq!(status(&[(IF_NONE_MATCH, &format!("\"x\", {weak}"))]), 304);
    assert_eq!(status(&[(IF_NONE_MATCH, "*")]), 304);
    // RFC 9110 §5.3: on two lines it is one list.
    assert_eq!(status(&[(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, &tag)]), 304);
    assert_eq!(status(&[(IF_MATCH, "\"x\""), (IF_MATCH, &tag)]), 200);
    assert_eq!(status(&[(IF_NONE_MATCH, "\"x\"")]), 200);
    assert_eq!(status(&[(IF_MODIFIED_SINCE, &modified)]), 304);
    assert_eq!(status(&[(IF_MODIFIED_SINCE, early)]), 200);
    assert_eq!(status(&[(IF_MODIFIED_SINCE, "yesterday")]), 200);
    assert_eq!(status(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, late)]), 200);
    assert_eq!(status(&[(IF_MATCH, &tag)]), 200);
    assert_eq!(status(&[(IF_MATCH, &weak)]), 412);
    assert_eq!(status(&[(IF_UNMODIFIED_SINCE, early)]), 412);
    assert_eq!(status(&[(IF_MATCH, &tag), (IF_UNMODIFIED_SINCE, early)]), 200);
    let range = (RANGE, "bytes=0-1");
    assert_eq!(status(&[range.clone(), (IF_RANGE, &tag)]), 206);
    assert_eq!(status(&[range.clone(), (IF_RANGE, &modified)]), 206);
    assert_eq!(status(&[range.clone(), (IF_RANGE, &weak)]), 200);
    assert_eq!(status(&[range, (IF_RANGE, late)]), 200);
    let known = ask_with(&site, &Method::GET, "/ten", &[(IF_NONE_MATCH, &tag)]);
    assert_eq!(
        (known.resource.content.length(), known.fields[ETAG].to_str().expect("text")),
        (0, tag.as_str())
    );
}

#[test]
fn a_file_that_was_asked_for_before_is_looked_at_again() {
    let (scratch, site) = Scratch::new("kept");
    let root = scratch.0.join("root");
    let ten = || ask(&site, "/ten");
    assert_eq!(ten(), (200, b"0123456789".to_vec(), "application/octet-stream".to_owned()));
    assert_eq!(ten().1, b"0123456789");
    // Changed where it lies, replaced, led elsewhere, gone, and back.
    fs::write(root.join("ten"), "longer than before").expect("a file");
    assert_eq!(ten().1, b"longer than before");
    fs::write(root.join("new"), "another  than ever").expect("a file");
    fs::rename(root.join("new"), root.join("ten")).expect("renamed");
    assert_eq!((ten().1, ten().1), (b"another  than ever".to_vec(), b"another  than ever".to_vec()));
    fs::remove_file(root.join("ten")).expect("removed");
    assert_eq!(ten().0, 404);
    symlink("../secret.txt", root.join("ten")).expect("a link");
    assert_eq!((ten().0, ten().0), (404, 404));
    fs::remove_file(root.join("ten")).expect("removed");
    fs::create_dir(root.join("ten")).expect("a directory");
    assert_eq!((ten().0, ten().0), (301, 301));
    fs::remove_dir(root.join("ten")).expect("removed");
    fs::write(root.join("ten"), "back").expect("a file");
    assert_eq!((ten().1, ten().1), (b"back".to_vec(), b"back".to_vec()));
    // A directory on the way that now leads out.
    assert_eq!(ask(&site, "/sub/index.html").0, 200);
    fs::write(scratch.0.join("index.html"), "out").expect("a file");
    fs::rename(root.join("sub"), root.join("other")).expect("renamed");
    symlink("..", root.join("sub")).expect("a link");
    assert_eq!(ask(&site, "/sub/index.html").0, 404);
}

#[test]
fn only_so_many_files_stay_open() {
    let (scratch, site) = Scratch::new("many");
    for number in 0..MOST_KEPT + 10 {
        fs::write(scratch.0.join(format!("root/{number}")), "x").expect("a file");
        assert_eq!(ask(&site, &format!("/{number}")).0, 200);
        assert!(site.kept.borrow().len() <= MOST_KEPT);
    }
}
