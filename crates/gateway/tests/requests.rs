//! Tests HTTP/1.1 requests to a server and to a reverse gateway in front of it. Both must answer as the table in
//! `cli/tests/requests/table.rs` says. The streams are in memory and in virtual time.

#[path = "../../http/tests/rig/memory.rs"]
#[expect(dead_code, reason = "it can do more than is wanted here")]
mod memory;
#[path = "../../cli/tests/requests/table.rs"]
mod table;

use anabranch_base::time::{Duration, Instant};
use anabranch_gateway::{Associations, Options, Peer, Route};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::files::FileSite;
use anabranch_http::serve::{self, OwnOrigins, Stop};
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use memory::Meeting;
use std::fs;
use std::rc::Rc;
use table::{Row, fault, is_whole, rows};

fn clock() -> Option<fn() -> u64> {
    Some(|| 1_900_000_000)
}

/// Sends the request of each row of the table in a session of its own.
async fn ask_all(world: &SimWorld, meeting: &Meeting, rows: &[Row]) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    for row in rows {
        let session = meeting.connect(0).expect("a session");
        let mut stream = session.open(0).expect("a stream");
        let asking = async {
            let _ = stream.write_all(&row.bytes).await;
            let (mut all, mut piece) = (Vec::new(), [0; 4096]);
            while !is_whole(&all, row.bytes.starts_with(b"HEAD ")) {
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => all.extend_from_slice(&piece[..read]),
                }
            }
            all
        };
        answers.push(world.timeout(Duration::from_secs(5), asking).await.unwrap_or_default());
        session.abort();
    }
    answers
}

#[test]
fn requests_are_answered_as_the_table_says() {
    let root = std::env::temp_dir().join(format!("anabranch-gateway-table-{}", std::process::id()));
    fs::create_dir_all(root.join("sub")).expect("a directory");
    for (name, content) in [("index.html", "<p>home"), ("sub/index.html", "<p>sub"), ("empty", "")] {
        fs::write(root.join(name), content).expect("a file");
    }
    let rows = rows();
    assert!(rows.len() >= 140, "{}", rows.len());
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let (behind, before, secure) =
        (Meeting::new(400, false), Meeting::new(400, false), Meeting::new(400, false));
    let site = Rc::new(FileSite::new(&root).expect("a directory"));
    let serve = |meeting: &Meeting, secure| {
        let own_origins = Some(OwnOrigins { secure, names: None });
        let max_head = Some(16 << 10);
        let options =
            serve::Options { own_origins, max_head, wall_clock: clock(), ..serve::Options::default() };
        world.spawn(
            "server",
            serve::run(world.clone(), meeting.clone(), site.clone(), options, Recorder::default()),
        )
    };
    let _servers = [serve(&behind, false), serve(&secure, true)];
    let long = Duration::from_secs(60);
    let origin = Origin::new(Authority { host: "o".to_owned(), port: 80 }, false);
    let options = Options {
        route: Route::Origin(origin.clone()),
        trusted_proxies: Vec::new(),
        half_close: false,
        secure: false,
        name: "gateway".to_owned(),
        idle: long,
        head_timeout: long,
        max_head: 16 << 10,
        sessions: ConcurrencyLimit::new(100),
        exchanges: ConcurrencyLimit::new(1000),
        wall_clock: clock(),
        memory: None,
        log: None,
        faults: None,
        stop: Stop::new(),
    };
    let upstream = Rc::new(Associations::new(&world, behind.clone(), 1, Peer::Origin(origin), long));
    let gateway = anabranch_gateway::run(world.clone(), before.clone(), upstream, options);
    let _gateway = world.spawn("gateway", gateway);
    let all = async {
        let mut answers = Vec::new();
        for meeting in [&behind, &before, &secure] {
            answers.push(ask_all(&world, meeting, &rows).await);
        }
        answers
    };
    let answers = network.run(all, Instant::MAX).expect_done();
    for (name, answers, secure) in [
        ("serve", &answers[0], false),
        ("gateway", &answers[1], false),
        ("serve, secured", &answers[2], true),
    ] {
        let told = rows.iter().zip(answers);
        let told = told.filter_map(|(row, got)| fault(row, if secure { row.secure } else { row.clear }, got));
        let faults: Vec<String> = told.collect();
        assert!(faults.is_empty(), "{name}: {} of {}\n{}", faults.len(), rows.len(), faults.join("\n"));
    }
    fs::remove_dir_all(&root).expect("removed");
}
