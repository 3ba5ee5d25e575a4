//! Writes the files of `--out DIR`: the result, the report, page loads as HAR, packets as compressed pcapng and as a trace
//! of ns-2, and qlog files of QUIC connections.

use crate::Failure;
use crate::files::PendingFile;
use crate::inputs;
use crate::outputs::reproducing_command;
use anabranch_http::har::file::GzipReader;
use anabranch_lab::plan::{Plan, file};
use anabranch_lab::run::files::{self, page_load};
use anabranch_lab::run::one::HostPackets;
use anabranch_lab::run::{batch, ns_trace, one};
use anabranch_report::{Captured, PageContext, table};
use anabranch_results::course::Course;
use anabranch_results::{Race, Run};
use anabranch_transports::Transports;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use std::path::Path;

/// Creates all files of `--out DIR`, without publishing them. The caller publishes `results.json` last, so its
/// existence means that all other files exist.
///
/// # Errors
/// [`Failure`] if a file cannot be written, or if a run gives another result when it is repeated to capture its
/// packets.
pub fn fill(
    directory: &Path,
    plan: &Plan,
    race: &Race,
    json: &str,
    (pcap, kept): (&str, Option<&[HostPackets]>),
    trace: bool,
    transports: &Transports,
) -> Result<Vec<PendingFile>, Failure> {
    let (mut files, mut drawn) = (Vec::new(), Vec::new());
    for p in 0..race.points.len() {
        let prefix = if race.points.len() > 1 { format!("point-{}.", p + 1) } else { String::new() };
        // If there are many points, the report draws individual packets of only the first `DRAWN_POINTS` points.
        let of = PointFiles { plan, race, point: p, prefix: &prefix, draw: p < DRAWN_POINTS, trace };
        let (new, captured) = of_point(directory, &of, (pcap, kept))?;
        files.extend(new);
        drawn.extend(captured);
    }
    let inputs = inputs::of(&race.plan);
    let terms = |point| table::terms(point, &transports.protocols(), &anabranch_report::names(point));
    let terms: Vec<Vec<String>> = race.points.iter().map(terms).collect();
    let page_context =
        PageContext { command: &reproducing_command(), inputs: &inputs, terms: &terms, captures: &drawn };
    let mut add = |name: String, content: &[u8]| -> Result<(), Failure> {
        files.push(PendingFile::new(&directory.join(name))?.fill(content)?);
        Ok(())
    };
    add("report.html".to_owned(), anabranch_report::html(race, &page_context).as_bytes())?;
    add("results.json".to_owned(), json.as_bytes())?;
    Ok(files)
}

/// A point of a sweep whose result files are written, and the names of these files.
pub struct PointFiles<'a> {
    /// The plan of the race.
    pub plan: &'a Plan,
    /// The result of the race.
    pub race: &'a Race,
    /// The index of the point in `plan` and in `race`, from 0.
    pub point: usize,
    /// The prefix of the names of the point's files.
    pub prefix: &'a str,
    /// Whether the report shows every packet of the point's median runs, in a figure for each contestant.
    pub draw: bool,
    /// Whether a trace in the format of ns-2 accompanies the captures of each run.
    pub trace: bool,
}

/// Writes the page loads (HAR) and packet captures of one point of the plan to files. Returns the files, which still
/// have to be published, and the decoded captures that the report draws.
///
/// # Errors
/// The errors of [`fill`].
pub fn of_point(
    directory: &Path,
    of: &PointFiles<'_>,
    (pcap, host_packets): (&str, Option<&[HostPackets]>),
) -> Result<(Vec<PendingFile>, Vec<Captured>), Failure> {
    let (mut files, mut captures, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |name: String, content: &[u8]| -> Result<(), Failure> {
        files.push(PendingFile::new(&directory.join(name))?.fill(content)?);
        Ok(())
    };
    let &PointFiles { plan, point: p, draw, trace, .. } = of;
    let point = &of.race.points[p];
    let workload = &plan.points[p].workload;
    for (a, (contestant, name)) in point.contestants.iter().zip(files::names(point, of.prefix)).enumerate() {
        for run in &contestant.runs {
            let median = run.seed == contestant.median_seed;
            if median && workload.bulk.is_none() && workload.messages.is_none() {
                let comment = format!("{}, seed {}, {}", contestant.label(), run.seed, point.network);
                let text = page_load(&workload.page, &contestant.settings, run, &comment);
                add(format!("{name}.seed-{}.har", run.seed), text.as_bytes())?;
            }
            let has_capture = pcap == "all" || (["median", "ends"].contains(&pcap) && median);
            let keeps = |host: &str| pcap != "median" || files::is_kept(host, workload.servers());
            let draw = draw && median;
            match host_packets {
                _ if !has_capture => {}
                Some(host_packets) => {
                    let own = |packets: &&HostPackets| {
                        (packets.point, packets.contestant, packets.seed) == (p, a, run.seed)
                    };
                    for packets in host_packets.iter().filter(own).filter(|packets| keeps(packets.host)) {
                        let file = format!("{name}.seed-{}.{}.{CAPTURE}", run.seed, packets.host);
                        let mut file = PendingFile::new(&directory.join(file))?;
                        let (mut whole, mut packed) = (Vec::new(), packer());
                        let read = packets.each(|piece| {
                            if draw && packets.host == "server" {
                                whole.extend_from_slice(piece);
                            }
                            // Compressing into memory cannot fail.
                            let _ = packed.write_all(piece);
                            file.write(&std::mem::take(packed.get_mut()))
                        });
                        read.map_err(|error| Failure::Host(format!("cannot read a capture: {error}")))??;
                        file.write(&packed.finish().unwrap_or_default())?;
                        drawn.extend(Captured::at_server(&whole, Course::default(), (p, a), run.seed));
                        captures.push(file.done()?);
                    }
                }
                None => {
                    let wanted = Wanted { trace, keeps: &keeps };
                    let server = recapture(plan, (p, a), run, &name, &wanted, &mut add)?.filter(|_| draw);
                    drawn.extend(
                        server.and_then(|(server, course)| {
                            Captured::at_server(&server, course, (p, a), run.seed)
                        }),
                    );
                }
            }
        }
    }
    files.append(&mut captures);
    Ok((files, drawn))
}

/// The ending of the names of captures. Wireshark, tshark and `decode` read captures that are compressed by gzip.
pub const CAPTURE: &str = "pcapng.gz";

/// Returns a compressor that writes to memory.
fn packer() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}

/// Compresses `bytes` by gzip.
pub fn packed(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut packed = packer();
    let done = packed.write_all(bytes).and_then(|()| packed.finish());
    done.map_err(|error| Failure::Internal(format!("cannot compress a file: {error}")))
}

/// Returns the content of a compressed file, at most [`MAX_RESULT`](file::MAX_RESULT) bytes of it.
pub fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzipReader::new(packed).take(file::MAX_RESULT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The files to keep from a run that is repeated.
struct Wanted<'a> {
    /// Whether a trace in the format of ns-2 is wanted.
    trace: bool,
    /// Returns whether the capture of a host is wanted.
    keeps: &'a dyn Fn(&str) -> bool,
}

/// Lists captures and page loads that an earlier race left in `directory`, excluding `files`. They are only reported,
/// because the user did not ask to delete them.
pub fn left_over(directory: &Path, files: &[PendingFile]) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_left_over = |name: &String| {
        name.contains(".seed-")
            && [".pcapng", ".pcapng.gz", ".har", ".sqlog", ".tr"].iter().any(|ending| name.ends_with(ending))
            && !files.iter().any(|file| file.user_path().file_name().is_some_and(|new| *new == **name))
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut old: Vec<String> = names.filter(is_left_over).collect();
    old.sort();
    old
}

/// The maximum number of points for which the report draws the packets of median runs. These points are the first
/// points of the plan.
pub const DRAWN_POINTS: usize = 4;

/// Repeats a run with the same seed, this time capturing packets. Returns the packets captured at the first server, and
/// the `Course` of the run. The `Course` holds measurements that a packet capture does not contain.
fn recapture(
    plan: &Plan,
    (p, a): (usize, usize),
    run: &Run,
    name: &str,
    wanted: &Wanted<'_>,
    mut add: impl FnMut(String, &[u8]) -> Result<(), Failure>,
) -> Result<Option<(Vec<u8>, Course)>, Failure> {
    // Contestants that shared the network must run together again. Only the packets of contestant `a` are kept.
    let (contestant, index) = if plan.together { (None, a) } else { (Some(a), 0) };
    let scenario = batch::scenario(plan, p, contestant, run.seed);
    let (runs, captures) = one::capture(&scenario).map_err(Failure::Internal)?;
    if runs.get(index) != Some(run) {
        let message =
            format!("{name}, seed {}: the run with captures differs from the run without", run.seed);
        return Err(Failure::Internal(message));
    }
    let own: Vec<_> = captures.into_iter().filter(|captured| captured.contestant == index).collect();
    if wanted.trace {
        let hosts: Vec<&[u8]> = own.iter().map(|captured| captured.pcapng.as_slice()).collect();
        let text = ns_trace::of_run(&hosts).map_err(|error| Failure::Internal(error.to_string()))?;
        add(format!("{name}.seed-{}.tr", run.seed), text.as_bytes())?;
    }
    let mut server = None;
    for captured in own {
        if (wanted.keeps)(&captured.host) {
            let packed = packed(&captured.pcapng)?;
            add(format!("{name}.seed-{}.{}.{CAPTURE}", run.seed, captured.host), &packed)?;
            for log in &captured.logs {
                add(format!("{name}.seed-{}.{}", run.seed, log.name), &log.content)?;
            }
        }
        if captured.host == "server" {
            server = Some((captured.pcapng, captured.course));
        }
    }
    Ok(server)
}
