//! Tests that one program gives the same events in two worlds: a simulation with virtual time, and the real host with
//! its loopback interface. The program is an HTTP exchange over SCTP or TCP. Only times and ports may differ.

#![cfg(target_os = "linux")]

use anabranch_base::time::{Duration, Instant};
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_http::body::Pattern;
use anabranch_http::get::{RequestOptions, get};
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, Content, Options, Resource, Site, Stop};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::kernel::{KernelConnector, KernelListener};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector, SctpHost, SctpServer};
use anabranch_transport::tcp::{TcpConnector, TcpHost};
use anabranch_transport::{Connector, Listener, Session, Stream, sctp, tcp};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: Duration = Duration::from_secs(1);

/// A site with an object of 900 bytes at every path except `/none`. Each object fits into one message.
struct Objects;

impl Site for Objects {
    fn find(&self, target: &str) -> Option<Resource> {
        let content = Content::Pattern(Pattern::of(target), 900);
        (target != "/none").then(|| Resource { content, content_type: "x/y".to_owned(), head_size: None })
    }
}

/// Gets three objects on two streams, or on one stream if the transport has only one, and closes. Returns the events of
/// both ends as text.
async fn exchange<W, C, L>(client: W, server: W, connector: C, listener: L) -> String
where
    W: World,
    C: Connector,
    L: Listener,
{
    let stop = Stop::new();
    let options = Options { stop: Some(stop.clone()), ..Options::default() };
    let serving = serve::run(server.clone(), listener, Rc::new(Objects), options, Recorder::default());
    let serving = server.spawn("server", serving);
    let mut trace = String::new();
    let session = connector.connect(0).expect("begun");
    session.established().await.expect("established");
    let last = session.streams().min(4) - 1;
    let _ = writeln!(trace, "{} streams", session.streams());
    let mut stream = session.open(0).expect("a stream");
    let options = RequestOptions::default();
    for (target, number) in [("/a", 0), ("/none", 0), ("/b", last)] {
        if stream.number() != number {
            stream = session.open(number).expect("a stream");
        }
        let mut body = Vec::new();
        let received = get(&client, &mut stream, ("host", target), &options, 30 * SECOND, |_, bytes| {
            body.extend_from_slice(bytes);
            Ok::<_, ()>(())
        });
        let (answer, length) = received.await.expect("an answer");
        let right = Pattern::of(target).check(0, &body).is_ok();
        let read = stream.bytes_read();
        let _ = writeln!(trace, "{target} on {number}: {:?} {length} right={right} read={read}", answer.head);
    }
    drop(stream);
    session.close();
    let _ = writeln!(trace, "client: {:?}", session.closed().await);
    stop.stop();
    let _ = writeln!(trace, "server: {:?}", serving.await);
    trace
}

/// Writes a trace as text, without times and packets.
fn write_trace(out: &mut String, host: &str, trace: Vec<TraceRecord>) {
    for record in trace {
        let _ = match record.event {
            // These trace events are left out. They depend on the packet size, which differs between the two networks.
            TraceEvent::Limited(_) | TraceEvent::Window(_) => continue,
            TraceEvent::Sent { stream, bytes, cause, .. } => {
                writeln!(out, "{host} sends {bytes:?} of stream {stream}, {cause:?}")
            }
            TraceEvent::Received { units, .. } => writeln!(out, "{host} receives {units:?}"),
            event => writeln!(out, "{host}: {event:?}"),
        };
    }
}

async fn over_sctp<W: World>(client: W, server: W) -> String {
    let config = sctp::Config::default();
    let carrier = LowerProtocol::Udp { port: 0 };
    let near = SctpHost::new(client.clone(), config.clone(), carrier, None).await.expect("a host");
    let far = SctpHost::new(server.clone(), config, carrier, None).await.expect("a host");
    near.set_tracing(true);
    far.set_tracing(true);
    let listener = far.listen(80).expect("listening");
    let addresses = far.inspect(|engine| engine.addresses().to_vec());
    let connector = SctpConnector::new(near.clone(), vec![SctpServer { addresses, port: 80 }]);
    let mut trace = exchange(client, server, connector, listener).await;
    near.wait_idle().await;
    far.wait_idle().await;
    write_trace(&mut trace, "client", near.take_trace());
    write_trace(&mut trace, "server", far.take_trace());
    trace
}

fn in_virtual_time<T: 'static, F: Future<Output = T>>(program: impl FnOnce(SimWorld, SimWorld) -> F) -> T {
    let network = Network::new(1);
    let (client, server) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let (client, server) = (network.host("client", &[client]), network.host("server", &[server]));
    let link = LinkSpec::parse("rate=100mbit,rtt=2ms").expect("a link");
    network.link(client, server, &link).expect("linked");
    let program = program(network.world(client), network.world(server));
    network.run(program, Instant::from_millis(600_000)).expect_done()
}

/// Runs a program with the real operating system, on the loopback interface. Panics if the program does not end in
/// time.
fn on_the_loopback<T>(program: impl AsyncFnOnce(OsWorld) -> T) -> T {
    let options = os::Options { addresses: vec![LOOPBACK], seed: Some(1), ..os::Options::default() };
    let bounded = async |world: OsWorld| {
        let program = program(world.clone());
        world.timeout(60 * SECOND, program).await.expect("it ends within a minute")
    };
    os::run(options, bounded).expect("a world")
}

#[test]
fn sctp_over_udp_behaves_alike_in_both_worlds() {
    let virtual_one = in_virtual_time(over_sctp);
    let real_one = on_the_loopback(async |world| over_sctp(world.clone(), world).await);
    assert!(virtual_one.contains("/b on 3") && virtual_one.contains("client: Finished"), "{virtual_one}");
    assert_eq!(virtual_one, real_one);
}

#[test]
fn our_tcp_and_the_kernels_carry_the_same_exchange() {
    let simulated = in_virtual_time(async |client: SimWorld, server: SimWorld| {
        let near = TcpHost::new(client.clone(), tcp::Config::default()).await.expect("a host");
        let far = TcpHost::new(server.clone(), tcp::Config::default()).await.expect("a host");
        let listener = far.listen(80, 0).expect("listening");
        let connector = TcpConnector::new(near, vec![SocketAddr::from(([10, 0, 0, 2], 80))]);
        exchange(client, server, connector, listener).await
    });
    let kernels = on_the_loopback(async |world| {
        let listener =
            KernelListener::new(world.clone(), SocketAddr::new(LOOPBACK, 0), 8).expect("listening");
        let connector = KernelConnector::new(world.clone(), vec![listener.local()]);
        exchange(world.clone(), world, connector, listener).await
    });
    assert!(simulated.contains("/b on 0") && simulated.contains("client: Finished"), "{simulated}");
    assert_eq!(simulated, kernels);
}
