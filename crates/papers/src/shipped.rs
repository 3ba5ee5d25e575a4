//! The studies that the program contains: the files of each folder of `studies/`.

/// The name and the text of a file that is compiled into the program.
pub type File = (&'static str, &'static str);

macro_rules! folder {
    ($name:literal: $($file:literal),+ $(,)?) => {
        ($name, &[$(($file, include_str!(concat!("../../../studies/", $name, "/", $file)))),+])
    };
}

/// The studies, each with the name of its folder and its files.
pub const SHIPPED: &[(&str, &[File])] = &[
    folder!("osterdahl-2005":
        "arrivals.toml",
        "causes.toml",
        "claims.csv",
        "emulated.toml",
        "equal-arrivals.toml",
        "every-tenth.csv",
        "every-tenth.toml",
        "falls.toml",
        "faults.toml",
        "loss-models.toml",
        "mtu-1500.csv",
        "mtu-1500.toml",
        "no-drops.csv",
        "no-drops.toml",
        "objects.toml",
        "one-host.toml",
        "overflow.toml",
        "page.md",
        "pages.toml",
        "phases.toml",
        "readings.csv",
        "readings.toml",
        "redesign.toml",
        "request-counts.toml",
        "sensitivity.csv",
        "slow-cell.toml",
        "starts.toml",
        "streams-alone.toml",
        "study.toml",
        "tcp-variants.csv",
        "tcp-variants.toml",
        "ten-packets.toml",
        "timeouts.toml",
        "today.toml",
        "two-hosts.toml",
    ),
    folder!("sasikala-2008":
        "all-unacknowledged.toml",
        "bursts.toml",
        "causes.toml",
        "claims.csv",
        "controls.toml",
        "figure-10.toml",
        "figure-2.toml",
        "figure-3.toml",
        "figure-4.toml",
        "figure-5.toml",
        "figure-7.toml",
        "figure-8.toml",
        "figure-9.toml",
        "long-delay.toml",
        "missing-reports.toml",
        "ns-2-loss.csv",
        "ns-2-loss.toml",
        "ns-2.csv",
        "ns-2.tcl",
        "ns-2.toml",
        "objects-moving.csv",
        "objects-moving.toml",
        "objects-still.toml",
        "page.md",
        "persistent.toml",
        "primary-blocked.toml",
        "queue-loss.toml",
        "readings.csv",
        "readings.toml",
        "refused.toml",
        "region-cell.toml",
        "round-trips.toml",
        "sensitivity.csv",
        "setup.toml",
        "still.toml",
        "streams.toml",
        "study.toml",
        "table-2-loss.csv",
        "table-2-loss.toml",
        "table-2.csv",
        "table-2.toml",
        "timer.toml",
    ),
    folder!("ha-2005":
        "bytes.csv",
        "bytes.toml",
        "causes.toml",
        "claims.csv",
        "closing.toml",
        "competition.toml",
        "emulated.toml",
        "equal-windows.toml",
        "failover.toml",
        "first-flight.toml",
        "full-duplex.csv",
        "full-duplex.toml",
        "grown-window.toml",
        "initial-window.toml",
        "input-size.csv",
        "input-size.toml",
        "multihoming.csv",
        "multihoming.toml",
        "open-close.toml",
        "packets.csv",
        "packets.toml",
        "page.md",
        "readings.csv",
        "readings.toml",
        "sack-path.toml",
        "send-size.toml",
        "sensitivity.csv",
        "streams.toml",
        "study.toml",
        "times.csv",
        "times.toml",
        "two-rates.toml",
    ),
    folder!("rajamani-2002":
        "buffers.toml",
        "causes.toml",
        "claims.csv",
        "emulated.toml",
        "overrun.toml",
        "page-grid.toml",
        "page.md",
        "readings.csv",
        "readings.toml",
        "reasons.toml",
        "room.toml",
        "sensitivity.csv",
        "single-grid.toml",
        "slide-24.csv",
        "slide-24.toml",
        "slide-26.toml",
        "study.toml",
        "three-files.toml",
        "together.toml",
    ),
    folder!("alternative-transport":
        "bulk.toml",
        "causes.toml",
        "claims.csv",
        "emulated.toml",
        "init.toml",
        "load.toml",
        "osterdahl.toml",
        "packets.csv",
        "page.md",
        "pages.toml",
        "patience.toml",
        "readings.csv",
        "readings.toml",
        "same-losses.toml",
        "sample.csv",
        "sample.toml",
        "sensitivity.csv",
        "study.toml",
        "trace.csv",
        "trace.toml",
    ),
    folder!("today":
        "causes.toml",
        "claims.csv",
        "handshakes.toml",
        "networks.toml",
        "page.md",
        "study.toml",
        "variants.toml",
    ),
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
