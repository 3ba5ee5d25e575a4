//! A bulk transfer: many bytes from a server to a client, without HTTP.
//!
//! The client requests a number of bytes with one short message. The server sends them in writes of a given size. If
//! the transport has messages, each write is one user message. If several connections divide the bytes, the part of
//! each connection counts as one object, so recorders get the same events as for a page.

use crate::idle_timer::IdleTimer;
use crate::join::join;
use crate::server::{read_request, serve_each};
use anabranch_base::time::{Duration, Instant};
use anabranch_http::body::Pattern;
use anabranch_http::fetch::{FetchStatus, Outcome};
use anabranch_http::observe::{Assigned, Delivered, ExchangeId, FetchError, Recorder};
use anabranch_transport::{CloseReason, Connector, Listener, Session, Stream};
use anabranch_world::World;
use std::future::poll_fn;

/// The parameters of a bulk transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bulk {
    /// The number of bytes to transfer over all connections together.
    pub bytes: u64,
    /// The size of a write in bytes, from 1 to [`MAX_MESSAGE`].
    pub message_size: usize,
    /// The number of connections among which the bytes are divided, at least 1.
    pub connections: usize,
    /// The time after which the transfer ends, complete or not; `None` for no limit.
    pub deadline: Option<Duration>,
    /// The time without received data after which a connection has failed; `None` for no limit.
    pub timeout: Option<Duration>,
}

/// The maximum size of a write in bytes.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The size of a client's request in bytes. A request contains a magic number, the message size, and the number of
/// bytes that the server shall send.
const REQUEST_BYTES: usize = 16;
const MAGIC: [u8; 4] = *b"bulk";

/// Transfers `bulk` from server number 0 of `connector` to this client.
pub async fn run<W, C>(world: W, connector: C, bulk: Bulk, recorder: Recorder) -> Outcome
where
    W: World,
    C: Connector,
{
    let started = world.now();
    let count = bulk.connections.max(1);
    let mut tasks = Vec::new();
    for object in 0..count {
        // If the bytes cannot be divided evenly, each of the first connections transfers one byte more.
        let bytes = bulk.bytes / count as u64 + u64::from((object as u64) < bulk.bytes % count as u64);
        let bulk_request =
            BulkRequest { object, bytes, message_size: bulk.message_size.clamp(1, MAX_MESSAGE) };
        let task = transfer(world.clone(), connector.clone(), bulk_request, bulk.timeout, recorder.clone());
        tasks.push(world.spawn("bulk transfer", task));
    }
    let results = join(&world, bulk.deadline, tasks).await;
    let in_time = results.iter().all(Option::is_some);

    let finished = world.now();
    let mut body_bytes = 0;
    let mut objects = Vec::new();
    for (object, result) in results.into_iter().enumerate() {
        let result = result.unwrap_or(Err(FetchError::Deadline));
        if let Err(error) = &result {
            recorder.failed(object, finished, error);
        }
        objects.push(result.map(|bytes| body_bytes += bytes));
    }
    let end = match in_time {
        false => FetchStatus::Deadline,
        true if objects.iter().any(Result::is_err) => FetchStatus::Failed,
        true => FetchStatus::Done,
    };
    Outcome { end, started, finished, objects, body_bytes, connections: count }
}

#[derive(Clone, Copy)]
struct BulkRequest {
    object: usize,
    bytes: u64,
    message_size: usize,
}

async fn transfer<W, C>(
    world: W,
    connector: C,
    bulk_request: BulkRequest,
    timeout: Option<Duration>,
    recorder: Recorder,
) -> Result<u64, FetchError>
where
    W: World,
    C: Connector,
{
    recorder.issued(bulk_request.object, world.now());
    let session = connector.connect(0).map_err(|error| FetchError::Connect(error.to_string()))?;
    recorder.opened(session.id(), world.now());
    let mut idle = IdleTimer::new(&world, timeout);
    let result = receive(&world, &session, bulk_request, &recorder, &mut idle).await;
    if result.is_ok() {
        session.close();
    } else {
        session.abort();
    }
    result
}

async fn receive<W: World, N: Session>(
    world: &W,
    session: &N,
    bulk_request: BulkRequest,
    recorder: &Recorder,
    idle: &mut IdleTimer<W>,
) -> Result<u64, FetchError> {
    let started_at = world.now();
    if !session.early_data() {
        established(world, session, started_at, recorder, idle).await?;
    }
    let mut stream = session.open(0).map_err(|error| FetchError::Connect(error.to_string()))?;
    let exchange = ExchangeId { connection: session.id(), stream: 0, index: 0 };
    let request = 0..REQUEST_BYTES as u64;
    recorder.assigned(bulk_request.object, Assigned { at: world.now(), exchange, request, attempt: 0 });
    stream.write_message(&bulk_request.encode()).await.map_err(FetchError::Closed)?;
    if session.early_data() {
        // The request was sent with the handshake. Wait for the end of the handshake, because no answer can arrive
        // earlier.
        established(world, session, started_at, recorder, idle).await?;
    }

    let pattern = Pattern::of(NAME);
    let mut buffer = vec![0; 64 * 1024];
    let (mut got, mut last_progress) = (0, world.now());
    while got < bulk_request.bytes {
        let read = idle.wait(last_progress, |cx| stream.poll_read(cx, &mut buffer)).await;
        let read = read.ok_or(FetchError::Timeout)?.map_err(FetchError::Closed)?;
        last_progress = world.now();
        if read == 0 {
            return Err(FetchError::Closed(CloseReason::Finished));
        }
        if got == 0 {
            recorder.first_byte(bulk_request.object, last_progress);
        }
        pattern
            .check(got, &buffer[..read])
            .map_err(|at| FetchError::Corrupt(format!("byte {at} is wrong")))?;
        recorder.read(bulk_request.object, last_progress, read as u64);
        got += read as u64;
    }
    if got > bulk_request.bytes {
        return Err(FetchError::Corrupt(format!("{got} bytes instead of {}", bulk_request.bytes)));
    }
    recorder.delivered(bulk_request.object, Delivered { at: last_progress, response: 0..got, body: got });
    Ok(got)
}

/// Waits until the session is established, and reports the time to the recorder.
async fn established<W: World, N: Session>(
    world: &W,
    session: &N,
    started_at: Instant,
    recorder: &Recorder,
    idle: &mut IdleTimer<W>,
) -> Result<(), FetchError> {
    let done = idle.wait(started_at, |cx| session.poll_established(cx)).await;
    done.ok_or(FetchError::Timeout)?.map_err(FetchError::Closed)?;
    recorder.established(session.id(), world.now());
    Ok(())
}

/// Serves all sessions that `listener` accepts, until the listener fails.
///
/// # Errors
/// The reason why the listener failed.
pub async fn serve<W, L>(world: W, listener: L, recorder: Recorder) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
{
    let serve = |session| send(world.clone(), session, recorder.clone());
    serve_each(&world, listener, "bulk session", serve).await
}

async fn send<W: World, N: Session>(world: W, session: N, recorder: Recorder) -> Result<(), CloseReason> {
    let mut stream = session.accept().await?;
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let Some(bulk_request) = BulkRequest::decode(&request) else {
        session.abort();
        return Ok(());
    };
    let exchange = ExchangeId { connection: session.id(), stream: stream.number(), index: 0 };
    recorder.serving(exchange, world.now());
    let pattern = Pattern::of(NAME);
    let mut message = Vec::new();
    let mut sent = 0;
    while sent < bulk_request.bytes {
        let size = (bulk_request.message_size as u64).min(bulk_request.bytes - sent);
        let piece = pattern.bytes(sent, size);
        let mut left = if piece.len() as u64 == size {
            &piece[..]
        } else {
            message.clear();
            while (message.len() as u64) < size {
                let at = sent + message.len() as u64;
                message.extend_from_slice(&pattern.bytes(at, size - message.len() as u64));
            }
            &message[..]
        };
        if sent == 0 {
            // Record the time when the first byte is offered to the transport, because the complete write may take
            // long.
            recorder.written(exchange, world.now());
        }
        while !left.is_empty() {
            let written = poll_fn(|cx| stream.poll_write_message(cx, left)).await?;
            left = &left[written..];
        }
        sent += size;
    }
    session.closed().await;
    Ok(())
}

impl BulkRequest {
    fn encode(self) -> [u8; REQUEST_BYTES] {
        let mut request = [0; REQUEST_BYTES];
        request[..4].copy_from_slice(&MAGIC);
        // The message size fits into 32 bits, because it is at most `MAX_MESSAGE`.
        request[4..8].copy_from_slice(&(self.message_size as u32).to_be_bytes());
        request[8..].copy_from_slice(&self.bytes.to_be_bytes());
        request
    }

    fn decode(request: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let (magic, rest) = request.split_first_chunk::<4>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let bytes = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        let message_size = u32::from_be_bytes(*size) as usize;
        let good = *magic == MAGIC && (1..=MAX_MESSAGE).contains(&message_size);
        good.then_some(Self { object: 0, bytes, message_size })
    }
}

/// The name that determines the byte pattern of the transferred data.
const NAME: &str = "bulk";
