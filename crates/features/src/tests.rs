//! Tests of the tables of protocol features. Every difference between our table and the published table must have an
//! explanation.

use super::*;

#[test]
fn every_cell_agrees_with_the_published_table_or_says_why_not() {
    let features = run(|_| {}).expect("every probe runs");
    assert_eq!((features.rows.len(), features.rows.len() + features.extra.len()), (16, ROWS));
    assert_eq!(features.unexplained(), 0, "{}", features.render());
    for line in &features.rows {
        for column in &line.cells {
            assert!(column.published.is_some(), "{} has no published cell", line.feature);
        }
    }
    expect_test::expect![[r#"
        rows of the published table: what we find (was: what is published, where it differs)

                                                  UDP                   TCP                   SCTP
        full-duplex data transmission             yes                   yes                   yes
        connection-oriented                       no                    yes                   yes
        reliable data transfer                    no                    yes                   yes
        partially reliable data transfer          no                    no                    optional
        ordered data delivery                     no                    yes                   yes
        unordered data delivery                   yes                   no                    yes
        flow and congestion control               no                    yes                   yes
        explicit congestion notification support  no                    optional (was yes)    optional (was yes)
        selective acknowledgements                no                    optional              yes
        preservation of message boundaries        yes                   no                    yes
        path MTU discovery                        no                    yes                   yes
        application data fragmentation/bundling   no                    yes                   yes
        multistreaming                            no                    no                    yes
        multihoming                               no                    no                    yes
        protection against SYN flooding           n/a                   optional (was no)     yes
        half-closed connection                    n/a                   yes                   no

        further rows

                                        UDP                   TCP                   SCTP
        data before the set-up is done  yes                   yes                   yes
        interleaving of large messages  no                    no                    optional
        stream reset                    no                    no                    optional
        restart of a peer is told       no                    no                    yes
        path MTU black hole survived    no                    no                    optional
        authentication of chunks        no                    no                    optional
        failover within seconds         no                    no                    optional
        change of address under way     no                    no                    optional
    "#]].assert_eq(&features.tables());
    let again = run(|_| {}).expect("again");
    assert!(features == again, "the same probes find the same");
}

#[test]
fn ladders_show_what_their_titles_say() {
    let drawings = ladders::all().expect("every ladder");
    let of = |title: &str| -> &Drawing {
        drawings.iter().find(|drawing| drawing.title.contains(title)).expect("a ladder of this title")
    };
    assert_eq!(of("4-way set-up of SCTP, data in the third").ladder.matches("COOKIE ECHO; DATA").count(), 1);
    assert_eq!(of("4-way set-up of SCTP, data after it").ladder.matches("COOKIE ECHO; DATA").count(), 0);
    for title in ["data in the third", "data after it"] {
        assert!(of(title).ladder.contains("COOKIE ACK"), "the fourth leg is drawn");
    }
    let published =
        [&ladders::SETUPS[..], &ladders::ENDINGS].map(|columns| ladders::side_by_side(columns, &drawings));
    expect_test::expect![[r#"
        begun and ended
           SCTP                          SCTP, cookie_data=no    TCP
           0.000 ──► INIT                0.000 ──► INIT          0.000 ──► SYN
           0.040 ◄── INIT ACK            0.040 ◄── INIT ACK      0.040 ◄── SYN ACK
           0.040 ──► COOKIE ECHO; DATA   0.040 ──► COOKIE ECHO   0.040 ──► ACK
           0.080 ◄── COOKIE ACK; SACK    0.080 ◄── COOKIE ACK    0.041 ──► PSH ACK
                                         0.080 ──► DATA          0.081 ◄── ACK
                                         0.120 ◄── SACK

           SCTP                          TCP
           1.081 ──► SHUTDOWN            1.061 ──► FIN ACK
           1.121 ◄── SHUTDOWN ACK        1.101 ◄── ACK
           1.121 ──► SHUTDOWN COMPLETE   1.102 ◄── FIN ACK
                                         1.102 ──► ACK
    "#]]
    .assert_eq(&format!("begun and ended\n{}", published.join("\n")));
    assert_eq!(of("3-way termination").ladder.lines().count(), 3);
    assert_eq!(of("4-way termination").ladder.lines().count(), 4);
    assert!(of("three streams").ladder.contains("sid=2 ssn=1"));
    assert!(of("addresses").ladder.contains("A2 ──► B2"));
}
