//! The client of `anabranch bulk`: runs a test against one server and prints the intervals and the result of the test.

use super::protocol::{Knobs, possible};
use super::verb::{CLOSING, signals};
use crate::dial::http3::Http3Target;
use crate::dial::{Routes, SctpTarget};
use crate::outputs::Outputs;
use crate::paths::{PathLog, path_probe};
use crate::place::Url;
use crate::secure::Believing;
use crate::{Done, Failure, complain, say};
use anabranch_load::throughput::report::{self, Framing};
use anabranch_load::throughput::{Interval, PathProbe, Plan, Probe, Test};
use anabranch_quic::QuicSession;
use anabranch_tls::{TlsConnector, TlsSession};
use anabranch_transport::Connector;
use anabranch_transport::kernel::{KernelConnector, KernelSession};
use anabranch_transport::sctp::SctpSession;
use anabranch_world::World;
use anabranch_world::os::{OsWorld, processor_time};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::SocketAddr;
use std::task::Poll;

/// The settings of a `bulk` client.
pub(super) struct Client {
    pub(super) url: Url,
    pub(super) plan: Plan,
    pub(super) knobs: Knobs,
    pub(super) sctp_port: u16,
    pub(super) tls: Option<Believing>,
    pub(super) quiet: bool,
    pub(super) framing: Framing,
    pub(super) paths: PathLog,
}

impl Client {
    pub(super) async fn run(self, world: OsWorld, outputs: Outputs) -> Result<Done, Failure> {
        let addresses = match self.url.resolve() {
            Ok(addresses) => addresses,
            Err(why) => {
                complain(&why);
                return Ok(Done::Badly);
            }
        };
        match &self.knobs {
            Knobs::Kernel(options) => {
                let world = world.with_kernel(options.clone());
                possible(&addresses, options)?;
                let connector = KernelConnector::new(world.clone(), addresses.clone());
                let Some(tls) = &self.tls else {
                    let choices = KernelChoices::of;
                    return self.perform(world, connector, addresses, outputs, kernel_probe, choices).await;
                };
                let names = vec![self.url.host().to_owned(); addresses.len()];
                let connector = TlsConnector::new(world.clone(), connector, tls.client.clone(), &names);
                let connector = connector.map_err(Failure::Usage)?;
                let choices = |session: &TlsSession<_>| session.below(KernelChoices::of);
                let probe = |session: &TlsSession<_>| session.below(kernel_probe);
                self.perform(world, connector, addresses, outputs, probe, choices).await
            }
            Knobs::Quinn(config) => {
                let none = || Failure::Internal("a client of QUIC believes nobody".to_owned());
                let client = self.tls.as_ref().ok_or_else(none)?.http3().map_err(Failure::Host)?;
                let to = Http3Target {
                    addresses: addresses.clone(),
                    name: self.url.host().to_owned(),
                    client,
                    config: (**config).clone(),
                    logs: None,
                };
                let (host, connector) = to.typed_host(&world).await?;
                let choices = |_: &_| KernelChoices::default();
                let done =
                    self.perform(world.clone(), connector, addresses, outputs, quic_probe, choices).await;
                let _ = world.timeout(CLOSING, host.idle()).await;
                done
            }
            Knobs::Ours(config) => {
                let to = SctpTarget {
                    carrier: self.url.carrier,
                    addresses,
                    port: self.sctp_port,
                    config: (**config).clone(),
                    secure: self.tls.as_ref().map(|it| it.target(self.url.host())),
                    paths: Some(self.paths.clone()),
                };
                let (host, ways) = to.host(&world).await?;
                let Routes { connector, first } = ways;
                let choices = |_: &_| KernelChoices::default();
                let done = self.perform(world.clone(), connector, first, outputs, probe, choices).await;
                let _ = world.timeout(CLOSING, host.idle()).await;
                done
            }
        }
    }

    async fn perform<C: Connector>(
        self,
        world: OsWorld,
        connector: C,
        servers: Vec<SocketAddr>,
        outputs: Outputs,
        probe: impl Fn(&C::Session) -> Option<Probe> + 'static,
        choices: impl Fn(&C::Session) -> KernelChoices,
    ) -> Result<Done, Failure> {
        let Self { plan, quiet, mut framing, url, paths, .. } = self;
        let mut signals = signals()?;
        let to_stderr = outputs.takes_stdout();
        let print = |text: &str| {
            if to_stderr {
                let _ = std::io::stderr().write_all(text.as_bytes());
            } else {
                // If the reader has closed the pipe, the text is dropped without an error.
                let _ = say(text);
            }
        };
        // The heading is printed with the first line, so that a test that never starts prints no heading.
        let headed = Cell::new(quiet);
        let head = |probe: Option<&Probe>| {
            if !headed.replace(true) {
                print(report::heading(&plan, probe));
            }
        };
        let test = Test::new(world, connector, servers, plan.clone(), processor_time, probe);
        let lines = |interval: &Interval| {
            paths.begin(test.begun());
            head(interval.probe.as_ref());
            if !quiet {
                print(&report::line(&plan, interval));
            }
        };
        let ended = {
            let mut running = std::pin::pin!(test.run(&lines));
            poll_fn(|cx| match running.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => signals.poll(cx).map(|()| None),
            })
            .await
        };
        framing.interrupted = ended.is_none();
        if framing.interrupted
            && let Some(rest) = test.rest()
        {
            lines(&rest);
        }
        if let Some(Err(failure)) = ended {
            complain(&format!("{}: {failure}", url.text));
            return Ok(Done::Badly);
        }
        let outcome = test.outcome();
        head(outcome.retransmitted.is_some().then(Probe::default).as_ref());
        paths.begin(test.begun());
        framing.paths = paths.fields();
        let all = test.each(choices);
        // Without a connection it is unknown whether Multipath TCP would have been negotiated, so the result says nothing
        // about it.
        let multipath: Option<Vec<bool>> = all.iter().map(|choices| choices.multipath).collect();
        let multipath = multipath.filter(|sessions| !sessions.is_empty());
        framing.multipath = multipath.map(|sessions| sessions.into_iter().filter(|one| *one).count() as u64);
        let congestion = all.into_iter().find_map(|choices| choices.congestion);
        if let Some(name) = congestion.filter(|_| framing.settings.iter().all(|(key, _)| key != "cc")) {
            framing.settings.push(("cc".to_owned(), name));
        }
        let text = report::summary(&plan, &outcome, &framing);
        outputs.write(&text, || report::json(&plan, &outcome, &framing), || report::csv(&outcome))?;
        if framing.interrupted { Err(Failure::Interrupted) } else { Ok(Done::Well) }
    }
}

/// Settings that the kernel chose for a TCP connection. All are `None` for SCTP and QUIC sessions.
#[derive(Default)]
struct KernelChoices {
    /// Whether the connection uses Multipath TCP; `None` if Multipath TCP was not requested.
    multipath: Option<bool>,
    /// The name of the congestion control algorithm.
    congestion: Option<String>,
}

impl KernelChoices {
    fn of(session: &KernelSession<OsWorld>) -> Self {
        Self { multipath: session.is_multipath(), congestion: session.congestion() }
    }
}

fn quic_probe(session: &QuicSession<OsWorld>) -> Option<Probe> {
    let figures = session.with_engine(|engine, id| engine.figures(id))?;
    // QUIC counts lost packets. Their data is retransmitted in other packets, so this is also the number of
    // retransmissions.
    let srtt = anabranch_base::time::nanos(figures.srtt);
    Some(Probe { retransmitted: figures.lost, cwnd: figures.cwnd, srtt, paths: Vec::new() })
}

fn kernel_probe(session: &KernelSession<OsWorld>) -> Option<Probe> {
    let counters = session.counters()?;
    Some(Probe {
        retransmitted: counters.retransmitted,
        cwnd: counters.cwnd,
        srtt: anabranch_base::time::nanos(counters.srtt),
        paths: Vec::new(),
    })
}

fn probe(session: &SctpSession<OsWorld>) -> Option<Probe> {
    let (stats, info) = (session.stats()?, session.info()?);
    let current = info.paths.iter().find(|path| path.current).or(info.paths.first());
    let paths: Vec<PathProbe> = info.paths.iter().filter(|path| !path.removed).map(path_probe).collect();
    Some(Probe {
        retransmitted: stats.retransmitted_fast + stats.retransmitted_timeout,
        cwnd: current.map_or(0, |path| path.cwnd),
        srtt: current.and_then(|path| path.srtt).map_or(0, anabranch_base::time::nanos),
        paths: if paths.len() > 1 { paths } else { Vec::new() },
    })
}
