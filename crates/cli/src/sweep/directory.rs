//! The directory of a sweep. The file `sweep.json` describes the sweep. The folder `points/` holds the result file
//! (compressed JSON) of each completed point, and that point's HAR files (page loads) and packet captures.
//!
//! The first points (at most [`out::DRAWN_POINTS`]) also have `course.json` files. These files hold events that the
//! report draws and that packet captures do not show.
//!
//! All files of a point are written under temporary names. The result file gets its final name last, so a result file
//! under its final name means that the point is complete. A command that writes to the directory holds a lock on
//! `sweep.json`, so that there is only one writer. If a writer is killed, another command can resume the sweep.

use crate::Failure;
use crate::files::{self, EntryKind, PendingFile};
use crate::out;
use anabranch_lab::plan::file;
use anabranch_lab::run;
use anabranch_lab::sweep::{Manifest, PointRecord, Shard, manifest, record};
use anabranch_results::{Expectation, Point};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The maximum size of `sweep.json` in bytes.
const MAX_MANIFEST: u64 = file::MAX_PLAN;

/// An open sweep directory.
pub struct Directory {
    /// The path of the directory, as the user wrote it.
    pub path: PathBuf,
    /// The contents of `sweep.json`.
    pub manifest: Manifest,
    identity: String,
    part: Option<Shard>,
    /// The lock on `sweep.json`, held while this value lives.
    _lock: File,
}

/// Reads the manifest of the sweep in the directory `path`, without taking the lock.
pub fn manifest(path: &Path) -> Result<Manifest, Failure> {
    let name = path.join(manifest::NAME);
    if !files::has_own(&name, EntryKind::File)? {
        let problem = if path.is_dir() { "has no sweep.json" } else { "is no directory" };
        return Err(Failure::Usage(format!("'{}' holds no sweep: it {problem}", path.display())));
    }
    let wrong = |error| Failure::Usage(format!("{}: {error}", name.display()));
    let text = file::read(&name.to_string_lossy(), MAX_MANIFEST).map_err(wrong)?;
    Manifest::from_json(&text).map_err(wrong)
}

/// Whether a sweep may begin in the directory `path`: it is empty or does not exist.
pub fn is_free(path: &Path) -> bool {
    fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

impl Directory {
    /// Begins a sweep. An earlier sweep in the directory is replaced if it is finished or has no completed points;
    /// otherwise this is an error.
    pub fn begin(path: &Path, manifest: Manifest) -> Result<Self, Failure> {
        files::reserve_race_directory(path)?;
        if files::has_own(&path.join(manifest::NAME), EntryKind::File)? {
            let old = Self::open(path, true)?;
            if !path.join("results.json").exists() && old.numbers().any(|number| old.file(number).exists()) {
                return Err(Failure::Usage(format!(
                    "'{0}' holds a sweep that is not finished: go on with --resume {0}, or name another directory",
                    path.display()
                )));
            }
            old.remove()?;
        }
        let points = path.join(POINTS);
        files::reserve_own_directory(&points)?;
        if !is_free(&points) {
            let problem = "is not empty, and of no sweep; name another directory";
            return Err(Failure::Usage(format!("'{}' {problem}", points.display())));
        }
        // Removes the results of an earlier race. Otherwise the new sweep would look finished.
        remove(&path.join("results.json"))?;
        files::write(&path.join(manifest::NAME), manifest.to_json().as_bytes())?;
        Self::open(path, true)
    }

    /// Opens the directory of a sweep, for writing if `writes` is set and otherwise only for reading.
    pub fn open(path: &Path, writes: bool) -> Result<Self, Failure> {
        let manifest = manifest(path)?;
        let name = path.join(manifest::NAME);
        let lock = File::open(&name).map_err(|error| cannot_read(&name, &error))?;
        let locked = if writes { lock.try_lock() } else { lock.try_lock_shared() };
        if let Err(TryLockError::WouldBlock) = locked {
            return Err(Failure::Host(format!(
                "'{}' is in use: another command works on this sweep",
                path.display()
            )));
        }
        let part = manifest.part().map_err(|error| Failure::Usage(format!("{}: {error}", name.display())))?;
        let directory =
            Self { path: path.to_owned(), identity: manifest.identity(), manifest, part, _lock: lock };
        directory.check_kinds()?;
        if writes {
            files::remove_leftovers(path)?;
            let points = directory.points();
            if points.is_dir() {
                files::remove_leftovers(&points)?;
            } else {
                files::reserve_directory(&points)?;
            }
        }
        Ok(directory)
    }

    /// Returns an error if a file that this module reads or writes is a symbolic link or not a regular file.
    fn check_kinds(&self) -> Result<(), Failure> {
        for name in ["results.json", "report.html"] {
            files::has_own(&self.path.join(name), EntryKind::File)?;
        }
        let points = self.points();
        if !files::has_own(&points, EntryKind::Directory)? {
            return Ok(());
        }
        for entry in fs::read_dir(&points).map_err(|error| cannot_read(&points, &error))? {
            let entry = entry.map_err(|error| cannot_read(&points, &error))?;
            let found = entry.file_type().map_err(|error| cannot_read(&entry.path(), &error))?;
            files::check_kind(&entry.path(), found, EntryKind::File)?;
        }
        Ok(())
    }

    /// The path of the folder with the files of the sweep's points.
    pub fn points(&self) -> PathBuf {
        self.path.join(POINTS)
    }

    /// The shard (a part of the sweep's points) that this directory holds; `None` if it holds the whole sweep.
    pub const fn part(&self) -> Option<Shard> {
        self.part
    }

    /// The number of points in the whole sweep.
    pub fn count(&self) -> usize {
        self.manifest.factors.count()
    }

    /// The numbers of the points that belong to this directory. The points of a sweep are numbered from 1.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let part = self.part;
        (1..=self.count()).filter(move |number| part.is_none_or(|part| part.has(*number)))
    }

    /// The prefix of the file names of point `number`.
    pub fn prefix(&self, number: usize) -> String {
        record::stem(number, self.count()) + "."
    }

    /// The path of the server's packet capture in the median run of a contestant, at one point of the sweep.
    pub fn capture(&self, number: usize, point: &Point, contestant: usize) -> PathBuf {
        self.of_median(number, point, contestant, &format!("server.{}", out::CAPTURE))
    }

    /// The path of the `course.json` file. It holds those events of the median run that cannot be seen in its packets.
    pub fn course(&self, number: usize, point: &Point, contestant: usize) -> PathBuf {
        self.of_median(number, point, contestant, "course.json")
    }

    fn of_median(&self, number: usize, point: &Point, contestant: usize, end: &str) -> PathBuf {
        let name = run::files::names(point, &self.prefix(number)).swap_remove(contestant);
        let seed = point.contestants[contestant].median_seed;
        self.points().join(format!("{name}.seed-{seed}.{end}"))
    }

    fn file(&self, number: usize) -> PathBuf {
        self.points().join(self.prefix(number) + "json.gz")
    }

    /// The size in bytes of the compressed file of point `number`; 0 if the point is not complete.
    pub fn size(&self, number: usize) -> u64 {
        fs::metadata(self.file(number)).map_or(0, |file| file.len())
    }

    /// Reads the stored result of point `number` of the sweep. Returns `None` if the point is not complete.
    pub fn read(&self, number: usize) -> Result<Option<PointRecord>, Failure> {
        let name = self.file(number);
        if !name.exists() {
            return Ok(None);
        }
        let advice = "remove it, and --resume runs the point again";
        let wrong = |error| Failure::Usage(format!("{} {error}; {advice}", name.display()));
        let packed = file::bytes(&name.to_string_lossy(), file::MAX_RESULT)
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let text = out::unpacked(&packed).map_err(|error| wrong(format!("is damaged: {error}")))?;
        let text = String::from_utf8(text).map_err(|_| wrong("is damaged: it is no text".to_owned()))?;
        let record = PointRecord::from_json(&text, &self.identity, number).map_err(wrong)?;
        let missing = record.files.iter().find(|file| !self.points().join(file).is_file());
        if let Some(missing) = missing {
            return Err(wrong(format!("speaks of {missing}, which is not beside it")));
        }
        Ok(Some(record))
    }

    /// Saves a point together with `point_files`, the files that belong to the point.
    pub fn save_point(
        &self,
        number: usize,
        point: Point,
        expectations: Vec<Expectation>,
        mut point_files: Vec<PendingFile>,
    ) -> Result<PointRecord, Failure> {
        let name =
            |file: &PendingFile| file.user_path().file_name().map(|name| name.to_string_lossy().into_owned());
        let record = PointRecord {
            schema: record::RECORD.to_owned(),
            sweep: self.identity.clone(),
            number: number as u64,
            files: point_files.iter().filter_map(name).collect(),
            point,
            expectations,
        };
        let packed = out::packed(record.to_json().as_bytes())?;
        point_files.push(PendingFile::new(&self.file(number))?.fill(&packed)?);
        files::publish(point_files)?;
        files::settle(&self.points())?;
        Ok(record)
    }

    /// Copies the files of a point from another directory of the same sweep, byte for byte.
    pub fn take(&self, from: &Self, number: usize, record: &PointRecord) -> Result<(), Failure> {
        let own = self.file(number).file_name().map(|name| name.to_string_lossy().into_owned());
        let mut copies = Vec::new();
        for name in record.files.iter().chain(&own) {
            let source = from.points().join(name);
            let mut copy = PendingFile::new(&self.points().join(name))?;
            copy.copy(&source)?;
            copies.push(copy.done()?);
        }
        files::publish(copies)?;
        files::settle(&self.points())
    }

    /// Returns an error if `points/` has a file that belongs to none of this directory's points.
    pub fn check_strays(&self) -> Result<(), Failure> {
        // Reports the stray file whose name sorts first, so that the message does not depend on the order of directory
        // entries.
        let Some(stray) = self.names()?.filter(|name| !self.is_of_point(name)).min() else { return Ok(()) };
        let whole = self.part.map_or("of this sweep".to_owned(), |part| format!("of shard {part}"));
        Err(Failure::Usage(format!("{} is of no point {whole}", self.points().join(stray).display())))
    }

    /// Whether a file called `name` belongs to one of this directory's points.
    fn is_of_point(&self, name: &str) -> bool {
        let number = name.split('.').next().and_then(|number| number.parse().ok());
        number.is_some_and(|number| {
            (1..=self.count()).contains(&number)
                && self.part.is_none_or(|part| part.has(number))
                && name.starts_with(&self.prefix(number))
        })
    }

    fn names(&self) -> Result<impl Iterator<Item = String> + use<>, Failure> {
        let points = self.points();
        let entries = fs::read_dir(&points).map_err(|error| cannot_read(&points, &error))?;
        Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()))
    }

    /// Removes the files of a finished sweep, and nothing else. `results.json` is removed first, so that a half-removed
    /// sweep does not look finished.
    fn remove(self) -> Result<(), Failure> {
        self.check_strays()?;
        let points = self.points();
        let mut old = vec![self.path.join("results.json"), self.path.join("report.html")];
        old.extend(self.names()?.map(|name| points.join(name)));
        old.push(self.path.join(manifest::NAME));
        old.iter().try_for_each(|file| remove(file))
    }
}

fn remove(file: &Path) -> Result<(), Failure> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::Host(format!("cannot remove '{}': {error}", file.display())))
        }
        _ => Ok(()),
    }
}

/// The name of the folder with the files of the sweep's points.
const POINTS: &str = "points";

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Host(format!("cannot read '{}': {error}", path.display()))
}
