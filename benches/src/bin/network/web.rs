//! Measures HTTP: the command `serve` over SCTP and TCP, compared with nginx.

use crate::aims::Aim::AtLeast;
use crate::net::Net;
use crate::{Bench, Running, number, wait};
use anabranch_benches::median;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

impl Bench {
    /// Measures requests per second for objects of 1 kB.
    pub fn http(&self) {
        let site = std::env::temp_dir().join(format!("anabranch-bench-{}", std::process::id()));
        fs::create_dir_all(&site).expect("a directory");
        fs::write(site.join("1k"), [b'x'; 1000]).expect("a file");
        let path = site.to_str().expect("a name").to_owned();
        let server =
            self.server(&["serve", &path, "-q", "--listen", &self.at("tcp"), "--listen", &self.at("sctp")]);
        let [tcp, sctp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
        let nginx = Nginx::start(&self.net, &site);
        let mut rates = [const { Vec::new() }; 4];
        let mut costs = [const { Vec::new() }; 2];
        let span = format!("{}s", self.seconds);
        for _ in 0..self.runs {
            for (index, (url, words)) in
                [(tcp, &["-c", "100"][..]), (sctp, &["-c", "1", "--streams", "100"])].into_iter().enumerate()
            {
                let url = format!("{url}1k");
                let words = [&["load", &url, "--duration", &span, "-q", "--json", "-"], words].concat();
                let before = server.cpu();
                let result = self.client(&words);
                rates[index].push(number(&result["replies"]["per_s"]));
                costs[index]
                    .push((server.cpu() - before) * 1e6 / number(&result["replies"]["total"]).max(1.0));
            }
            rates[2].extend(self.wrk(&format!("{tcp}1k")));
            if let Some(nginx) = &nginx {
                rates[3].extend(self.wrk(&format!("{}1k", nginx.url)));
            }
        }
        let _ = fs::remove_dir_all(&site);
        println!("\nrequests a second, objects of 1 kB");
        let names = [
            "serve over TCP, 100 connections",
            "serve over SCTP, 100 streams",
            "serve over TCP, wrk",
            "nginx, wrk",
        ];
        for (name, rates) in names.iter().zip(&rates) {
            match rates.as_slice() {
                [] => println!("{name:<36}{:>10}", "not installed"),
                rates => println!("{name:<36}{:>10.0}", median(rates)),
            }
        }
        let [tcp, sctp] = costs.map(|costs| median(&costs));
        println!("us of the server's processor a request: TCP {tcp:.1}, SCTP {sctp:.1}");
        let middle = |at: usize| (!rates[at].is_empty()).then(|| median(&rates[at]));
        let aim = AtLeast(0.8);
        let ours = middle(1).unwrap_or(0.0);
        self.aims.compare_with_peer(
            "requests/s over SCTP, 100 streams",
            ours,
            "the same server over TCP",
            middle(0),
            aim,
        );
        match middle(2) {
            None => self.aims.missing("requests/s over TCP, wrk", "apt install wrk nginx-light", aim),
            Some(ours) => {
                let peer = if nginx.is_some() { "nginx, one worker" } else { "apt install nginx-light" };
                self.aims.compare_with_peer("requests/s over TCP, wrk", ours, peer, middle(3), aim);
            }
        }
    }

    /// Returns the number of requests per second that the program wrk measures; `None` if wrk is not installed.
    fn wrk(&self, url: &str) -> Option<f64> {
        let span = format!("{}s", self.seconds);
        let mut wrk = self.net.client(Path::new("wrk"));
        let output = wrk.args(["-t1", "-c", "100", "-d", &span, url]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("Requests/sec:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

struct Nginx {
    _child: Running,
    url: String,
}

impl Nginx {
    /// Starts nginx with one worker. Returns `None` if nginx is not installed.
    fn start(net: &Net, site: &Path) -> Option<Self> {
        let path = site.join("nginx.conf");
        let (at, root) = (format!("{}:8081", net.server_address()), site.display());
        let conf = format!(
            "worker_processes 1; daemon off; master_process off; pid {root}/nginx.pid; error_log {root}/nginx.err;\n\
             events {{ worker_connections 2048; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; sendfile on;\n\
             server {{ listen {at} backlog=2048; root {root}; }} }}\n"
        );
        fs::write(&path, conf).ok()?;
        let child = net.server(Path::new("nginx")).arg("-c").arg(&path).stderr(Stdio::null()).spawn().ok()?;
        let mut child = Running(child);
        wait(Duration::from_millis(500));
        // If nginx is not installed, the command `ip netns exec` starts and ends at once.
        if !matches!(child.0.try_wait(), Ok(None)) {
            return None;
        }
        Some(Self { _child: child, url: format!("http://{at}/") })
    }
}
