//! `anabranch merge`: merges the shards of a sweep.

use crate::flag::flag;
use crate::race::RaceOutputs;
use crate::sweep::directory::{Directory, manifest};
use crate::sweep::result;
use crate::{Completion, Failure};
use anabranch_lab::sweep::{Manifest, Shard};
use anabranch_transports::Transports;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the definition of the `merge` command.
pub fn command() -> Command {
    Command::new("merge")
        .about("Put the shards of a sweep together")
        .long_about(
            "Puts together the directories that `race --shard 1/N --out DIR` to `race --shard N/N --out DIR` have written, \
             on any machines. The output equals that of a race on one machine, byte for byte.\n\n\
             Each shard must be given once and be finished. All must have the same plan, files and version.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch race --objects 4x20kB --loss 0,1%,2% --shard 1/2 --out shard-1\n  \
             anabranch race --objects 4x20kB --loss 0,1%,2% --shard 2/2 --out shard-2\n  \
             anabranch merge shard-1 shard-2 -o whole\n\n\
             Exit: 0 done, 1 a transfer failed or an [[expect]] was missed, 2 usage, 3 not possible here, 130 interrupted.",
        )
        .arg(Arg::new("shard").value_name("DIR").required(true).action(ArgAction::Append).num_args(1..).help("The directories of the shards"))
        .arg(
            flag("out", "DIR", "Write the whole sweep to this directory, with results.json and report.html")
                .short('o')
                .required(true),
        )
}

/// Runs the `merge` command.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let paths: Vec<&Path> = matches
        .get_many::<String>("shard")
        .into_iter()
        .flatten()
        .map(|path| Path::new(path.as_str()))
        .collect();
    let target = Path::new(matches.get_one::<String>("out").map_or("", String::as_str));
    if target.as_os_str().is_empty() {
        return Err(Failure::Usage("--out: a value is missing; write a directory".to_owned()));
    }
    let shards = shards(&paths)?;
    let Some(first) = shards.values().next() else { return Ok(Completion::Well) };
    // Every point of the sweep is read and checked before anything is written.
    for shard in shards.values() {
        shard.check_strays()?;
        let missing = shard.numbers().filter(|number| shard.size(*number) == 0).count();
        if missing > 0 {
            let (path, all) = (shard.path.display(), shard.numbers().count());
            return Err(Failure::Usage(format!(
                "'{path}' is not finished: {missing} of its {all} points are missing; go on with race --resume {path}"
            )));
        }
        for number in shard.numbers() {
            shard.read(number)?;
        }
    }
    let whole = Directory::begin(target, Manifest { shard: None, ..first.manifest.clone() })?;
    for shard in shards.values() {
        for number in shard.numbers() {
            if let Some(record) = shard.read(number)? {
                whole.take(shard, number, &record)?;
            }
        }
    }
    result::write(&whole, RaceOutputs::none(transports))
}

/// Opens the directories at `paths`, each of which holds a shard (a part) of a sweep. Returns the directories by shard.
/// Fails if they belong to different sweeps, or if a shard of the sweep is missing or given twice.
fn shards(paths: &[&Path]) -> Result<BTreeMap<Shard, Directory>, Failure> {
    let mut shards: BTreeMap<Shard, Directory> = BTreeMap::new();
    for path in paths {
        let refused = |reason: String| Failure::Usage(format!("'{}' {reason}", path.display()));
        manifest(path)?;
        let directory = Directory::open(path, false)?;
        let shard = directory.part().ok_or_else(|| refused("is a whole sweep, not a shard".to_owned()))?;
        if let Some(first) = shards.values().next() {
            let first_path = first.path.display();
            if let Some(difference) = first.manifest.difference(&directory.manifest) {
                return Err(refused(format!("is of another sweep than '{first_path}': it {difference}")));
            }
            if let Some(part) = first.part().filter(|part| part.of() != shard.of()) {
                return Err(refused(format!("is shard {shard}, where '{first_path}' is shard {part}")));
            }
        }
        if let Some(twin) = shards.get(&shard) {
            return Err(refused(format!("is shard {shard}, as '{}' is", twin.path.display())));
        }
        shards.insert(shard, directory);
    }
    let of = shards.keys().next().map_or(0, |shard| shard.of());
    let present: Vec<u64> = shards.keys().map(|shard| shard.index()).collect();
    let missing: Vec<String> =
        (1..=of).filter(|index| !present.contains(index)).map(|index| format!("{index}/{of}")).collect();
    match missing.as_slice() {
        [] => Ok(shards),
        [one] => Err(Failure::Usage(format!("shard {one} is missing"))),
        [first, .., last] if missing.len() > 8 => {
            Err(Failure::Usage(format!("{} shards from {first} to {last} are missing", missing.len())))
        }
        several => Err(Failure::Usage(format!("shards {} are missing", several.join(", ")))),
    }
}
