//! Variants of a study, with fewer tables, fewer points, no causes, or more contestants. With the same seeds, the tables and contestants of the
//! full study have the same results in a variant. The reason is that combinations of factor levels do not affect each
//! other, and contestants affect each other only if they share the network.

use super::check::Check;
use super::figures::MEAN;
use super::table::level;
use super::{Change, Claim, CopyStatus, Seeds, Size, Study, Table};
use anabranch_lab::plan::Plan;
use anabranch_results::label;
use std::collections::BTreeMap;

impl Study {
    /// Removes all tables except those with these names. Also removes the causes of differences in the removed tables,
    /// and the claims that need a removed table.
    ///
    /// # Errors
    /// A one-line message if there is no such table.
    pub fn only(mut self, names: &[&str]) -> Result<Self, String> {
        let own: Vec<String> = self.tables.iter().map(|table| table.name.clone()).collect();
        if let Some(unknown) = names.iter().find(|name| own.iter().all(|own| own != **name)) {
            let name = &self.definition.name;
            return Err(format!("study {name}: no table '{unknown}'; there are {}", own.join(", ")));
        }
        let has = |table: &str| names.contains(&table);
        self.tables.retain(|table| has(&table.name));
        self.causes.retain(|cause| has(&cause.table));
        let causes = std::mem::take(&mut self.causes);
        let table_of = |check: &Check| match check {
            Check::Table { table, .. } | Check::Prediction(table) => Some(has(table)),
            Check::Cause(id) => Some(causes.iter().any(|cause| cause.id == *id)),
            Check::Feature { .. } | Check::Undecidable(_) => None,
        };
        self.claims.retain(|claim| {
            let needed: Vec<bool> = claim.checks().filter_map(table_of).collect();
            !needed.is_empty() && needed.iter().all(|is_present| *is_present)
        });
        self.causes = causes;
        for figure in &mut self.definition.figures {
            figure.tables.retain(|table| names.contains(&table.as_str()));
            figure.claims.retain(|id| self.claims.iter().any(|claim| claim.id == *id));
        }
        self.definition.figures.retain(|figure| !figure.tables.is_empty() || !figure.claims.is_empty());
        self.readings =
            self.readings.filter(|readings| readings.table_names().all(|name| names.contains(&name)));
        self.stored_scores = super::StoredScores::default();
        self.emulated.retain(|side| names.contains(&side.of.as_str()));
        self.definition.tables = self.tables.iter().map(|table| table.name.clone()).collect();
        self.part = Some(self.definition.tables.join(", "));
        self.page = format!(
            "# {}\n\nTables alone: {}. The whole study has more, and the page of prose.\n",
            self.definition.name,
            self.definition.tables.join(", ")
        );
        Ok(self)
    }

    /// Limits the tables to the points that have these levels of factors. Removes the tables that have no such point,
    /// the causes that are measured at other points, and all claims, because a claim is about a whole table.
    ///
    /// # Errors
    /// A one-line message if no table has such a point.
    pub fn only_at(mut self, levels: &BTreeMap<String, String>) -> Result<Self, String> {
        let has = |table: &Table| levels.iter().all(|(key, own)| levels_of(table, key).contains(own));
        let names: Vec<String> =
            self.tables.iter().filter(|table| has(table)).map(|table| table.name.clone()).collect();
        if names.is_empty() {
            return Err(self.no_such_level(levels));
        }
        self = self.only(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let is_factor =
            |table: &Table, key: &String| table.definition.plan.get(key).is_some_and(toml::Value::is_array);
        let tables = &self.tables;
        self.causes.retain(|cause| {
            let table = tables.iter().find(|table| table.name == cause.table);
            let of_table = |key: &String| table.is_some_and(|table| is_factor(table, key));
            levels.iter().all(|(key, own)| !of_table(key) || cause.at.get(key) == Some(own))
        });
        for table in &mut self.tables {
            table.only = levels.iter().filter(|(key, _)| is_factor(table, key)).map(clone_pair).collect();
            let only = &table.only;
            if let Some(published) = &mut table.published {
                let fits = |labels: &BTreeMap<String, String>| {
                    only.iter()
                        .all(|(key, own)| labels.get(key).is_none_or(|label| label == own && label != MEAN))
                };
                published.rows.retain(|row| fits(&row.labels));
            }
            table.published = table.published.take().filter(|published| !published.rows.is_empty());
        }
        self.claims.clear();
        for figure in &mut self.definition.figures {
            figure.claims.clear();
        }
        self.definition.figures.retain(|figure| !figure.tables.is_empty());
        self.definition
            .graphs
            .retain(|graph| levels.iter().all(|(key, own)| graph.at.get(key).is_none_or(|at| at == own)));
        self.readings = None;
        self.emulated.clear();
        let at: Vec<String> = levels.iter().map(|(key, own)| format!("{key}={own}")).collect();
        let part = format!("{} at {}", self.definition.tables.join(", "), at.join(", "));
        self.page = format!(
            "# {}\n\nOne level alone: {part}. The whole study has more, and the page of prose.\n",
            self.definition.name
        );
        self.part = Some(part);
        Ok(self)
    }

    /// Returns the message for levels that no table has together. It lists the levels or the factors that there are.
    fn no_such_level(&self, levels: &BTreeMap<String, String>) -> String {
        let name = &self.definition.name;
        let is_unknown =
            |key: &str, own: &String| self.tables.iter().all(|table| !levels_of(table, key).contains(own));
        let Some((key, own)) = levels.iter().find(|(key, own)| is_unknown(key, own)) else {
            return format!("no table of {name} has all these levels");
        };
        let known = self.tables.iter().map(|table| (table, levels_of(table, key)));
        let known: Vec<String> = known
            .filter(|(_, levels)| !levels.is_empty())
            .map(|(table, levels)| format!("{} has {}", table.name, levels.join(", ")))
            .collect();
        if !known.is_empty() {
            return format!("no table of {name} has {key}={own}; {}", known.join("; "));
        }
        let factors = self.tables.iter().flat_map(|table| &table.definition.plan);
        let mut factors: Vec<&str> = factors
            .filter(|(key, value)| *key != "transport" && value.is_array())
            .map(|(key, _)| key.as_str())
            .collect();
        factors.sort_unstable();
        factors.dedup();
        let whole = if key == "object" { "; every run has all objects" } else { "" };
        format!("{key} varies in no table of {name}; these vary: {}{whole}", factors.join(", "))
    }

    /// Removes the causes, so that they are not run, and the claims that a cause decides.
    #[must_use]
    pub fn without_causes(mut self) -> Self {
        self.causes.clear();
        self.claims.retain(|claim| !claim.checks().any(|check| matches!(check, Check::Cause(_))));
        for figure in &mut self.definition.figures {
            figure.claims.retain(|id| self.claims.iter().any(|claim| claim.id == *id));
        }
        if self.part.is_none() {
            self.page = format!(
                "# {}\n\nWithout causes, and without the claims that a cause decides. The page of prose quotes causes.\n",
                self.definition.name
            );
        }
        self
    }

    /// Returns the tables that decide a claim, in the order of the study.
    #[must_use]
    pub fn tables_of(&self, claim: &Claim) -> Vec<&str> {
        let needs = |name: &str| {
            claim.checks().any(|check| match check {
                Check::Table { table, .. } | Check::Prediction(table) => table == name,
                Check::Cause(id) => self.causes.iter().any(|cause| cause.id == *id && cause.table == name),
                Check::Feature { .. } | Check::Undecidable(_) => false,
            })
        };
        self.tables.iter().map(|table| table.name.as_str()).filter(|name| needs(name)).collect()
    }

    /// Adds these contestants to each table whose contestants race one at a time. In the other tables, another
    /// contestant would change all results, so these tables stay unchanged. Returns the names of these other tables.
    ///
    /// # Errors
    /// A one-line message if a table already has a contestant with one of the names.
    pub fn also(&mut self, contestants: &[String]) -> Result<Vec<String>, String> {
        let mut left = Vec::new();
        for table in &mut self.tables {
            let plan = &mut table.definition.plan;
            let shared_link = plan.get("shared-link").or_else(|| plan.get("together"));
            if shared_link.is_some_and(|value| value.as_bool() != Some(false)) {
                left.push(table.name.clone());
                continue;
            }
            let Some(all) = plan.get_mut("transport").and_then(toml::Value::as_array_mut) else { continue };
            for text in contestants {
                let name = label::shown(text);
                let is_taken =
                    |one: &toml::Value| one.as_str().is_some_and(|other| label::shown(other) == name);
                if all.iter().any(is_taken) {
                    return Err(format!(
                        "'{text}': {} has a contestant {name}; give this one another name, as mine=sctp:num_ostreams=1",
                        table.name
                    ));
                }
                all.push(toml::Value::String(text.clone()));
                table.added.push(name.to_owned());
            }
        }
        Ok(left)
    }

    /// Returns the warnings that `race` would print for the plans of the tables. Each warning begins with the name of
    /// its table. Names of earlier versions come first. If the study is as shipped and has no further contestants, only
    /// the warnings that the changes cause are returned.
    ///
    /// # Errors
    /// A one-line message if a plan is wrong, or cannot be changed as requested.
    pub fn warnings(&self, size: Size, seeds: &Seeds<'_>) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for table in &self.tables {
            let draft = table.draft(size.of(table), seeds.first, &seeds.changes_of(table, &[]))?;
            let plan = Plan::interpret(draft, seeds.transports).map_err(|error| error.to_string())?;
            all.extend(plan.draft.renamed.iter().cloned());
            let mut warnings = plan.warnings();
            if self.copy == CopyStatus::Same && table.added.is_empty() {
                let draft = table.draft(size.of(table), seeds.first, &[])?;
                let plan = Plan::interpret(draft, seeds.transports).map_err(|error| error.to_string())?;
                let before = plan.warnings();
                let has = |warning: &String| before.iter().any(|one| subject(one) == subject(warning));
                warnings.retain(|warning| !has(warning));
                warnings = warnings.into_iter().map(|warning| of_study(warning, seeds.changes)).collect();
            }
            all.extend(warnings.into_iter().map(|warning| format!("{}: {warning}", table.name)));
        }
        Ok(all)
    }
}

/// Returns the name of the contestant that a warning is about, without its settings, and what the warning says.
fn subject(warning: &str) -> (&str, &str) {
    warning.split_once(": ").map_or(("", warning), |(contestant, what)| (label::shown(contestant), what))
}

/// Replaces the advice of a warning if it concerns a setting that none of the changes sets. To follow the advice would
/// change a second assumption of the study.
fn of_study(warning: String, changes: &[Change]) -> String {
    let is_changed = changes.iter().any(|change| warning.contains(&format!(": {}=", change.key())));
    match warning.rsplit_once("; write ") {
        Some((what, _)) if !is_changed => format!("{what}; this is the study's own value"),
        _ => warning,
    }
}

fn clone_pair((key, level): (&String, &String)) -> (String, String) {
    (key.clone(), level.clone())
}

/// Returns the levels that the plan of a table has for a key; empty if the plan does not have the key.
fn levels_of(table: &Table, key: &str) -> Vec<String> {
    match table.definition.plan.get(key).filter(|_| key != "transport") {
        Some(toml::Value::Array(levels)) => levels.iter().filter_map(level).collect(),
        value => value.and_then(level).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_advises_only_about_what_the_user_changed() {
        let changes = |text| [Change::parse(text).expect("a change")];
        let warning =
            || "tcp=tcp:rcvbuf=128KiB: rcvbuf=131072B is below the 200kB; write rcvbuf=200kB".to_owned();
        let own = "tcp=tcp:rcvbuf=128KiB: rcvbuf=131072B is below the 200kB; this is the study's own value";
        assert_eq!(of_study(warning(), &changes("rtt=160ms")), own);
        assert_eq!(of_study(warning(), &changes("tcp:rcvbuf=128KiB")), warning());
        assert_eq!(of_study("no advice".to_owned(), &changes("rtt=160ms")), "no advice");
    }
}
