//! Prints the lists of `race --list WHAT`. `link --list` prints one of these lists.

use anabranch_http::har::shipped;
use anabranch_lab::plan::contestant;
use anabranch_lab::plan::workload::readable;
use anabranch_link::preset::PRESETS;
use anabranch_transports::Transports;
use std::fmt::Write;

/// Returns the list that `subject` names, for example `profiles`, as text.
pub fn render(subject: &str, transports: &Transports) -> String {
    match subject {
        "profiles" => contestant::profile_listing(transports),
        "transports" => contestant::listing(transports),
        "presets" => presets(),
        _ => {
            let mut out = String::new();
            for page in shipped::NAMES.iter().filter_map(|name| shipped::shipped(name)) {
                let size = readable(page.body_bytes());
                let (objects, hosts) = (page.objects.len(), page.hosts.len());
                let _ = writeln!(
                    out,
                    "{:<18} {objects:>4} objects  {size:>8}  {hosts:>2} hosts\n{}",
                    page.name,
                    wrapped(&page.source)
                );
            }
            out
        }
    }
}

/// Returns the list of networks that `--preset` can name.
pub fn presets() -> String {
    let mut out = String::new();
    for preset in PRESETS {
        let settings = preset.settings.replace(',', ", ");
        let _ = writeln!(out, "{:<12} {}: {settings}\n{}", preset.name, preset.about, wrapped(preset.source));
    }
    out
}

/// Wraps text at 100 columns and indents it.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = usize::MAX;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column.saturating_add(1 + length) > 100 {
            out += if out.is_empty() { "   " } else { "\n   " };
            column = 3;
        }
        out += " ";
        out += word;
        column += 1 + length;
    }
    out
}
