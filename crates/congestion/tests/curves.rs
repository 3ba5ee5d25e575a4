//! Runs each controller alone through slow start, losses, a timeout and idle periods. The window after each round is
//! compared with an expected text and an expected picture in files.
//!
//! `UPDATE_EXPECT=1 cargo test -p anabranch-congestion` rewrites the files.

mod path;

use anabranch_congestion::{Algorithm, AlgorithmConfig, InitialParams, InitialWindow, cubic, reno, sctp};
use expect_test::expect_file;
use path::{Event, Path};

const MSS: u64 = 1_000;

fn kinds() -> Vec<(&'static str, AlgorithmConfig)> {
    let counting_acks = reno::Config { counting: reno::Counting::Acks, ..reno::Config::default() };
    let variant = |variant| AlgorithmConfig::Sctp(sctp::Config { variant, ..sctp::Config::default() });
    vec![
        ("reno", AlgorithmConfig::Reno(reno::Config::default())),
        ("reno-acks", AlgorithmConfig::Reno(counting_acks)),
        ("rfc2960", variant(sctp::Variant::Rfc2960)),
        ("rfc4960", variant(sctp::Variant::Rfc4960)),
        ("rfc9260", variant(sctp::Variant::Rfc9260)),
        ("cubic", AlgorithmConfig::Cubic(cubic::Config::default())),
    ]
}

/// Runs every controller through `rounds` round trips, in each of which `event` happens. Compares the windows with
/// `curves/<name>.txt` and `.svg`.
fn check(name: &str, initial: InitialWindow, rounds: usize, event: impl Fn(usize) -> Event) {
    let runs: Vec<_> = kinds()
        .into_iter()
        .map(|(kind_name, kind)| {
            let mut path = Path::new(Algorithm::new(kind, InitialParams::new(MSS, initial)), MSS, 100);
            let windows: Vec<_> = (0..rounds)
                .map(|round| {
                    path.round(event(round));
                    path.window()
                })
                .collect();
            (kind_name, windows)
        })
        .collect();
    let mut text = format!("{:>5}", "round");
    for (kind, _) in &runs {
        text += &format!(" {kind:>9}");
    }
    text += "   after\n";
    for round in 0..rounds {
        text += &format!("{round:>5}");
        for (_, windows) in &runs {
            text += &format!(" {:>9}", windows[round]);
        }
        let line = format!("   {}", event(round));
        text += &format!("{}\n", line.trim_end());
    }
    expect_file![format!("./curves/{name}.txt")].assert_eq(&text);
    expect_file![format!("./curves/{name}.svg")].assert_eq(&path::svg(name, &runs));
}

/// RFC 5681 §3.1, RFC 9260 §7.2.1: the window doubles each round, or grows less with delayed acknowledgements.
#[test]
fn slow_start() {
    check("slow-start", InitialWindow::Packets(2), 8, |_| Event::Full);
}

#[test]
fn one_loss() {
    check("one-loss", InitialWindow::Packets(10), 60, |round| match round {
        4 => Event::Loss,
        _ => Event::Full,
    });
}

/// RFC 9438 §4.7: CUBIC's second loss happens at a smaller window than the first loss, so fast convergence lowers the
/// plateau below the window at the second loss.
#[test]
fn two_losses() {
    check("two-losses", InitialWindow::Packets(10), 80, |round| match round {
        4 | 24 => Event::Loss,
        _ => Event::Full,
    });
}

#[test]
fn timeout() {
    check("timeout", InitialWindow::Packets(10), 40, |round| match round {
        4 | 6 | 7 => Event::Timeout,
        _ => Event::Full,
    });
}

/// RFC 9260 §7.2.1, RFC 9438 §5.8: a window that is not fully used does not grow.
#[test]
fn app_limited() {
    check("app-limited", InitialWindow::Packets(10), 40, |round| match round {
        0..=3 | 25.. => Event::Full,
        4 => Event::Loss,
        _ => Event::Packets(3),
    });
}

#[test]
fn minimum_window() {
    check("minimum-window", InitialWindow::Packets(4), 20, |round| match round {
        0..=3 => Event::Loss,
        8 => Event::Ecn,
        9 | 10 => Event::Timeout,
        _ => Event::Full,
    });
}

/// RFC 5681 §4.1, RFC 9260 §7.2.1: an idle period reduces the window.
#[test]
fn idle() {
    check("idle", InitialWindow::Packets(4), 24, |round| match round {
        4 => Event::Idle { rtos: 0 },
        6 => Event::Idle { rtos: 1 },
        8 => Event::Idle { rtos: 3 },
        _ => Event::Full,
    });
}

/// RFC 4015, RFC 9438 §4.9: a reduction that proves spurious is undone.
#[test]
fn spurious() {
    check("spurious", InitialWindow::Packets(10), 16, |round| match round {
        4 => Event::Loss,
        6 | 11 => Event::Spurious,
        10 => Event::Timeout,
        _ => Event::Full,
    });
}
