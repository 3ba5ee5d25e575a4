//! Where the programs run: two network namespaces joined by a veth pair, or the loopback interface.

use std::path::Path;
use std::process::{Command, Stdio};

/// Two namespaces and a veth pair, or the loopback interface.
pub struct Net {
    names: Option<[String; 2]>,
}

impl Net {
    /// The loopback interface if that is wanted, or nothing else is permitted.
    pub fn make(loopback: bool) -> Self {
        if loopback {
            return Self { names: None };
        }
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
        let net = Self { names: Some(names) };
        // What was made half-way goes with it.
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
        self.inside(0, program)
    }

    pub fn server(&self, program: &Path) -> Command {
        self.inside(1, program)
    }

    fn inside(&self, which: usize, program: &Path) -> Command {
        match &self.names {
            None => Command::new(program),
            Some(names) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &names[which]]).arg(program);
                command
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in self.names.iter().flatten() {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}
