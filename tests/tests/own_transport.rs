//! Tests a program that adds a transport of its own to anabranch. The program serves URLs of this transport, requests
//! them, and loads pages over them.
//!
//! The test starts its own executable as that program. Only this executable registers the transport.

#[path = "contestant/gbn.rs"]
mod gbn;

use anabranch_transports::{Transport, Transports};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

/// The first word of the command line of the program that the test starts.
const PROGRAM: &str = "anabranch";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == PROGRAM) {
        let gbn = Transport::simulated(gbn::GoBackN).and_emulated(Arc::new(gbn::InUdp));
        return ExitCode::from(anabranch_cli::run(words, &Transports::standard().with(gbn)));
    }
    let directory = std::env::temp_dir().join(format!("anabranch-own-transport-{}", std::process::id()));
    fs::create_dir_all(directory.join("site")).expect("a directory");
    serves_gets_and_loads(&directory);
    fs::remove_dir_all(&directory).expect("removed");
    println!("a transport from outside serves, gets and loads ... ok");
    ExitCode::SUCCESS
}

/// A server process that is killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.arg(PROGRAM).args(arguments);
    program
}

fn assert_succeeds(arguments: &[&str]) {
    let output = program(arguments).output().expect("a program");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {} {stderr}", output.status);
}

fn serves_gets_and_loads(directory: &Path) {
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let body: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(directory.join("site/object"), &body).expect("written");
    let mut server = program(&["serve", &path("site"), "--listen", "gbn://127.0.0.1:0", "--quiet"]);
    let mut server = Server(server.stderr(Stdio::piped()).spawn().expect("a server"));
    let stderr = BufReader::new(server.0.stderr.take().expect("its errors"));
    let url = stderr.lines().map_while(Result::ok).find_map(|line| {
        let word = line.split_whitespace().find(|word| word.starts_with("http+gbn://"))?;
        Some(word.trim_end_matches('/').to_owned())
    });
    let object = format!("{}/object", url.expect("the server says where it listens"));

    assert_succeeds(&["get", &object, "-o", &path("copy"), "--json", &path("get.json"), "--quiet"]);
    assert_eq!(fs::read(directory.join("copy")).expect("a file"), body);
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(directory.join(name)).expect("a result")).expect("JSON")
    };
    let got = json("get.json");
    assert_eq!((&got["objects"][0]["transport"], &got["settings"]["window"]), (&"gbn".into(), &"16".into()));

    let load = ["load", &object, "-c", "2", "--requests", "6", "--quiet"];
    assert_succeeds(&[&load[..], &["--set", "window=32", "--json", &path("load.json")]].concat());
    let loaded = json("load.json");
    let plan = &loaded["plan"];
    assert_eq!((&plan["transport"], &plan["settings"]["window"]), (&"gbn".into(), &"32".into()));
}
