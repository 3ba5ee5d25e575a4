//! Runs the example `two_endpoints`. It has its own clock and its own losses, so it prints the same lines on every
//! machine.

#[allow(dead_code, reason = "a test has no use for the example's main")]
#[path = "../examples/two_endpoints.rs"]
mod two_endpoints;

use expect_test::expect;

#[test]
fn two_endpoints_without_a_network() {
    let lines = two_endpoints::run().expect("nothing fails");
    expect![[r#"
        0.060000000  server: message on stream 0, of 1000 bytes
        0.080000000  client: packet 5 is lost
        0.080000000  client: the association is up
        0.140000000  server: packet 10 is lost
        0.140000000  server: message on stream 2, of 3000 bytes
        1.100000000  server: message on stream 1, of 2000 bytes
        1.160000000  client: packet 15 is lost
        1.160000000  client: the association has ended: Shutdown
        2.180000000  server: the association has ended: Shutdown"#]]
    .assert_eq(&lines.join("\n"));
}
