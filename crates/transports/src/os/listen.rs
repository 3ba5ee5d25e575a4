//! Listeners on real networks, and listening sockets that several threads share.
//!
//! Listening sockets are opened once, before the threads start. For a UDP port or an IP protocol, each thread has its
//! own socket. If the transport has steering rules, they choose the socket of a packet by the packet's content. Under
//! DTLS, and for a transport without steering rules, the kernel chooses the socket by the client's address and port. If
//! the kernel implements the transport, all threads share one socket.

use crate::layers::Security;
use crate::scheme::{Encryption, UrlScheme};
use crate::security::ServerSecurity;
use anabranch_tls::{Server, TlsListener};
use anabranch_transport::kernel::KernelListener;
use anabranch_transport::network::{Logs, Member};
use anabranch_transport::protocol::{Opening, StartOptions};
use anabranch_transport::sctp::SctpListener;
use anabranch_transport::{AnyListener, Host, ListenError, Listener, Settings};
use anabranch_world::World;
use anabranch_world::os::{self, Group, OsWorld, ReusePortSocket};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;

/// Where to listen, and the parameters of the listeners.
#[derive(Clone)]
pub struct ListenOptions<'a> {
    /// The scheme, which selects the transport and the encryption.
    pub scheme: &'a UrlScheme,
    /// The local addresses; if empty, all addresses of the host.
    pub addresses: &'a [IpAddr],
    /// The UDP port or, if the transport does not run in UDP, the transport's own port. 0 stands for any free port.
    pub port: u16,
    /// The transport's own port, if the transport runs in UDP.
    pub inner_port: u16,
    /// The settings of the transport.
    pub settings: &'a dyn Settings,
    /// The server's security; `None` if the scheme is not encrypted.
    pub security: Option<&'a ServerSecurity>,
    /// The destination of connection logs; `None` if connections are not logged.
    pub logs: Option<Arc<dyn Logs>>,
    /// The maximum number of connections of a kernel protocol that wait to be accepted.
    pub backlog: u32,
}

impl fmt::Debug for ListenOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenOptions")
            .field("scheme", &self.scheme.name())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// The reason why listening failed.
#[derive(Debug)]
pub enum ListenFailure {
    /// The operating system refused a socket. The address is `Some` only for kernel protocols, which have one socket
    /// per address.
    Socket(Option<SocketAddr>, io::Error),
    /// The transport, its DTLS layer or its certificate cannot be used, for the reason in the text.
    Refused(String),
    /// The program gave no certificate for an encrypted scheme.
    NoCertificate,
}

impl From<io::Error> for ListenFailure {
    fn from(why: io::Error) -> Self {
        Self::Socket(None, why)
    }
}

/// An open listener with its transport.
pub struct Listening {
    /// The `World` in which the server runs, limited to the listener's addresses.
    pub world: OsWorld,
    /// The transport.
    pub host: Rc<dyn Host>,
    /// The local addresses, with the ports that a client's URL must contain.
    pub local: Vec<SocketAddr>,
    listener: AnyListener,
    tls: Option<Server>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("local", &self.local).finish_non_exhaustive()
    }
}

/// The listeners that [`listen`] has opened.
#[derive(Debug, Default)]
pub struct Opened {
    /// The open listeners.
    pub listeners: Vec<Listening>,
    /// IPv6 addresses on which the host cannot listen, each with the error of the operating system. The user named no
    /// address, so this is not a failure.
    pub skipped: Vec<(SocketAddr, io::Error)>,
}

/// A function that takes a listener of any type. It is compiled for each type of listener that [`Listening::with`]
/// creates.
pub trait WithListener {
    /// The result of the function.
    type Out;

    /// Runs the function on `listener`.
    fn on<L: Listener>(self, listener: L) -> Self::Out;
}

impl Listening {
    /// Runs `program` on the listener. The listeners of SCTP and of the kernel (with and without TLS) have their
    /// concrete type, which saves indirect calls. All other types are erased. This costs little for QUIC, because
    /// encrypting a packet costs far more than an indirect call.
    pub fn with<P: WithListener>(self, program: P) -> P::Out {
        let listener = match (self.listener.concrete::<KernelListener<OsWorld>>(), self.tls) {
            (Ok(kernel), None) => return program.on(kernel),
            (Ok(kernel), Some(tls)) => return program.on(TlsListener::new(self.world, kernel, tls)),
            (Err(other), Some(tls)) => AnyListener::new(TlsListener::new(self.world, other, tls)),
            (Err(other), None) => other,
        };
        match listener.concrete::<SctpListener<OsWorld>>() {
            Ok(sctp) => program.on(sctp),
            Err(other) => program.on(other),
        }
    }
}

/// Opens the listeners that `options` describes. A kernel protocol has one listener per address. A transport over DTLS
/// also has one listener per address, because an association over DTLS has one address at each end (RFC 8261 §6.1).
///
/// # Errors
/// [`ListenFailure`] if listening on one of the named addresses fails.
pub async fn listen(world: &OsWorld, options: &ListenOptions<'_>) -> Result<Opened, ListenFailure> {
    let mut opened = Opened::default();
    let mut options = options.clone();
    if options.scheme.can().kernel {
        for ip in kernel_addresses(options.addresses) {
            let at = SocketAddr::new(ip, options.port);
            match kernel(world, &options, ip).await {
                Ok(one) => {
                    // All addresses share a port, even if the operating system chose the port for the first address.
                    options.port = one.local.first().map_or(options.port, SocketAddr::port);
                    opened.listeners.push(one);
                }
                Err(ListenFailure::Socket(_, why)) if options.addresses.is_empty() && ip.is_ipv6() => {
                    opened.skipped.push((at, why));
                }
                Err(failure) => return Err(failure),
            }
        }
        return Ok(opened);
    }
    let all = match (options.scheme.encryption(), options.addresses.is_empty()) {
        (Encryption::Below, true) => world.addresses().into_iter().map(|one| vec![one]).collect(),
        (Encryption::Below, false) => options.addresses.iter().map(|one| vec![*one]).collect(),
        _ => vec![options.addresses.to_vec()],
    };
    for addresses in all {
        let here = world.at(addresses)?;
        let one = engine(here, &options, None).await?;
        if options.scheme.encryption() == Encryption::Below {
            options.port = one.local.first().map_or(options.port, SocketAddr::port);
        }
        opened.listeners.push(one);
    }
    Ok(opened)
}

/// Opens the listener of one thread over sockets that were opened by [`share`].
///
/// # Errors
/// [`ListenFailure`] if the socket cannot be used.
pub async fn listen_shared(
    world: &OsWorld,
    options: &ListenOptions<'_>,
    socket: ThreadSocket,
) -> Result<Listening, ListenFailure> {
    match socket {
        ThreadSocket::Kernel(listener) => {
            let kernel_options = options.scheme.protocol().kernel(options.settings, None).unwrap_or_default();
            let listening = world.with_kernel(kernel_options).take_listener(listener)?;
            let listener = KernelListener::over(world.clone(), listening);
            let local = vec![listener.local()];
            let host = open(world, options, Opening::from(start(options))).await?;
            accepting(world.clone(), options, host, AnyListener::new(listener), local)
        }
        ThreadSocket::Engine(seat, member) => {
            let here = world.at(options.addresses.to_vec())?;
            engine(here, options, Some((seat, member))).await
        }
    }
}

/// Returns the addresses on which a kernel protocol listens.
fn kernel_addresses(named: &[IpAddr]) -> Vec<IpAddr> {
    match named {
        [] => vec![IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])],
        named => named.to_vec(),
    }
}

fn start(options: &ListenOptions<'_>) -> StartOptions {
    StartOptions {
        settings: options.settings.boxed(),
        carrier: options.scheme.carrier(options.port),
        paths: None,
        credentials: None,
        congestion: None,
        layer: None,
    }
}

async fn open(
    world: &OsWorld,
    options: &ListenOptions<'_>,
    opening: Opening<OsWorld>,
) -> Result<Rc<dyn Host>, ListenFailure> {
    let protocol = options.scheme.transport().in_emulation();
    let protocol = protocol.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    Ok(protocol.open(world.clone(), opening).await?)
}

/// Listens on one address with a protocol of the kernel.
async fn kernel(
    world: &OsWorld,
    options: &ListenOptions<'_>,
    ip: IpAddr,
) -> Result<Listening, ListenFailure> {
    let at = SocketAddr::new(ip, options.port);
    let kernel_options = options.scheme.protocol().kernel(options.settings, None).unwrap_or_default();
    let listener = os::listen_tcp(at, options.backlog, &kernel_options)
        .and_then(|listener| world.with_kernel(kernel_options).take_listener(listener))
        .map_err(|why| ListenFailure::Socket(Some(at), why))?;
    let listener = KernelListener::over(world.clone(), listener);
    let local = vec![SocketAddr::new(ip, listener.port())];
    let host = open(world, options, Opening::from(start(options))).await?;
    accepting(world.clone(), options, host, AnyListener::new(listener), local)
}

/// Starts an engine at the addresses of the world `here`, and listens.
async fn engine(
    here: OsWorld,
    options: &ListenOptions<'_>,
    shared: Option<(ReusePortSocket, Option<Member>)>,
) -> Result<Listening, ListenFailure> {
    let security = match (options.scheme.encryption(), options.security) {
        (Encryption::None | Encryption::Above, _) => None,
        (_, None) => return Err(ListenFailure::NoCertificate),
        (Encryption::Below, Some(security)) => {
            let config = security.dtls().map_err(|why| ListenFailure::Refused(why.to_string()))?;
            Some(Security::Below(config, None))
        }
        (Encryption::Within, Some(security)) => {
            Some(Security::Within(security.within().ok_or(ListenFailure::NoCertificate)?))
        }
    };
    let mut start = start(options);
    if options.scheme.encryption() == Encryption::Below && options.security.is_some_and(|it| it.zero_checksum)
    {
        start.settings.rely_on_layer();
    }
    let start = match security {
        Some(security) => security.begin(&here, start).0,
        None => start,
    };
    let mut opening = Opening { logs: options.logs.clone(), ..Opening::from(start) };
    if let Some((seat, member)) = shared {
        opening.socket = Some(here.take_shared_socket(seat)?);
        opening.member = member;
    }
    let host = open(&here, options, opening).await?;
    let bound = host.addresses();
    let udp = bound.first().map_or(options.port, SocketAddr::port);
    let carried = if options.scheme.needs_raw_sockets() { options.port } else { udp };
    let port = options.scheme.transport_port(carried, options.inner_port);
    let listener =
        host.listen(port, 0).map_err(|why: ListenError| ListenFailure::Refused(why.to_string()))?;
    let whole = |address: &SocketAddr| !address.ip().is_unspecified();
    let ips: Vec<IpAddr> = match bound.iter().all(whole) && !bound.is_empty() {
        true => bound.iter().map(SocketAddr::ip).collect(),
        false => here.addresses(),
    };
    let local = ips.into_iter().map(|ip| SocketAddr::new(ip, carried)).collect();
    accepting(here, options, host, listener, local)
}

/// Adds TLS to a listener if its scheme uses TLS.
fn accepting(
    world: OsWorld,
    options: &ListenOptions<'_>,
    host: Rc<dyn Host>,
    listener: AnyListener,
    local: Vec<SocketAddr>,
) -> Result<Listening, ListenFailure> {
    let tls = match options.scheme.encryption() {
        Encryption::Above => {
            let tls = options.security.and_then(ServerSecurity::tls);
            Some(tls.ok_or(ListenFailure::NoCertificate)?)
        }
        _ => None,
    };
    Ok(Listening { world, host, local, listener, tls })
}

/// Sockets that several threads share, either for all addresses of a [`ListenOptions`] or for one of its addresses.
pub struct SharedPart {
    /// The local addresses of these sockets; if empty, all addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// The port of these sockets.
    pub port: u16,
    /// The sockets of each thread, in order.
    pub sockets: Vec<ThreadSocket>,
    /// The counters of packets that threads have passed to each other; `None` if threads pass none.
    pub group: Option<Arc<Group>>,
}

impl fmt::Debug for SharedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPart").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The listening socket of one thread, for a port that several threads share.
pub enum ThreadSocket {
    /// A clone of the kernel's listening socket.
    Kernel(TcpListener),
    /// The sockets of this thread alone. The `Member` identifies the thread; it is `None` if the transport does not
    /// assign packets to threads.
    Engine(ReusePortSocket, Option<Member>),
}

impl fmt::Debug for ThreadSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel(_) => "Kernel",
            Self::Engine(..) => "Engine",
        })
    }
}

/// The shared sockets of a [`ListenOptions`], and the addresses on which the host cannot listen, each with the error of the
/// operating system.
type SharedParts = (Vec<SharedPart>, Vec<(SocketAddr, io::Error)>);

/// Opens the sockets of the listener that `options` describes. `threads` threads share the sockets.
///
/// # Errors
/// The operating system refused a socket, or the transport cannot be shared by this number of threads.
pub fn share(options: &ListenOptions<'_>, threads: usize) -> io::Result<SharedParts> {
    let none = || io::Error::from(io::ErrorKind::InvalidInput);
    let (mut parts, mut skipped) = (Vec::new(), Vec::new());
    let scheme = options.scheme;
    if scheme.can().kernel {
        let kernel_options = scheme.protocol().kernel(options.settings, None).unwrap_or_default();
        for ip in kernel_addresses(options.addresses) {
            let at = SocketAddr::new(ip, options.port);
            match os::listen_tcp(at, options.backlog, &kernel_options) {
                Ok(listener) => {
                    let sockets = (0..threads).map(|_| Ok(ThreadSocket::Kernel(listener.try_clone()?)));
                    let sockets = sockets.collect::<io::Result<_>>()?;
                    parts.push(SharedPart { addresses: vec![ip], port: options.port, sockets, group: None });
                }
                Err(why) if options.addresses.is_empty() && ip.is_ipv6() => skipped.push((at, why)),
                Err(why) => return Err(why),
            }
        }
        return Ok((parts, skipped));
    }
    let sharing = match scheme.encryption() {
        // Steering is not possible, because DTLS encrypts the content that the steering rules need.
        Encryption::Below => None,
        _ => scheme.protocol().share(u32::try_from(threads).map_err(|_| none())?),
    };
    let Some(sharing) = sharing else {
        let addresses = match options.addresses {
            [] => os::addresses()?,
            named => named.to_vec(),
        };
        let mut port = options.port;
        for address in addresses {
            let seats = os::share_udp_by_address(&[address], port, threads)?;
            // All addresses share a port, even if the operating system chose the port for the first address.
            port = seats.first().map_or(port, ReusePortSocket::port);
            let sockets = seats.into_iter().map(|seat| ThreadSocket::Engine(seat, None)).collect();
            parts.push(SharedPart { addresses: vec![address], port, sockets, group: None });
        }
        return Ok((parts, skipped));
    };
    let seats = match scheme.can().carriers.ip {
        Some(protocol) if scheme.needs_raw_sockets() => {
            os::share_raw(options.addresses, protocol, threads, sharing.steering)?
        }
        _ => os::share_udp(options.addresses, options.port, threads, sharing.steering)?,
    };
    let group = seats.first().map(ReusePortSocket::group);
    let sockets = seats.into_iter().zip(sharing.members);
    let sockets = sockets.map(|(seat, member)| ThreadSocket::Engine(seat, Some(member))).collect();
    parts.push(SharedPart { addresses: options.addresses.to_vec(), port: options.port, sockets, group });
    Ok((parts, skipped))
}
