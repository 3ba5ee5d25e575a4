//! Passes the compiler's version, the target system and the source revision to the program. `study` writes them into
//! its pages.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = output_line(&mut Command::new(var("RUSTC")), &["--version"]);
    let rustc = rustc.as_deref().unwrap_or("an unknown compiler");
    println!("cargo::rustc-env=ANABRANCH_RUSTC={rustc}");
    println!("cargo::rustc-env=ANABRANCH_TARGET={}", var("TARGET"));
    let revision = match output_line(&mut git(), &["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => format!("commit {commit}"),
        None => "from source without a repository".to_owned(),
    };
    println!("cargo::rustc-env=ANABRANCH_SOURCE={} ({revision})", var("CARGO_PKG_VERSION"));
    // Watches the files that git changes with every new revision: a checkout changes `HEAD`, a commit appends to the
    // log. A missing file is not watched, because cargo would rebuild the package each time.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output_line(&mut git(), &["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns a git command for the repository of this package. It finds no revision if the sources were unpacked inside
/// another repository.
fn git() -> Command {
    let mut git = Command::new("git");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    git.current_dir(package);
    if let Some(above) = package.ancestors().nth(3) {
        git.env("GIT_CEILING_DIRECTORIES", above);
    }
    git
}

/// Returns the only line that a program prints; `None` if the program is missing or fails.
fn output_line(program: &mut Command, words: &[&str]) -> Option<String> {
    let output = program.args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|line| !line.is_empty())
}
