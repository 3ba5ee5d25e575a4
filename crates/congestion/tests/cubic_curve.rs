//! Compares CUBIC's window with the formula of RFC 9438 §4.2, second by second.

mod path;

use anabranch_congestion::{Algorithm, AlgorithmConfig, Controller, InitialParams, InitialWindow, cubic};
use path::{Event, Path};

const MSS: u64 = 1_448;

/// Returns a path whose controller had a loss when its window was `packets`.
fn after_a_loss(packets: u32, rtt_ms: u64) -> Path {
    let initial = InitialWindow::Packets(packets);
    let params = InitialParams { initial_ssthresh: 1, ..InitialParams::new(MSS, initial) };
    let mut path =
        Path::new(Algorithm::new(AlgorithmConfig::Cubic(cubic::Config::default()), params), MSS, rtt_ms);
    path.round(Event::Loss);
    path
}

/// RFC 9438 §4.2: W_cubic(t) = C·(t - K)³ + W_max, over the concave region, the plateau and the convex region. On this
/// long path, the window of Reno would stay below the curve.
#[test]
fn follows_the_formula() {
    for acked_together in [1, 2] {
        let peak = 500.0;
        let mut path = after_a_loss(500, 200);
        path.acked_together = acked_together;
        let start = path.now;
        let k = (peak * 0.3 / 0.4_f64).cbrt();
        assert!((7.0..7.5).contains(&k));
        let mut seen = (false, false, false);
        for _ in 0..80 {
            let before = path.now.since(start).as_secs_f64();
            path.round(Event::Full);
            let t = path.now.since(start).as_secs_f64();
            let expected = 0.4 * (t - k).powi(3) + peak;
            let window = path.window() as f64 / MSS as f64;
            // With each acknowledgement, the window approaches the point of the curve that is one round-trip time
            // ahead. So the window may differ from the curve by as much as the curve grows in one round-trip time.
            let tolerance = 3.0 + (0.4 * (t + 0.2 - k).powi(3) - 0.4 * (t - k).powi(3)).abs();
            assert!(
                (window - expected).abs() <= tolerance,
                "t={t:.2} s ({before:.2}), {acked_together} a time: {window:.1}, expected {expected:.1}"
            );
            seen.0 |= t < k - 2.0;
            seen.1 |= (t - k).abs() < 0.5 && (window - peak).abs() < 2.0;
            seen.2 |= t > k + 5.0 && window > peak + 40.0;
        }
        assert_eq!(seen, (true, true, true), "concave, plateau and convex were all visited");
    }
}

/// RFC 9438 §4.3: on a short path, CUBIC behaves like Reno, first with α = 9/17 and later with α = 1.
#[test]
fn is_reno_on_a_short_path() {
    let mut path = after_a_loss(40, 10);
    let start = path.window() as f64 / MSS as f64;
    assert!((start - 28.0).abs() < 1e-9);
    let mut windows = vec![start];
    for _ in 0..60 {
        path.round(Event::Full);
        windows.push(path.window() as f64 / MSS as f64);
    }
    // The loss has reduced the window by 12 packets. At 9/17 of a packet per round, the window needs about 23 rounds to
    // grow by 12 packets.
    for (round, window) in windows.iter().enumerate().take(22) {
        let expected = start + round as f64 * 9.0 / 17.0;
        assert!((window - expected).abs() < 0.5, "round {round}: {window:.2}, expected {expected:.2}");
    }
    let growth = windows[60] - windows[40];
    assert!((growth - 20.0).abs() < 0.7, "one packet a round beyond it: {growth:.2} in 20");
}

/// RFC 9438 §4.2: the time in which the sender waits for the application is not part of t. A flow that waits for 100
/// rounds ends with the same window as a flow that does not wait.
#[test]
fn waiting_for_the_application_stops_the_clock() {
    let mut steady = after_a_loss(500, 200);
    let mut waited = after_a_loss(500, 200);
    for round in 0..60 {
        steady.round(Event::Full);
        waited.round(Event::Full);
        if round == 20 {
            for _ in 0..100 {
                waited.round(Event::Packets(10));
            }
        }
    }
    let (a, b) = (steady.window() as f64, waited.window() as f64);
    assert!((a / b - 1.0).abs() < 0.02, "{a} beside {b}");
}

/// RFC 9438 §4.7: a second loss below the first peak lowers the plateau to 85 % of the window.
#[test]
fn fast_convergence_aims_lower() {
    let mut path = after_a_loss(500, 200);
    for _ in 0..10 {
        path.round(Event::Full);
    }
    let at_loss = path.window() as f64 / MSS as f64;
    assert!(at_loss < 490.0);
    path.round(Event::Loss);
    let start = path.now;
    let plateau = at_loss * 0.85;
    let k = ((plateau - at_loss * 0.7) / 0.4).cbrt();
    while path.now.since(start).as_secs_f64() < k {
        path.round(Event::Full);
    }
    let window = path.window() as f64 / MSS as f64;
    assert!((window - plateau).abs() < 3.0, "{window} at the plateau of {plateau}");
    assert_eq!(path.controller.ssthresh(), (at_loss * MSS as f64) as u64 * 7 / 10);
}
