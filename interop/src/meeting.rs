//! Runs one association in the simulation, between our endpoint on one host and a foreign stack on another host.
//!
//! Packets are real IP packets (protocol 132) that the link loses, reorders and duplicates. Both ends are driven by the
//! same loop, `transport::drive`. A case is a script that posts messages and waits. Every delivered message is checked
//! when it arrives.

use crate::ours::Ours;
use crate::peer::{DeliveryOptions, Foreign, PeerEvent, Seen};
use crate::peers::{EndOptions, PORT, Stack};
use crate::traffic::Ledger;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::LinkSpec;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint};
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::drive::{EngineOwner, Notify, drive};
use anabranch_world::{DatagramSocket, Local, Timer, World};
use std::cell::{Ref, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The parameters of a run with a foreign stack.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The foreign stack.
    pub stack: Stack,
    /// The seed of the link's random events and of the traffic.
    pub seed: u64,
    /// The specification of the link, in the syntax of `--path`.
    pub link: String,
    /// Whether our side sends the INIT.
    pub is_initiator: bool,
    /// Whether both ends support I-DATA (RFC 8260).
    pub interleaving: bool,
    /// Whether both ends accept packets without a checksum (RFC 9653).
    pub zero_checksum: bool,
}

/// The foreign endpoint of the association, and what it has reported.
pub struct Theirs {
    /// The foreign stack, with its adapter.
    pub foreign: Foreign,
    /// Whether the foreign endpoint has reported that the association is established.
    pub up: bool,
    /// The reason why the association ended; `None` while it lasts.
    pub closed: Option<String>,
    /// The streams of our endpoint that were reset, according to the foreign endpoint.
    pub ours_reset: Vec<u16>,
    /// The streams of the foreign endpoint that were reset.
    pub theirs_reset: Vec<u16>,
    /// The number of stream resets that the foreign endpoint requested without success.
    pub refused: usize,
    /// The messages from our endpoint to the foreign one that have not arrived there yet.
    pub inbox: Ledger,
    fault: Option<String>,
    notify: Notify,
    waker: Option<Waker>,
}

/// What was observed in a run.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The chunks and packets that the foreign endpoint received.
    pub from_us: Seen,
    /// The chunks and packets that the foreign endpoint sent.
    pub from_them: Seen,
    /// The number of abandoned messages, in both directions.
    pub given_up: u64,
    /// The latest packets that the foreign endpoint sent and received.
    pub packets: Vec<Vec<u8>>,
}

/// A run in progress: an association between our endpoint and a foreign one.
pub struct Meeting {
    world: SimWorld,
    ours: Rc<RefCell<Ours>>,
    theirs: Rc<RefCell<Theirs>>,
    /// The random generator for the choices of the test script.
    pub rng: Rng,
}

const OURS: [u8; 4] = [10, 0, 0, 1];
const THEIRS: [u8; 4] = [10, 0, 0, 2];

/// A suffix for failure messages. It says that the peer had started an SCTP message and never sent its last fragment.
pub const CUT_OFF: &str = " (after they had cut a message off)";

/// A suffix for failure messages. It says that the peer had requested a stream reset while its previous request was
/// outstanding.
pub const OVERLAPPING: &str = " (after they had asked for two resets at once)";

/// The longest wait of a test script.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns our configuration. It allows every extension that the peers may support.
fn config(setup: &Setup) -> Config {
    let mut config = Config::default();
    let yes_no = |on| if on { "yes" } else { "no" };
    for (key, value) in [
        ("partial_reliability", "yes"),
        ("reconfig", "yes"),
        ("num_ostreams", "1000"),
        ("sndbuf", "8MiB"),
        ("interleaving", yes_no(setup.interleaving)),
        ("zero_checksum", yes_no(setup.zero_checksum)),
        ("address_types", yes_no(setup.stack.takes_address_types())),
    ] {
        config.set(key, value).expect("a knob and its value");
    }
    config
}

/// Runs a test script with our endpoint and a foreign one, and returns the observations.
///
/// # Errors
/// The condition that was violated, and the last packets as a ladder diagram.
pub fn run(
    setup: &Setup,
    script: impl AsyncFnOnce(&mut Meeting) -> Result<(), String>,
) -> Result<Shown, String> {
    let network = Network::new(setup.seed);
    let (near, far) = (network.host("ours", &[OURS.into()]), network.host("theirs", &[THEIRS.into()]));
    let link = LinkSpec::parse(&setup.link).map_err(|error| error.to_string())?;
    network.link(near, far, &link).map_err(|error| error.to_string())?;
    let (here, there) = (network.world(near), network.world(far));
    let outcome = network.run(
        async {
            let mut meeting = meet(setup, here, there).await.map_err(|error| error.to_string())?;
            let result = script(&mut meeting).await;
            let ladder = |why| {
                let theirs = meeting.theirs.borrow();
                let cut_off = if theirs.foreign.sent.cut_off > 0 { CUT_OFF } else { "" };
                let overlapping = if theirs.foreign.sent.overlapping > 0 { OVERLAPPING } else { "" };
                format!("{why}{cut_off}{overlapping}\n{}", theirs.foreign.ladder())
            };
            result.and_then(|()| meeting.faultless()).map_err(ladder)?;
            Ok(meeting.shown())
        },
        Instant::MAX,
    );
    outcome.done().unwrap_or_else(|| Err("the virtual world came to a stop".to_owned()))
}

async fn meet(setup: &Setup, here: SimWorld, there: SimWorld) -> io::Result<Meeting> {
    let (near, far) =
        (here.bind(Local::Ip { protocol: 132 }).await?, there.bind(Local::Ip { protocol: 132 }).await?);
    let (ours_at, theirs_at) = (SocketAddr::from((OURS, 0)), SocketAddr::from((THEIRS, 0)));
    let mut endpoint = Endpoint::new(config(setup), vec![ours_at], here.rng("sctp"));
    endpoint.set_mtu(IpAddr::from(OURS), near.mtu(OURS.into()));
    let options = EndOptions {
        server: setup.is_initiator,
        interleaving: setup.interleaving,
        zero_checksum: setup.zero_checksum,
    };
    let mut foreign = Foreign::new(setup.stack.open(options), theirs_at, ours_at);
    let now = here.now();
    let id = if setup.is_initiator {
        let ask = Associate { local_port: Some(PORT), ..Associate::to(theirs_at, PORT) };
        Some(endpoint.associate(now, ask).map_err(io::Error::other)?)
    } else {
        endpoint.listen(PORT).map_err(io::Error::other)?;
        foreign.peer.connect(now);
        None
    };
    let ours = Rc::new(RefCell::new(Ours::new(endpoint, id)));
    let theirs = Rc::new(RefCell::new(Theirs {
        foreign,
        up: false,
        closed: None,
        ours_reset: Vec::new(),
        theirs_reset: Vec::new(),
        refused: 0,
        inbox: Ledger::default(),
        fault: None,
        notify: Notify::default(),
        waker: None,
    }));
    let rng = here.rng("script");
    anabranch_world::Detach::detach(here.spawn("ours", drive(here.clone(), near, ours.clone())));
    anabranch_world::Detach::detach(there.spawn("theirs", drive(there.clone(), far, theirs.clone())));
    Ok(Meeting { world: here, ours, theirs, rng })
}

impl Meeting {
    /// Returns our endpoint with its state.
    #[must_use]
    pub fn ours(&self) -> Ref<'_, Ours> {
        self.ours.borrow()
    }

    /// Returns the foreign endpoint with its state.
    #[must_use]
    pub fn theirs(&self) -> Ref<'_, Theirs> {
        self.theirs.borrow()
    }

    /// Calls `tell` with our endpoint, the current time and the association. Returns the result of `tell`.
    pub fn tell_ours<T>(&mut self, tell: impl FnOnce(&mut Endpoint, Instant, AssociationId) -> T) -> T {
        let now = self.world.now();
        self.ours.borrow_mut().tell(now, tell)
    }

    /// Calls `tell` with the endpoint of the other implementation and the current time. Returns the result of `tell`.
    pub fn tell_theirs<T>(&mut self, tell: impl FnOnce(&mut Foreign, Instant) -> T) -> T {
        let now = self.world.now();
        let mut theirs = self.theirs.borrow_mut();
        let result = tell(&mut theirs.foreign, now);
        theirs.take();
        theirs.notify.notify();
        result
    }

    /// Sends a message from our endpoint.
    pub fn post_ours(&mut self, options: DeliveryOptions, size: usize) {
        let post = self.theirs.borrow_mut().inbox.post(options, size);
        self.ours.borrow_mut().post(self.world.now(), post);
    }

    /// Sends a message from the foreign endpoint.
    ///
    /// # Errors
    /// The stack does not accept the message.
    pub fn post_theirs(&mut self, options: DeliveryOptions, size: usize) -> Result<(), String> {
        let post = self.ours.borrow_mut().inbox.post(options, size);
        self.tell_theirs(|foreign, now| foreign.peer.send(now, options, &post.payload()))
            .map_err(|error| format!("theirs takes no message on stream {}: {error}", options.stream))
    }

    /// Returns whether every message that must arrive has arrived.
    #[must_use]
    pub fn all_arrived(&self) -> bool {
        self.ours().inbox.missing() == 0 && self.theirs().inbox.missing() == 0
    }

    /// Waits until the function `done` returns true. `what` names the expected event in error messages.
    ///
    /// # Errors
    /// `done` did not return true within `PATIENCE`, or a message was delivered wrongly meanwhile.
    pub async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let mut timer = self.world.timer();
        timer.set(Some(self.world.now() + PATIENCE));
        poll_fn(|cx| {
            if let Err(fault) = self.faultless() {
                return Poll::Ready(Err(fault));
            }
            if done(self) {
                return Poll::Ready(Ok(()));
            }
            self.ours.borrow_mut().wait(cx);
            self.theirs.borrow_mut().waker = Some(cx.waker().clone());
            timer.poll(cx).map(|()| {
                let (ours, theirs) = (self.ours(), self.theirs());
                Err(format!(
                    "waited in vain for {what}; missing: {} of theirs, {} of ours; closed: {:?} {:?}",
                    ours.inbox.missing(),
                    theirs.inbox.missing(),
                    ours.closed,
                    theirs.closed
                ))
            })
        })
        .await
    }

    /// Waits for the virtual time `span`.
    pub async fn pause(&mut self, span: Duration) {
        self.world.sleep_until(self.world.now() + span).await;
    }

    /// Waits until the association is established at both ends.
    ///
    /// # Errors
    /// The association is not established in time.
    pub async fn up(&mut self) -> Result<(), String> {
        self.until("the association", |m| m.ours().up && m.theirs().up).await
    }

    fn faultless(&self) -> Result<(), String> {
        let (ours, theirs) = (self.ours(), self.theirs());
        match (ours.fault(), &theirs.fault) {
            (Some(fault), _) => Err(format!("to us: {fault}")),
            (_, Some(fault)) => Err(format!("to them: {fault}")),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> Shown {
        let (ours, theirs) = (self.ours(), self.theirs());
        Shown {
            from_us: theirs.foreign.received.clone(),
            from_them: theirs.foreign.sent.clone(),
            given_up: ours.inbox.outstanding() + theirs.inbox.outstanding(),
            packets: theirs.foreign.packets(),
        }
    }
}

impl Theirs {
    fn take(&mut self) {
        while let Some(result) = self.foreign.peer.poll_event() {
            match result {
                PeerEvent::Up => self.up = true,
                PeerEvent::Message { stream, payload } => {
                    if let Err(fault) = self.inbox.deliver(stream, &payload) {
                        self.fault.get_or_insert(fault);
                    }
                }
                PeerEvent::TheirsReset(streams) => self.ours_reset.extend(streams),
                PeerEvent::OursReset(streams) => self.theirs_reset.extend(streams),
                PeerEvent::ResetRefused(_) => self.refused += 1,
                PeerEvent::Down(why) => {
                    self.closed.get_or_insert(why);
                }
            }
        }
    }
}

impl EngineOwner for Theirs {
    type Engine = Foreign;

    fn engine(&mut self) -> &mut Foreign {
        &mut self.foreign
    }

    fn handle_event(&mut self, _now: Instant, (): ()) {
        self.take();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn handle_failure(&mut self, error: &io::Error) {
        self.fault.get_or_insert(error.to_string());
    }

    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }
}
