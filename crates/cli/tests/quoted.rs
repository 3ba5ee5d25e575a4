//! Tests that README and the pages of `docs/` are correct where they quote this program's output, commands and flags.
#![cfg(target_os = "linux")]

use crate::running::{emulated_links, errors};
use anabranch_base::testing::are_slow_tests_enabled;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program with these arguments and returns its output.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch")).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns README and every page of `docs/`, `docs/guide/` and `docs/how-to/`, with name and text.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs", "docs/guide", "docs/how-to"] {
        let entries = fs::read_dir(root().join(folder)).expect("the pages");
        paths.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), fs::read_to_string(path).expect("a page"))).collect()
}

/// Returns the commands in a page's fenced blocks and code spans: the text after each `anabranch`, to the end of the
/// line.
fn commands(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let mut found = Vec::new();
    let mut fenced = false;
    for line in joined.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced && !line.starts_with("anabranch: ") {
            found.extend(line.split("anabranch ").skip(1).map(str::to_owned));
        } else if !fenced {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.flat_map(|span| span.split("anabranch ").skip(1)).map(str::to_owned));
        }
    }
    found
}

/// Checks that each quoted paragraph of a page appears without gaps in the output of the page's commands. A first line
/// such as `loss 1%` is checked separately, because other lines may follow it in the output.
fn quotes_only(page: &str, printed: &[String]) {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let blocks = text.split("\n```").skip(1).step_by(2).filter_map(|block| block.strip_prefix('\n'));
    let quotes: Vec<&str> =
        blocks.filter(|block| block.contains("Spread: ") || block.contains("median / ")).collect();
    assert!(!quotes.is_empty(), "{page} quotes nothing");
    let is_printed =
        |lines: &str| printed.iter().any(|text| format!("\n{text}").contains(&format!("\n{lines}\n")));
    for paragraph in quotes.iter().flat_map(|block| block.trim_matches('\n').split("\n\n")) {
        let level = paragraph.split_once('\n').filter(|(line, _)| line.starts_with("loss "));
        let found = match level {
            Some((line, table)) => is_printed(line) && is_printed(table),
            None => is_printed(paragraph),
        };
        assert!(found, "{page} quotes:\n{paragraph}\n\nprinted is:\n{}", printed.join("\n"));
    }
}

#[test]
fn readme_and_the_guide_to_choosing_quote_what_their_races_print() {
    if !are_slow_tests_enabled() {
        return;
    }
    let page = "docs/guide/choose-a-transport.md";
    let text = fs::read_to_string(root().join(page)).expect(page);
    let typed: Vec<String> =
        commands(&text).into_iter().filter(|command| command.starts_with("race --loss 1%")).collect();
    let [typed] = &typed[..] else { panic!("{typed:?}") };
    let bare = printed(&["race", "--quiet"]);
    quotes_only("README.md", std::slice::from_ref(&bare));
    quotes_only(page, &[bare, printed(&typed.split_whitespace().chain(["--quiet"]).collect::<Vec<_>>())]);
}

/// The plan in the guide must equal `examples/plan.toml`. The guide must quote correctly what `race` prints about the
/// expectations of this plan.
#[test]
fn the_guide_quotes_the_example_of_a_plan_and_what_it_prints() {
    let guide = fs::read_to_string(root().join("docs/guide/race.md")).expect("docs/guide/race.md");
    let plan = fs::read_to_string(root().join("examples/plan.toml")).expect("examples/plan.toml");
    let quoted_plan = plan.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let quoted_plan = quoted_plan.replace("\n\n\n", "\n\n");
    assert!(
        guide.contains(&format!("```toml\n{}\n```", quoted_plan.trim())),
        "docs/guide/race.md has another plan than:\n{quoted_plan}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.args(["race", "examples/plan.toml", "--quiet"]).current_dir(root()).output();
    let printed = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let met = printed.find("met: ").map(|at| &printed[at..]).expect("an expectation");
    assert!(
        guide.contains(&format!("```\n{met}```\n")),
        "docs/guide/race.md quotes another output than:\n{met}"
    );
}

/// The table of failover times in the guide must be the output of the race that the guide shows above the table.
#[test]
fn the_guide_to_failover_quotes_its_race() {
    let page = fs::read_to_string(root().join("docs/guide/failover.md")).expect("docs/guide/failover.md");
    let typed = commands(&page).into_iter().find(|command| command.starts_with("race ")).expect("a race");
    let printed = printed(&typed.split_whitespace().chain(["--quiet"]).collect::<Vec<_>>());
    let table = printed.split("\n\n").find(|part| part.starts_with("failover ms")).expect("a table");
    assert!(
        page.contains(&format!("```\n{table}\n```\n")),
        "docs/guide/failover.md quotes another table than:\n{table}"
    );
}

/// The guide to failover quotes the output of `anabranch bulk`. The quoted lines must be the first lines that a run of
/// `bulk` prints about its paths and interruptions. The times may differ, because the run takes place in real time.
#[test]
fn the_guide_to_failover_quotes_the_lines_of_its_bulk() {
    if !are_slow_tests_enabled() || !emulated_links() {
        return;
    }
    let page = fs::read_to_string(root().join("docs/guide/failover.md")).expect("docs/guide/failover.md");
    let (_, typed) = page.split_once("\nanabranch link ").expect("a link");
    let (typed, quoted) = typed.split_once("\n```\n\n```\n").expect("what it prints");
    let (quoted, _) = quoted.split_once("\n```").expect("an end");
    let directory = Path::new(env!("CARGO_BIN_EXE_anabranch")).parent().expect("a directory").display();
    let script = format!("PATH={directory}:$PATH; anabranch link --quiet {typed}");
    let printed = errors(&Command::new("sh").args(["-c", &script]).output().expect("it runs"));
    let without_times = |line: &str| -> String {
        line.split(' ').filter(|word| word.parse::<f64>().is_err()).collect::<Vec<_>>().join(" ")
    };
    let of_paths = printed.lines().filter(|line| line.contains(" s: "));
    let quotes: Vec<String> = quoted.lines().map(without_times).collect();
    let begins: Vec<String> = of_paths.map(without_times).take(quotes.len()).collect();
    assert_eq!(begins, quotes, "docs/guide/failover.md quotes other lines than:\n{printed}");
}

/// Returns the commands that `--help` lists.
fn verbs() -> Vec<String> {
    let help = printed(&["--help"]);
    let rows =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A line that continues a row of the list is indented further than the row itself.
    let names = rows.filter_map(|row| row.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_verb_has_a_page() {
    let verbs = verbs();
    assert!(verbs.len() >= 10, "{verbs:?}");
    for verb in verbs {
        assert!(root().join(format!("docs/guide/{verb}.md")).exists(), "there is no page for {verb}");
    }
}

#[test]
fn every_flag_that_a_page_quotes_exists() {
    let verbs = verbs();
    let mut checked = 0;
    for (name, page) in pages() {
        for command in commands(&page) {
            // The words after `--` belong to another program.
            let own: Vec<&str> = command.split(' ').take_while(|word| *word != "--").collect();
            // A line of quoted output may also begin with the name of the program. Such a line is no command.
            if !verbs.iter().any(|verb| verb == own[0]) {
                continue;
            }
            let help = match own[..] {
                ["study", action @ ("run" | "plan" | "bundle"), ..] => printed(&["study", action, "--help"]),
                _ => printed(&[own[0], "--help"]),
            };
            for flag in own.iter().filter(|word| word.starts_with("--")) {
                let end = flag.find(|letter: char| letter != '-' && !letter.is_ascii_alphabetic());
                let flag = &flag[..end.unwrap_or(flag.len())];
                let known = help.match_indices(flag).any(|(at, _)| {
                    !help[at + flag.len()..]
                        .starts_with(|next: char| next == '-' || next.is_ascii_alphabetic())
                });
                assert!(known, "{name}: {} has no {flag}: anabranch {command}", own[0]);
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "only {checked} flags were found");
}
