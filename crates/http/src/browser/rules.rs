//! The limits and times in Chromium's rules for requests, by version.

use std::time::Duration;

/// The limits and times in a browser's rules for requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The major version of Chromium for which the values were checked.
    pub version: u32,
    /// In tight mode (before the body of the document begins), a request with a priority below High waits while this
    /// many requests run. Source: blink `resource_load_scheduler.cc`: `kTightLimitForRendererSideResourceScheduler`.
    pub tight_limit: usize,
    /// In tight mode (before the body of the document begins), this many requests of priority Medium may run, whatever
    /// other requests run. Source: blink `common/features.cc`: `kBoostImagePriorityTightMediumLimit`.
    pub tight_medium_limit: usize,
    /// The first images of the document, up to this number, have priority Medium. Source: blink `common/features.cc`:
    /// `kBoostImagePriorityImageCount`.
    pub boosted_images: usize,
    /// The maximum number of delayable requests in flight. Source: services/network
    /// `resource_scheduler_params_manager.cc`: `kDefaultMaxNumDelayableRequestsPerClient`.
    pub delayable_requests: usize,
    /// A delayable request waits while this many requests to its host are in flight. Source: services/network
    /// `resource_scheduler.cc`: `kMaxNumDelayableRequestsPerHostPerClient`.
    pub requests_per_host: usize,
    /// From this HTTP round-trip time on, a network is slow. It is the threshold of Chromium's type 3G. Source: net
    /// `network_quality_estimator_params.cc`: `kHttpRttEffectiveConnectionTypeThresholds`.
    pub slow_rtt: Duration,
    /// The HTTP round-trip time that the browser assumes for a network that it does not know. Source: net
    /// `network_quality_estimator_params.cc`, `ObtainDefaultObservations`: `CONNECTION_UNKNOWN`.
    pub default_rtt: Duration,
    /// The maximum number of delayable requests on a slow network. Source: services/network
    /// `resource_scheduler_params_manager.cc`, `GetParamsForNetworkQualityContainer`: the value is the same for 3G, 2G
    /// and slow 2G.
    pub slow_delayable_requests: usize,
    /// On a slow network, each request in flight that is not delayable counts as this many delayable requests. On other
    /// networks it does not count. Source: services/network `resource_scheduler_params_manager.cc`:
    /// `non_delayable_weight`.
    pub slow_weight: usize,
    /// The longest time that a request waits at a limit, by the HTTP round-trip time of the network: each value holds
    /// from the round-trip time beside it. Source: services/network `resource_scheduler_params_manager.cc`,
    /// `max_queuing_time`: 30 typical round-trip times of the network's type, but 15 s to 120 s. The round-trip times are
    /// the thresholds and the typical values in net `network_quality_estimator_params.cc`.
    pub longest_waits: [(Duration, Duration); 3],
    /// How often the browser looks for requests that have waited too long. Source: services/network
    /// `resource_scheduler.cc`: `queued_requests_dispatch_periodicity_`.
    pub wait_check: Duration,
    /// The maximum number of HTTP/1.1 connections to a host. Source: net `client_socket_pool_manager.cc`:
    /// `g_max_sockets_per_group`.
    pub sockets_per_host: usize,
    /// The maximum number of connections in all. Source: net `client_socket_pool_manager.cc`: `g_max_sockets_per_pool`.
    pub sockets: usize,
    /// How long a request waits for the connection of another request, before it opens a connection itself. Only for a
    /// host that is known to speak HTTP/2. Source: net `http_stream_factory_job.h`: `kHTTP2ThrottleMs`.
    pub http2_throttle: Duration,
    /// If the first connection to a host is not established after this time, a backup connection is opened. Source: net
    /// `client_socket_pool.cc`: `kMaxConnectRetryIntervalMs`.
    pub backup_delay: Duration,
    /// The time from the arrival of the first byte of the document until the renderer reads the document. In this time,
    /// the browser process commits the navigation to a renderer. This is processor time, and a slower machine needs
    /// more. [`crate::page::Object::processing`] of the document varies this time.
    pub commit: Duration,
    /// The time from the release of requests by the renderer's scheduler until the network service receives them,
    /// without the time of each request. This is processor time, too, and varies with the first of the requests.
    pub dispatch: Duration,
    /// The processor time of one request. Requests that are released at once are received together, after the time of
    /// all of them: Each needs several tasks of the network service's only thread, and these take turns.
    /// [`crate::page::Object::processing`] varies this time.
    pub request: Duration,
    /// The processor time of one response over TCP. The browser processes one response at a time, while others arrive.
    /// Until a response has been processed, its connection over HTTP/1.1 carries no other request.
    /// [`crate::page::Object::processing`] varies this time, too.
    pub response: Duration,
    /// The processor time of one response over HTTP/3, whose transport is part of the browser, in thousandths of
    /// `response`. It also holds for SCTP, which no browser has, and which would be part of it, too.
    pub response_http3: u32,
    /// Over HTTP/3, the browser acknowledges this many packets together. A missing packet is reported at once. Source:
    /// quiche `quic_received_packet_manager.cc`: `kMaxRetransmittablePacketsBeforeAck`. Chromium acknowledges every
    /// second one of the first 100 packets, which is not modelled.
    pub ack_packets: u32,
    /// An acknowledgement over HTTP/3 waits for one part of the shortest round trip in this many, but at most for
    /// `ack_delay`. Source: quiche `quic_received_packet_manager.cc`: `kAckDecimationDelay`; `quic_constants.h`:
    /// `kDefaultDelayedAckTimeMs`.
    pub ack_parts: u32,
    /// The maximum delay of an acknowledgement.
    pub ack_delay: Duration,
}

impl Rules {
    /// Returns the delay after which an acknowledgement over HTTP/3 is sent, on a network with the round-trip time
    /// `rtt`.
    #[must_use]
    pub fn ack_delay(&self, rtt: Duration) -> Duration {
        (rtt / self.ack_parts).min(self.ack_delay)
    }
}

/// The values of Chromium 156. The limits are the same in the sources of versions 117 to 152.
///
/// Processor times were read in loads of the two pages `news` by Chromium 156, without a display, on two shared cores.
/// In six loads over 4 to 20 Mbit/s, the commit took 18 to 33 ms, the median being 21. The first 7 to 16 requests were
/// sent 17 to 32 ms after their release, and the last of 53 to 58 images 43 to 53 ms after it. In eleven recorded loads
/// of all pages, the commit took 9 to 33 ms, and the first requests were sent 10 to 28 ms later. Over 1 Gbit/s and 1 ms,
/// 62 responses took 81 to 118 ms over HTTP/2, and so 1.3 to 1.9 ms each. Over HTTP/1.1, with more handshakes, they took
/// 115 to 122 ms. The page of 72 objects took 115 ms longer over HTTP/3 than over HTTP/2. The time of a response is fitted to
/// the loads over 50 Mbit/s of the same two pages.
pub const CHROMIUM: Rules = Rules {
    version: 156,
    tight_limit: 2,
    tight_medium_limit: 2,
    boosted_images: 5,
    delayable_requests: 10,
    requests_per_host: 6,
    slow_rtt: Duration::from_millis(272),
    default_rtt: Duration::from_millis(115),
    slow_delayable_requests: 8,
    slow_weight: 3,
    longest_waits: [
        (Duration::ZERO, Duration::from_secs(15)),
        (Duration::from_millis(1_420), Duration::from_secs(54)),
        (Duration::from_millis(2_010), Duration::from_secs(108)),
    ],
    wait_check: Duration::from_secs(5),
    sockets_per_host: 6,
    sockets: 256,
    http2_throttle: Duration::from_millis(300),
    backup_delay: Duration::from_millis(250),
    commit: Duration::from_millis(21),
    dispatch: Duration::from_millis(20),
    request: Duration::from_micros(500),
    response: Duration::from_millis(2),
    response_http3: 1_800,
    ack_packets: 10,
    ack_parts: 4,
    ack_delay: Duration::from_millis(25),
};
