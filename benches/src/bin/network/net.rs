//! The network between the measured client and server: two network namespaces joined by a veth pair, or loopback.
//!
//! Namespaces outlive the process that created them. A panic hook removes them and the processes in them, because a
//! panic does not unwind in this program. The next run removes the namespaces of a run that was killed.

use std::path::Path;
use std::process::{Command, Stdio};

/// The network between client and server: two namespaces and a veth pair, or the loopback interface.
pub struct Net {
    names: Option<[String; 2]>,
}

impl Net {
    /// Creates the namespaces. Uses the loopback interface if `loopback` is set, or if namespaces are not permitted.
    pub fn make(loopback: bool) -> Self {
        if loopback {
            return Self { names: None };
        }
        sweep();
        let id = std::process::id();
        let names = [format!("ab-{id}-c"), format!("ab-{id}-s")];
        let [client, server] = &names;
        let ip = |line: String| {
            Command::new("ip")
                .args(line.split_whitespace())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        let made = ip(format!("netns add {client}"))
            && ip(format!("netns add {server}"))
            && ip(format!(
                "-n {client} link add eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns {server}"
            ))
            && ip(format!("-n {client} addr add 10.77.1.1/24 dev eth0"))
            && ip(format!("-n {server} addr add 10.77.1.2/24 dev eth0"))
            && [client, server].iter().all(|name| {
                ip(format!("-n {name} link set eth0 up")) && ip(format!("-n {name} link set lo up"))
            });
        let previous_hook = std::panic::take_hook();
        let made_here = names.clone();
        std::panic::set_hook(Box::new(move |info| {
            previous_hook(info);
            made_here.iter().for_each(|name| remove(name));
        }));
        let net = Self { names: Some(names) };
        // If the network was only partly created, it is removed by dropping `net`.
        if made { net } else { Self { names: None } }
    }

    pub fn told(&self) -> &'static str {
        if self.names.is_some() { "two namespaces, veth, MTU 1500" } else { "loopback, MTU 65536" }
    }

    pub fn server_address(&self) -> &'static str {
        if self.names.is_some() { "10.77.1.2" } else { "127.0.0.1" }
    }

    pub fn client_address(&self) -> &'static str {
        if self.names.is_some() { "10.77.1.1" } else { "127.0.0.1" }
    }

    pub fn client(&self, program: &Path) -> Command {
        self.in_namespace(0, program)
    }

    pub fn server(&self, program: &Path) -> Command {
        self.in_namespace(1, program)
    }

    fn in_namespace(&self, index: usize, program: &Path) -> Command {
        match &self.names {
            None => Command::new(program),
            Some(names) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &names[index]]).arg(program);
                command
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names.iter().flatten().for_each(|name| remove(name));
    }
}

/// Kills the processes in one of our namespaces and removes the namespace.
fn remove(name: &str) {
    let ip = |words: &[&str]| Command::new("ip").args(words).stderr(Stdio::null()).output();
    if let Ok(inside) = ip(&["netns", "pids", name]) {
        for id in String::from_utf8_lossy(&inside.stdout).split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", id]).stderr(Stdio::null()).status();
        }
    }
    let _ = ip(&["netns", "del", name]);
}

/// Removes the namespaces that earlier runs of this program left behind.
fn sweep() {
    let Ok(listed) = Command::new("ip").args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let id = name.strip_prefix("ab-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            remove(name);
        }
    }
}
