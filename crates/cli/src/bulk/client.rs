//! The client of `anabranch bulk`: runs a test against one server and prints the intervals and the result of the test.

use super::ending::{CLOSING, signals};
use crate::dial::{self, dial};
use crate::outputs::Outputs;
use crate::paths::PathLog;
use crate::url::Url;
use crate::{Completion, Failure, complain, say};
use anabranch_load::throughput::report::{self, ReportContext};
use anabranch_load::throughput::{Interval, Outcome, Plan, Test};
use anabranch_report::under_load::{self, Panel, UnderLoad};
use anabranch_transport::network::Figures;
use anabranch_transport::{Connector, Session, Settings};
use anabranch_transports::os::{Target, WithConnector, possible};
use anabranch_transports::security::ClientSecurity;
use anabranch_world::World;
use anabranch_world::os::{OsWorld, processor_time};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;

/// The settings of a `bulk` client.
pub(super) struct Client {
    pub(super) url: Url,
    pub(super) plan: Plan,
    pub(super) settings: Box<dyn Settings>,
    pub(super) sctp_port: u16,
    pub(super) tls: Option<ClientSecurity>,
    pub(super) quiet: bool,
    pub(super) context: ReportContext,
    pub(super) paths: PathLog,
}

impl Client {
    pub(super) async fn run(self, world: OsWorld, outputs: Outputs) -> Result<Completion, Failure> {
        let addresses = match self.url.resolve() {
            Ok(addresses) => addresses,
            Err(cause) => {
                complain(&cause);
                return Ok(Completion::Badly);
            }
        };
        let scheme = self.url.scheme.clone();
        possible(&scheme, &*self.settings, &addresses).map_err(Failure::Host)?;
        let target = Target {
            scheme: scheme.clone(),
            addresses,
            name: self.url.host().to_owned(),
            inner_port: self.sctp_port,
            settings: self.settings.clone(),
            security: self.tls.clone(),
            logs: None,
        };
        let failed = |error| dial::failure(&scheme, error);
        let dialed = dial(&world, target, Some(&self.paths)).await.map_err(failed)?;
        let servers = dialed.servers.clone();
        let test = Performing { client: self, world: world.clone(), servers, outputs };
        let done = dialed.with(test).map_err(failed)?.await;
        let _ = world.timeout(CLOSING, dialed.host.wait_idle()).await;
        done
    }

    async fn perform<C: Connector>(
        self,
        world: OsWorld,
        connector: C,
        servers: Vec<SocketAddr>,
        outputs: Outputs,
    ) -> Result<Completion, Failure> {
        let Self { plan, quiet, mut context, url, paths, .. } = self;
        let mut signals = signals()?;
        let to_stderr = outputs.takes_stdout();
        let print = |text: &str| {
            if to_stderr {
                let _ = std::io::stderr().write_all(text.as_bytes());
            } else {
                // An error is ignored, because the reader may have closed the pipe.
                let _ = say(text);
            }
        };
        // The heading is printed just before the first line. A test that never starts therefore prints no heading.
        let headed = Cell::new(quiet);
        let head = |figures: Option<&Figures>| {
            if !headed.replace(true) {
                print(report::heading(&plan, figures));
            }
        };
        let test = Test::new(world, connector, servers, plan.clone(), processor_time);
        let lines = |interval: &Interval| {
            paths.begin(test.started_at());
            head(interval.figures.as_ref());
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
        context.interrupted = ended.is_none();
        if context.interrupted
            && let Some(rest) = test.final_interval()
        {
            lines(&rest);
        }
        if let Some(Err(failure)) = ended {
            complain(&format!("{}: {failure}", url.text));
            return Ok(Completion::Badly);
        }
        let outcome = test.outcome();
        head(outcome.retransmitted.is_some().then(Figures::default).as_ref());
        paths.begin(test.started_at());
        context.paths = paths.fields();
        let all = test.each(KernelChoices::of);
        // Without a connection it is unknown whether Multipath TCP would have been negotiated, so the result does not
        // mention Multipath TCP.
        let multipath: Option<Vec<bool>> = all.iter().map(|choices| choices.multipath).collect();
        let multipath = multipath.filter(|sessions| !sessions.is_empty());
        context.multipath = multipath.map(|sessions| sessions.into_iter().filter(|one| *one).count() as u64);
        let congestion = all.into_iter().find_map(|choices| choices.congestion);
        if let Some(name) = congestion.filter(|_| context.settings.iter().all(|(key, _)| key != "cc")) {
            context.settings.push(("cc".to_owned(), name));
        }
        let text = report::summary(&plan, &outcome, &context);
        outputs.write_with_page(
            &text,
            || report::json(&plan, &outcome, &context),
            || report::csv(&outcome),
            || under_load::html(&page(&plan, &outcome, &context)),
        )?;
        if context.interrupted { Err(Failure::Interrupted) } else { Ok(Completion::Well) }
    }
}

/// Returns what the page of `--html` draws.
fn page(plan: &Plan, outcome: &Outcome, context: &ReportContext) -> UnderLoad {
    let curve = |of: &dyn Fn(&Interval) -> Option<f64>| -> Vec<(f64, f64)> {
        outcome.intervals.iter().filter_map(|one| Some((one.to.as_secs_f64(), of(one)?))).collect()
    };
    let rate = |bytes: u64, interval: &Interval| {
        let span = interval.to.saturating_sub(interval.from).as_secs_f64();
        (span > 0.0).then(|| bytes as f64 * 8e-6 / span)
    };
    let (up, down) = (curve(&|one| rate(one.acknowledged, one)), curve(&|one| rate(one.received, one)));
    let of = |wanted: bool, curve: Vec<(f64, f64)>| if wanted { curve } else { Vec::new() };
    let measured = |one: &Interval| {
        one.figures.as_ref().map(|figures| figures.srtt.as_secs_f64() * 1e3).filter(|ms| *ms > 0.0)
    };
    UnderLoad {
        title: format!("{} under a transfer", context.url),
        command: context.command.clone(),
        facts: vec![
            "The round-trip time is the one that the client's transport measures and smooths.".to_owned(),
        ],
        panels: vec![
            Panel {
                file: "rtt",
                quantity: "round-trip time",
                unit: "ms",
                logarithmic: true,
                curves: vec![("at the client", curve(&measured))],
            },
            Panel {
                file: "rate",
                quantity: "bit rate",
                unit: "Mbit/s",
                logarithmic: false,
                curves: vec![("up", of(plan.up, up)), ("down", of(plan.down, down))],
            },
        ],
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// One measurement that the client runs. The code is generic over the type of the connector (the transport).
struct Performing {
    client: Client,
    world: OsWorld,
    servers: Vec<SocketAddr>,
    outputs: Outputs,
}

impl WithConnector for Performing {
    type Out = Pin<Box<dyn Future<Output = Result<Completion, Failure>>>>;

    fn on<C: Connector>(self, connector: C) -> Self::Out {
        let Self { client, world, servers, outputs } = self;
        Box::pin(client.perform(world, connector, servers, outputs))
    }
}

/// Settings that the kernel chose for a TCP connection. All are `None` for sessions of other transports.
#[derive(Default)]
struct KernelChoices {
    /// Whether the connection uses Multipath TCP; `None` if Multipath TCP was not requested.
    multipath: Option<bool>,
    /// The name of the congestion control algorithm.
    congestion: Option<String>,
}

impl KernelChoices {
    fn of(session: &impl Session) -> Self {
        Self { multipath: session.is_multipath(), congestion: session.congestion() }
    }
}
