//! Checks which modules of a crate import each other. `CIRCLES` lists the groups of modules that may import each other,
//! with reasons.
//!
//! Only sibling modules are compared. An import in a child module counts as an import of the sibling that contains the
//! child. A child may import from its parent, so that the methods of a type can be in several files. Calls of methods
//! do not count as imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The groups of sibling modules that import each other, in sorted order, each with the reason. There may be at most
/// six groups.
const CIRCLES: &[(&str, &str)] = &[
    (
        "cli: args bulk link load merge packages race sweep",
        "the command line is one table of verbs, and each verb says which flags it shares with others",
    ),
    (
        "cli: listen threads",
        "threads share the sockets that a listener opens, and a listener waits for its threads",
    ),
    (
        "link: contention half_duplex loss queue rate reorder spec table trace",
        "an impairment is one file with its setting and its element: the spec holds the settings, the table builds the \
         elements",
    ),
];

type Module = Vec<String>;

/// Returns every module of the crate with the code of its file, without tests.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(source).expect("below").with_extension("");
            let mut module: Module =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.iter().any(|part| part == "tests" || part == "testing") {
                continue;
            }
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            found.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
    found
}

/// Appends the paths in a tree of imports. For example, `a::{b, c::d}` has the paths `a::b` and `a::c::d`.
fn expand(tree: &str, before: &[String], paths: &mut Vec<Module>) {
    let tree = tree.trim();
    let head = tree.split(['{', ',', ' ', ';', ')', '(', '<', '>', '&', '\n']).next().unwrap_or_default();
    let mut path = before.to_vec();
    path.extend(head.split("::").filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(group) = tree.strip_prefix(head).and_then(|rest| rest.strip_prefix('{')) else {
        return paths.push(path);
    };
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if !group[begin..at].trim().is_empty() {
                    expand(&group[begin..at], &path, paths);
                }
                begin = at + 1;
                if letter == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

/// Returns the modules of its own crate that the code of a module uses.
fn imports(module: &Module, code: &str, all: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut paths = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let begins =
                !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter));
            if begins {
                expand(&code[at..], &[], &mut paths);
            }
        }
    }
    let absolute = |path: Module| {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let base = if ups > 0 { &module[..module.len().saturating_sub(ups)] } else { &[] };
        let full: Module = base.iter().chain(&path[ups.max(1)..]).cloned().collect();
        (0..=full.len()).rev().map(|length| full[..length].to_vec()).find(|part| all.contains_key(part))
    };
    paths.into_iter().filter_map(absolute).collect()
}

/// Returns pairs of siblings: the first sibling of a pair imports the second. The imports of a sibling include the
/// imports of all modules within it.
fn sibling_edges(source: &Path) -> BTreeSet<(String, String)> {
    let all = modules(source);
    let mut edges = BTreeSet::new();
    for (module, code) in &all {
        for target in imports(module, code, &all) {
            let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            if common < module.len() && common < target.len() {
                edges.insert((module[..=common].join("/"), target[..=common].join("/")));
            }
        }
    }
    edges
}

/// Returns the groups of modules that import each other in a circle. Within a group, a chain of imports leads from
/// each module to each other module.
fn circles(edges: &BTreeSet<(String, String)>) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut found, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = next.pop() {
            for (_, to) in edges.range((at.clone(), String::new())..).take_while(|(from, _)| *from == at) {
                if found.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        found
    };
    let reach: BTreeMap<String, BTreeSet<String>> =
        edges.iter().map(|(from, _)| (from.clone(), reached(from))).collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (module, within) in reach.iter().filter(|(module, within)| within.contains(*module)) {
        if !groups.iter().any(|group| group.contains(module)) {
            groups.push(
                within
                    .iter()
                    .filter(|other| reach.get(*other).is_some_and(|reachable| reachable.contains(module)))
                    .cloned()
                    .collect(),
            );
        }
    }
    groups
}

#[test]
fn modules_import_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).expect("the crates") {
        let path = entry.expect("a crate").path();
        let name = path.file_name().expect("its name").to_string_lossy().into_owned();
        let edges = sibling_edges(&path.join("src"));
        if name == "sctp" {
            assert!(edges.contains(&("endpoint".to_owned(), "association".to_owned())), "imports are read");
        }
        found.extend(
            circles(&edges).into_iter().map(|group| format!("{name}: {}", Vec::from_iter(group).join(" "))),
        );
    }
    found.sort();
    let allowed: Vec<_> = CIRCLES.iter().map(|(group, _)| (*group).to_owned()).collect();
    assert_eq!(found, allowed, "circles that are there, and those that are explained");
}
