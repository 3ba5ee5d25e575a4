//! Compares the golden texts in the tests of two source trees. A golden text is the content of an `expect![..]`.

use std::collections::BTreeSet;
use std::path::Path;

/// Returns the expected texts (`expect!`) in the tests of tree `before` that are missing in tree `after`. Each text is
/// represented by its first non-empty line.
pub fn lost(before: &Path, after: &Path) -> Result<Vec<String>, String> {
    let (before, after) = (texts(before)?, texts(after)?);
    let first_line =
        |text: &String| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    Ok(before.difference(&after).filter_map(first_line).collect())
}

fn texts(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut texts = BTreeSet::new();
    for folder in ["crates", "tests", "interop", "conformance"] {
        collect(&root.join(folder), &mut texts).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    Ok(texts)
}

fn collect(folder: &Path, texts: &mut BTreeSet<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path)?;
            for part in source.split("expect![[r#\"").skip(1) {
                // Leading spaces are removed, because the indentation changes with the surrounding code.
                let lines = part.split("\"#]]").next().unwrap_or_default().lines().map(str::trim);
                texts.insert(lines.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    Ok(())
}
