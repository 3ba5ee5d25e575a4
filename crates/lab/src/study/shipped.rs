//! The studies that the program contains: the files of each folder of `studies/`.

/// A file's name and its text.
pub type File = (&'static str, &'static str);

macro_rules! folder {
    ($name:literal: $($file:literal),+ $(,)?) => {
        ($name, &[$(($file, include_str!(concat!("../../../../studies/", $name, "/", $file)))),+])
    };
}

/// Folder to its files.
pub const SHIPPED: &[(&str, &[File])] = &[
    folder!("osterdahl-2005": "study.toml", "page.md", "claims.csv", "causes.toml", "tables-1-4.toml", "tables-1-4.csv"),
    folder!("rajamani-2002": "study.toml", "page.md", "claims.csv", "causes.toml", "slide-24.toml", "slide-24.csv"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_every_folder_is_shipped() {
        let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        for folder in std::fs::read_dir(studies).expect("the folder") {
            let folder = folder.expect("an entry").path();
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            let (_, files) =
                SHIPPED.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
            for file in std::fs::read_dir(&folder).expect("its files") {
                let file = file.expect("an entry").file_name().to_string_lossy().into_owned();
                assert!(files.iter().any(|(known, _)| *known == file), "{name}/{file} is not shipped");
            }
        }
    }
}
