//! Tests the responses of a site of files to all kinds of requests.

use super::*;
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;

/// A site directory with a secret file beside it. Both are removed when this value is dropped.
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
    site.answer(&SiteRequest { method, target, host: None, fields: &map })
}

fn request(site: &FileSite, target: &str) -> (u16, Vec<u8>, String) {
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
    assert_eq!(request(&site, "/"), (200, b"<p>home".to_vec(), "text/html; charset=utf-8".to_owned()));
    assert_eq!(request(&site, "/index.html?x=1").0, 200);
    assert_eq!(request(&site, "/sub/"), (200, b"<p>sub".to_vec(), "text/html; charset=utf-8".to_owned()));
    assert_eq!(
        request(&site, "/sub/a%20b.css"),
        (200, b"p{}".to_vec(), "text/css; charset=utf-8".to_owned())
    );
    assert_eq!(request(&site, "//sub//.//a%20b.css").0, 200);
    assert_eq!(request(&site, "/within").1, b"0123456789");
    assert_eq!(request(&site, "/nothing"), (200, Vec::new(), "application/octet-stream".to_owned()));
    let moved = ask_with(&site, &Method::GET, "//sub?q", &[]);
    assert_eq!((moved.status.as_u16(), &moved.fields[LOCATION]), (301, &HeaderValue::from_static("/sub/?q")));
    for missing in ["/none", "/sub/empty/", "/ten/", "/ten/x", "/loop", "/index.html/"] {
        assert_eq!(request(&site, missing).0, 404, "{missing}");
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
                assert_eq!(request(&site, &target).0, 404, "{target}");
            }
        }
    }
    let refused_targets = [
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
    for target in refused_targets {
        assert_eq!(request(&site, target).0, 404, "{target}");
    }
}

/// A request for one range must get that range (RFC 9110 §14). Any other Range value must get the whole file.
#[test]
fn range_requests_return_the_requested_range() {
    let (_scratch, site) = Scratch::new("parts");
    let get = |range: &str| {
        let answer = ask_with(&site, &Method::GET, "/ten", &[(RANGE, range)]);
        let content_range =
            answer.fields.get(CONTENT_RANGE).map(|value| value.to_str().expect("text").to_owned());
        (answer.status.as_u16(), body(&answer), content_range)
    };
    let part =
        |text: &str, content_range: &str| (206, text.as_bytes().to_vec(), Some(content_range.to_owned()));
    assert_eq!(get("bytes=0-0"), part("0", "bytes 0-0/10"));
    assert_eq!(get("bytes=3-"), part("3456789", "bytes 3-9/10"));
    assert_eq!(get("bytes=-4"), part("6789", "bytes 6-9/10"));
    assert_eq!(get("bytes=-99"), part("0123456789", "bytes 0-9/10"));
    assert_eq!(get("Bytes=2-99999999999999999999999"), part("23456789", "bytes 2-9/10"));
    for beyond in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999999-"] {
        let (status, _, content_range) = get(beyond);
        assert_eq!((status, content_range.as_deref()), (416, Some("bytes */10")), "{beyond}");
    }
    for whole in ["bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes=x-1", "bytes=-", "bytes", "bytes=+1-2"] {
        assert_eq!(get(whole), (200, b"0123456789".to_vec(), None), "{whole}");
    }
    let head = ask_with(&site, &Method::HEAD, "/ten", &[(RANGE, "bytes=1-2")]);
    assert_eq!((head.status.as_u16(), head.resource.content.length()), (200, 10));
    let empty = ask_with(&site, &Method::GET, "/nothing", &[(RANGE, "bytes=0-")]);
    assert_eq!(empty.status, 416);
    // The response to a suffix range of an empty file cannot be expressed in Content-Range, so the whole file must be
    // sent.
    let empty = ask_with(&site, &Method::GET, "/nothing", &[(RANGE, "bytes=-1")]);
    assert_eq!((empty.status.as_u16(), empty.resource.content.length()), (200, 0));
}

/// The preconditions must be evaluated step by step (RFC 9110 §13.2.2).
#[test]
fn preconditions_are_evaluated_in_the_order_of_the_rfc() {
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
    // RFC 9110 §5.3: two field lines with the same name form one list.
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
fn a_remembered_file_is_checked_again() {
    let (scratch, site) = Scratch::new("kept");
    let root = scratch.0.join("root");
    let ten = || request(&site, "/ten");
    assert_eq!(ten(), (200, b"0123456789".to_vec(), "application/octet-stream".to_owned()));
    assert_eq!(ten().1, b"0123456789");
    // The file is changed in place, replaced, removed, replaced by a link and by a directory, and restored. Each
    // response must match the current state.
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
    // A directory on the path is replaced by a link that leads out of the site. The file must not be found.
    assert_eq!(request(&site, "/sub/index.html").0, 200);
    fs::write(scratch.0.join("index.html"), "out").expect("a file");
    fs::rename(root.join("sub"), root.join("other")).expect("renamed");
    symlink("..", root.join("sub")).expect("a link");
    assert_eq!(request(&site, "/sub/index.html").0, 404);
}

#[test]
fn the_number_of_open_files_is_bounded() {
    let (scratch, site) = Scratch::new("many");
    for number in 0..MAX_KEPT + 10 {
        fs::write(scratch.0.join(format!("root/{number}")), "x").expect("a file");
        assert_eq!(request(&site, &format!("/{number}")).0, 200);
        assert!(site.remembered.borrow().len() <= MAX_KEPT);
    }
}

/// A file and a directory are repeatedly swapped with links that lead out of the site. The file that was checked must
/// always be the file that is opened.
#[cfg(target_os = "linux")]
#[test]
fn a_link_that_is_swapped_meanwhile_leads_nowhere_else() {
    let (scratch, site) = Scratch::new("race");
    let root = scratch.0.join("root");
    fs::create_dir(scratch.0.join("outside")).expect("a directory");
    fs::write(scratch.0.join("outside/index.html"), "secret").expect("a file");
    symlink("../secret.txt", root.join("lure")).expect("a link");
    symlink("../outside", root.join("lures")).expect("a link");
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (stop, directory) = (over.clone(), root.clone());
    let swapping = std::thread::spawn(move || {
        let swap = |one: &str, other: &str| {
            renameat_with(CWD, directory.join(one), CWD, directory.join(other), RenameFlags::EXCHANGE)
                .expect("exchanged");
        };
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            swap("ten", "lure");
            swap("sub", "lures");
        }
    });
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..20_000 {
        for (target, expected) in
            [("/ten", &b"0123456789"[..]), ("/sub/", b"<p>sub"), ("/sub/index.html", b"<p>sub")]
        {
            let (status, body, _) = request(&site, target);
            match status {
                200 => {
                    assert_eq!(String::from_utf8_lossy(&body), String::from_utf8_lossy(expected), "{target}")
                }
                _ => assert_eq!(status, 404, "{target}"),
            }
            if status == 200 { inside += 1 } else { refused += 1 }
        }
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().expect("swapped");
    assert!(inside > 100 && refused > 100, "nothing was swapped: {inside} inside, {refused} refused");
}

#[test]
fn links_that_stay_inside_are_followed_absolute_ones_too() {
    let (scratch, site) = Scratch::new("inner");
    let root = scratch.0.join("root");
    for (link, target) in [
        ("sub/back", PathBuf::from("../ten")),
        ("absolute", root.canonicalize().expect("a path").join("sub/../ten")),
        ("two", PathBuf::from("absolute")),
        ("directory", root.canonicalize().expect("a path").join("sub")),
    ] {
        symlink(target, root.join(link)).expect("a link");
    }
    for target in ["/sub/back", "/absolute", "/two", "/within"] {
        assert_eq!(request(&site, target).1, b"0123456789", "{target}");
    }
    assert_eq!((request(&site, "/directory").0, request(&site, "/directory/").1), (301, b"<p>sub".to_vec()));
    // A path that leaves the root directory and returns into it must count as outside.
    symlink("../root/ten", root.join("around")).expect("a link");
    symlink("/proc/self/root", root.join("magic")).expect("a link");
    for target in ["/around", "/magic", "/magic/", "/magic/etc/passwd"] {
        assert_eq!(request(&site, target).0, 404, "{target}");
    }
}

#[test]
fn a_remembered_file_that_moves_outside_is_not_served() {
    let (scratch, site) = Scratch::new("moved");
    let root = scratch.0.join("root");
    assert_eq!((request(&site, "/sub/index.html").0, request(&site, "/sub/index.html").0), (200, 200));
    fs::rename(root.join("sub"), scratch.0.join("away")).expect("renamed");
    symlink("../away", root.join("sub")).expect("a link");
    assert_eq!(request(&site, "/sub/index.html").0, 404, "the very file, by a link that leads out");
    // A directory on the path, at any depth, is replaced by a link that leads out of the site. The file must not be
    // found.
    let deep = "a/b/c/d/e";
    fs::create_dir_all(root.join(deep)).expect("directories");
    for depth in 1..=5 {
        let path: Vec<&str> = deep.split('/').take(depth).collect();
        let target = format!("/{}/f", path.join("/"));
        fs::write(root.join(&target[1..]), "f").expect("a file");
        assert_eq!((request(&site, &target).0, request(&site, &target).0), (200, 200), "{target}");
        for cut in 1..=depth {
            let (from, to) = (root.join(path[..cut].join("/")), scratch.0.join("cut"));
            fs::rename(&from, &to).expect("renamed");
            symlink(&to, &from).expect("a link");
            assert_eq!(request(&site, &target).0, 404, "{target}, {cut}");
            fs::remove_file(&from).expect("removed");
            fs::rename(&to, &from).expect("renamed");
            assert_eq!((request(&site, &target).0, request(&site, &target).0), (200, 200), "{target}");
        }
    }
    // A new directory at the path of the root directory must be served.
    assert_eq!(request(&site, "/ten").0, 200);
    fs::rename(&root, scratch.0.join("old")).expect("renamed");
    assert_eq!(request(&site, "/ten").0, 404);
    fs::create_dir_all(root.join("sub")).expect("a directory");
    fs::write(root.join("ten"), "of the new one").expect("a file");
    fs::write(root.join("sub/index.html"), "new").expect("a file");
    assert_eq!(
        (request(&site, "/ten").1, request(&site, "/sub/").1),
        (b"of the new one".to_vec(), b"new".to_vec())
    );
}

#[test]
fn names_that_begin_with_a_dot_are_served_only_where_that_is_wanted() {
    let (scratch, site) = Scratch::new("dots");
    let root = scratch.0.join("root");
    for name in
        [".env", ".git/config", "sub/.htpasswd", ".well-known/acme", ".well-known/.key", "sub/.well-known/x"]
    {
        fs::create_dir_all(root.join(name).parent().expect("a parent")).expect("a directory");
        fs::write(root.join(name), "dotted").expect("a file");
    }
    // The name of the link `shown` does not begin with a dot, so the link is served, although its target is a hidden
    // file.
    symlink(".env", root.join("shown")).expect("a link");
    let hidden = [
        "/.env",
        "/%2eenv",
        "//.env",
        "/./.env",
        "/.git",
        "/.git/",
        "/.git/config",
        "/%2Egit/config",
        "/sub/.htpasswd",
        "/.well-known/.key",
        "/sub/.well-known/x",
        "/.well-known/../.env",
        "/.WELL-KNOWN/acme",
        "/...",
    ];
    for target in hidden {
        assert_eq!(request(&site, target).0, 404, "{target}");
    }
    assert_eq!((request(&site, "/.well-known/acme").0, request(&site, "/.well-known").0), (200, 301));
    assert_eq!(request(&site, "/shown").0, 200);
    let site = FileSite::new(&root).expect("a site").with_dotfiles(true);
    for target in ["/.env", "/.git/config", "/sub/.htpasswd", "/.well-known/.key", "/sub/.well-known/x"] {
        assert_eq!(request(&site, target).0, 200, "{target}");
    }
}

#[test]
fn the_path_of_a_deleted_file_is_forgotten() {
    let (scratch, site) = Scratch::new("gone");
    assert_eq!(request(&site, "/ten").0, 200);
    assert!(site.remembered.borrow().contains_key("/ten"));
    fs::remove_file(scratch.0.join("root/ten")).expect("removed");
    assert_eq!(request(&site, "/ten").0, 404);
    assert!(site.remembered.borrow().is_empty());
}

#[test]
fn the_number_of_remembered_paths_is_bounded() {
    let (_scratch, site) = Scratch::new("remembered");
    let mut name = "ten".to_owned();
    for kept in 1..=MAX_KEPT {
        name.insert(0, '/');
        assert_eq!(request(&site, &name).0, 200);
        assert_eq!(site.remembered.borrow().len(), kept);
    }
    name.insert(0, '/');
    assert_eq!(request(&site, &name).0, 200);
    assert_eq!(site.remembered.borrow().len(), 1);
}
