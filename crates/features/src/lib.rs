//! The feature table, which shows the features of each transport. Experiments in the simulation decide its cells.
//!
//! Each row of the table is a feature, and each column a transport. A probe in the simulation determines every cell. No
//! cell is a constant: if a transport's feature breaks, its row changes. The cells of a published table are shown for
//! comparison. Further rows show features that the published table lacks. Packet ladders explain some rows.

mod connection;
mod extra_rows;
mod flood;
mod harness;
mod ladders;
mod published_rows;
mod reasons;
mod spoofer;
mod testbed;

use anabranch_wire::ladder::Transport;
use harness::{Harness, MessageTransport};
use serde::Serialize;
use std::fmt::Write;
use testbed::Testbed;

/// The transport that a column of the feature table describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// SCTP.
    Sctp,
}

impl TransportKind {
    /// All transports, in the order of the feature table's columns.
    pub const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Sctp];

    /// Returns the usual spelling of the transport's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Sctp => "SCTP",
        }
    }

    /// Returns the transport with its default profile, changed by these knobs and values.
    fn carrier(self, changes: &[(&str, &str)]) -> MessageTransport {
        match self {
            Self::Udp => MessageTransport::Udp,
            Self::Tcp => MessageTransport::tcp(changes),
            Self::Sctp => MessageTransport::sctp(changes),
        }
    }

    const fn ladder(self) -> Transport {
        match self {
            Self::Tcp => Transport::Tcp,
            _ => Transport::Sctp,
        }
    }
}

/// Whether a transport has a feature: the verdict in a cell of the feature table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureVerdict {
    /// The transport has the feature.
    Yes,
    /// The transport does not have the feature.
    No,
    /// The transport has the feature only with certain settings: by default the feature is off, or it can be switched
    /// off.
    Optional,
    /// The question does not apply to the transport.
    #[serde(rename = "n/a")]
    NotApplicable,
}

impl FeatureVerdict {
    const fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }

    /// Returns the word that the tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Optional => "optional",
            Self::NotApplicable => "n/a",
        }
    }
}

/// The result of a probe: one cell of the feature table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FeatureCell {
    /// Whether the transport has the feature.
    pub verdict: FeatureVerdict,
    /// The observation of the probe, in a few words.
    pub observed: String,
}

impl FeatureCell {
    fn of(yes: bool, observed: String) -> Self {
        Self { verdict: FeatureVerdict::of(yes), observed }
    }

    /// Derives the verdict from two runs of a probe: with default settings, and with the mechanism switched on.
    fn switched(by_default: bool, switched_on: bool, observed: String) -> Self {
        let verdict = match (by_default, switched_on) {
            (true, _) => FeatureVerdict::Yes,
            (false, true) => FeatureVerdict::Optional,
            (false, false) => FeatureVerdict::No,
        };
        Self { verdict, observed }
    }
}

/// A row of the feature table (a feature), and the probe that decides its cells.
struct Row {
    name: &'static str,
    /// A description of the experiment that the probe carries out.
    experiment: &'static str,
    probe: fn(TransportKind) -> Result<FeatureCell, String>,
}

/// The results of one row of the feature table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// The name of the feature.
    pub feature: String,
    /// A description of the experiment that decides the row.
    pub done: String,
    /// The cells of the row, one per transport.
    pub cells: Vec<Column>,
}

/// The cell of one transport in a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// The transport's name.
    pub transport: String,
    /// The result of the probe for this transport.
    #[serde(flatten)]
    pub cell: FeatureCell,
    /// The value in the published table; `None` for a row that is not in the published table.
    pub published: Option<String>,
    /// Why the result differs from the published value; `None` if they agree or nothing is published.
    pub why: Option<String>,
}

/// The complete feature table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Features {
    /// Name and version of the schema.
    pub schema: &'static str,
    /// The rows that are also in the published table.
    pub rows: Vec<Line>,
    /// The rows that are not in the published table.
    #[serde(rename = "further")]
    pub extra: Vec<Line>,
    /// The packet ladders, each with title and note.
    pub ladders: Vec<Drawing>,
}

/// A packet ladder (sequence diagram) of one conversation between the hosts A and B.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Drawing {
    /// The title of the diagram.
    pub title: String,
    /// A note that says what the ladder shows.
    pub note: String,
    /// The packets as seen by host A, as a ladder diagram.
    pub ladder: String,
}

/// The number of rows whose probes [`run`] runs.
pub const ROWS: usize = published_rows::ROWS.len() + extra_rows::ROWS.len();

/// Runs every probe, and calls `progress` with the number of finished rows.
///
/// # Errors
/// A one-line message with row and transport if a probe could not be run, which is a defect in this program.
pub fn run(mut progress: impl FnMut(usize)) -> Result<Features, String> {
    let mut done = 0;
    let mut lines = |rows: &[Row]| {
        let lines = rows.iter().map(|row| {
            let line = row.line()?;
            done += 1;
            progress(done);
            Ok(line)
        });
        lines.collect::<Result<_, String>>()
    };
    Ok(Features {
        schema: "anabranch.features/1",
        rows: lines(published_rows::ROWS)?,
        extra: lines(extra_rows::ROWS)?,
        ladders: ladders::all()?,
    })
}

/// Runs the probes of one row, either a published row or an extra row.
///
/// # Errors
/// A one-line message if there is no such row, or the error of [`run`].
pub fn line(feature: &str) -> Result<Line, String> {
    let row = published_rows::ROWS.iter().chain(extra_rows::ROWS).find(|row| row.name == feature);
    row.ok_or_else(|| format!("no row '{feature}' in the features"))?.line()
}

/// Runs the probe of a row against a transport with the settings of a profile and no others. Only the row about SYN
/// flooding has such a probe, for TCP.
///
/// # Errors
/// A one-line message if there is no such profile or no such probe.
pub fn with_profile(feature: &str, transport: &str, profile: &str) -> Result<FeatureCell, String> {
    match (feature, transport) {
        ("protection against SYN flooding", "tcp") => flood::with_tcp_profile(profile),
        _ => Err(format!("'{feature}': no probe of this row runs {transport} with a profile")),
    }
}

impl Row {
    /// Runs the row's probe over each transport.
    fn line(&self) -> Result<Line, String> {
        let column = |kind: TransportKind| -> Result<Column, String> {
            let cell =
                (self.probe)(kind).map_err(|error| format!("{}, {}: {error}", self.name, kind.name()))?;
            let published = published(self.name, kind);
            let differs = published.as_ref().is_some_and(|text| text != cell.verdict.name());
            let reason = differs.then(|| reasons::of(self.name, kind, cell.verdict).to_owned());
            Ok(Column { transport: kind.name().to_owned(), cell, published, why: reason })
        };
        Ok(Line {
            feature: self.name.to_owned(),
            done: self.experiment.to_owned(),
            cells: TransportKind::ALL.into_iter().map(column).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the value of a cell in the published table; `None` if the table does not have the feature.
fn published(feature: &str, kind: TransportKind) -> Option<String> {
    let column = match kind {
        TransportKind::Sctp => 1,
        TransportKind::Tcp => 2,
        TransportKind::Udp => 3,
    };
    let mut rows = PUBLISHED.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
    let mut row = rows.find(|row| row.clone().next() == Some(feature))?;
    row.nth(column).map(str::to_owned)
}

const PUBLISHED: &str = include_str!("published.csv");

/// Starts both hosts on `testbed`, and runs `probe` with them.
fn with_harness<T>(
    testbed: &Testbed,
    carrier: &MessageTransport,
    probe: impl AsyncFnOnce(&mut Harness) -> T,
) -> Result<T, String> {
    testbed.run(async {
        let mut harness = Harness::start(testbed, carrier).await?;
        Ok(probe(&mut harness).await)
    })
}

/// Starts both hosts, connects them, and runs `probe` with them.
fn connected<T>(
    testbed: &Testbed,
    carrier: &MessageTransport,
    probe: impl AsyncFnOnce(&mut Harness) -> T,
) -> Result<T, String> {
    with_harness(testbed, carrier, async |harness| {
        harness.connect().await;
        probe(harness).await
    })
}

/// Makes the table cell of a feature that SCTP has only with the settings in `option`. The function `with` makes a run
/// with the given settings and returns an observation. The cell shows the run without settings and, for SCTP, the run
/// with `option`. `words` holds the names of the two runs, the name of the run with `option` first.
fn switched<T: Copy>(
    kind: TransportKind,
    (option, words): (&[(&str, &str)], [&str; 2]),
    with: impl Fn(&[(&str, &str)]) -> Result<T, String>,
    good: impl Fn(T) -> bool,
    tell: impl Fn(T) -> String,
) -> Result<FeatureCell, String> {
    let plain = with(&[])?;
    if kind != TransportKind::Sctp {
        return Ok(FeatureCell::of(good(plain), tell(plain)));
    }
    let on = with(option)?;
    let [with, without] = words;
    let observed = format!("{with} {}; {without} {}", tell(on), tell(plain));
    Ok(FeatureCell::switched(good(plain), good(on), observed))
}

impl Features {
    /// Returns the number of cells that differ from the published table without a known reason.
    #[must_use]
    pub fn unexplained(&self) -> usize {
        let cells = self.rows.iter().flat_map(|line| &line.cells);
        cells.filter(|column| column.why.as_deref() == Some(reasons::UNKNOWN)).count()
    }

    /// Renders the table as JSON, schema `anabranch.features/1`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// Renders only the two tables: the published rows and the extra rows.
    #[must_use]
    pub fn tables(&self) -> String {
        let title = "rows of the published table: what we find (was: what is published, where it differs)";
        table(title, &self.rows) + &table("\nfurther rows", &self.extra)
    }

    /// Renders everything as text: the two tables, the experiments with observations, and the packet ladders (sequence
    /// diagrams).
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.tables();
        out += "\nwhat was done, and what was seen\n";
        for line in self.rows.iter().chain(&self.extra) {
            let _ = write!(out, "\n{}\n  {}\n", line.feature, line.done);
            for column in &line.cells {
                let _ = writeln!(
                    out,
                    "  {:<5} {:<9} {}",
                    column.transport,
                    column.cell.verdict.name(),
                    column.cell.observed
                );
                if let (Some(published), Some(reason)) = (&column.published, &column.why) {
                    let _ = writeln!(out, "        published: {published}. {reason}");
                }
            }
        }
        for (title, columns) in [("set-up", &ladders::SETUPS[..]), ("termination", &ladders::ENDINGS)] {
            let _ =
                write!(out, "\n{title}, side by side\n\n{}", ladders::side_by_side(columns, &self.ladders));
        }
        for drawing in &self.ladders {
            let _ = write!(out, "\n{}\n  {}\n\n{}", drawing.title, drawing.note, drawing.ladder);
        }
        out
    }
}

fn table(title: &str, lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.feature.chars().count()).max().unwrap_or(0);
    let mut out = format!("{title}\n\n{:<width$}", "");
    for kind in TransportKind::ALL {
        let _ = write!(out, "  {:<20}", kind.name());
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    for line in lines {
        let mut row = format!("{:<width$}", line.feature);
        for column in &line.cells {
            let own_verdict = column.cell.verdict.name();
            let text = match &column.published {
                Some(published) if published != own_verdict => format!("{own_verdict} (was {published})"),
                _ => own_verdict.to_owned(),
            };
            let _ = write!(row, "  {text:<20}");
        }
        out += row.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
