//! Checks that a packetdrill script names only fields that the chunks, parameters and error causes have.

use super::codec::flags;
use super::layout::{Family, FieldKind, by_name};
use crate::script::{Node, Value};

/// Checks every field name in these chunks. The error names the first unknown field.
pub(crate) fn check_names(chunks: &[Node]) -> Result<(), String> {
    chunks.iter().try_for_each(|chunk| check(Family::Chunk, chunk))
}

fn check(family: Family, node: &Node) -> Result<(), String> {
    let name = &node.name;
    let layout = by_name(family, name);
    let request = family == Family::Param && name == "RECONFIG_REQUEST_GENERIC";
    if layout.is_none() && *name != family.generic() && !request {
        let what = match family {
            Family::Chunk => "chunk",
            Family::Param => "parameter",
            Family::Cause => "cause",
        };
        return Err(format!("there is no {what} {name}"));
    }
    for (at, (key, value)) in node.fields.iter().enumerate() {
        let here = |kind: FieldKind| match kind {
            FieldKind::Gaps => ["gaps", "dups"].contains(&key.as_str()),
            FieldKind::NrGaps => ["gaps", "nr_gaps", "dups"].contains(&key.as_str()),
            FieldKind::PpidOrFsn => ["ppid", "fsn"].contains(&key.as_str()),
            _ => false,
        };
        // A script may give every item a field `len`, because it may set a wrong length on purpose.
        let known = key == "len"
            || family == Family::Chunk && key == "flgs"
            || match layout {
                Some(layout) => {
                    layout.fields.iter().any(|&(field, kind)| !field.is_empty() && field == key || here(kind))
                }
                None if family == Family::Cause => ["code", "info"].contains(&key.as_str()),
                None => ["type", "val"].contains(&key.as_str()) || request && key == "req_sn",
            };
        if !known {
            return Err(format!("{name} has no field {key}"));
        }
        if node.fields[..at].iter().any(|(before, _)| before == key) {
            return Err(format!("{name} tells {key} twice"));
        }
        if key == "flgs" {
            flags(layout, Some(value))?;
        }
        let list;
        let inside = match value {
            Value::Node(_) => std::slice::from_ref(value),
            Value::List(items) => {
                list = items;
                &list[..]
            }
            _ => &[],
        };
        let kind = layout.and_then(|layout| layout.fields.iter().find(|(field, _)| field == key));
        for item in inside {
            if let Value::Node(item) = item {
                let family = match kind {
                    Some((_, FieldKind::OneChunk)) => Family::Chunk,
                    Some((_, FieldKind::Params | FieldKind::OneParam)) => Family::Param,
                    _ => return Err(format!("{name}: {key} holds no {}", item.name)),
                };
                check(family, item)?;
            }
        }
    }
    let inner = layout.and_then(|layout| {
        layout.fields.iter().find_map(|&(field, kind)| match kind {
            FieldKind::Params if field.is_empty() => Some(Family::Param),
            FieldKind::Causes if field.is_empty() => Some(Family::Cause),
            _ => None,
        })
    });
    match (inner, node.items.first()) {
        (Some(inner), _) => node.items.iter().try_for_each(|item| check(inner, item)),
        (None, Some(item)) => Err(format!("{name} holds no {}", item.name)),
        (None, None) => Ok(()),
    }
}
