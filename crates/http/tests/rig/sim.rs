//! A client and a server in a virtual network, with real engines.

use anabranch_base::Instant;
use anabranch_http::fetch::{self, Outcome};
use anabranch_http::mapping::{Choices, Policy, WhenFull};
use anabranch_http::observe::{Record, Recorder};
use anabranch_http::page::Page;
use anabranch_http::serve::{self, PageSite};
use anabranch_link::LinkSpec;
use anabranch_sim::{LinkId, Network, SimWorld};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector, SctpHost, SctpServer};
use anabranch_transport::tcp::{TcpConnector, TcpHost};
use anabranch_transport::{Connector, Listener};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Two hosts, and one path between them for each link.
pub struct Rig {
    pub network: Network,
    pub client: SimWorld,
    pub server: SimWorld,
    pub links: Vec<LinkId>,
}

impl Rig {
    pub fn new(links: &[&str], seed: u64) -> Self {
        let network = Network::new(seed);
        let address = |path: usize, host: u8| IpAddr::from([10, path as u8 + 1, 0, host]);
        let (client, server) = (network.host("client", &[]), network.host("server", &[]));
        let links = links.iter().enumerate().map(|(path, link)| {
            let spec = LinkSpec::parse(link).expect("a link");
            let near = network.interface(client, &[address(path, 1)]);
            let far = network.interface(server, &[address(path, 2)]);
            network.link(near, far, &spec).expect("linked")
        });
        let links = links.collect();
        let (client, server) = (network.world(client), network.world(server));
        Self { network, client, server, links }
    }
}

/// A contestant: the transport and the settings with which a test fetches a page.
#[derive(Clone, Debug)]
pub enum Contestant {
    Tcp(&'static str, Choices),
    Sctp(&'static str, u16, Choices),
}

pub fn tcp(choices: Choices) -> Contestant {
    Contestant::Tcp("modern", choices)
}

pub fn sctp(streams: u16) -> Contestant {
    Contestant::Sctp("rfc9260", streams, Choices::default())
}

/// Returns the contestants with which every page is tested.
pub fn contestants() -> Vec<Contestant> {
    let none = Choices::default();
    vec![
        tcp(none.clone()),
        tcp(Choices { pipeline: Some(false), ..none.clone() }),
        tcp(Choices { connections: Some(6), ..none.clone() }),
        tcp(Choices { per_object: true, ..none.clone() }),
        tcp(Choices { objects_per_connection: Some(3), ..none.clone() }),
        sctp(1),
        sctp(10),
        sctp(100),
        Contestant::Sctp("rfc9260", 3, Choices { when_full: Some(WhenFull::RoundRobin), ..none.clone() }),
        Contestant::Sctp("rfc9260", 10, Choices { per_object: true, ..none }),
    ]
}

impl Contestant {
    pub fn policy(&self) -> Policy {
        let (choices, multistream) = match self {
            Self::Tcp(_, choices) => (choices, false),
            Self::Sctp(_, _, choices) => (choices, true),
        };
        choices.policy(multistream, false).expect("a policy")
    }
}

pub async fn tcp_hosts(rig: &Rig, profile: &str) -> (TcpHost<SimWorld>, TcpHost<SimWorld>) {
    let config = || anabranch_tcp::Config::profile(profile).expect("a profile");
    let client = TcpHost::new(rig.client.clone(), config()).await.expect("a host");
    let server = TcpHost::new(rig.server.clone(), config()).await.expect("a host");
    (client, server)
}

pub async fn sctp_hosts(
    rig: &Rig,
    profile: &str,
    streams: u16,
    carrier: LowerProtocol,
) -> (SctpHost<SimWorld>, SctpHost<SimWorld>) {
    let mut config = anabranch_sctp::Config::profile(profile).expect("a profile");
    config.num_ostreams = streams;
    let client = SctpHost::new(rig.client.clone(), config.clone(), carrier, None).await.expect("a host");
    let server = SctpHost::new(rig.server.clone(), config, carrier, None).await.expect("a host");
    (client, server)
}

/// Returns the addresses of the server on every path.
pub fn sctp_server(rig: &Rig, carrier: LowerProtocol) -> SctpServer {
    let port = match carrier {
        LowerProtocol::Ip => 0,
        LowerProtocol::Udp { port } => port,
    };
    let addresses = anabranch_world::World::addresses(&rig.server);
    SctpServer { addresses: addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(), port: 80 }
}

pub fn tcp_server(rig: &Rig) -> SocketAddr {
    SocketAddr::new(anabranch_world::World::addresses(&rig.server)[0], 80)
}

/// The result of a page load in a virtual network.
pub struct Load {
    pub outcome: Outcome,
    pub record: Record,
    /// The number of connections that the server has accepted.
    pub accepted: usize,
}

/// Fetches `page` through a connector and a listener whose hosts are already running.
pub async fn fetch_page<C: Connector, L: Listener>(
    rig: &Rig,
    connector: C,
    listener: L,
    page: &Rc<Page>,
    policy: Policy,
    options: serve::Options,
) -> (Outcome, Record) {
    let recorder = Recorder::new();
    let site = Rc::new(PageSite::new(page));
    let serving = serve::run(rig.server.clone(), listener, site, options, recorder.clone());
    let _server = anabranch_world::World::spawn(&rig.server, "server", serving);
    let outcome = fetch::run(rig.client.clone(), connector, page.clone(), policy, recorder.clone()).await;
    (outcome, recorder.take())
}

/// Fetches `page` with `contestant` over `rig`.
pub fn load(rig: &Rig, contestant: &Contestant, page: &Rc<Page>, change: impl FnOnce(&mut Policy)) -> Load {
    let mut policy = contestant.policy();
    change(&mut policy);
    let options = serve::Options::default();
    let run = async {
        match contestant {
            Contestant::Tcp(profile, _) => {
                let (client, server) = tcp_hosts(rig, profile).await;
                let listener = server.listen(80, 0).expect("listening");
                let connector = TcpConnector::new(client, vec![tcp_server(rig)]);
                fetch_page(rig, connector, listener, page, policy, options).await
            }
            Contestant::Sctp(profile, streams, _) => {
                let (client, server) = sctp_hosts(rig, profile, *streams, LowerProtocol::Ip).await;
                let listener = server.listen(80).expect("listening");
                let connector = SctpConnector::new(client, vec![sctp_server(rig, LowerProtocol::Ip)]);
                fetch_page(rig, connector, listener, page, policy, options).await
            }
        }
    };
    let (outcome, record) = rig.network.run(run, Instant::MAX).expect_done();
    let accepted = record.connections.values().filter(|c| c.established.is_some()).count();
    Load { outcome, record, accepted }
}
