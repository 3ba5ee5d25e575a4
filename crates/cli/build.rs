//! Tells the program which compiler built it, and for what system: `study bundle` writes both down.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(var("RUSTC")).arg("--version").output();
    let rustc =
        rustc.map(|rustc| String::from_utf8_lossy(&rustc.stdout).trim().to_owned()).unwrap_or_default();
    let rustc = if rustc.is_empty() { "an unknown compiler" } else { &rustc };
    println!("cargo::rustc-env=ANABRANCH_RUSTC={rustc}");
    println!("cargo::rustc-env=ANABRANCH_TARGET={}", var("TARGET"));
}
