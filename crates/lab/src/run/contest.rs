//! Runs a contestant in the simulated network: starts its servers and its client, and records their events.

use super::host;
use super::topology::ContestantHosts;
use crate::plan::contestant::SecurityConfigs;
use crate::plan::workload::MAX_CONNECTIONS;
use crate::plan::{BackgroundTraffic, Contestant, PointPlan, Workload};
use anabranch_base::time::Duration;
use anabranch_http::fetch::{self, Outcome};
use anabranch_http::head::Strictness;
use anabranch_http::mapping::{Policy, Think};
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, PageSite, Versions};
use anabranch_load::bulk::{self, Bulk};
use anabranch_load::messages::{self, Messages};
use anabranch_sim::{Network, Task};
use anabranch_tls::Encryption;
use anabranch_transport::protocol::{Host, Server, StartOptions};
use anabranch_transport::{Connector, Listener, Settings};
use anabranch_world::{Detach, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// The port on which servers listen. It is not 80, because protocol analysers treat each DATA chunk from port 80 as a
/// whole message.
pub const PORT: u16 = 8000;
/// The size in bytes of the server's writes in a bulk transfer. The plan may set another size, and the contestant's
/// send buffer may limit it.
const MESSAGE_SIZE: u64 = 64 * 1024;

/// A contestant that is running in the simulated network.
pub struct Contest {
    /// The transport of the contestant's client.
    pub client: Rc<dyn Host>,
    /// The transports of the contestant's servers.
    pub servers: Vec<Rc<dyn Host>>,
    /// The configurations of the contestant's TLS or DTLS, for client and server.
    pub pairs: SecurityConfigs,
    /// The recorder of the events of the client and the servers.
    pub recorder: Recorder,
    /// The client's task. It returns the outcome when the client has finished.
    pub task: Task<Outcome>,
}

/// The data that a client requests, and how it requests the data.
#[derive(Clone)]
pub struct Job {
    page: Rc<anabranch_http::page::Page>,
    /// The content that the servers serve.
    site: Rc<PageSite>,
    /// The delay before the client begins to load.
    start_delay: Duration,
    policy: Policy,
    bulk: Option<Bulk>,
    messages: Option<Messages>,
    options: serve::Options,
}

/// Starts a contestant on its hosts. Its TLS or DTLS encrypts by `encryption`. If `logs` is true, its connections are logged, provided that its transport has a
/// log format.
///
/// # Errors
/// One line with the error of the simulation.
pub async fn start(
    network: &Network,
    lane: &ContestantHosts,
    contestant: &Contestant,
    point: &PointPlan,
    encryption: Encryption,
    logs: bool,
) -> Result<Contest, String> {
    let job = job(contestant, &point.workload)?;
    let recorder = Recorder::new();
    for node in lane.servers.iter().chain([&lane.client]) {
        network.set_processing_cost(*node, contestant.cost);
    }
    let before = host::surroundings(&network.world(lane.client), encryption);
    let pairs = contestant.pairs(&before, point.workload.visit)?;
    let mut servers = Vec::new();
    for node in &lane.servers {
        let world = network.world(*node);
        let host = host::start(world.clone(), point, contestant, &pairs, true, encryption).await?;
        if logs {
            host.start_logging();
        }
        // The argument 0 selects the backlog that the contestant's setting `backlog` gives.
        let listener = host.listen(PORT, 0).map_err(|error| error.to_string())?;
        serve(world, listener, &job, recorder.clone());
        servers.push(host);
    }
    let world = network.world(lane.client);
    let client = host::start(world.clone(), point, contestant, &pairs, false, encryption).await?;
    if logs {
        client.start_logging();
    }
    let targets = lane.server_addresses.iter().map(|own| host::server(contestant, own, PORT)).collect();
    let task = load(world, client.connector(targets), &job, recorder.clone());
    Ok(Contest { client, servers, pairs, recorder, task })
}

/// Starts background traffic between the hosts of `lane`. The traffic consists of endless downloads from the server to
/// the client.
///
/// # Errors
/// One line with the error of the simulation.
pub async fn background(
    network: &Network,
    lane: &ContestantHosts,
    cross: &BackgroundTraffic,
) -> Result<(), String> {
    let protocol = cross.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let (Some(node), Some(address)) =
        (lane.servers.first(), lane.server_addresses.first().and_then(|a| a.first()))
    else {
        return Err("background traffic has no server".to_owned());
    };
    let carriers = cross.transport.capabilities().carriers;
    let start = |server| StartOptions {
        settings: Box::<dyn Settings>::clone(&cross.engine),
        carrier: carriers.choose(false, server),
        paths: None,
        credentials: None,
        congestion: None,
        layer: None,
    };
    let wrong = |error: std::io::Error| error.to_string();
    let world = network.world(*node);
    let server = protocol.start(world.clone(), start(true)).await.map_err(wrong)?;
    let listener = server.listen(PORT, MAX_CONNECTIONS as u32).map_err(|error| error.to_string())?;
    let serving = world.clone();
    world
        .spawn(
            "background server",
            async move { drop(bulk::serve(serving, listener, Recorder::default()).await) },
        )
        .detach();
    let world = network.world(lane.client);
    let client = protocol.start(world.clone(), start(false)).await.map_err(wrong)?;
    let addresses = vec![SocketAddr::new(*address, carriers.server_port(false))];
    let connector = client.connector(vec![Server { addresses, port: PORT }]);
    let endless = Bulk {
        bytes: ENDLESS,
        message_size: MESSAGE_SIZE as usize,
        connections: cross.flows,
        deadline: None,
        timeout: None,
    };
    let loading = world.clone();
    world
        .spawn("background client", async move {
            drop(bulk::run(loading, connector, endless, Recorder::default()).await)
        })
        .detach();
    Ok(())
}

/// Returns the bulk transfer of a workload, or `None` if the workload consists of a page or of messages.
#[must_use]
pub fn bulk_of(contestant: &Contestant, policy: &Policy, workload: &Workload) -> Option<Bulk> {
    let size = workload.bulk.filter(|_| workload.messages.is_none())?;
    let message_size = workload.message_size.unwrap_or(MESSAGE_SIZE);
    Some(Bulk {
        bytes: size,
        message_size: message_size.min(contestant.engine.largest_message().unwrap_or(u64::MAX)) as usize,
        // Every connection must carry at least one byte. Otherwise the object of an empty connection would count as
        // delivered before the connection begins.
        connections: policy.connections.min(MAX_CONNECTIONS).min(size.max(1) as usize),
        deadline: policy.deadline,
        timeout: policy.timeout,
    })
}

/// Returns the messages of a workload, or `None` if the workload is a page, or a bulk transfer without messages.
fn messages_of(contestant: &Contestant, policy: &Policy, workload: &Workload) -> Option<Messages> {
    let flow = workload.messages?;
    // Leaves space for the frame header around each write.
    let largest = contestant.engine.largest_message().unwrap_or(u64::MAX).saturating_sub(64);
    Some(Messages {
        interval: flow.interval,
        size: flow.size as usize,
        count: flow.count,
        connections: contestant.connections().min(MAX_CONNECTIONS),
        bulk: workload.bulk.unwrap_or(0),
        bulk_write: workload.message_size.unwrap_or(MESSAGE_SIZE).min(largest) as usize,
        delivery: contestant.delivery,
        deadline: policy.deadline,
    })
}

/// Returns the rules by which a contestant's client requests the objects of a workload.
///
/// # Errors
/// A one-line message if the contestant's settings contradict the workload.
pub fn policy_of(contestant: &Contestant, workload: &Workload) -> Result<Policy, String> {
    let policy = contestant.policy(workload.arrivals.is_some()).map_err(|error| error.to_string())?;
    Ok(Policy {
        think: if workload.think { Think::Recorded } else { Think::None },
        arrivals: workload.issue_times(contestant.streams()),
        timeout: workload.timeout,
        deadline: Some(workload.deadline),
        preconnect: workload.preconnect,
        keep_origins: workload.keep_origins,
        client: workload.client,
        visit: workload.visit,
        client_time: workload.client_time,
        // With `arrivals-of=connections`, as many objects are requested at each time as a connection has streams. These
        // objects must not be spread over several connections.
        spread: policy.spread && !workload.arrivals_of_connections,
        ..policy
    })
}

/// Returns the data that the client of a contestant requests, and how it requests the data.
///
/// # Errors
/// A one-line message if settings of the contestant in the plan contradict the workload.
pub fn job(contestant: &Contestant, workload: &Workload) -> Result<Job, String> {
    let policy = policy_of(contestant, workload)?;
    let page = Rc::new((*workload.page).clone());
    let site = PageSite::new(&page).with_service_times(&page, |object| workload.server_time_of(object));
    Ok(Job {
        page,
        site: Rc::new(site),
        start_delay: workload.start_delay,
        bulk: bulk_of(contestant, &policy, workload),
        messages: messages_of(contestant, &policy, workload),
        policy,
        options: serve::Options {
            serial: workload.serial_server,
            strictness: Strictness::AsRecorded,
            versions: match (&contestant.http2, contestant.http3) {
                (Some(_), _) => Versions::Http2,
                (None, true) => Versions::Http3,
                (None, false) => Versions::Http1,
            },
            ..serve::Options::default()
        },
    })
}

/// Starts the job's server. The server runs until the simulation or emulation ends.
pub fn serve<W: World, L: Listener>(world: W, listener: L, job: &Job, recorder: Recorder) {
    let here = world.clone();
    if job.bulk.is_some() {
        world.spawn("server", async move { drop(bulk::serve(here, listener, recorder).await) }).detach();
        return;
    }
    if let Some(messages) = &job.messages {
        let delivery = messages.delivery;
        let serving = async move { drop(messages::serve(here, listener, delivery, recorder).await) };
        world.spawn("server", serving).detach();
        return;
    }
    let (site, options) = (job.site.clone(), job.options.clone());
    world
        .spawn("server", async move { drop(serve::run(here, listener, site, options, recorder).await) })
        .detach();
}

/// Starts the client that loads the data of `job`.
pub fn load<W: World, C: Connector>(
    world: W,
    connector: C,
    job: &Job,
    recorder: Recorder,
) -> W::Task<Outcome> {
    let (here, job) = (world.clone(), job.clone());
    world.spawn("client", async move {
        if !job.start_delay.is_zero() {
            here.sleep_until(here.now() + job.start_delay).await;
        }
        match (job.messages, job.bulk) {
            (Some(messages), _) => messages::run(here, connector, messages, recorder).await,
            (None, Some(bulk)) => bulk::run(here, connector, bulk, recorder).await,
            (None, None) => fetch::run(here, connector, job.page, job.policy, recorder).await,
        }
    })
}

/// A number of bytes that no run can carry, for endless downloads.
const ENDLESS: u64 = 1 << 50;
