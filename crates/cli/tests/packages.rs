//! Tests the files that a package installs: completions that shells accept, and man pages that render.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::fs;
use std::process::Command;

fn printed(arguments: &[&str]) -> String {
    let output = run(anabranch().args(arguments));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn completions_know_the_verbs_and_bash_takes_them() {
    let scratch = Scratch::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = printed(&["completions", shell]);
        for word in ["race", "gateway", "compare", "preset"] {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    let file = scratch.file("anabranch.bash", printed(&["completions", "bash"]));
    let parsed = run(Command::new("bash").arg("-n").arg(&file));
    assert!(parsed.status.success(), "{}", errors(&parsed));
    // The completions must work in the shell.
    let script = format!(
        ". {}; COMP_WORDS=(anabranch race --comp); COMP_CWORD=2; _anabranch anabranch --comp race; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let output = run(Command::new("bash").args(["-c", &script]));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--compare", "{}", errors(&output));
    let output = run(anabranch().args(["completions", "tcsh"]));
    assert_eq!((output.status.code(), errors(&output).lines().count()), (Some(2), 1));
}

#[test]
fn there_is_a_man_page_for_each_verb_and_it_renders() {
    let scratch = Scratch::new("man");
    let directory = scratch.0.join("deep/man1");
    printed(&["man", directory.to_str().expect("UTF-8")]);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in
        ["anabranch.1", "anabranch-race.1", "anabranch-study.1", "anabranch-study-run.1", "anabranch-man.1"]
    {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
    for name in &names {
        let page = fs::read_to_string(directory.join(name)).expect("a page");
        for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(page.contains(part), "{name}: no {part}");
        }
        // Every line that begins with a dot must be a known roff request.
        let known = ["ie", "el", "ds", "TH", "SH", "SS", "TP", "IP", "RS", "RE", "PP", "br"];
        for line in page.lines().filter(|line| line.starts_with('.')) {
            let request = line[1..].split(' ').next().unwrap_or_default();
            assert!(known.contains(&request), "{name}: {line}");
        }
        // If a formatter is installed, it must not print warnings.
        let formatted =
            Command::new("groff").args(["-man", "-ww", "-Tutf8"]).arg(directory.join(name)).output();
        if let Ok(formatted) = formatted {
            assert!(
                formatted.status.success() && formatted.stderr.is_empty(),
                "{name}: {}",
                errors(&formatted)
            );
        }
    }
    let race = fs::read_to_string(directory.join("anabranch-race.1")).expect("a page");
    assert!(race.contains("anabranch race") && race.contains("Gilbert"), "the flags are told");
}

#[test]
fn lab_without_its_page_says_how_to_build_it() {
    let scratch = Scratch::new("lab");
    let file = scratch.0.join("lab.html");
    let output = run(anabranch().arg("lab").arg("--out").arg(&file));
    if cfg!(feature = "lab-page") {
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let page = fs::read_to_string(file).expect("the page");
        assert!(page.contains("Content-Security-Policy") && page.len() > 1_000_000, "{} bytes", page.len());
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert_eq!(errors(&output).trim().lines().count(), 1, "{}", errors(&output));
    assert!(errors(&output).contains("lab-page/build.sh") && !file.exists(), "{}", errors(&output));
}
