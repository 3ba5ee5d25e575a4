//! `anabranch decode`: describes the associations and connections in a capture or in a log.
//!
//! - `gzip`: decompresses captures

mod gzip;

use crate::files::{self, PendingFile};
use crate::fit::fitted;
use crate::flag::{flag, switch};
use crate::outputs::Outputs;
use crate::{Completion, Failure, complain, qlog};
use anabranch_capture::results::Decoded;
use anabranch_capture::{DecodeError, ENCAPSULATION, EVENTS, LogOpener, Settings, csv, table, why};
use anabranch_report::packets;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::rc::Rc;

/// The maximum number of packets of a short capture. The ladder diagrams of a short capture are drawn even without a
/// flag.
const SHORT: usize = 60;
/// The maximum number of streams shown for each direction.
const STREAMS: usize = 20;
/// The maximum size of a key log in bytes.
const MAX_KEY_LOG: u64 = 64 << 20;

/// Returns the definition of the `decode` command.
pub fn command() -> Command {
    Command::new("decode")
        .about("Show associations, connections and streams of a capture, and why data was retransmitted")
        .long_about(
            "Shows the SCTP associations and the connections of TCP, QUIC and DTLS in a capture: setup and close, traffic by path \
             and stream, round-trip times, and why data was retransmitted. The capture is pcapng or pcap, or one of these \
             compressed by gzip. Any program may have taken it, at either end.\n\n\
             Links: Ethernet with VLAN tags, raw IP, Linux cooked (1 and 2), loopback, PPP, Cisco HDLC, NFLOG, SCTP \
             without IP. IPv4 and IPv6, with fragments. Tunnels: GTP-U, VXLAN, Geneve, GRE, IP in IP, MPLS, PPPoE. \
             SCTP on IP and in UDP. TLS, DTLS and QUIC are decrypted with the secrets in the capture or in --keylog, \
             and HTTP requests are shown. The first 65,536 conversations are followed; packets of further ones \
             are counted.\n\n\
             Instead of a capture: logs of usrsctp, Chromium and Firefox with SCTP packets; qlog of QUIC endpoints; \
             dumps of chrome://webrtc-internals. With the captures of both ends, their packets are matched.\n\n\
             The packets alone decide the reason of a retransmission. 'fast' follows acknowledgements that reported a gap. \
             'timeout' follows a silence as long as a retransmission timer. 'spurious' means that the receiver already \
             had the data: the capture has its acknowledgement, or the receiver reported a duplicate, or its answer came \
             within less than a round trip.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch decode capture.pcapng\n  \
             anabranch decode capture.pcapng.gz --ladder=40 --streams 5\n  \
             anabranch decode capture.pcapng --keylog keys.txt\n  \
             anabranch decode capture.pcapng --why\n\n\
             Exit: 0 done; 1 the capture ends in the middle of a packet, and the packets before it are shown; 2 the file does \
             not exist, is no capture, or is damaged; 3 the file cannot be read here.",
        )
        .arg(Arg::new("file").value_name("FILE").required(true).help("A capture or log; - for standard input"))
        .arg(Arg::new("other").value_name("OTHER").help("The capture of the other end"))
        .arg(
            flag(
                "ladder",
                "LINES",
                "Draw each conversation packet by packet, with at most LINES lines [default: only captures of up to 60 packets]",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1000")
            .value_parser(value_parser!(u32)),
        )
        .arg(
            flag("streams", "N", "Show at most N streams of each direction [default: 20]")
                .value_parser(value_parser!(u32)),
        )
        .arg(
            flag(
                "udp",
                "PORT[:PORT]",
                "Read UDP from or to this port, or between these two, as SCTP in UDP [default: 9899]",
            )
            .action(ArgAction::Append),
        )
        .arg(
            flag(
                "keylog",
                "FILE",
                "Decrypt TLS, DTLS and QUIC with these secrets, written by SSLKEYLOGFILE, and with those in the capture",
            )
            .action(ArgAction::Append),
        )
        .arg(flag("qlog", "DIR", "Write a qlog file of each QUIC connection that was decrypted"))
        .arg(switch(
            "why",
            "Show only why conversations were slow or failed, with packet numbers, without the tables",
        ))
        .arg(
            flag(
                "json",
                "FILE|-",
                "Write the result as JSON, schema anabranch.decode/1 (-: the text goes to stderr)",
            ),
        )
        .arg(
            flag(
                "csv",
                "FILE|-",
                "Write a row for each stream of each conversation and direction (-: the text goes to stderr)",
            ),
        )
        .arg(
            flag(
                "html",
                "FILE",
                "Write a page with diagrams of sequence numbers, data in flight and round trips over time",
            ),
        )
        .arg(
            switch("quiet", "Print no text; --json and --csv still write")
                .short('q'),
        )
}

/// Runs the `decode` command.
pub fn run(matches: &ArgMatches) -> Result<Completion, Failure> {
    let file = matches.get_one::<String>("file").map_or("", String::as_str);
    let number = |name| matches.get_one::<u32>(name).map(|n| *n as usize);
    let requested_lines = number("ladder");
    // Whether a capture is short is known only at its end. Ladder diagrams are therefore drawn with at most `SHORT`
    // lines, and discarded if the capture has more than `SHORT` packets.
    let ladder_packets = if requested_lines.is_some() { u64::MAX } else { SHORT as u64 };
    let ladder_lines = requested_lines.unwrap_or(SHORT);
    let mut settings = Settings { ladder_lines, ladder_packets, ..Settings::default() };
    for ports in matches.get_many::<String>("udp").into_iter().flatten() {
        settings.udp_ports.push(udp_ports(ports)?);
    }
    for keys in matches.get_many::<String>("keylog").into_iter().flatten() {
        settings.key_log.extend(key_log(keys)?);
        settings.key_log.push(b'\n');
    }
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let (other, logs) = (text("other"), text("qlog"));
    if logs.is_some() && other.is_some() {
        return Err(Failure::Usage("--qlog needs one capture; decode each capture by itself".to_owned()));
    }
    if other.is_some_and(|other| other == "-" && file == "-") {
        return Err(Failure::Usage("- names standard input twice; write a file name for one end".to_owned()));
    }
    let page = text("html").map(|file| PendingFile::new(Path::new(file))).transpose()?;
    if page.is_some() {
        settings.max_view_items = packets::MAX_DRAWN;
    }
    let is_why = matches.get_flag("why");
    if is_why || page.is_some() || text("json").is_some() {
        settings.max_events = EVENTS;
    }
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    let logs = logs.map(log_opener).transpose()?;
    let (decoded, cut_gzip) = decoded(file, other, &settings, logs)?;
    if let Some(page) = page {
        let text = table::render(&decoded, number("streams").unwrap_or(STREAMS));
        files::publish(vec![page.fill(packets::html(&decoded, &text).as_bytes())?])?;
    }
    let shown = match matches.get_flag("quiet") {
        true => String::new(),
        false if is_why => fitted(&why::render(&decoded)),
        false => table::render(&decoded, number("streams").unwrap_or(STREAMS)),
    };
    outputs.write(&shown, || decoded.to_json(), || csv::render(&decoded))?;
    let other_cut_at = decoded.both_ends.as_ref().and_then(|both| both.cut_at);
    let cut = decoded.cut_at.map(|at| (file, at)).or(other.zip(other_cut_at));
    let problem = match (cut, cut_gzip) {
        (Some((file, at)), _) => {
            format!("{file}: ends in the middle of a packet, at byte {at}; what comes before is shown")
        }
        (None, Some(file)) => format!("{file}: gzip ends early; what comes before is shown"),
        (None, None) => return Ok(Completion::Well),
    };
    complain(&problem);
    Ok(Completion::Badly)
}

/// Decodes one capture file, or two files that were captured at both ends. Also returns the name of a compressed file
/// that ends early.
fn decoded<'a>(
    file: &'a str,
    other: Option<&'a str>,
    settings: &Settings,
    logs: Option<LogOpener>,
) -> Result<(Decoded, Option<&'a str>), Failure> {
    let mut are_cut: Vec<(&str, Rc<Cell<bool>>)> = Vec::new();
    let mut bytes = |file: &'a str| {
        let (bytes, is_cut) = unpacked(file)?;
        are_cut.push((file, is_cut));
        Ok::<_, Failure>(bytes)
    };
    let decoded = match (other, logs) {
        (Some(other), _) => {
            let files = [(file, bytes(file)?), (other, bytes(other)?)];
            anabranch_capture::decode_both(files, settings)
                .map_err(|(index, error)| failure([file, other][index], &error))
        }
        (None, Some(logs)) => anabranch_capture::decode_to_qlog(file, bytes(file)?, settings, logs)
            .map_err(|error| failure(file, &error)),
        (None, None) => {
            anabranch_capture::decode(file, bytes(file)?, settings).map_err(|error| failure(file, &error))
        }
    }?;
    Ok((decoded, are_cut.into_iter().find(|(_, is_cut)| is_cut.get()).map(|(file, _)| file)))
}

/// The content of a file, decompressed if necessary, and a flag that is set at the end if the compressed data was cut
/// off.
type Unpacked = (BufReader<Box<dyn Read>>, Rc<Cell<bool>>);

/// Opens a file, and decompresses it if necessary. Once the content has been read to its end, the flag says whether the
/// compressed data was cut off.
fn unpacked(file: &str) -> Result<Unpacked, Failure> {
    let unreadable = |error: io::Error| Failure::Host(format!("{file}: {error}"));
    let gzip::Capture { bytes, is_cut } = gzip::unpacked(open(file)?).map_err(unreadable)?;
    Ok((BufReader::with_capacity(1 << 16, bytes), is_cut))
}

fn failure(file: &str, error: &DecodeError) -> Failure {
    // A file that cannot be read is an error of this host, with an exit code of its own. In this case, the
    // innermost error is the one that the operating system reported.
    let innermost =
        error.source().and_then(Error::source).and_then(|error| error.downcast_ref::<io::Error>());
    let is_io_error = innermost.is_some_and(|error| error.kind() != io::ErrorKind::InvalidData);
    let message = format!("{file}: {error}");
    if is_io_error { Failure::Host(message) } else { Failure::Usage(message) }
}

/// Returns the function that creates the qlog files of `--qlog` in this directory.
fn log_opener(directory: &str) -> Result<LogOpener, Failure> {
    let directory = qlog::directory(directory)?;
    Ok(Box::new(move |name: &str| directory.begin(name).map(|log| log as Box<dyn Write>)))
}

/// Reads a key log.
fn key_log(file: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = open(file)?.take(MAX_KEY_LOG + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Host(format!("{file}: {error}")))?;
    if bytes.len() as u64 > MAX_KEY_LOG {
        return Err(Failure::Usage(format!("--keylog {file}: more than 64 MiB; a key log was expected")));
    }
    if !anabranch_capture::is_key_log(&bytes) {
        return Err(Failure::Usage(format!(
            "--keylog {file}: no key log. Name the file that SSLKEYLOGFILE named at an endpoint; a line of it is \
             'CLIENT_TRAFFIC_SECRET_0 HEX HEX'"
        )));
    }
    Ok(bytes)
}

fn open(file: &str) -> Result<Box<dyn Read>, Failure> {
    if file == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::Usage(format!("{file}: {error}")),
        _ => Failure::Host(format!("{file}: {error}")),
    };
    let opened = File::open(file).map_err(failed)?;
    if opened.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::Usage(format!("{file}: a directory; a file was expected")));
    }
    Ok(Box::new(opened))
}

/// Parses the UDP ports of `--udp`, for example `9899` or `9899:5000`.
fn udp_ports(text: &str) -> Result<(u16, Option<u16>), Failure> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, second) = text.split_once(':').map_or((text, None), |(first, second)| (first, Some(second)));
    let usage = || {
        let message = format!(
            "--udp: '{text}': write a port from 1 to 65535, as {ENCAPSULATION}, or two, as 9899:5000"
        );
        Failure::Usage(message)
    };
    let first = port(first).ok_or_else(usage)?;
    let second = second.map(|second| port(second).ok_or_else(usage)).transpose()?;
    Ok((first, second))
}
