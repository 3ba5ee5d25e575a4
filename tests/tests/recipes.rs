//! Applies three recipes of CONTRIBUTING.md: how to add an impairment, a knob (setting) and a JSON field.
//!
//! Each file in `tests/recipes/` describes one addition to this repository, as edits of files. The edits touch the
//! files that the recipe in CONTRIBUTING.md lists. For a listed file without edits, the file in `tests/recipes/` gives
//! the reason. With all edits, a copy of the tree compiles, its tests pass, and a race shows the additions. If one of
//! the edits is missing, the compiler, a test or the race fails. This shows that every file in the recipe is necessary,
//! and that no file is missing from the recipe.
//!
//! Compiling the copy takes minutes, so the test that does it runs only if `ANABRANCH_FULL=1` is set.

use anabranch_base::testing::are_slow_tests_enabled;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ADDITIONS: [&str; 3] = ["impairment", "knob", "field"];

/// The cargo commands that fail if an edit is missing, each with its name, in the order in which they run. Commands for
/// crates with many dependents come first, before these dependents are compiled. A later edit of such a crate would
/// recompile its dependents. The last five commands select the same packages, so they share their build output.
const COMMANDS: &[(&str, &str)] = &[
    ("link", "test -p anabranch-link --test chain -- a_link_whose_runs_differ every_impairment"),
    ("sim", "test -p anabranch-sim --lib -- every_impairment"),
    ("results", "test -p anabranch-results --lib --test schema -- a_full_result"),
    ("report", "check -p anabranch-report --tests"),
    ("compile", "test -p anabranch-cli -p anabranch-lab -p anabranch-tests --test own_transport --no-run"),
    (
        "race",
        "test -p anabranch-cli -p anabranch-lab -p anabranch-tests --test own_transport -- anabranch race",
    ),
    ("lists", "test -p anabranch-cli -p anabranch-lab -p anabranch-tests --lib -- every_knob every_setting"),
    (
        "lab",
        "test -p anabranch-cli -p anabranch-lab -p anabranch-tests --test lab -- plan::every_impairment \
         handover::wrong_moves pages::each_",
    ),
    ("system", "test -p anabranch-cli -p anabranch-lab -p anabranch-tests --test system -- every_impairment"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An example of an addition to this repository, made by following a recipe of CONTRIBUTING.md.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addition {
    /// The heading of the recipe in CONTRIBUTING.md.
    recipe: String,
    /// The word that replaces `NAME` in the file paths of the recipe.
    name: String,
    /// The arguments of a race (`anabranch race`) that shows the effect of the addition.
    race: String,
    /// A text that this race must print.
    prints: String,
    /// A part of the arguments in the field `race`. A race without this part must have other page times.
    without: Option<String>,
    /// The files that the recipe lists, but that this addition does not change. A key is a path as the recipe writes
    /// it. The value is the reason why the file needs no change.
    unneeded: BTreeMap<String, String>,
    #[serde(rename = "edit")]
    edits: Vec<Edit>,
}

/// An edit that replaces a text of a file, or creates a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: String,
    /// The text that the edit replaces. If `None`, the edit creates the file.
    at: Option<String>,
    becomes: String,
    /// The name of a command in `COMMANDS`. The command fails if this edit is missing.
    found_by: String,
}

/// Returns the additions, in the order of `ADDITIONS`.
fn additions() -> Vec<Addition> {
    let read = |name: &str| {
        let path = root().join("tests/recipes").join(name).with_extension("toml");
        let text = fs::read_to_string(&path).expect("an addition");
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    ADDITIONS.iter().map(|name| read(name)).collect()
}

/// Returns the paths that a recipe lists in its steps "Create" and "Change". `page` is the text of CONTRIBUTING.md.
fn listed<'a>(page: &'a str, recipe: &str) -> BTreeSet<&'a str> {
    let section = page.split("\n### ").find_map(|section| section.strip_prefix(recipe)?.strip_prefix('\n'));
    let section = section.unwrap_or_else(|| panic!("CONTRIBUTING.md has no recipe '{recipe}'"));
    let begin = ["\nCreate", "\nChange"].iter().filter_map(|word| section.find(word)).min();
    let steps = section[begin.expect("steps")..].split("\nShows it").next().unwrap_or_default();
    steps.split('`').skip(1).step_by(2).filter(|word| word.contains('/')).collect()
}

#[test]
fn additions_touch_the_files_of_their_recipe() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    for addition in additions() {
        let recipe = &addition.recipe;
        for edit in &addition.edits {
            let is_known = COMMANDS.iter().any(|(name, _)| *name == edit.found_by);
            assert!(is_known, "{recipe}: no command is called '{}'", edit.found_by);
        }
        let listed: BTreeSet<String> =
            listed(&page, recipe).iter().map(|path| path.replace("NAME", &addition.name)).collect();
        // An edit implements the changed behavior if only the command `race` fails without the edit. The file of such
        // an edit differs from addition to addition, so CONTRIBUTING.md cannot name it. These edits are left out here.
        let edited: BTreeSet<String> = (addition.edits.iter().filter(|edit| edit.found_by != "race"))
            .map(|edit| edit.file.strip_prefix("crates/").unwrap_or(&edit.file).to_owned())
            .collect();
        let unneeded: BTreeSet<String> = addition.unneeded.into_keys().collect();
        let both: Vec<_> = edited.intersection(&unneeded).collect();
        assert!(both.is_empty(), "{recipe}: edited, although unneeded: {both:?}");
        let accounted = &edited | &unneeded;
        let (missing, untouched) = (&accounted - &listed, &listed - &accounted);
        assert!(
            missing.is_empty() && untouched.is_empty(),
            "CONTRIBUTING.md, {recipe}: not listed there: {missing:?}; neither edited nor unneeded in \
             tests/recipes: {untouched:?}"
        );
    }
}

/// Returns the content of a file after the edits of all additions. The edit `left_out` is not applied. `None` if the
/// file does not exist.
fn edited(file: &str, additions: &[Addition], left_out: Option<&Edit>) -> Option<String> {
    let mut content = fs::read_to_string(root().join(file)).ok();
    let edits = additions.iter().flat_map(|addition| &addition.edits).filter(|edit| edit.file == file);
    for edit in edits.filter(|edit| left_out.is_none_or(|left_out| !std::ptr::eq(left_out, *edit))) {
        content = Some(match (&edit.at, content) {
            (None, None) => edit.becomes.clone(),
            (Some(at), Some(text)) => {
                let count = text.matches(at).count();
                assert_eq!(count, 1, "tests/recipes: {file} has the text to edit {count} times: '{at}'");
                text.replacen(at, &edit.becomes, 1)
            }
            (at, _) => panic!("tests/recipes: {file}: only an edit without 'at' creates a file: {at:?}"),
        });
    }
    content
}

#[test]
fn the_texts_to_edit_stand_in_their_files_once() {
    let additions = additions();
    for edit in additions.iter().flat_map(|addition| &addition.edits) {
        edited(&edit.file, &additions, None);
        // Applies all edits except `edit`. Panics if one of them replaces a text that `edit` adds.
        edited(&edit.file, &additions, Some(edit));
    }
}

/// A copy of the tree with its own build output. It is removed at the end of the test.
struct TreeCopy {
    root: PathBuf,
}

impl Drop for TreeCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl TreeCopy {
    /// Copies the files that git tracks or would add.
    fn new() -> Self {
        let copy = Self { root: Path::new(env!("CARGO_TARGET_TMPDIR")).join("recipes") };
        let _ = fs::remove_dir_all(&copy.root);
        let list = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root())
            .output()
            .expect("git");
        assert!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
        let files = String::from_utf8(list.stdout).expect("names in UTF-8");
        for file in files.split_terminator('\0') {
            if let Ok(content) = fs::read(root().join(file)) {
                copy.write(file, Some(&content));
            }
        }
        copy
    }

    /// Writes a file of the copy. Removes the file if `content` is `None`.
    fn write(&self, file: &str, content: Option<&[u8]>) {
        let path = self.root.join(file);
        let Some(content) = content else { return fs::remove_file(path).expect("a file to remove") };
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file to write");
    }

    /// Runs cargo without optimization, because compilation takes longer than the tests. Returns the output; an error
    /// if cargo fails.
    fn cargo(&self, arguments: &str) -> Result<String, String> {
        let output = Command::new(env!("CARGO"))
            .current_dir(&self.root)
            .args(arguments.split(' '))
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
            .env_remove("ANABRANCH_FULL")
            .output()
            .expect("cargo");
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if output.status.success() { Ok(out) } else { Err(format!("{out}{err}")) }
    }

    /// Runs a command, and returns an error if the command fails. The command `race` is run once for each entry of
    /// `additions`. It also fails if its output lacks the text in the field `prints`, or if the page times do not
    /// depend on the addition.
    fn run(&self, (name, arguments): (&str, &str), additions: &[Addition]) -> Result<(), String> {
        if name != "race" {
            return self.cargo(arguments).map(drop);
        }
        let race = |flags: &str| self.cargo(&format!("{arguments} --quiet --json - {flags}"));
        let times = |output: &str| -> Vec<String> {
            output.lines().filter(|line| line.contains("\"page_ns\"")).map(str::to_owned).collect()
        };
        for Addition { race: flags, prints, without, .. } in additions {
            let output = race(flags)?;
            if !output.contains(prints) {
                return Err(format!("'{flags}' does not print {prints}"));
            }
            if let Some(part) = without
                && times(&race(&flags.replace(part, ""))?) == times(&output)
            {
                return Err(format!("without '{part}', the times of '{flags}' are the same"));
            }
        }
        Ok(())
    }
}

#[test]
fn each_edit_of_a_recipe_is_needed() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (additions, copy) = (additions(), TreeCopy::new());
    let write = |file: &str, left_out: Option<&Edit>| {
        copy.write(file, edited(file, &additions, left_out).as_deref().map(str::as_bytes));
    };
    let edits = || additions.iter().flat_map(|addition| &addition.edits);
    edits().for_each(|edit| write(&edit.file, None));
    for &command in COMMANDS {
        for edit in edits().filter(|edit| edit.found_by == command.0) {
            eprintln!("{}, without an edit of {}", command.0, edit.file);
            write(&edit.file, Some(edit));
            let is_found = copy.run(command, &additions).is_err();
            write(&edit.file, None);
            let at = edit.at.as_deref().unwrap_or("the whole file");
            assert!(is_found, "{}: 'cargo {}' passes without the edit of '{at}'", edit.file, command.1);
        }
    }
    // These commands come last, because they compile everything.
    for &command in COMMANDS {
        let result = copy.run(command, &additions);
        result.unwrap_or_else(|error| panic!("with all edits, 'cargo {}' fails: {error}", command.1));
    }
}
