//! Suites of test cases: many short packetdrill scripts in one file that share set-up and clean-up.
//!
//! ```text
//! @ client: the lines of this block run wherever a case says `use client`
//! 0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
//!
//! == as-i-1-2-1: a description of what the case checks
//! use client
//! +0 connect(3, ..., ...) = -1 EINPROGRESS
//!
//! == as-i-1-4: a case that is a Rust test instead of a script
//! in code: the name of the Rust test
//! ```
//!
//! Lines that begin with `#` and a blank are comments. Script lines keep their line numbers, so that messages name the
//! line in the suite's file.

use std::collections::BTreeMap;

/// How a test case of a suite is tested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The case is tested by this packetdrill script.
    Script(String),
    /// The case is tested by a Rust test with this name.
    InCode(String),
    /// No test checks the case, for this reason.
    NotTested(String),
}

/// One test case of a suite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The name of the test case, such as `as-v-1-1-1`.
    pub id: String,
    /// A description of what the test case checks, in one line.
    pub purpose: String,
    /// The number of the line with the test case's heading, from 1.
    pub line: usize,
    /// The script of the test case, the name of its Rust test, or the reason why it has no test.
    pub content: Content,
}

/// Named beginnings of scripts, which several cases share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Preludes(BTreeMap<String, String>);

impl Preludes {
    /// Reads the preludes (`@` sections) in the text of a suite, and adds them.
    pub fn add(&mut self, text: &str) {
        let mut name = None;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("@ ") {
                let key = heading.split(':').next().unwrap_or_default().trim().to_owned();
                self.0.insert(key.clone(), String::new());
                name = Some(key);
            } else if line.starts_with("== ") {
                name = None;
            } else if let Some(body) = name.as_ref().and_then(|name| self.0.get_mut(name))
                && !line.starts_with("# ")
            {
                body.push_str(line);
                body.push(' ');
            }
        }
    }
}

/// Returns the test cases of a suite. The script of each case includes the text of the preludes that it uses.
///
/// # Errors
/// Returns the line number and a description of the mistake.
pub fn cases(text: &str, preludes: &Preludes) -> Result<Vec<Case>, String> {
    let mut all: Vec<Case> = Vec::new();
    let mut script: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let at = number + 1;
        if line.starts_with("== ") || line.starts_with("@ ") {
            close(&mut all, script.take());
        }
        if let Some(heading) = line.strip_prefix("== ") {
            let (id, purpose) =
                heading.split_once(": ").ok_or(format!("{at}: a heading is '== id: purpose'"))?;
            let content = Content::NotTested(String::new());
            all.push(Case {
                id: id.trim().to_owned(),
                purpose: purpose.trim().to_owned(),
                line: at,
                content,
            });
            // The script begins with as many blank lines as the file has lines up to this heading. Line numbers in
            // errors are then line numbers of the file.
            script = Some("\n".repeat(at));
            continue;
        }
        let Some(body) = &mut script else { continue };
        if let Some(name) = line.strip_prefix("in code: ") {
            set(&mut all, Content::InCode(name.trim().to_owned()));
            script = None;
        } else if let Some(reason) = line.strip_prefix("not tested: ") {
            set(&mut all, Content::NotTested(reason.trim().to_owned()));
            script = None;
        } else if let Some(names) = line.strip_prefix("use ") {
            for name in names.split_whitespace() {
                let prelude = preludes.0.get(name).ok_or(format!("{at}: there is no '{name}' to use"))?;
                body.push_str(prelude);
            }
            body.push('\n');
        } else {
            if !line.starts_with("# ") {
                body.push_str(line);
            }
            body.push('\n');
        }
    }
    close(&mut all, script);
    Ok(all)
}

fn set(all: &mut [Case], content: Content) {
    if let Some(case) = all.last_mut() {
        case.content = content;
    }
}

fn close(all: &mut [Case], script: Option<String>) {
    if let Some(script) = script {
        set(all, Content::Script(script));
    }
}
