//! Builds two trees of the project: an earlier commit in a separate checkout, and the tree that contains this program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that were built from one source tree.
pub struct Tree {
    /// The root folder of the source tree.
    pub root: PathBuf,
    /// The program `anabranch`.
    pub anabranch: PathBuf,
    /// The folder with the programs of the benchmarks.
    pub benches: PathBuf,
}

impl Tree {
    /// Checks out a commit below `target/regression`, and builds its `anabranch` and these benchmark programs.
    pub fn of_commit(revision: &str, programs: &[&str]) -> Result<Self, String> {
        let root = root();
        let id = run(Command::new("git")
            .current_dir(&root)
            .args(["rev-parse", "--verify", "--short=12"])
            .arg(format!("{revision}^{{commit}}")))
        .map_err(|error| format!("--base {revision}: no such commit ({error})"))?;
        let checkout = root.join("benches/target/regression").join(id.trim());
        if !checkout.join("Cargo.toml").exists() {
            run(Command::new("git")
                .current_dir(&root)
                .args(["worktree", "add", "--force", "--detach"])
                .arg(&checkout)
                .arg(id.trim()))?;
        }
        Self::build(&checkout, "release", programs)
    }

    /// Builds `anabranch` and the benchmark programs that `programs` names, from the source tree of this program.
    pub fn of_this_checkout(programs: &[&str]) -> Result<Self, String> {
        Self::build(&root(), "dist", programs)
    }

    /// Builds `anabranch` with this profile, and the benchmark programs with their own profile.
    fn build(root: &Path, profile: &str, programs: &[&str]) -> Result<Self, String> {
        eprintln!("building {}", root.display());
        let cargo = |folder: &Path, profile: &str, words: &[&str]| {
            run(Command::new("cargo")
                .current_dir(folder)
                .env_remove("CARGO_TARGET_DIR")
                .args(["build", "--locked", "--profile", profile])
                .args(words))
        };
        cargo(root, profile, &["-p", "anabranch-cli"])?;
        if !programs.is_empty() {
            let words: Vec<&str> = programs.iter().flat_map(|program| ["--bin", program]).collect();
            cargo(&root.join("benches"), "release", &words)?;
        }
        Ok(Self {
            root: root.to_owned(),
            anabranch: root.join("target").join(profile).join("anabranch"),
            benches: root.join("benches/target/release"),
        })
    }
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Runs a command and returns its standard output. If the command fails, the returned error is its standard error.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
