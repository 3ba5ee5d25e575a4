//! Creates and enters network namespaces, as root or without privileges.
//!
//! A network namespace is a property of a thread: sockets and devices that a thread opens, and processes that it
//! starts, belong to the namespace of that thread. This module therefore forks no process: a thread enters a namespace,
//! does its work there, and ends. Without privileges, the whole process first becomes root of its own user namespace,
//! which is possible only while the process has a single thread.

use crate::EmuError;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A network namespace, which exists as long as this handle exists or a thread is in the namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Returns the network namespace of the calling thread.
    ///
    /// # Errors
    /// The host has no `/proc`.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: Arc::new(File::open("/proc/thread-self/ns/net")?) })
    }

    /// Creates a network namespace that has only a loopback interface.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn create() -> io::Result<Self> {
        run_in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Self::current()
        })?
    }

    /// Moves the calling thread into the namespace permanently. If `mount_sys` is set and the host permits it, also
    /// mounts a `/sys` that shows the network interfaces of this namespace.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn enter(&self, mount_sys: bool) -> io::Result<()> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET)?;
        if mount_sys {
            // If `own_sys` fails, `/sys` continues to show the interfaces of the previous namespace, which rarely
            // matters.
            let _ = own_sys();
        }
        Ok(())
    }

    /// Runs `task` in a new thread that enters this namespace.
    ///
    /// # Errors
    /// The thread cannot be started, or cannot enter the namespace.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        run_in_thread(|| {
            self.enter(false)?;
            Ok(task())
        })?
    }

    /// Returns a path by which other programs of this user can find the namespace while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Runs `task` in a new thread.
fn run_in_thread<T: Send>(task: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, task)?;
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives the calling thread and its child processes a `/sys` that shows the thread's network namespace.
fn own_sys() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    // The mounts below must not affect other mount namespaces.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)?;
    // Programs read their CPU and memory limits from a directory below `/sys`, so that directory must stay visible.
    let groups = File::open("/sys/fs/cgroup");
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("sysfs"), "/sys", Some("sysfs"), quiet, nothing)?;
    if let Ok(groups) = groups {
        let before = format!("/proc/thread-self/fd/{}", groups.as_raw_fd());
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        if mount(Some(before.as_str()), "/sys/fs/cgroup", nothing, bind, nothing).is_err() {
            // The old `/sys/fs/cgroup` could not be mounted in the new `/sys`. Unmounts the new `/sys`, so that the old
            // `/sys` is visible again.
            umount2("/sys", MntFlags::MNT_DETACH)?;
        }
    }
    Ok(())
}

/// Ensures that this process may create network namespaces: with its present privileges, or as root of its own user
/// namespace. Call this while the process has a single thread. Returns true if the process had no privileges. In that
/// case the process cannot change the host's network.
///
/// # Errors
/// [`EmuError::Impossible`], with the operation that the host forbids.
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

/// Creates a user namespace in which root is the only user, and makes this process run as that root user.
fn rootless() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // user_namespaces(7): an unprivileged process may map groups only after it has given up setgroups(2).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}
