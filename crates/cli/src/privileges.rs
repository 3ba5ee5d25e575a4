//! Drops the privileges of a server once its sockets are open.
//!
//! Opening raw sockets and low ports needs capabilities, but using these sockets needs none. Once the sockets are open,
//! a server only reads files: the files that it serves and, on SIGHUP, its certificate. These files may belong to other
//! users.

use crate::complain;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Permanently drops the capabilities of this thread, except those listed below. Threads and programs that this thread
/// starts afterwards do not have the dropped capabilities either.
///
/// The thread keeps the capability to read any file. With `writes_files`, it also keeps the capability to write any
/// file. Capabilities belong to threads (capabilities(7)), so each thread has to call this function.
pub fn drop_capabilities(writes_files: bool) {
    let mut retained = CapabilitySet::DAC_READ_SEARCH;
    if writes_files {
        retained |= CapabilitySet::DAC_OVERRIDE;
    }
    if let Err(why) = retain_capabilities(retained) {
        complain(&format!("warning: capabilities cannot be given up: {why}"));
    }
}

fn retain_capabilities(retained: CapabilitySet) -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    if (sets.permitted | sets.inheritable).is_empty() {
        return Ok(());
    }
    // A program that root executes gets all capabilities of the bounding set. Without CAP_SETPCAP this thread cannot
    // shrink that set. Then only no_new_privs (set below) prevents such a program from gaining capabilities.
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if !retained.contains(capability)
                && let Err(why) = remove_capability_from_bounding_set(capability)
            {
                // EINVAL means that the kernel does not know this capability. It does not know those with higher
                // numbers either.
                if why == Errno::INVAL {
                    break;
                }
                return Err(why);
            }
        }
    }
    set_no_new_privs(true)?;
    sets.permitted &= retained;
    sets.effective = sets.permitted;
    // Clearing the inheritable set also clears the ambient set, because ambient capabilities must be inheritable.
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)
}
