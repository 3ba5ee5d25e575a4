//! `anabranch link`: runs any command behind an emulated link.
//!
//! - `account`: the report on the emulated links, as JSON

mod account;

use crate::flag::{flag, switch};
use crate::outputs::Outputs;
use crate::{Failure, args, complain, files, list, say};
use anabranch_emu::EmuError;
use anabranch_emu::device::DeviceKind;
use anabranch_emu::shell::{self, LinkAddresses, Request};
use anabranch_lab::plan::keys::{Group, KEYS, Several};
use anabranch_lab::plan::{self, Network};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::ffi::OsString;
use std::net::IpAddr;

/// Returns the definition of the `link` command.
pub fn command() -> Command {
    let mut command = Command::new("link")
        .about("Run a command behind an emulated link")
        .long_about(
            "Runs a command in a network namespace of its own. Its packets cross an emulated link, by the same code that \
             races use in virtual time. 'up' is the direction from the command to the other end.\n\n\
             If root starts it, the other end is the network of this host. Otherwise, or with --far, the other end is a \
             second namespace. $ANABRANCH_FAR holds its addresses. The command can be another 'anabranch link', so that \
             links follow each other. Several --path make parallel links.\n\n\
             Only properties that flags set are emulated. Without --rate packets do not queue, without --delay or --rtt \
             they take no time, and without --loss none is lost. With --rate the queue holds 1000 packets; --queue \
             changes it.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch link --rate 10mbit --rtt 80ms --loss 1% \\\n      \
             --far 'anabranch serve site --listen tcp://*:8080' -- \\\n      \
             sh -c 'anabranch get http://$ANABRANCH_FAR:8080/'\n  \
             anabranch link --preset lte -- bash\n  \
             anabranch link --delay 20ms -- anabranch link --rate 1mbit -- bash\n  \
             anabranch link --path rate=10mbit,rtt=80ms --path rate=2mbit,rtt=40ms -- bash\n\n\
             Exit: the command's status; 125 the link failed, 126 the command cannot be run, 127 the command does not \
             exist; 2 usage, 3 not possible on this host.",
        );
    for key in KEYS.iter().filter(|key| key.group == Group::Network) {
        let several = key.several == Several::Entries;
        let flag = args::plan_flag(key).action(if several { ArgAction::Append } else { ArgAction::Set });
        // The defaults in the help text apply to races only. `link` emulates only what its flags name, so its help
        // omits the defaults.
        let own = key.help.split(" [default").next().unwrap_or_default();
        command = command.arg(if own.is_empty() { flag } else { flag.help(own) });
    }
    command
        .arg(
            flag("seed", "N", "Seed of the random events: loss, jitter, reordering")
                .value_parser(value_parser!(u64).range(..=u64::from(u32::MAX)))
                .default_value("1"),
        )
        .arg(flag("far", "COMMAND", "Run this shell command at the other end, in a namespace of its own"))
        .arg(
            flag(
                "device",
                "KIND",
                "How packets reach the link: by TUN, or by Ethernet interfaces where TUN is not available",
            )
            .value_parser(["auto", "tun", "veth"])
            .default_value("auto"),
        )
        .arg(switch("dry-run", "Print what would be done, and exit").short('n'))
        .arg(switch("quiet", "No report at the end").short('q'))
        .arg(flag(
            "json",
            "FILE|-",
            "Write the links' counters as JSON, schema anabranch.link/1 (-: after the command's output)",
        ))
        .arg(
            flag("list", "WHAT", "List the networks that --preset can name, and exit")
                .value_parser(["presets"])
                .exclusive(true),
        )
        .arg(
            Arg::new("command")
                .value_name("CMD")
                .value_parser(ValueParser::os_string())
                .num_args(1..)
                .required(true)
                .last(true)
                .help("The command and its arguments, after --"),
        )
}

/// Runs the command behind the emulated link, and returns the command's exit status.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    if matches.contains_id("list") {
        say(&list::presets())?;
        return Ok(0);
    }
    let network = network(matches)?;
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let command_line: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
    let request = Request {
        links: network.paths.clone(),
        seed: *matches.get_one::<u64>("seed").unwrap_or(&1),
        device: match text("device") {
            Some("tun") => DeviceKind::Tun,
            Some("veth") => DeviceKind::Veth,
            _ => DeviceKind::Auto,
        },
        command: command_line,
        far: text("far").map(str::to_owned),
    };
    let quiet = matches.get_flag("quiet");
    if matches.get_flag("dry-run") {
        say(&planned(&request, &network.describe()))?;
        return Ok(0);
    }
    let outputs = Outputs::reserve(text("json"), None)?;
    let has_json = text("json").is_some();
    let on_start = |ends: &LinkAddresses| {
        if !quiet {
            let far_network = if ends.shared { "this network" } else { "a namespace of its own" };
            complain(&format!("link from {} to {} ({far_network})", joined(&ends.near), joined(&ends.far)));
        }
    };
    let ended = match shell::run(&request, on_start) {
        Ok(ended) => ended,
        Err(error) => {
            let code = match &error {
                EmuError::Impossible(_) => return Err(Failure::Host(error.to_string())),
                EmuError::Failed(_) => 125,
                EmuError::NotExecutable(_) => 126,
                EmuError::NotFound(_) => 127,
            };
            files::clean_up();
            complain(&error.to_string());
            return Ok(code);
        }
    };
    if let Some(status) = ended.far_failed {
        complain(&format!(
            "--far {}: ended with status {status}",
            request.far.as_deref().unwrap_or_default()
        ));
    }
    if !quiet {
        for (number, (path, spec)) in (1..).zip(ended.paths.iter().zip(&request.links)) {
            let heading = format!("link {number}: {spec}, {:.3} s", path.span.as_secs_f64());
            complain(&format!("{heading}\n{}", path.to_string().trim_end()));
        }
    }
    if has_json {
        outputs.write("", || account::json(&request, &ended), String::new)?;
    }
    Ok(ended.status)
}

/// Returns the network that the flags describe. The flags have the same syntax as in `race`.
fn network(matches: &ArgMatches) -> Result<Network, Failure> {
    let mut flags = Vec::new();
    for key in KEYS.iter().filter(|key| key.group == Group::Network) {
        for value in matches.get_many::<String>(key.name).into_iter().flatten() {
            flags.push((key.name, value.as_str()));
        }
    }
    plan::bare_network(flags).map_err(|error| Failure::Usage(error.to_string()))
}

fn planned(request: &Request, network: &str) -> String {
    let mut out = format!("network: {network}\n");
    for (number, link) in (1..).zip(&request.links) {
        out += &format!("link {number}: {link}\n");
    }
    out += &match &request.far {
        Some(line) => format!("other end: a namespace of its own, running: {line}\n"),
        None => "other end: this host's network, or a namespace of its own without the privilege to change this network\n".to_owned(),
    };
    out += &format!("seed: {}\n", request.seed);
    let command: Vec<_> = request.command.iter().map(|argument| argument.to_string_lossy()).collect();
    out + &format!("command: {}\n", command.join(" "))
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}
