//! A copy of the source tree for mutation tests. In the copy, one crate contains all mutants that were drawn at random.
//! The crate's test programs are built from the copy.
//!
//! Mutants that do not compile are left out. The position of a compiler error shows which mutant causes the error.

use crate::find::Mutant;
use crate::write::{Written, write};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs, io};

/// The environment variable with the number of the active mutant.
pub const SWITCH: &str = "ANABRANCH_MUTANT";
/// The environment variable with the name of a file. A test run records in this file which mutants it reaches.
pub const REACHED: &str = "ANABRANCH_MUTANTS_REACHED";

/// A mutant that was drawn for testing, with its place in the tree.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The path of the changed file, relative to the root of the tree.
    pub file: PathBuf,
    /// The mutant.
    pub mutant: Mutant,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.mutant.line, self.mutant.description)
    }
}

/// A copy of the source tree, in which mutants are compiled.
#[derive(Debug)]
pub struct Scratch {
    /// The root folder of the copy, in which the mutants are built and tested.
    pub root: PathBuf,
    /// The root folder of the original tree.
    tree: PathBuf,
    /// The folder for the build output of the copy.
    target: PathBuf,
}

impl Scratch {
    /// Copies all files below `tree` that git tracks or would add. Does not overwrite files of an earlier copy that are
    /// unchanged, so that cargo does not compile them again. Also does not overwrite files that `build` has mutated.
    pub fn copy(tree: &Path, name: &str, drawn: &[Drawn]) -> io::Result<Self> {
        let target = tree.join("target/mutants").join(name);
        let root = target.join("tree");
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(tree)
            .output()?;
        for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let (from, to) = (tree.join(name), root.join(name));
            let mutated =
                name.ends_with("src/lib.rs") || drawn.iter().any(|drawn| drawn.file == Path::new(name));
            if from.is_file() && !(mutated && to.is_file()) && fs::read(&to).ok() != Some(fs::read(&from)?) {
                fs::create_dir_all(to.parent().unwrap_or(&root))?;
                fs::copy(&from, &to)?;
            }
        }
        Ok(Self { root, tree: tree.to_path_buf(), target })
    }

    /// Writes the mutants into the copy of the tree, and compiles the tests of `package`. Repeats this without the
    /// mutants that did not compile, until the tests compile. Returns the mutants in the compiled tests, as indices
    /// into `drawn`, and the paths of the test programs.
    pub fn build(
        &self,
        package: &str,
        library: &Path,
        drawn: &[Drawn],
        targets: &[String],
    ) -> Result<(BTreeSet<usize>, Vec<PathBuf>), String> {
        // Mutants that did not compile in an earlier run are not tried again.
        let known = self.target.join("unviable");
        let unviable = fs::read_to_string(&known).unwrap_or_default();
        let mut unviable: BTreeSet<String> = unviable.lines().map(String::from).collect();
        let mut viable: BTreeSet<usize> =
            (0..drawn.len()).filter(|&number| !unviable.contains(&drawn[number].to_string())).collect();
        let sources: BTreeMap<&Path, String> = drawn
            .iter()
            .map(|drawn| drawn.file.as_path())
            .chain([library])
            .map(|file| Ok((file, fs::read_to_string(self.tree.join(file))?)))
            .collect::<io::Result<_>>()
            .map_err(|error| format!("cannot read a source file: {error}"))?;
        loop {
            let mut written = BTreeMap::new();
            for (&file, source) in &sources {
                let in_file: Vec<_> = (viable.iter())
                    .filter(|&&number| drawn[number].file == file)
                    .map(|&number| (number, &drawn[number].mutant))
                    .collect();
                let mut text = write(source, &in_file);
                if file == library {
                    text.text.push_str(&switch(drawn.len()));
                }
                let at = self.root.join(file);
                if fs::read_to_string(&at).ok().as_ref() != Some(&text.text) {
                    fs::write(at, &text.text).map_err(|error| error.to_string())?;
                }
                written.insert(file, text);
            }
            let output = self.cargo(package, targets)?;
            let programs: Vec<_> = output.lines().filter_map(|line| self.program(line)).collect();
            if !programs.is_empty() {
                return Ok((viable, programs));
            }
            let before = viable.len();
            for (file, line, column) in output.lines().filter_map(error_place) {
                if let Some(number) =
                    written.get(Path::new(file)).and_then(|text| blamed(text, line, column, &viable))
                {
                    viable.remove(&number);
                    unviable.insert(drawn[number].to_string());
                }
            }
            let lines: String = unviable.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&known, lines).map_err(|error| error.to_string())?;
            eprintln!("{} mutants do not compile", drawn.len() - viable.len());
            if viable.len() == before {
                let errors: Vec<_> = output.lines().filter(|line| line.contains("error")).collect();
                return Err(format!("no mutant is why the tests do not compile:\n{}", errors.join("\n")));
            }
        }
    }

    /// Compiles the tests in the copy of the tree, and returns cargo's output.
    fn cargo(&self, package: &str, targets: &[String]) -> Result<String, String> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--message-format=short", "--package", package]);
        for target in targets {
            match target.as_str() {
                "lib" => cargo.arg("--lib"),
                name => cargo.args(["--test", name]),
            };
        }
        let output = (cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target))
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Returns the test program that a line of cargo's output names.
    fn program(&self, line: &str) -> Option<PathBuf> {
        let (_, path) = line.trim().strip_prefix("Executable ")?.rsplit_once('(')?;
        Some(self.root.join(path.strip_suffix(')')?))
    }
}

/// Returns file, line and column of an error in rustc's short format.
fn error_place(line: &str) -> Option<(&str, usize, usize)> {
    let position = line.split_once(": error")?.0;
    let mut parts = position.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some((parts.next()?, line, column))
}

/// Returns the mutant that caused a compiler error. This is the innermost mutant around the position of the error, or
/// else the nearest mutant in the file.
fn blamed(written: &Written, line: usize, column: usize, viable: &BTreeSet<usize>) -> Option<usize> {
    let begin: usize = written.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let inside: usize =
        written.text[begin..].chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
    let at = begin + inside;
    let distance = |range: &std::ops::Range<usize>| {
        if range.contains(&at) { 0 } else { range.start.abs_diff(at).min(range.end.abs_diff(at)) }
    };
    (written.ranges.iter())
        .filter(|(number, _)| viable.contains(number))
        .min_by_key(|(_, range)| (distance(range), range.len()))
        .map(|(number, _)| *number)
}

/// Returns the source of the function that mutants call.
fn switch(count: usize) -> String {
    format!(
        r#"
/// Whether this mutant is switched on.
pub(crate) fn mutant(number: usize) -> bool {{
    use std::io::Write;
    use std::sync::atomic::{{AtomicBool, Ordering}};
    static SWITCH: std::sync::OnceLock<(Option<usize>, Option<std::fs::File>)> = std::sync::OnceLock::new();
    static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];
    let (on, reached) = SWITCH.get_or_init(|| {{
        let on = std::env::var("{SWITCH}").ok().and_then(|number| number.parse().ok());
        (on, std::env::var("{REACHED}").ok().and_then(|name| std::fs::File::create(name).ok()))
    }});
    if let Some(mut file) = reached.as_ref()
        && !SEEN[number].swap(true, Ordering::Relaxed)
    {{
        let _ = writeln!(file, "{{number}}");
    }}
    *on == Some(number)
}}
"#
    )
}
