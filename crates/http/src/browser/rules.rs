//! The values of Chromium's rules, by version.

use std::time::Duration;

/// The values of a browser's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The major version that the values were confirmed with.
    pub version: u32,
    /// In tight mode, a request below High waits while this many requests run.
    /// blink `resource_load_scheduler.cc`: `kTightLimitForRendererSideResourceScheduler`.
    pub tight_limit: usize,
    /// In tight mode, this many requests of priority Medium run, whatever else runs.
    /// blink `common/features.cc`: `kBoostImagePriorityTightMediumLimit`.
    pub tight_medium_limit: usize,
    /// The number of images of the document that have priority Medium.
    /// blink `common/features.cc`: `kBoostImagePriorityImageCount`.
    pub boosted_images: usize,
    /// The maximum number of delayable requests in flight. services/network
    /// `resource_scheduler_params_manager.cc`: `kDefaultMaxNumDelayableRequestsPerClient`.
    pub delayable_requests: usize,
    /// A delayable request waits while this many requests to its host are in flight. services/network
    /// `resource_scheduler.cc`: `kMaxNumDelayableRequestsPerHostPerClient`.
    pub requests_per_host: usize,
    /// The HTTP round-trip time from which a network is slow, which is that of Chromium's type 3G. net
    /// `network_quality_estimator_params.cc`: `kHttpRttEffectiveConnectionTypeThresholds`.
    pub slow_rtt: Duration,
    /// The HTTP round-trip time of a network of which the browser knows nothing. net
    /// `network_quality_estimator_params.cc`, `ObtainDefaultObservations`: `CONNECTION_UNKNOWN`.
    pub default_rtt: Duration,
    /// The maximum number of delayable requests on a slow network. services/network
    /// `resource_scheduler_params_manager.cc`, `GetParamsForNetworkQualityContainer`: the same for 3G, 2G and slow 2G.
    pub slow_delayable_requests: usize,
    /// The number of delayable requests as which each other request in flight counts on a slow network. Elsewhere it is 0.
    /// services/network `resource_scheduler_params_manager.cc`: `non_delayable_weight`.
    pub slow_weight: usize,
    /// The maximum number of HTTP/1.1 connections to a host. net `client_socket_pool_manager.cc`:
    /// `g_max_sockets_per_group`.
    pub sockets_per_host: usize,
    /// The maximum number of connections in all. net `client_socket_pool_manager.cc`: `g_max_sockets_per_pool`.
    pub sockets: usize,
    /// How long a request to a host that is known to speak HTTP/2 waits for the connection of another request, before it
    /// opens one itself. net `http_stream_factory_job.h`: `kHTTP2ThrottleMs`.
    pub http2_throttle: Duration,
    /// The time from the first byte of the document until the renderer reads it, because the browser process commits the
    /// navigation to a renderer first. This is processor time, and a slower machine needs more.
    pub commit: Duration,
    /// The time from the release of a request by the renderer's scheduler until the network service has it. This is
    /// processor time, too.
    pub dispatch: Duration,
}

/// The values of Chromium 156. Limits were read in copies of the source of versions 117 to 152, and do not differ there.
/// Processor times are medians of 14 loads of the news page by Chromium 156, without a display, on two shared cores. There
/// the commit took 8 to 31 ms in 13 of the loads, and the dispatch 8 to 50 ms.
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
    sockets_per_host: 6,
    sockets: 256,
    http2_throttle: Duration::from_millis(300),
    commit: Duration::from_millis(14),
    dispatch: Duration::from_millis(23),
};
