//! Tests sweeps over a population, in which each person is one point. The properties of a person must depend only on
//! the seed and the person's number. The search for causes must find a known cause.

use anabranch_http::browser::Client;
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Outline};
use anabranch_lab::run::batch::Options;
use anabranch_report::people::tally::EXPLAINED;
use anabranch_report::people::{Tally, text};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn outline(flags: &[(&str, &str)]) -> Outline {
    let draft = Draft::from_flags(flags.iter().copied()).expect("flags");
    Outline::interpret(draft, &Transports::standard()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the tally of the people with these numbers, counted from 1.
fn tally(outline: &mut Outline, numbers: impl IntoIterator<Item = usize>) -> Tally {
    let mut tally = Tally::default();
    for number in numbers {
        let plan = outline.at(number - 1).expect("a person");
        let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
        let race = causes::race(plan, &options).unwrap_or_else(|error| panic!("{error}"));
        tally.add(&race.points[0]);
    }
    tally
}

#[test]
fn a_planted_cause_is_named() {
    let mut outline = outline(&[
        ("population", "world:loss=x0:bytes=x0.25"),
        ("people", "400"),
        ("runs", "1"),
        ("transport", "tcp"),
        ("transport", "small=tcp:iw=1"),
    ]);
    let tally = tally(&mut outline, (1..=20).map(|number| number * EXPLAINED));
    let causes = tally.causes();
    assert!(
        causes.iter().all(|cause| (cause.winner.as_str(), cause.loser.as_str()) == ("tcp", "small")),
        "{causes:?}"
    );
    assert_eq!(causes[0].factor, "windows", "{causes:?}");
    let later = tally.pair(0, 1, |_| true).faster;
    assert!(
        causes.len() == 1 && causes[0].people == later.count && causes[0].people >= 10,
        "{causes:?} of {later:?}"
    );
}

/// If the plan has a page, all people load this page in a browser, and the networks of the people stay as they are.
#[test]
fn people_may_load_one_page_in_a_browser() {
    let flags = [("population", "world"), ("people", "3"), ("runs", "2"), ("transport", "tcp")];
    let person = |more: &[(&str, &str)]| {
        let mut outline = outline(&[&flags[..], more].concat());
        outline.at(2).expect("a person").points[0].clone()
    };
    let (own, news) = (person(&[]), person(&[("page", "news")]));
    assert_eq!(own.network, news.network);
    assert_eq!((own.workload.client, news.workload.client), (Client::Plain, Client::Chromium));
    assert!(news.workload.keep_origins && news.workload.page.hosts.len() == 7);
    assert!(own.factors.contains_key("objects") && !news.factors.contains_key("objects"));
}

#[test]
fn people_are_the_same_in_every_order_and_beside_others() {
    let flags = |people| {
        [
            ("population", "world"),
            ("people", people),
            ("runs", "2"),
            ("transport", "tcp,sctp"),
            ("causes", "off"),
        ]
    };
    let few = tally(&mut outline(&flags("6")), 1..=6);
    let reversed = tally(&mut outline(&flags("300000")), (1..=6).rev());
    assert_eq!(text::render(&few), text::render(&reversed));
    assert_eq!(few.count(), 6);
}

#[test]
fn random_losses_differ_between_people() {
    let mut outline = outline(&[("population", "world"), ("people", "3"), ("runs", "4"), ("seed", "7")]);
    let mut seeds = Vec::new();
    for index in 0..3 {
        seeds.extend(outline.at(index).expect("a person").seeds.clone());
    }
    assert_eq!(seeds, (7..19).collect::<Vec<u64>>());
}
