//! Tests each rule of the browser model by itself, and then the load of a whole page.

use super::*;
use crate::page::Object;
use crate::page::reference::{FetchPriority, ResourceType, ScriptMode};

/// A page load that a test drives step by step. Each step returns the names of the objects that the browser then
/// requests.
struct Loading {
    page: Page,
    browser: Browser,
}

/// Returns an object to which the document (object 0) refers. The name of the object says its kind: `css`, `js`, `img`,
/// `font` or `fetch`.
fn named(name: &str, offset: u64) -> Object {
    let mut object = Object::new(format!("/{name}"), 1_000);
    object.initiator = Some(0);
    object.reference.offset = Some(offset);
    object.reference.kind = Some(match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "css" => ResourceType::Stylesheet,
        "js" => ResourceType::Script,
        "img" => ResourceType::Image,
        "font" => ResourceType::Font,
        _ => ResourceType::Fetch,
    });
    object
}

/// Returns a page with these objects. Its document has 10,000 bytes, and the body begins after 1,000 bytes.
fn page(objects: impl IntoIterator<Item = Object>) -> Page {
    let mut page = Page::from_sizes("1x10kB").expect("a page");
    page.objects[0].reference.kind = Some(ResourceType::Document);
    page.objects.extend(objects);
    page.body_start = Some(1_000);
    page
}

impl Loading {
    /// Begins to load `page` from a host that supports priorities. So only the scheduler of the renderer holds requests
    /// back.
    fn prioritised(page: Page) -> Self {
        let mut loading = Self::of(page);
        loading.browser.takes_priorities(0);
        loading
    }

    fn of(page: Page) -> Self {
        let browser = Browser::new(&rules::CHROMIUM, &page, true);
        let mut loading = Self { page, browser };
        assert_eq!(loading.requests(), ["object-1"], "the document");
        loading.browser.commit();
        loading
    }

    fn requests(&mut self) -> Vec<String> {
        while let Some(object) = self.browser.next_found() {
            self.browser.request(object);
        }
        while let Some(object) = self.browser.next_dispatched() {
            self.browser.receive(object);
        }
        let mut names = Vec::new();
        while let Some(object) = self.browser.next_request() {
            names.push(self.page.objects[object].name[1..].to_owned());
        }
        names
    }

    fn index(&self, name: &str) -> usize {
        let found = self.page.objects.iter().position(|object| object.name[1..] == *name);
        found.expect("an object of the page")
    }

    /// Delivers data until `bytes` bytes of the document have arrived.
    fn html(&mut self, bytes: u64) -> Vec<String> {
        self.browser.delivered(0, bytes);
        self.requests()
    }

    fn done(&mut self, name: &str) -> Vec<String> {
        let index = self.index(name);
        self.browser.finished(index);
        self.requests()
    }

    fn priority(&self, name: &str) -> LoadPriority {
        self.browser.priority(self.index(name))
    }
}

#[test]
fn objects_are_found_at_their_offset_also_behind_a_blocking_script() {
    let mut loading =
        Loading::prioritised(page([named("js1", 100), named("js2", 200), named("css1", 5_000)]));
    assert_eq!(loading.html(99), [""; 0]);
    assert_eq!(loading.html(150), ["js1"]);
    assert_eq!(loading.html(4_999), ["js2"]);
    assert_eq!(loading.html(5_000), ["css1"], "js1 has not arrived, but the preload scanner goes on");
    assert_eq!(loading.done("object-1"), [""; 0]);
}

#[test]
fn a_document_is_read_when_it_has_been_committed() {
    let page = page([named("css1", 100), named("img1", 9_000)]);
    let mut loading = Loading { browser: Browser::new(&rules::CHROMIUM, &page, true), page };
    assert_eq!(loading.requests(), ["object-1"]);
    assert!(loading.browser.is_committed_later(0) && !loading.browser.is_committed_later(1));
    assert_eq!(loading.html(5_000), [""; 0]);
    loading.browser.commit();
    assert_eq!(loading.requests(), ["css1"]);
    assert!(!loading.browser.is_committed_later(0));
    let mut loading = Loading { browser: Browser::new(&rules::CHROMIUM, &loading.page, true), ..loading };
    loading.requests();
    assert_eq!(loading.done("object-1"), [""; 0]);
    loading.browser.commit();
    assert_eq!(loading.requests(), ["css1", "img1"]);
}

#[test]
fn tight_mode_lets_two_medium_images_pass_and_ends_when_the_body_begins() {
    let images = (1..=8).map(|n| named(&format!("img{n}"), 2_000 + n));
    let mut loading =
        Loading::prioritised(page([named("css1", 100), named("js1", 200)].into_iter().chain(images)));
    assert_eq!(loading.html(10_000), ["css1", "js1", "img1", "img2"]);
    assert_eq!(loading.done("img1"), ["img3"], "one of two medium requests has ended");
    assert_eq!(loading.done("css1"), [""; 0], "the parser waits for the script");
    assert_eq!(loading.done("js1"), ["img4", "img5", "img6", "img7", "img8"]);
    use LoadPriority::{High, Low, Medium, VeryHigh};
    let priorities = ["css1", "js1", "img1", "img5", "img6"].map(|name| loading.priority(name));
    assert_eq!(priorities, [VeryHigh, High, Medium, Medium, Low], "five images are boosted");
}

#[test]
fn low_requests_run_in_tight_mode_only_if_fewer_than_two_requests_run() {
    let mut js3 = named("js3", 300);
    js3.reference.script = Some(ScriptMode::Async);
    let mut loading =
        Loading::prioritised(page([named("js1", 100), named("js2", 200), js3, named("css1", 9_000)]));
    assert_eq!(loading.html(500), ["js1", "js2"]);
    assert_eq!(loading.priority("js3"), LoadPriority::Low);
    assert_eq!(loading.done("js2"), ["js3"]);
}

#[test]
fn modules_have_priority_high_and_are_requested_when_their_importer_has_arrived() {
    let in_mode = |name: &str, offset: u64, mode: ScriptMode| {
        let mut script = named(name, offset);
        script.reference.script = Some(mode);
        script
    };
    let mut import = in_mode("js3", 0, ScriptMode::AsyncModule);
    (import.initiator, import.reference.offset) = (Some(1), None);
    let mut inserted = named("js4", 0);
    inserted.initiator = Some(1);
    inserted.reference.priority = Some(LoadPriority::High);
    let modules = [in_mode("js1", 100, ScriptMode::Module), in_mode("js2", 200, ScriptMode::AsyncModule)];
    let mut loading = Loading::prioritised(page(modules.into_iter().chain([import, inserted])));
    assert_eq!(loading.html(900), ["js1", "js2"]);
    assert_eq!(loading.done("js1"), ["js3"], "the document is not parsed, so the module is not executed");
    assert_eq!(loading.done("object-1"), ["js4"]);
    for name in ["js1", "js2", "js3", "js4"] {
        assert_eq!(loading.priority(name), LoadPriority::High, "{name}");
    }
}

#[test]
fn a_preloaded_script_stops_the_parser_only_where_it_is_used() {
    let preloaded = |used_at| {
        let mut script = named("js1", 100);
        (script.reference.preload, script.reference.used_at) = (true, used_at);
        let mut inserted = named("part", 0);
        inserted.initiator = Some(1);
        let low = named("img1", 2_000);
        let mut low = [
            low.clone(),
            Object { name: "/img2".into(), ..low.clone() },
            Object { name: "/img3".into(), ..low },
        ];
        low.iter_mut().for_each(|image| image.reference.fetch_priority = Some(FetchPriority::Low));
        Loading::prioritised(page([script, inserted].into_iter().chain(low)))
    };
    let mut unused = preloaded(None);
    assert_eq!(unused.html(10_000), ["js1", "img1", "img2", "img3"], "tight mode has ended");
    assert_eq!(unused.priority("js1"), LoadPriority::High);
    assert_eq!(unused.done("js1"), ["part"]);
    let mut used = preloaded(Some(500));
    assert_eq!(used.html(10_000), ["js1", "img1"], "the parser waits, and two requests run");
    assert_eq!(used.done("js1"), ["part", "img2", "img3"]);
}

#[test]
fn fetch_priority_raises_and_lowers() {
    let with = |name: &str, offset: u64, hint| {
        let mut object = named(name, offset);
        object.reference.fetch_priority = Some(hint);
        object
    };
    use FetchPriority::{High, Low};
    let mut font = named("font1", 400);
    font.reference.preload = true;
    let mut beacon = named("beacon1", 500);
    (beacon.reference.kind, beacon.reference.priority) =
        (Some(ResourceType::Other), Some(LoadPriority::VeryLow));
    let objects = [with("css1", 100, Low), with("js1", 200, Low), with("img1", 2_000, High), font, beacon];
    let mut loading = Loading::prioritised(page(objects));
    loading.html(10_000);
    let priorities = ["css1", "js1", "img1", "font1", "beacon1"].map(|name| loading.priority(name));
    use LoadPriority as P;
    assert_eq!(priorities, [P::High, P::Low, P::High, P::High, P::VeryLow]);
}

#[test]
fn a_blocking_script_waits_for_the_style_sheets_before_it() {
    let mut inserted = Object::new("/part", 10);
    inserted.initiator = Some(2);
    inserted.reference.by_script = true;
    inserted.reference.kind = Some(ResourceType::Fetch);
    let mut loading = Loading::prioritised(page([named("css1", 100), named("js1", 200), inserted]));
    assert_eq!(loading.html(10_000), ["css1", "js1"]);
    assert_eq!(loading.done("js1"), [""; 0]);
    assert_eq!(loading.done("css1"), ["part"], "the script is executed");
}

#[test]
fn deferred_scripts_are_executed_in_order_when_the_document_is_parsed() {
    let deferred = |name: &str, offset: u64| {
        let mut script = named(name, offset);
        script.reference.script = Some(ScriptMode::Defer);
        script
    };
    let inserted = |name: &str, by: usize| {
        let mut object = Object::new(name, 10);
        (object.initiator, object.reference.kind) = (Some(by), Some(ResourceType::Fetch));
        object
    };
    let objects = [deferred("js1", 100), deferred("js2", 200), inserted("/a", 1), inserted("/b", 2)];
    let mut loading = Loading::prioritised(page(objects));
    assert_eq!(loading.html(2_000), ["js1", "js2"]);
    assert_eq!(loading.done("js2"), [""; 0]);
    assert_eq!(loading.done("object-1"), [""; 0]);
    assert_eq!(loading.done("js1"), ["a", "b"]);
}

#[test]
fn fonts_are_requested_when_the_document_is_rendered() {
    let mut font = named("font1", 0);
    font.initiator = Some(1);
    let mut loading = Loading::prioritised(page([named("css1", 100), named("css2", 200), font]));
    assert_eq!(loading.html(10_000), ["css1", "css2"]);
    assert_eq!(loading.done("css1"), [""; 0], "another style sheet of the head is missing");
    assert_eq!(loading.done("css2"), ["font1"]);
    assert_eq!(loading.priority("font1"), LoadPriority::VeryHigh);
}

#[test]
fn late_scripts_and_style_sheets_have_priority_medium() {
    let mut loading = Loading::prioritised(page([
        named("js1", 100),
        named("img1", 2_000),
        named("js2", 3_000),
        named("css2", 4_000),
    ]));
    loading.html(10_000);
    let priorities = ["js1", "js2", "css2"].map(|name| loading.priority(name));
    assert_eq!(priorities, [LoadPriority::High, LoadPriority::Medium, LoadPriority::Medium]);
}

#[test]
fn a_host_that_takes_no_priorities_gets_six_requests_and_a_page_ten_delayable_ones() {
    let images = |page: &mut Page, hosts: usize| {
        page.hosts = (0..hosts).map(|host| format!("host-{host}")).collect();
        page.coalesce = (0..hosts).collect();
        (0..20)
            .map(|n| Object { host: n % hosts, ..named(&format!("img{n}"), 2_000 + n as u64) })
            .collect::<Vec<_>>()
    };
    let mut one = page([]);
    let own = images(&mut one, 1);
    one.objects.extend(own);
    let mut loading = Loading::of(one.clone());
    assert_eq!(loading.html(9_000).len(), 6);
    assert_eq!(loading.done("img0"), ["img6"]);
    loading.browser.takes_priorities(0);
    assert_eq!(loading.requests(), [""; 0], "the waiting requests are not looked at before one ends");
    assert_eq!(loading.done("img1").len(), 13);
    let mut many = page([]);
    let own = images(&mut many, 4);
    many.objects.extend(own);
    let mut loading = Loading::of(many);
    assert_eq!(loading.html(10_000).len(), 10);
}

#[test]
fn a_slow_network_lets_fewer_delayable_requests_run() {
    let mut page = page([named("fetch1", 1_500)]);
    page.hosts = (0..4).map(|host| format!("host-{host}")).collect();
    (page.coalesce, page.public) = ((0..4).collect(), vec![0]);
    let images = (0..20).map(|n| Object { host: n % 4, ..named(&format!("img{n}"), 2_000 + n as u64) });
    page.objects.extend(images);
    let mut loading = Loading::of(page);
    assert_eq!(loading.html(10_000).len(), 11, "ten images and a request of a script");
    let answered = |loading: &mut Loading, name: &str, rtt: u64| {
        let index = loading.index(name);
        loading.browser.answered(index, Duration::from_millis(rtt));
    };
    answered(&mut loading, "object-1", 160);
    (0..9).for_each(|_| answered(&mut loading, "img1", 9_000));
    assert_eq!(loading.done("img0"), ["img10"], "a host without a public address is not measured");
    (0..4).for_each(|_| answered(&mut loading, "fetch1", 400));
    for name in ["img1", "img2", "img3", "img4", "img5"] {
        assert_eq!(loading.done(name), [""; 0], "{name}: the request of the script counts as three of eight");
    }
    assert_eq!(loading.done("img6"), ["img11"]);
    assert_eq!(loading.done("fetch1"), ["img12", "img13", "img14"]);
    (0..20).for_each(|_| answered(&mut loading, "img4", 50));
    assert_eq!(loading.requests(), ["img15", "img16"], "the median is below 272 ms");
}

#[test]
fn a_request_waits_at_a_limit_for_at_most_15_s_and_longer_on_2g() {
    let images =
        |page: &mut Page| (0..8).for_each(|n| page.objects.push(named(&format!("img{n}"), 2_000 + n)));
    let overdue_after = |loading: &mut Loading, seconds: u64| {
        loading.browser.set_time(Instant::from_millis(seconds * 1_000));
        loading.browser.start_overdue();
        loading.requests()
    };
    let mut page = page([]);
    images(&mut page);
    page.public = vec![0];
    let mut loading = Loading::of(page.clone());
    loading.browser.set_time(Instant::from_millis(2_000));
    assert_eq!(loading.html(10_000).len(), 6);
    assert!(loading.browser.has_waiting());
    assert_eq!(overdue_after(&mut loading, 16), [""; 0]);
    assert_eq!(overdue_after(&mut loading, 17), ["img6", "img7"]);
    assert!(!loading.browser.has_waiting());
    for (rtt, longest) in [(1_500, 54), (2_010, 108)] {
        let mut loading = Loading::of(page.clone());
        (0..4).for_each(|_| loading.browser.answered(0, Duration::from_millis(rtt)));
        assert_eq!(loading.html(10_000).len(), 6);
        assert_eq!(overdue_after(&mut loading, longest - 1), [""; 0]);
        assert_eq!(overdue_after(&mut loading, longest), ["img6", "img7"]);
    }
}

#[test]
fn a_layout_raises_the_priority_of_visible_images() {
    let images = (0..10).map(|n| named(&format!("img{n}"), 2_000 + n));
    let mut page = page(std::iter::once(named("css1", 100)).chain(images));
    page.objects[11].reference.priority = Some(LoadPriority::High);
    let mut loading = Loading::of(page);
    assert_eq!(loading.html(9_000), ["css1", "img0", "img1", "img2", "img3", "img4"]);
    assert_eq!(loading.priority("img9"), LoadPriority::Low);
    assert_eq!(loading.done("css1"), ["img5", "img9"], "img9 does not wait for one of six requests");
    assert_eq!(loading.priority("img9"), LoadPriority::High);
    assert!(loading.browser.take_reprioritized() && !loading.browser.take_reprioritized());
}

#[test]
fn urgency_and_incremental_follow_from_priority_and_kind() {
    let stated = |priority, kind| priority::stated(priority, kind).to_string();
    assert_eq!(stated(LoadPriority::VeryHigh, ResourceType::Document), "u=0, i");
    assert_eq!(stated(LoadPriority::VeryHigh, ResourceType::Stylesheet), "u=0");
    assert_eq!(stated(LoadPriority::High, ResourceType::Script), "u=1");
    assert_eq!(stated(LoadPriority::Medium, ResourceType::Image), "u=2, i");
    assert_eq!(stated(LoadPriority::Low, ResourceType::Image), "u=3, i");
    assert_eq!(stated(LoadPriority::VeryLow, ResourceType::Image), "u=4, i");
}

#[test]
fn a_script_in_the_text_waits_for_the_parser_and_the_style_sheets() {
    let inserted = |name: &str, offset| {
        let mut object = named(name, 0);
        (object.reference.offset, object.reference.by_script) = (offset, true);
        object
    };
    let objects =
        [named("css1", 100), inserted("js1", Some(300)), inserted("js2", None), named("img1", 3_000)];
    let page = page(objects);
    assert_eq!(Layout::of(&page).resources[3].found, layout::Found::ByInlineScript(1_001));
    let mut loading = Loading::prioritised(page);
    assert_eq!(loading.html(10_000), ["css1", "img1"]);
    assert_eq!(loading.done("css1"), ["js1", "js2"]);
    assert_eq!(["js1", "js2"].map(|name| loading.priority(name)), [LoadPriority::Low; 2]);
}

#[test]
fn a_frame_that_causes_more_objects_is_not_the_document() {
    let mut frame = named("frame", 100);
    frame.reference.kind = Some(ResourceType::Document);
    let inside = (0..5).map(|n| Object { initiator: Some(2), ..named(&format!("img{n}"), 10) });
    let page = page([named("js1", 50), frame].into_iter().chain(inside));
    let layout = Layout::of(&page);
    assert_eq!((layout.document, layout.navigations), (0, vec![0]));
    let mut redirected = page;
    redirected.objects[2].reference.redirected = true;
    let layout = Layout::of(&redirected);
    assert_eq!((layout.document, layout.navigations), (2, vec![2, 0]));
}

#[test]
fn unknown_offsets_are_assumed() {
    let bare = |name: &str| {
        let mut object = named(name, 0);
        object.reference.offset = None;
        object
    };
    let mut page = page([bare("css1"), bare("img1"), bare("js1"), bare("img2")]);
    page.body_start = None;
    let layout = Layout::of(&page);
    assert_eq!(layout.body_start, 200, "two references stand in the head");
    let offsets = layout.resources[1..].iter().map(|resource| match resource.found {
        layout::Found::InText { offset, .. } => offset,
        _ => panic!("the document names it"),
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [100, 3_466, 200, 6_733]);
}

#[test]
fn the_shipped_pages_are_found_whole() {
    for name in crate::har::shipped::NAMES {
        let page = crate::har::shipped::named(name).expect("a page");
        let count = page.objects.len();
        let mut loading = Loading { browser: Browser::new(&rules::CHROMIUM, &page, true), page };
        let mut in_flight = loading.requests();
        loading.browser.commit();
        let mut requested = in_flight.len();
        while let Some(name) = in_flight.pop() {
            let more = loading.done(&name);
            requested += more.len();
            in_flight.extend(more);
        }
        assert_eq!(requested, count, "{name}");
    }
}

/// Loads `page` over a link that delivers 1,250 bytes each millisecond, in the order of the requests. A response begins
/// 80 ms after its request. Returns a line for each millisecond in which requests are sent.
fn timeline(page: &Page) -> Vec<String> {
    let rules = &rules::CHROMIUM;
    let mut browser = Browser::new(rules, page, true);
    browser.takes_priorities(0);
    let (commit, dispatch) = (rules.commit.as_millis() as u64, rules.dispatch.as_millis() as u64);
    // The requests on their way to the network service, with their times of arrival, and the time at which the document
    // is committed.
    let (mut passing, mut committed) = (VecDeque::<(u64, usize)>::new(), u64::MAX);
    let mut answers = VecDeque::<(u64, usize, u64)>::new();
    let mut lines = Vec::new();
    for now in 0..2_000 {
        let mut room = 1_250;
        while let Some((ready, object, received)) = answers.front_mut().filter(|(ready, ..)| *ready <= now) {
            if browser.is_committed_later(*object) && committed == u64::MAX {
                committed = *ready + commit;
            }
            let bytes = u64::min(room, page.objects[*object].body - *received);
            (room, *received) = (room - bytes, *received + bytes);
            browser.delivered(*object, *received);
            if *received < page.objects[*object].body {
                break;
            }
            browser.finished(*object);
            answers.pop_front();
        }
        if now == committed {
            browser.commit();
        }
        while let Some(object) = browser.next_found() {
            browser.request(object);
        }
        while let Some(object) = browser.next_dispatched() {
            passing.push_back((now + dispatch, object));
        }
        while let Some((_, object)) = passing.front().copied().filter(|(at, _)| *at <= now) {
            passing.pop_front();
            browser.receive(object);
        }
        let mut names = Vec::new();
        while let Some(object) = browser.next_request() {
            answers.push_back((now + 80, object, 0));
            names.push(page.objects[object].name[1..].to_owned());
        }
        if !names.is_empty() {
            lines.push(format!("{now}: {}", names.join(" ")));
        }
    }
    lines
}

#[test]
fn the_phases_of_a_page_are_as_in_chromium() {
    let mut objects = vec![named("css1", 200), named("js1", 300), named("js2", 400)];
    objects.extend((1..=7).map(|n| named(&format!("img{n}"), 1_000 * n + 2_000)));
    let mut font = named("font1", 0);
    font.initiator = Some(1);
    let mut fetch = named("part1", 0);
    fetch.initiator = Some(3);
    objects.extend([font, fetch]);
    for (object, kb) in objects.iter_mut().zip([20, 30, 40]) {
        object.body = kb * 1_000;
    }
    let lines = timeline(&page(objects));
    let expected = [
        "0: object-1",
        // The first byte came at 80 ms, the document was committed at 101 ms, and the requests arrived at 121 ms. (Their
        // own processor time is not part of this test.)
        "121: css1 js1 js2 img1 img2",
        // The 90,000 bytes of the head arrived from 201 to 272 ms. Then the body begins, and the document is rendered.
        "292: part1 font1 img3 img4 img5 img6 img7",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn first_rendering_waits_for_the_head_and_not_for_the_body() {
    let objects = [named("js1", 100), named("css1", 200), named("js2", 300), named("css2", 5_000)];
    let mut deferred = named("js3", 400);
    deferred.reference.script = Some(ScriptMode::Defer);
    let mut loading = Loading::prioritised(page(objects.into_iter().chain([deferred])));
    loading.html(6_000);
    assert!(!loading.browser.has_rendered(), "the parser waits for js1");
    loading.done("js1");
    loading.done("js2");
    assert!(!loading.browser.has_rendered(), "js2 waits for css1");
    loading.done("css1");
    assert!(loading.browser.has_rendered(), "css2 and js3 are not in the way");
}
