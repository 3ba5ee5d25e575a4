//! Tests the meaning of plans, and the one-line error for each wrong plan.

use anabranch_lab::plan::{Draft, Plan, PlanError, bare_network};
use anabranch_lab::run::batch;
use anabranch_results::World;
use anabranch_transports::Transports;
use expect_test::{Expect, expect};

fn flags(line: &str) -> Result<Plan, PlanError> {
    // Accepts flags in the forms `--a b`, `--a=b`, and `--a` (which means `--a=yes`).
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let words: Vec<&str> = line.split_whitespace().collect();
    for word in words {
        match word.strip_prefix("--") {
            Some(flag) => pairs.push(flag.split_once('=').unwrap_or((flag, "yes"))),
            None => pairs.last_mut().expect("a flag before its value").1 = word,
        }
    }
    Draft::from_flags(pairs).and_then(|draft| Plan::interpret(draft, &Transports::standard()))
}

fn file(text: &str) -> Result<Plan, PlanError> {
    Draft::from_toml("plan.toml", text).and_then(|draft| Plan::interpret(draft, &Transports::standard()))
}

/// Shortens each list of accepted names in an error to its first two names. The lists come from tables that grow.
fn abridged(error: &str) -> String {
    let Some((head, list)) = error.split_once("accepted: ") else { return error.to_owned() };
    let names: Vec<&str> = list.split(", ").collect();
    if names.len() < 12 {
        error.to_owned()
    } else {
        format!("{head}accepted: {}, {}, ...", names[0], names[1])
    }
}

fn wrong(lines: &[&str], expected: Expect) {
    let mut messages = String::new();
    for line in lines {
        let error = flags(line).expect_err(line).to_string();
        assert!(!error.contains('\n'), "{error}");
        messages += &format!("{}\n", abridged(&error));
    }
    expected.assert_eq(&messages);
}

fn wrong_files(texts: &[&str], expected: Expect) {
    let mut messages = String::new();
    for text in texts {
        let error = file(text).expect_err(text).to_string();
        assert!(!error.contains('\n'), "{error}");
        messages += &format!("{}\n", abridged(&error));
    }
    expected.assert_eq(&messages);
}

#[test]
fn the_bare_race_is_the_default_network_without_loss_and_with() {
    let plan = flags("").expect("a plan");
    expect![[r#"
        client = "chromium"
        loss = ["0", "1%"]
        mtu = "1500"
        origins = "keep"
        page = "news"
        queue = "1bdp"
        rate = "10mbit"
        rtt = "80ms"
        runs = "100"
        seed = "1"
        server-time = "recorded"
        transport = ["http1", "http2", "http3", "sctp-dtls"]
        variation = "browser"
        visit = "first"
    "#]]
    .assert_eq(&plan.to_toml());
    assert!(plan.contestants.iter().all(anabranch_lab::plan::Contestant::is_secured), "{plan:?}");
    assert_eq!((plan.seeds.len(), plan.points.len()), (100, 2));
    // All default contestants must use the profile `modern`, which has the current settings.
    assert!(plan.contestants.iter().all(|contestant| contestant.profile == "modern"), "{plan:?}");
}

/// The default contestants must be encrypted exactly when the documentation of `race` says so.
#[test]
fn who_races_unnamed_is_secured_where_that_can_be() {
    let contestants = |line: &str| {
        let plan = flags(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let labels: Vec<String> = plan.contestants.iter().map(|one| one.label.clone()).collect();
        (labels.join(" "), plan.contestants.iter().filter(|one| one.is_secured()).count(), plan.warnings())
    };
    let clear = "six tcp sctp six-sctp";
    assert_eq!(contestants("--cleartext"), (clear.to_owned(), 0, Vec::new()));
    let (labels, secured, warnings) = contestants("--path rate=1mbit,rtt=40ms --path rate=2mbit,rtt=40ms");
    assert_eq!((labels.as_str(), secured), (clear, 0));
    assert!(warnings[0].starts_with("several networks: the contestants are in the clear"), "{warnings:?}");
    assert_eq!(contestants("--path rate=1mbit,rtt=40ms").1, 4);
    assert_eq!(contestants("--messages 10/s --for 1s").0, "six-tls tcp-tls sctp-dtls");
    assert_eq!(
        contestants("--world emulated").1,
        flags("--world emulated").expect("a plan").contestants.len()
    );
    assert_eq!(contestants("--bulk 1MB").1, 4);
    // A contestant that the user names must be encrypted only if its transport always is (QUIC) or if its settings say
    // so.
    assert_eq!(contestants("--transport tcp,sctp,quic").1, 1);
    for secured in ["quic", "tcp:tls=yes", "sctp:dtls=yes"] {
        let error = flags(&format!("--cleartext --transport tcp --transport {secured}")).expect_err(secured);
        assert!(
            error.to_string().ends_with(&format!("cleartext: '{secured}' is secured; leave one of them out")),
            "{error}"
        );
    }
}

/// Returns the meaning of a plan, independent of the way in which it is written.
fn meaning(plan: &Plan) -> String {
    let contestants: Vec<String> =
        plan.contestants.iter().map(|one| format!("{} {:?}", one.text, one.engine)).collect();
    format!("{:?} {contestants:?} {:?} {} {:?}", plan.points, plan.seeds, plan.together, plan.world)
}

/// The defaults of a plan, as flags.
const DEFAULTS: &[&str] = &[
    "--rate 10mbit",
    "--rtt 80ms",
    "--delay 40ms",
    "--down-rate 10mbit",
    "--loss 0,1%",
    "--queue 1bdp",
    "--mtu 1500",
    "--jitter 0ms",
    "--aqm droptail",
    "--ecn no",
    "--duplicate 0",
    "--corrupt 0",
    "--half-duplex=no",
    "--overhead 0B",
    "--packet-time 0ms",
    "--page news",
    "--first-object none",
    "--origins keep",
    "--client chromium",
    "--client-time 2ms",
    "--visit first",
    "--think none",
    "--server parallel",
    "--server-time recorded",
    "--start-jitter 0ms",
    "--request-jitter 0ms",
    "--variation browser",
    "--deadline 600s",
    "--runs 100",
    "--seed 1",
    "--world virtual",
    "--loss-by link",
    "--shared-link=no",
    "--cleartext=no",
];

#[test]
fn every_impairment_has_a_default_that_can_be_named() {
    // By default, the keys in `excluded` are absent. These keys have no value that means the same as leaving out the
    // key, so `DEFAULTS` cannot contain them.
    let excluded = ["reorder", "trace", "preset"];
    for row in anabranch_link::ROWS.iter().filter(|row| !excluded.contains(&row.key)) {
        let begins = |line: &&str| line[2..].split([' ', '=']).next() == Some(row.key);
        assert!(DEFAULTS.iter().any(begins), "DEFAULTS has no --{}", row.key);
    }
}

#[test]
fn naming_a_default_changes_nothing() {
    let bare = meaning(&flags("").expect("a plan"));
    for line in DEFAULTS {
        let named = meaning(&flags(line).unwrap_or_else(|error| panic!("{line}: {error}")));
        // Removes the list of explicit keys from the text. The two plans differ in this list, but it only serves to
        // find contradictions.
        let without = |text: &str| {
            let mut out = String::new();
            for (i, part) in text.split("explicit_keys: [").enumerate() {
                out += if i == 0 { part } else { part.split_once(']').map_or("", |(_, rest)| rest) };
            }
            out
        };
        assert!(without(&named) == without(&bare), "{line}:\n{named}\n{bare}");
    }
    let transport = |text: &str| meaning(&flags(&format!("--transport {text}")).expect(text));
    for name in ["tcp", "sctp"] {
        let (bare, named) = (transport(name), transport(&format!("{name}:profile=modern")));
        assert_eq!(named.replace(":profile=modern", ""), bare);
    }
}

#[test]
fn a_contestant_may_have_a_name() {
    let plan = flags(
        "--transport six=tcp:connections=6 --transport tcp --transport 'A+B'=sctp:iw=4"
            .replace('\'', "")
            .as_str(),
    );
    let plan = plan.expect("a plan");
    let names: Vec<&str> = plan.contestants.iter().map(|contestant| contestant.label.as_str()).collect();
    assert_eq!(names, ["six", "tcp", "A+B"]);
    assert_eq!(
        (plan.contestants[0].text.as_str(), plan.contestants[0].connections()),
        ("six=tcp:connections=6", 6)
    );
    let plan = flags("--transport a=tcp,b=sctp").expect("a plan");
    assert_eq!(plan.contestants.len(), 2);
    wrong(
        &[
            "--transport six=tcp --transport six=sctp",
            "--transport sctp=tcp",
            "--transport =tcp",
            "--transport a/b=tcp",
            "--transport six=tcp:conections=6",
            "--transport six=connections=6",
        ],
        expect![[r#"
            --transport: 'six' is given twice
            --transport sctp=tcp: 'sctp' is a transport; write another name, such as my-sctp=sctp:..
            --transport =tcp: '': write a name of at most 22 letters, digits, and the signs - _ . + as in six=tcp:connections=6
            --transport a/b=tcp: 'a/b': write a name of at most 22 letters, digits, and the signs - _ . + as in six=tcp:connections=6
            --transport six=tcp:conections=6: unknown key 'conections' (did you mean 'connections'?); accepted: connections, per-object, ...
            --transport six=connections=6: unknown transport 'connections=6'; accepted: http1, http2, ...
        "#]],
    );
}

#[test]
fn standard_contestants_are_typed_by_the_names_that_results_show() {
    let contestants = |line: &str| {
        let plan = flags(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        plan.contestants.iter().map(|one| format!("{} = {}", one.label, one.spec())).collect::<Vec<_>>()
    };
    assert_eq!(contestants(""), contestants("--transport http1,http2,http3,sctp-dtls"));
    assert_eq!(contestants("--also http3:cc=bbr")[4], "http3:cc=bbr = quic:cc=bbr");
    assert_eq!(
        contestants("--transport tcp,http1:cc=bbr,iw=4 --also six --also own=http3"),
        [
            "tcp = tcp",
            "http1:cc=bbr,iw=4 = tcp:connections=6,tls=yes,priority=yes,cc=bbr,iw=4",
            "six = tcp:connections=6",
            "own = quic",
        ]
    );
    assert_eq!(
        contestants("--transport http3:cc=bbr,iw=4,sctp-dtls,tcp:iw=4,six"),
        [
            "http3:cc=bbr,iw=4 = quic:cc=bbr,iw=4",
            "sctp-dtls = sctp:dtls=yes,priority=yes",
            "tcp:iw=4 = tcp:iw=4",
            "six = tcp:connections=6",
        ]
    );
    let without_value = flags("--transport tcp:connections=6,pipeline").map(|_| ()).expect_err("no value");
    assert!(
        without_value.to_string().ends_with("; a setting has a value: pipeline=VALUE"),
        "{without_value}"
    );
    assert_eq!(contestants("--messages 50/s --transport sctp-dtls"), ["sctp-dtls = sctp:dtls=yes"]);
    wrong(
        &[
            "--also http1",
            "--transport http3:ccc=bbr",
            "--transport http1:tls=no,tls=no",
            "--cleartext --also http3",
        ],
        expect![[r#"
            --also: 'http1' is a default contestant already
            --transport http3:ccc=bbr: unknown key 'ccc' (did you mean 'cc'?); accepted: connections, per-object, ...
            --transport http1:tls=no,tls=no: 'tls' is given twice
            --also http3: cleartext: 'http3' is secured; leave one of them out
        "#]],
    );
}

#[test]
fn keys_of_earlier_versions_are_accepted_with_a_line() {
    let plan = flags("--together --cross tcp:flows=2").expect("a plan");
    assert_eq!(
        plan.draft.renamed,
        [
            "--together: now --shared-link; the old name works until 0.2",
            "--cross: now --background; the old name works until 0.2",
        ]
    );
    assert!(plan.to_toml().contains("shared-link = \"yes\"") && plan.together, "{}", plan.to_toml());
    let plan = file("together = true\ntransport = ['tcp', 'sctp']").expect("a plan");
    assert_eq!(plan.draft.renamed, ["plan.toml: together: now shared-link; the old name works until 0.2"]);
}

#[test]
fn knobs_of_earlier_versions_are_accepted_with_a_line() {
    let plan = flags("--transport sctp:streams=3,inbound=2 --transport quic:streams=4").expect("a plan");
    assert_eq!(
        plan.draft.renamed,
        [
            "--transport sctp:streams=3,inbound=2: streams: now num_ostreams; the old name works until 0.2",
            "--transport sctp:streams=3,inbound=2: inbound: now max_instreams; the old name works until 0.2",
        ]
    );
    let names: Vec<&str> = plan.contestants.iter().map(|contestant| contestant.text.as_str()).collect();
    assert_eq!(names, ["sctp:num_ostreams=3,max_instreams=2", "quic:streams=4"]);
    assert_eq!(plan.contestants[0].engine.streams(), 2);
    let claim = "[[cause]]\nof = 'mine'\nchange = 'streams=1'\nratio_min = 1.0";
    let plan = file(&format!("causes = 'off'\ntransport = ['tcp', 'mine=sctp-dtls:streams=3']\n{claim}"));
    let plan = plan.expect("a plan");
    assert_eq!(plan.contestants[1].text, "mine=sctp-dtls:num_ostreams=3");
    assert_eq!(plan.claims[0].changed.engine.streams(), 1);
    let twice = flags("--transport sctp:streams=3,num_ostreams=2").map(|_| ()).expect_err("given twice");
    assert!(twice.to_string().ends_with("'num_ostreams' is given twice"), "{twice}");
}

#[test]
fn shipped_example_plans_cause_no_warning() {
    for name in ["plan", "population"] {
        let path = format!("{}/../../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(&path);
        // The plan names its page relative to the root of the repository.
        let text = text.replace("\"examples/", &format!("\"{}/../../examples/", env!("CARGO_MANIFEST_DIR")));
        let plan = file(&text).expect(name);
        assert_eq!(plan.draft.renamed, [""; 0], "{name}");
        // A population has people whose networks are too fast for the buffers of a transport, which is a true warning.
        assert!(name == "population" || plan.warnings().is_empty(), "{name}: {:?}", plan.warnings());
    }
}

/// A link must only do what its keys say. Without keys, it has no rate, delay or loss.
#[test]
fn a_link_does_what_it_is_given_and_nothing_else() {
    let link = |pairs: &[(&str, &str)]| bare_network(pairs.iter().copied()).map(|network| network.paths);
    let nothing = &link(&[]).expect("a link")[0];
    for side in [&nothing.up, &nothing.down] {
        assert!(side.rate.is_unlimited() && side.delay.is_zero() && side.jitter.is_zero(), "{nothing}");
    }
    assert!(!nothing.is_random());
    let rate = &link(&[("rate", "1mbit")]).expect("a link")[0];
    assert!(rate.rtt().is_zero() && !rate.up.rate.is_unlimited(), "{rate}");
    let delay = &link(&[("rtt", "80ms")]).expect("a link")[0];
    assert!(delay.rtt() == std::time::Duration::from_millis(80) && delay.up.rate.is_unlimited(), "{delay}");
    let two = link(&[("path", "rate=1mbit"), ("path", "rtt=20ms")]).expect("links");
    assert!(two[0].rtt().is_zero() && two[1].up.rate.is_unlimited());
    let error = link(&[("loss", "1%,2%")]).expect_err("a list").to_string();
    assert_eq!(error, "--loss: a link has one value of each kind; a list of them is for race");
}

#[test]
fn a_plan_is_read_back_as_it_is_written() {
    for line in [
        "",
        "--rate 1mbit,2mbit --loss 0,1% --objects 1kB,2kB --objects 8x1kB --transport tcp,sctp --runs 2 --seed 7",
        "--path rate=10mbit,rtt=80ms,loss=ge:1%/30% --path preset=3g --fail path=1,at=10s,for=5s",
        "--preset dsl --down-loss nth:20 --half-duplex --transport sctp:num_ostreams=10 --shared-link --background tcp:flows=2",
        "--delay 5ms --up-rate 64kbit --down-rate 1mbit --bulk 1MB --message-size 2048B --timeout 15s",
        "--world emulated --transport tcp:cc=bbr,connections=2 --loss-by iptables",
        "--arrivals 25/s --think recorded --server-time 5ms --origins keep --deadline 60s",
        "--page gallery --client plain,chromium",
        "--page gallery --visit first,repeat",
    ] {
        let plan = flags(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let text = plan.to_toml();
        let again = file(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again.to_toml(), text, "{line}");
        let networks = |plan: &Plan| plan.points.iter().map(|p| p.network.describe()).collect::<Vec<_>>();
        assert_eq!(networks(&again), networks(&plan), "{line}");
        assert_eq!(again.points.len(), plan.points.len());
    }
}

/// By default, a browser loads pages. The full text of a plan must name the client, even if it is the default.
#[test]
fn the_client_is_part_of_the_plan() {
    for (line, client) in [
        ("", "chromium"),
        ("--page gallery", "chromium"),
        ("--page gallery --client plain", "plain"),
        ("--objects 8x1kB", "plain"),
        ("--arrivals 25/s", "plain"),
        ("--bulk 1MB", "plain"),
        ("--messages 100/s", "plain"),
        ("--messages 100/s --client plain --visit first", "plain"),
    ] {
        let text = flags(line).unwrap_or_else(|error| panic!("{line}: {error}")).to_toml();
        assert!(text.contains(&format!("client = \"{client}\"\n")), "{line}: {text}");
        assert!(text.contains("visit = \"first\"\n") && text.contains("origins = "), "{line}: {text}");
    }
    wrong(
        &[
            "--client firefox",
            "--visit again",
            "--objects 8x1kB --client chromium",
            "--arrivals 25/s --client chromium",
            "--bulk 1MB --client chromium",
            "--client plain --visit repeat",
            "--client plain --client-time 5ms",
            "--client-time 5min",
            "--messages 100/s --client-time 5ms",
            "--messages 100/s --client chromium",
            "--messages 100/s --visit repeat",
            "--think recorded",
            "--visit first,repeat --transport tcp:tls=yes,resume=session",
        ],
        expect![[r#"
            --client: 'firefox': write chromium or plain
            --visit: 'again': write first or repeat
            --client: chromium needs a page, in which it finds the objects; not with --objects
            --client: chromium needs a page, in which it finds the objects; not with --arrivals
            --client: chromium needs a page, in which it finds the objects; not with --bulk
            --visit: repeat goes with --client chromium: a plain client remembers nothing
            --client-time: goes with --client chromium: a plain client takes no time for a response
            --client-time: '5min': more than 60s
            --client-time: goes with a page or objects, not with messages
            --client: goes with a page or objects, not with messages
            --visit: goes with a page or objects, not with messages
            --think: recorded goes with --client plain: the recorded times contain waits that Chromium itself makes
            --transport tcp:tls=yes,resume=session: resume: with --visit repeat the browser resumes all TLS sessions; leave one of them out
        "#]],
    );
}

#[test]
fn lists_are_factors_and_all_combinations_are_run() {
    let plan = flags("--loss 0,1%,2% --objects 1kB,2kB --objects 4x1kB --rate 1mbit").expect("a plan");
    let points: Vec<String> = plan.points.iter().map(|p| format!("{:?}", p.factors)).collect();
    expect![[r#"
        {"loss": "0", "objects": "1kB,2kB"}
        {"loss": "0", "objects": "4x1kB"}
        {"loss": "1%", "objects": "1kB,2kB"}
        {"loss": "1%", "objects": "4x1kB"}
        {"loss": "2%", "objects": "1kB,2kB"}
        {"loss": "2%", "objects": "4x1kB"}"#]]
    .assert_eq(&points.join("\n"));
    let plan =
        file("rate = ['1mbit', '2mbit']\nruns = 3\n[[path]]\nloss = [0, '1%']\n[[path]]\nrtt = '10ms'")
            .expect("a plan");
    let points: Vec<String> =
        plan.points.iter().map(|p| format!("{:?} {}", p.factors, p.network.describe())).collect();
    expect![[r#"
        {"path.1.loss": "0", "rate": "1mbit"} path 1: 1mbit, rtt 80ms, queue 1bdp, mtu 1500; path 2: 1mbit, rtt 10ms, queue 1bdp, mtu 1500
        {"path.1.loss": "1%", "rate": "1mbit"} path 1: 1mbit, rtt 80ms, loss 1%, queue 1bdp, mtu 1500; path 2: 1mbit, rtt 10ms, queue 1bdp, mtu 1500
        {"path.1.loss": "0", "rate": "2mbit"} path 1: 2mbit, rtt 80ms, queue 1bdp, mtu 1500; path 2: 2mbit, rtt 10ms, queue 1bdp, mtu 1500
        {"path.1.loss": "1%", "rate": "2mbit"} path 1: 2mbit, rtt 80ms, loss 1%, queue 1bdp, mtu 1500; path 2: 2mbit, rtt 10ms, queue 1bdp, mtu 1500"#]].assert_eq(&points.join("\n"));
}

#[test]
fn flags_take_the_place_of_what_the_file_says() {
    let file = Draft::from_toml(
        "plan.toml",
        "down-loss = '5%'\ndelay = '10ms'\nobjects = '2x1kB'\ntransport = ['tcp', 'sctp:num_ostreams=3']\nruns = 5",
    );
    let flags = Draft::from_flags([("loss", "1%"), ("rtt", "50ms"), ("bulk", "1MB"), ("transport", "sctp")]);
    let plan =
        Plan::interpret(file.expect("a file").overlaid(flags.expect("flags")), &Transports::standard())
            .expect("a plan");
    expect![[r#"
        bulk = "1MB"
        client = "plain"
        loss = "1%"
        mtu = "1500"
        origins = "merge"
        queue = "1bdp"
        rate = "10mbit"
        rtt = "50ms"
        runs = "5"
        seed = "1"
        transport = ["sctp"]
        visit = "first"
    "#]]
    .assert_eq(&plan.to_toml());
}

#[test]
fn the_world_is_part_of_the_plan_where_it_is_not_the_virtual_one() {
    let emulated = file("world = 'emulated'").expect("a plan");
    assert_eq!(emulated.world, World::Emulated);
    assert!(emulated.to_toml().contains("world = \"emulated\"\n"));
    for plan in [flags(""), flags("--world virtual"), file("world = 'virtual'")] {
        let plan = plan.expect("a plan");
        assert_eq!(plan.world, World::Virtual);
        assert!(!plan.to_toml().contains("world"), "{}", plan.to_toml());
    }
    let overlaid = Draft::from_toml("plan.toml", "world = 'emulated'").expect("a file");
    let flags = Draft::from_flags([("world", "virtual")]).expect("flags");
    assert_eq!(
        Plan::interpret(overlaid.overlaid(flags), &Transports::standard()).expect("a plan").world,
        World::Virtual
    );
    // The plan asks for the emulated network, so the simulation must reject it.
    let error = batch::check(&emulated).expect_err("it is refused").to_string();
    assert!(error.starts_with("--world: "), "{error}");
}

#[test]
fn wrong_networks() {
    wrong(
        &[
            "--rate 10",
            "--rate 0mbit",
            "--rate 10mbps",
            "--rate fast",
            "--delay 40ms --rtt 80ms",
            "--loss 101%",
            "--loss 1",
            "--loss nth:0",
            "--loss 0,1%,2x",
            "--down-loss -1%",
            "--queue 0p",
            "--queue 50",
            "--aqm blue",
            "--mtu 20",
            "--jitter 50ms",
            "--preset marsnet",
            "--trace /nonexistent",
            "--path rate=10mbit,los=1% --path rtt=5ms",
            "--path rate=10mbit,rtt",
            "--path rate=10",
            "--fail path=2,at=1s",
            "--fail path=1",
            "--fail at=1s",
            "--half-duplex=maybe",
            "--bandwidth 10mbit",
            "--los 1%",
        ],
        expect![[r#"
            --rate: '10': the unit is missing; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            --rate: '0mbit': nothing moves at rate 0; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            --rate: '10mbps': 'bps' means bits to some tools and bytes to others (did you mean 10mbit?); write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            --rate: 'fast': a number was expected; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            --delay, --rtt: delay is one way and rtt the round trip: give one of them
            --loss: '101%' is more than 100%; write a share such as 1%, 0.05% or 0 (from 0% to 100%)
            --loss: '1': not a share and not a loss model (did you mean 1%?); write 1%, nth:10, nth:10/first=3/shared, ge:1%/30% (to bad / to good [/ loss in bad [/ in good]]) or list:3/17
            --loss: 'nth:0': N is a number of packets from 1; write 1%, nth:10, nth:10/first=3/shared, ge:1%/30% (to bad / to good [/ loss in bad [/ in good]]) or list:3/17
            --loss: '2x': not a share and not a loss model; write 1%, nth:10, nth:10/first=3/shared, ge:1%/30% (to bad / to good [/ loss in bad [/ in good]]) or list:3/17
            --down-loss: '-1%': a number was expected; write a share such as 1%, 0.05% or 0 (from 0% to 100%)
            --queue: '0p': not a number of packets; write 50p (packets), 100kB, 1bdp or unlimited
            --queue: '50': not a queue's limit; write 50p (packets), 100kB, 1bdp or unlimited
            --aqm: 'blue': unknown; write droptail, codel, fq-codel (:target=5ms/interval=100ms), pie (:target=15ms) or red (:min=5p/max=15p/p=10%/weight=0.2%/gentle=no)
            --mtu: '20': write bytes from 68 to 65535, such as 1500
            --jitter: up: jitter 50ms is more than the delay 40ms: a packet cannot leave before it arrives
            --preset: 'marsnet' is unknown; write one of gprs, edge, 3g, lte, lte-recorded, 5g, dialup, dsl-poor, dsl, vdsl, cable, fibre, wifi, wifi-weak, wifi-lossy, starlink, satellite, serial-14.4, serial-32, serial-64, serial-128
            --trace: trace '/nonexistent': No such file or directory (os error 2)
            --path 1: unknown key 'los' (did you mean 'loss'?); accepted: rate, delay, ...
            --path 1: 'rtt' where key=value was expected
            --path 1: rate: '10': the unit is missing; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            --fail: path 2: there is one path, numbered from 1
            --fail: 'path=1': when?; write path=1,at=10s or path=1,at=10s,for=5s
            --fail: 'at=1s': which path?; write path=1,at=10s or path=1,at=10s,for=5s
            --half-duplex: 'maybe': write yes, no, 802.11b or 802.11g
            --bandwidth: unknown flag 'bandwidth'; accepted: rate, delay, ...
            --los: unknown flag 'los' (did you mean 'loss'?); accepted: rate, delay, ...
        "#]],
    );
}

#[test]
fn wrong_workloads() {
    wrong(
        &[
            "--objects 8x",
            "--objects 0x1kB",
            "--objects 8x100",
            "--objects 1kB --bulk 1MB",
            "--page /nonexistent.har",
            "--page nwes",
            "--bulk 100",
            "--message-size 2kB",
            "--arrivals 25",
            "--arrivals 0/s",
            "--arrivals 2/h",
            "--think sometimes",
            "--origins many",
            "--timeout 15",
            "--deadline 0",
            "--timeout 0s",
            "--messages 1/s --for 700s",
            "--server-time -1s",
            "--first-object 60kB",
            "--first-object 60kB --page news",
            "--first-object 60kB --bulk 1MB",
            "--first-object 60kB --messages 10/s",
            "--first-object 60kB --objects 2x1kB --arrivals 25/s",
            "--first-object 60 --objects 2x1kB",
            "--request-head 39B --objects 2x1kB",
            "--request-head 58B --objects 2x1kB --transport tcp --transport tcp:per-object=yes",
            "--response-head 80B --objects 2x1kB,10kB",
            "--response-head 33kB --objects 2x1kB",
            "--response-head 300 --objects 2x1kB",
            "--response-head 300B --bulk 1MB",
            "--request-head 300B --messages 10/s",
        ],
        expect![[r#"
            --objects: objects '8x': '8x': '': a number was expected; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB; write 8x100kB, 1kB,10kB,100kB or 1x20kB,7x100kB
            --objects: objects '0x1kB': '0x1kB': none is no object; write 8x100kB, 1kB,10kB,100kB or 1x20kB,7x100kB
            --objects: objects '8x100': '8x100': '100': the unit is missing; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB; write 8x100kB, 1kB,10kB,100kB or 1x20kB,7x100kB
            --objects: cannot be combined with --bulk: give one of page, objects and bulk
            --page: '/nonexistent.har': no such file; write a HAR file, a directory, or a shipped page (news, gallery, article, osterdahl-news, osterdahl-gallery)
            --page: 'nwes': no such file (did you mean 'news'?); write a HAR file, a directory, or a shipped page (news, gallery, article, osterdahl-news, osterdahl-gallery)
            --bulk: '100': the unit is missing; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB
            --message-size: goes with bulk only
            --arrivals: '25': the unit is missing (did you mean 25/s?); write how often, such as 25/s, 0.5/s or 90/min
            --arrivals: '0/s': nothing ever arrives; write how often, such as 25/s, 0.5/s or 90/min
            --arrivals: '2/h': unknown unit 'h'; write how often, such as 25/s, 0.5/s or 90/min
            --think: 'sometimes': write none or recorded
            --origins: 'many': write merge or keep
            --timeout: '15': the unit is missing; write a time such as 40ms, 1.08s, 250us, 10ns or 2min
            --deadline: a run of no time; write a time such as 600s
            --timeout: no time; write one such as 15s, or leave it out for none
            --for: messages are sent for 700s, and a run ends after 600s; write a --deadline that is later, or fewer messages
            --server-time: '-1s': a number was expected; write a time such as 40ms, 1.08s, 250us, 10ns or 2min
            --first-object: needs objects: a page has a first object of its own, and nothing else has objects
            --first-object: needs objects: a page has a first object of its own, and nothing else has objects
            --first-object: needs objects: a page has a first object of its own, and nothing else has objects
            --first-object: needs objects: a page has a first object of its own, and nothing else has objects
            --first-object: cannot be combined with --arrivals: objects that are requested at a rate wait for no other object
            --first-object: '60': the unit is missing; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB; or none
            --request-head: 39B: that of /object-2 has at least 40B
            --transport tcp:per-object=yes: request-head 58B: that of /object-2 has at least 59B with Connection: close
            --response-head: 80B: that of /object-3 has at least 82B
            --response-head: '33kB': more than 32768B
            --response-head: '300': the unit is missing; write a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB
            --response-head: goes with a page or objects; --bulk has no heads
            --request-head: goes with a page or objects; --messages has no heads
        "#]],
    );
}

#[test]
fn wrong_contestants_and_runs() {
    wrong(
        &[
            "--transport dccp",
            "--transport tpc",
            "--transport tcp:connections=6,pipeline",
            "--transport tcp:connections=0",
            "--transport tcp:conections=6",
            "--transport tcp:num_ostreams=4",
            "--transport sctp:pipeline=yes",
            "--transport tcp:http=3",
            "--transport sctp:when-full=more",
            "--transport sctp:profile=rfc1234",
            "--transport sctp:paths=2",
            "--bulk 1MB --message-size 64KiB --transport tcp --transport sctp:profile=kame-2002",
            "--bulk 1B --transport tcp --transport tcp:connections=6",
            "--bulk 0B --transport tcp",
            "--transport tcp --transport tcp",
            "--transport tcp:per-object=yes,pipeline=yes",
            "--transport tcp:connections=2,connections=3",
            "--transport tcp:",
            "--runs 0",
            "--runs many",
            "--seed -1",
            "--runs 3 --runs 4",
            "--background udp",
            "--background tcp:flows=0",
            "--shared-link=perhaps",
        ],
        expect![[r#"
            --transport dccp: unknown transport 'dccp'; accepted: http1, http2, ...
            --transport tpc: unknown transport 'tpc' (did you mean 'tcp'?); accepted: http1, http2, ...
            --transport pipeline: unknown transport 'pipeline'; accepted: http1, http2, ...
            --transport tcp:connections=0: connections=0: write a number from 1 to 100000
            --transport tcp:conections=6: unknown key 'conections' (did you mean 'connections'?); accepted: connections, per-object, ...
            --transport tcp:num_ostreams=4: 'num_ostreams' is a key of sctp; accepted: connections, per-object, ...
            --transport sctp:pipeline=yes: 'pipeline' is a key of tcp, mptcp, sctp-kernel
            --transport tcp:http=3: http=3: write 1 or 2
            --transport sctp:when-full=more: when-full=more: write wait, rr, spf or grow
            --transport sctp:profile=rfc1234: unknown profile 'rfc1234'; accepted: rfc9260, rfc2960, kame-2002, lksctp-2.6.11, lksctp-2.6, ns2, modern
            --transport sctp:paths=2: paths=2: the network has 1
            --transport sctp:profile=kame-2002: message-size 65536B: more than its send buffer, sndbuf=32768B
            --transport tcp:connections=6: connections=6: more than there are bytes in --bulk 1B
            --bulk: nothing to transfer; write a size such as 100MB
            --transport: 'tcp' is given twice
            --transport tcp:per-object=yes,pipeline=yes: pipeline=yes needs more than one object a connection
            --transport tcp:connections=2,connections=3: 'connections' is given twice
            --transport tcp:: '' where key=value was expected
            --runs: '0': write a number from 1 to 1000000
            --runs: 'many': write a number from 1 to 1000000
            --seed: '-1': write a number from 0 to 4294967295
            --runs: given twice
            --background: 'udp': 'udp' is no background traffic; write tcp:flows=2
            --background: 'tcp:flows=0': flows is a number from 1 to 1000; write tcp:flows=2
            --shared-link: 'perhaps': write yes or no
        "#]],
    );
}

#[test]
fn wrong_plan_files() {
    wrong_files(
        &[
            "rate = 10mbit",
            "rate = '10'",
            "los = '1%'",
            "rate = []",
            "rate = { up = '1mbit' }",
            "transport = ['tcp', 3.5]",
            "[[path]]\nrate = '1mbit'\nlos = '1%'",
            "path = 'rate=1mbit'",
            "[[fail]]\npath = 3\nat = '1s'",
            "runs = [1, 2]",
            "[[expect]]\nmetric = 'page_ms'",
            "[[expect]]\nmetric = 'page'\nof = 'http1'\nmax = 1",
            "[[expect]]\nof = 'quic'\nmax = 1",
            "[[expect]]\nof = 'http3'\nversus = 'http1'\nmax = 1",
            "[[expect]]\nof = 'http3'\nversus = 'http1'",
            "[[expect]]\nof = 'http3'\nversus = 'http1'\nratio_max = 'one'",
            "[[expect]]\nof = 'http3'\nmax = 1\nrate = '1mbit'",
            "out = 'somewhere'",
        ],
        expect![[r#"
            plan.toml: line 1: string values must be quoted, expected literal string
            plan.toml: rate: '10': the unit is missing; write a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)
            plan.toml: unknown key 'los' (did you mean 'loss'?); accepted: rate, delay, ...
            plan.toml: rate: the list is empty
            plan.toml: rate: a text or number was expected, not a table
            plan.toml: transport 3.5: unknown transport '3.5'; accepted: http1, http2, ...
            plan.toml: [[path]] 1: unknown key 'los' (did you mean 'loss'?); accepted: rate, delay, ...
            plan.toml: path: [[path]] tables were expected
            plan.toml: [[fail]] 1: path 3: there is one path, numbered from 1
            plan.toml: runs: takes one value, not a list
            plan.toml: [[expect]] 1: 'of' names the contestant; it is missing
            plan.toml: [[expect]] 1: metric: unknown metric 'page'; accepted: page_ms, start_render_ms, ...
            plan.toml: [[expect]] 1: of: unknown contestant 'quic'; accepted: http1, http2, http3, sctp-dtls
            plan.toml: [[expect]] 1: max: goes with an expectation without 'versus'
            plan.toml: [[expect]] 1: no bound is given; write ratio_min, ratio_max or failed_max
            plan.toml: [[expect]] 1: ratio_max: 'one' is not a number
            plan.toml: [[expect]] 1: unknown key 'rate'; accepted: metric, of, versus, ratio_min, ratio_max, min, max, failed_max, loss
            plan.toml: unknown key 'out'; accepted: rate, delay, ...
        "#]],
    );
}

/// A page whose objects all have 0 bytes must be rejected. An object of 0 bytes among other objects must be accepted.
#[test]
fn a_page_without_any_size_is_refused() {
    let directory = std::env::temp_dir().join(format!("anabranch-empty-page-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("index.html"), b"").expect("a file");
    let har = directory.join("sizes.har");
    let entry = r#"{"startedDateTime":"2020-01-01T00:00:00Z","time":1,"request":{"method":"GET","url":"http://a/x","headers":[]},"response":{"status":200,"headers":[],"bodySize":0,"content":{"size":0}}}"#;
    std::fs::write(&har, format!(r#"{{"log":{{"version":"1.2","entries":[{entry},{entry}]}}}}"#))
        .expect("a file");
    let pages = [
        "--objects 0B".to_owned(),
        "--objects 5x0B".to_owned(),
        format!("--page {}", directory.display()),
        format!("--page {}", har.display()),
    ];
    let refused =
        |page: &String| flags(&format!("{page} --transport tcp")).map(|_| ()).expect_err(page).to_string();
    let lines: Vec<String> = pages.iter().map(refused).collect();
    std::fs::remove_dir_all(&directory).expect("it goes");
    for (page, line) in pages.iter().zip(&lines) {
        let flag = page.split(' ').next().unwrap_or_default();
        assert!(
            line.starts_with(flag) && line.contains("nothing to transfer") && line.contains("write"),
            "{line}"
        );
    }
    assert!(flags("--objects 0B,10kB --transport tcp").is_ok());
}
