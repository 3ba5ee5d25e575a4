//! Privileges that a server gives up once its sockets are open.
//!
//! Opening raw sockets and low ports takes capabilities; using them takes none. Later on a server only reads files: its
//! certificate again on SIGHUP, and those that it serves. They may belong to other users.

use crate::complain;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Drops the capabilities of this thread for good, and so those of threads and programs that it starts afterwards.
///
/// The capability to read any file stays, and with `writes_files` the one to write any file. Capabilities belong to threads
/// (capabilities(7)), so each thread has to call this.
pub fn drop_capabilities(writes_files: bool) {
    let mut kept = CapabilitySet::DAC_READ_SEARCH;
    if writes_files {
        kept |= CapabilitySet::DAC_OVERRIDE;
    }
    if let Err(why) = keep_only(kept) {
        complain(&format!("warning: capabilities cannot be given up: {why}"));
    }
}

fn keep_only(kept: CapabilitySet) -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    if (sets.permitted | sets.inheritable).is_empty() {
        return Ok(());
    }
    // A program that root starts gains the whole bounding set again. Without CAP_SETPCAP the set cannot be changed; then
    // only the next call prevents that.
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if !kept.contains(capability)
                && let Err(why) = remove_capability_from_bounding_set(capability)
            {
                // The kernel has no capabilities beyond this number.
                if why == Errno::INVAL {
                    break;
                }
                return Err(why);
            }
        }
    }
    set_no_new_privs(true)?;
    sets.permitted &= kept;
    sets.effective = sets.permitted;
    // This empties the ambient set as well: it holds inheritable capabilities only.
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)
}
