//! Network namespaces, as root or without any privilege.
//!
//! A namespace is a property of a thread: what a thread opens, and what it
//! starts, belongs to the one it is in. So nothing is forked here: a thread
//! enters a namespace, does its work there, and ends. Without privilege the
//! whole process first becomes root of a user namespace of its own, which it
//! can do only while it has a single thread.

use crate::EmuError;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A network namespace, which lives as long as this, or as somebody is in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// The calling thread's.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: Arc::new(File::open("/proc/thread-self/ns/net")?) })
    }

    /// A new one, with nothing in it but its loopback interface.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn create() -> io::Result<Self> {
        apart(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Self::current()
        })?
    }

    /// Moves the calling thread here for good. With `look`, files about the network in `/sys` tell of this
    /// namespace, too (where the host lets us).
    ///
    /// # Errors
    /// What the operating system says.
    pub fn enter(&self, look: bool) -> io::Result<()> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET)?;
        if look {
            // Who reads there still finds the interfaces of before otherwise, which harms few.
            let _ = own_sys();
        }
        Ok(())
    }

    /// Does something in a thread of its own here.
    ///
    /// # Errors
    /// The thread cannot be started, or not get here.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        apart(|| {
            self.enter(false)?;
            Ok(task())
        })?
    }

    /// Where other programs of this user find it while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Does something in a thread of its own.
fn apart<T: Send>(task: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, task)?;
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives the calling thread, and what it starts, a `/sys` that tells of its network namespace.
fn own_sys() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    // What is mounted here stays here.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)?;
    // Limits of processors and memory are read from below /sys: they stay in sight.
    let groups = File::open("/sys/fs/cgroup");
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("sysfs"), "/sys", Some("sysfs"), quiet, nothing)?;
    if let Ok(groups) = groups {
        let before = format!("/proc/thread-self/fd/{}", groups.as_raw_fd());
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        if mount(Some(before.as_str()), "/sys/fs/cgroup", nothing, bind, nothing).is_err() {
            // Better the old view of the network than none of the limits.
            umount2("/sys", MntFlags::MNT_DETACH)?;
        }
    }
    Ok(())
}

/// Sees to it that this process may make namespaces: as it is, or as root of a user namespace of its own. Call it
/// while the process has one thread. True: it had no privilege, and what belongs to the host's network is out of reach.
///
/// # Errors
/// [`EmuError::Impossible`] with what the host forbids.
pub fn prepare() -> Result<bool, EmuError> {
    let refused = match Namespace::create() {
        Ok(_) => return Ok(false),
        Err(error) => error,
    };
    if refused.kind() != io::ErrorKind::PermissionDenied {
        return Err(EmuError::Impossible(format!("no network namespace can be made: {refused}")));
    }
    rootless().map_err(|error| {
        EmuError::Impossible(format!(
            "network namespaces need root, or a host on which users may make user namespaces ({error}); see the \
             settings user.max_user_namespaces, kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns"
        ))
    })?;
    match Namespace::create() {
        Ok(_) => Ok(true),
        Err(error) => Err(EmuError::Impossible(format!("no network namespace can be made: {error}"))),
    }
}

/// Makes this process root of a new user namespace, in which this user is the only one.
fn rootless() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // user_namespaces(7): groups can be mapped only by who cannot change them.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}
