//! A chat with very many members in rooms of eight. Each member receives every line of the others once, complete and in
//! order. In a storm, each call is dropped at random points and repeated.
//!
//! Both ends run in this process. The cost of an association is the growth of the process's memory divided by the
//! number of associations. This cost includes both ends, their tasks and their threads.

mod line;
mod storm;

use crate::wait::{soon, steady};
use anabranch_tokio::{
    Association, CloseReason, ConfigBuilder, Dtls, Endpoint, Event, Fingerprint, Identity, Options, Received,
    RecvError, SendOptions,
};
use line::{Line, ReceivedLines};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storm::{Chances, Storm};
use tokio::sync::{Barrier, Semaphore};
use tokio::time::timeout;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of chat members. Each member has one association. A multiple of eight.
    pub associations: usize,
    /// The number of lines that each member sends.
    pub lines: u32,
    /// The seed of all randomness.
    pub seed: u64,
    /// Whether futures are dropped at random points.
    pub storm: bool,
    /// True if the profile is `rfc9260` (the literal values of RFC 9260), false if it is `modern`.
    pub rfc9260: bool,
    /// If set, uses DTLS with one path and this number of client endpoints. Each client endpoint has its own DTLS
    /// connection.
    pub dtls: Option<usize>,
}

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The process's memory in bytes per association when all members have joined the chat. The memory that the process
    /// used before the associations is subtracted.
    pub idle_bytes: i64,
    /// The process's memory in bytes per association when all lines of the chat have been received. The memory that the
    /// process used before the associations is subtracted.
    pub after_lines: i64,
    /// The number of lines received.
    pub received: u64,
    /// The number of futures that were dropped.
    pub dropped: u64,
    /// The number of secondary paths that were verified after their association was established.
    pub paths: u64,
}

/// The number of members in a room.
const ROOM: usize = 8;
/// The SCTP port of the server.
const PORT: u16 = 5222;
/// The time limit of a wait. Only a run that hangs exceeds it.
const LONG: Duration = Duration::from_secs(600);
/// The payload protocol identifiers of a member's name and of the reply to the name.
const NAME: u32 = 1;
const WELCOME: u32 = 2;

type Rooms = Arc<Mutex<BTreeMap<usize, Vec<(u32, Association)>>>>;

/// Runs the chat from beginning to end.
///
/// # Panics
/// If a message is lost, duplicated, truncated or out of order, or if the run hangs.
pub async fn run(setup: Setup) -> Outcome {
    timeout(LONG, all(setup)).await.expect("in time")
}

async fn all(setup: Setup) -> Outcome {
    let identity =
        setup.dtls.map(|_| Identity::self_signed(&["localhost".to_owned()]).expect("a certificate"));
    let fingerprint = identity.as_ref().map(|identity| Fingerprint(identity.fingerprint()));
    let server = endpoint(&setup, 0, identity.map(Dtls::server)).await;
    let mut clients = Vec::new();
    for number in 0..setup.dtls.unwrap_or(1) {
        clients.push(endpoint(&setup, 1 + number, fingerprint.map(Dtls::client_with_fingerprint)).await);
    }
    let storm = Arc::new(Storm::new(setup.storm.then_some(setup.seed)));
    let rooms = Rooms::default();
    let before = resident();
    let serving = tokio::spawn(serve(server.clone(), storm.clone(), rooms.clone()));
    let at: Arc<[SocketAddr]> = server.local_addresses().into();
    let steps = [(); 3].map(|()| Arc::new(Barrier::new(setup.associations + 1)));
    let dialling = Arc::new(Semaphore::new(64));
    let mut people = Vec::new();
    for number in 0..setup.associations as u32 {
        let client = clients[number as usize % clients.len()].clone();
        let person = Person { number, setup, storm: storm.clone(), steps: steps.clone() };
        people.push(tokio::spawn(person.run(client, at.clone(), dialling.clone())));
    }
    steps[0].wait().await;
    // Waits until the process's resident memory, rounded down to 256 KiB, no longer changes. By then, the process has
    // returned freed memory to the kernel, and packets in flight have arrived.
    steady(|| resident() >> 18).await;
    let idle_bytes = resident() - before;
    steps[1].wait().await;
    // Waits until each association of the server has verified the path to its peer's second address.
    soon(|| setup.dtls.is_some() || storm.paths() >= setup.associations as u64).await;
    steps[2].wait().await;
    // Waits until the process's resident memory, rounded down to 256 KiB, no longer changes. By then, the process has
    // returned freed memory to the kernel, and packets in flight have arrived.
    steady(|| resident() >> 18).await;
    let after_lines = resident() - before;
    let mut received = 0;
    for person in people {
        received += person.await.expect("no panic");
    }
    for client in &clients {
        client.wait_idle().await;
    }
    server.close();
    server.wait_idle().await;
    serving.await.expect("no panic");
    let by_association = |bytes: i64| bytes / setup.associations as i64;
    Outcome {
        idle_bytes: by_association(idle_bytes),
        after_lines: by_association(after_lines),
        received,
        dropped: storm.dropped(),
        paths: storm.paths(),
    }
}

async fn endpoint(setup: &Setup, number: usize, dtls: Option<Dtls>) -> Endpoint {
    let config = if setup.rfc9260 { ConfigBuilder::rfc9260() } else { ConfigBuilder::new() };
    let config = config
        .streams(10)
        .partial_reliability(true)
        .set("udp_apart", if setup.dtls.is_some() { "yes" } else { "no" });
    // In a storm, the buffers of the endpoint are small, so that senders have to wait for room.
    let config = if setup.storm { config.send_buffer(150_000).receive_buffer(50_000) } else { config };
    let paths: &[IpAddr] = &[[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
    let paths = if dtls.is_some() { &paths[..1] } else { paths };
    let options = Options::default().addresses(paths.iter().copied()).backlog(1024);
    let mut options = options.config(config.build().expect("settings"));
    options.dtls = dtls;
    options.listen = (number == 0).then_some(PORT);
    Endpoint::new(options).await.expect("an endpoint")
}

/// Accepts all associations until the endpoint is closed.
async fn serve(server: Endpoint, storm: Arc<Storm>, rooms: Rooms) {
    let mut chances = storm.chances("accept");
    while let Some(incoming) = storm.call(&mut chances, || server.accept()).await {
        assert_eq!(incoming.remote_address().ip(), IpAddr::from([127, 0, 0, 1]));
        let chances = chances.fork(&incoming.remote_address().to_string());
        // The peer may have dropped its `connect` call, and its association may already have ended.
        if let Ok(association) = incoming.accept() {
            tokio::spawn(pass_on(association, chances, storm.clone(), rooms.clone()));
        }
    }
}

/// Forwards a member's messages to the other members of the room.
async fn pass_on(association: Association, mut chances: Chances, storm: Arc<Storm>, rooms: Rooms) {
    let mut events = association.events();
    let mut event_chances = chances.fork("events");
    let mut room = None;
    loop {
        // The first result is taken, and the other future is dropped.
        let next = tokio::select! {
            message = storm.call(&mut chances, || association.recv()) => Ok(message),
            event = storm.call_mut(&mut event_chances, &mut events, async |events| events.next().await) => Err(event),
        };
        let message = match next {
            Ok(Ok(message)) => message,
            Ok(Err(RecvError::Closed(_))) => break,
            Ok(Err(error)) => panic!("{error}"),
            Err(event) => {
                storm.count_paths(event == Some(Event::PathUp([127, 0, 0, 2].into())));
                continue;
            }
        };
        if message.ppid == NAME {
            let number = u32::from_be_bytes(message.bytes[..].try_into().expect("a number"));
            let room_number = number as usize / ROOM;
            rooms
                .lock()
                .expect("no panic")
                .entry(room_number)
                .or_default()
                .push((number, association.clone()));
            room = Some((room_number, number));
            let options = SendOptions::new().ppid(WELCOME);
            storm.call(&mut chances, || association.send(0, b"welcome", &options)).await.expect("sent");
            continue;
        }
        Box::pin(tell_others(&message, room.expect("a name comes first"), &mut chances, &storm, &rooms))
            .await;
    }
    if let Some((room_number, number)) = room
        && let Some(room) = rooms.lock().expect("no panic").get_mut(&room_number)
    {
        room.retain(|(other, _)| *other != number);
    }
}

async fn tell_others(
    message: &Received,
    (room_number, number): (usize, u32),
    chances: &mut Chances,
    storm: &Storm,
    rooms: &Rooms,
) {
    let others: Vec<_> = rooms.lock().expect("no panic")[&room_number].clone();
    let options = SendOptions::new().ppid(message.ppid).unordered(message.unordered);
    for (_, other) in others.iter().filter(|(other, _)| *other != number) {
        let sent = storm.call(chances, || other.send(message.stream, &message.bytes, &options)).await;
        sent.expect("nobody goes before all is said");
    }
}

/// A member of the chat.
struct Person {
    number: u32,
    setup: Setup,
    storm: Arc<Storm>,
    /// Barriers at three points: all members have joined, all may send, and all have received everything.
    steps: [Arc<Barrier>; 3],
}

impl Person {
    /// Runs the member from joining to leaving. Returns the number of lines received. Each phase is a boxed future, so
    /// the task uses little memory while it waits.
    async fn run(self, client: Endpoint, at: Arc<[SocketAddr]>, dialling: Arc<Semaphore>) -> u64 {
        let mut chances = self.storm.chances(&format!("person {}", self.number));
        let association = Box::pin(self.connect(&mut chances, client, at, dialling)).await;
        self.steps[0].wait().await;
        self.steps[1].wait().await;
        let lines = Box::pin(self.talk(&association, &chances)).await;
        self.steps[2].wait().await;
        Box::pin(self.leave(association, &mut chances)).await;
        lines
    }

    async fn connect(
        &self,
        chances: &mut Chances,
        client: Endpoint,
        at: Arc<[SocketAddr]>,
        dialling: Arc<Semaphore>,
    ) -> Association {
        let _turn = dialling.acquire().await.expect("open");
        let association = self.storm.call(chances, || client.connect(&at, PORT)).await.expect("associated");
        let name = SendOptions::new().ppid(NAME);
        let number = self.number.to_be_bytes();
        self.storm.call(chances, || association.send(0, number, &name)).await.expect("sent");
        let welcome = self.storm.call(chances, || association.recv()).await.expect("an answer");
        assert_eq!((welcome.ppid, &welcome.bytes[..]), (WELCOME, &b"welcome"[..]));
        association
    }

    async fn talk(&self, association: &Association, chances: &Chances) -> u64 {
        let sending = send_lines(association, self.number, self.setup, chances.fork("speak"), &self.storm);
        let receiving =
            receive_lines(association, self.number, self.setup, chances.fork("hear"), &self.storm);
        tokio::join!(sending, receiving).1
    }

    async fn leave(&self, association: Association, chances: &mut Chances) {
        association.close();
        assert_eq!(self.storm.call(chances, || association.closed()).await, CloseReason::Finished);
        let late = association.send(0, b"late", &SendOptions::new()).await;
        assert!(late.is_err(), "nothing is sent after the end");
        let end = self.storm.call(chances, || association.recv()).await;
        assert_eq!(end, Err(RecvError::Closed(CloseReason::Finished)), "nothing comes behind the last line");
        let mut events = association.events();
        let mut last = None;
        let mut next =
            async || self.storm.call_mut(chances, &mut events, async |events| events.next().await).await;
        while let Some(event) = next().await {
            last = Some(event);
        }
        assert_eq!(last, Some(Event::Closed(CloseReason::Finished)), "the end is the last event");
    }
}

/// Sends all lines of one member.
async fn send_lines(
    association: &Association,
    number: u32,
    setup: Setup,
    mut chances: Chances,
    storm: &Storm,
) {
    for turn in 0..setup.lines {
        let line = Line::new(setup.seed, number, turn);
        let (bytes, options) = (line.bytes(), line.options());
        let sent = storm.call(&mut chances, || association.send(line.stream(), &bytes, &options)).await;
        sent.expect("sent");
    }
}

/// Receives all lines of the other members, and returns the number of lines. A member with an even `number` reads from
/// any stream. A member with an odd `number` reads stream by stream.
async fn receive_lines(
    association: &Association,
    number: u32,
    setup: Setup,
    mut chances: Chances,
    storm: &Storm,
) -> u64 {
    let mut received = ReceivedLines::new(setup.seed, setup.lines);
    let others = setup.associations.min(ROOM) as u64 - 1;
    let all = others * u64::from(setup.lines);
    if number.is_multiple_of(2) {
        while received.lines() < all {
            received.take(&storm.call(&mut chances, || association.recv()).await.expect("a line"));
        }
        return received.lines();
    }
    let received = Arc::new(Mutex::new(received));
    let mut readers = Vec::new();
    while received.lock().expect("no panic").lines() < all {
        // Each wait for a new stream ends after 50 ms. Without this limit the loop could wait forever: once the readers
        // have received the last line, no further stream begins.
        let accepted =
            timeout(Duration::from_millis(50), storm.call(&mut chances, || association.accept_bi()));
        let Ok(accepted) = accepted.await else { continue };
        let (send, mut recv) = accepted.expect("a stream");
        let (received, storm_here) = (received.clone(), storm.clone());
        let mut chances = chances.fork(&format!("stream {}", recv.number()));
        readers.push(tokio::spawn(async move {
            let _send = send;
            loop {
                match storm_here.call_mut(&mut chances, &mut recv, async |recv| recv.recv().await).await {
                    Ok(message) => received.lock().expect("no panic").take(&message),
                    Err(RecvError::Closed(CloseReason::Finished)) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    // Dropping the handles does not end the reader tasks. So the tasks still check any message that follows the last
    // expected line.
    drop(readers);
    received.lock().expect("no panic").lines()
}

/// Returns the resident memory of this process in bytes.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: i64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
