//! `race --list WHAT`.

use anabranch_http::page::shipped;
use anabranch_lab::plan::arm;
use anabranch_lab::plan::workload::readable;
use anabranch_link::preset::PRESETS;
use std::fmt::Write;

/// The list as text.
pub fn render(what: &str) -> String {
    match what {
        "profiles" => arm::profile_listing(),
        "transports" => arm::listing(),
        "presets" => {
            let mut out = String::new();
            for preset in PRESETS {
                let _ = writeln!(out, "{:<12} {:<32} {}", preset.name, preset.settings, preset.source);
            }
            out
        }
        _ => {
            let mut out = String::new();
            for page in shipped::NAMES.iter().filter_map(|name| shipped::shipped(name)) {
                let size = readable(page.body_bytes());
                let (objects, hosts) = (page.objects.len(), page.hosts.len());
                let _ = writeln!(
                    out,
                    "{:<18} {objects:>4} objects  {size:>8}  {hosts:>2} hosts  {}",
                    page.name, page.source
                );
            }
            out
        }
    }
}
