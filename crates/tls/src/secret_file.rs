//! Reads files that hold secrets, after a check of their permissions.
//!
//! The same rule applies to private keys of certificates and to shared keys. Only the owner may write the file, and
//! only the owner and the group may read it.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

/// Reads a file of at most `max_bytes` bytes that holds a secret. The file is refused if others than its owner and its
/// group have access to it, or if the group can write it.
///
/// The permissions are checked only for regular files, because the mode of a pipe does not restrict its readers.
///
/// # Errors
/// A one-line text that says why the file cannot be read, or who has access to the file and how to change that.
pub fn read_secret_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|why| why.to_string())?;
    let metadata = file.metadata().map_err(|why| why.to_string())?;
    if metadata.is_dir() {
        return Err("is a directory; expected a file".to_owned());
    }
    check_access(&metadata)?;
    let mut secret = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut secret).map_err(|why| why.to_string())?;
    if secret.len() as u64 > max_bytes {
        return Err(format!("more than {max_bytes} bytes"));
    }
    Ok(secret)
}

#[cfg(unix)]
fn check_access(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    let users = match mode {
        _ if !metadata.is_file() => return Ok(()),
        _ if mode & 0o004 != 0 => "everybody can read it",
        _ if mode & 0o002 != 0 => "everybody can write it",
        _ if mode & 0o001 != 0 => "everybody can execute it",
        _ if mode & 0o020 != 0 => "its group can write it",
        _ => return Ok(()),
    };
    Err(format!("{users} (mode {mode:o}); run 'chmod 600' on it, or 'chmod 640' if its group has to read it"))
}

#[cfg(not(unix))]
fn check_access(_: &Metadata) -> Result<(), String> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_have_access_to_is_refused() {
        let path = std::env::temp_dir().join(format!("anabranch-secret-{}", std::process::id()));
        fs::write(&path, b"secret").expect("written");
        for mode in 0..0o1000 {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
            let metadata = fs::metadata(&path).expect("there");
            let checked = check_access(&metadata);
            assert_eq!(checked.is_ok(), mode & 0o027 == 0, "{mode:o}: {checked:?}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("ours");
        assert_eq!(read_secret_file(&path, 6).as_deref(), Ok(&b"secret"[..]));
        assert_eq!(read_secret_file(&path, 5), Err("more than 5 bytes".to_owned()));
        let _ = fs::remove_file(&path);
    }
}
