//! Tests how our server reacts to a client that violates the rules of control streams (RFC 9114 §5.2, §6.2, §7.2) or of
//! QPACK (RFC 9204).

use super::*;

#[test]
fn control_streams_are_held_to_their_rules() {
    let created = Connection(Code::H3_STREAM_CREATION_ERROR);
    let closed = Connection(Code::H3_CLOSED_CRITICAL_STREAM);
    let unexpected = Connection(Code::H3_FRAME_UNEXPECTED);
    let wrong_id = Connection(Code::H3_ID_ERROR);
    let wrong_length = Connection(Code::H3_FRAME_ERROR);
    let wrong_setting = Connection(Code::H3_SETTINGS_ERROR);
    let max_push_id = |id: u8| frame(13, &[id]);
    let goaway = |id: u8| frame(GOAWAY, &[id]);
    let rows = vec![
        ("9114 §6.2 an end before the type", vec![OneWayEnd(vec![])], Status(200)),
        ("9114 §6.2 an end within the type", vec![OneWayEnd(vec![0x40])], Status(200)),
        ("9114 §6.2.3 a reserved type", vec![OneWay(vec![0x21, 1, 2, 3])], Status(200)),
        ("9114 §6.2.1 a second control stream", vec![control(&[]), control(&[])], created),
        ("9114 §6.2.1 the control stream ends", vec![OneWayEnd(CONTROL.to_vec())], closed),
        ("9114 §6.2.1 the control stream is reset", vec![OneWayReset(CONTROL.to_vec())], closed),
        ("9114 §6.2.1 our control stream is stopped", vec![StopControl], closed),
        (
            "9114 §6.2.1 GOAWAY first",
            vec![OneWay([&[0][..], &goaway(0)].concat())],
            Connection(Code::H3_MISSING_SETTINGS),
        ),
        (
            "9114 §6.2.1 an unknown frame first",
            vec![OneWay([&[0][..], &grease()].concat())],
            Connection(Code::H3_MISSING_SETTINGS),
        ),
        ("9114 §6.2.2 a push stream of a client", vec![OneWay(vec![1, 0])], created),
        ("9114 §5.2 GOAWAY", vec![control(&[&goaway(8), &goaway(4)])], Status(200)),
        ("9114 §5.2 GOAWAY grows", vec![control(&[&goaway(4), &goaway(8)])], wrong_id),
        ("9114 §7.1 GOAWAY without an identifier", vec![control(&[&frame(GOAWAY, &[])])], wrong_length),
        ("9114 §7.1 GOAWAY with more", vec![control(&[&frame(GOAWAY, &[0, 0])])], wrong_length),
        ("9114 §7.1 GOAWAY with half an identifier", vec![control(&[&frame(GOAWAY, &[0x40])])], wrong_length),
        ("9114 §7.1 a long GOAWAY", vec![control(&[&frame(GOAWAY, &[0; 9])])], wrong_length),
        ("9114 §7.2.1 DATA", vec![control(&[&frame(DATA, b"a")])], unexpected),
        ("9114 §7.2.2 HEADERS", vec![control(&[&get()])], unexpected),
        ("9114 §7.2.3 CANCEL_PUSH of what was not promised", vec![control(&[&frame(3, &[0])])], wrong_id),
        (
            "9114 §7.2.3 the same where it would be allowed",
            vec![control(&[&max_push_id(9), &frame(3, &[1])])],
            wrong_id,
        ),
        ("9114 §7.2.4 SETTINGS twice", vec![control(&[&frame(SETTINGS, &[])])], unexpected),
        ("9114 §7.2.4 a setting twice", vec![settings(&[6, 1, 6, 1])], wrong_setting),
        ("9114 §7.2.4.1 a reserved setting", vec![settings(&[0x21, 0])], Status(200)),
        ("9114 §7.2.4.1 setting 0", vec![settings(&[0, 0])], wrong_setting),
        ("9114 §7.2.4.1 setting 2", vec![settings(&[2, 0])], wrong_setting),
        ("9114 §7.2.4.1 setting 3", vec![settings(&[3, 0])], wrong_setting),
        ("9114 §7.2.4.1 setting 4", vec![settings(&[4, 0])], wrong_setting),
        ("9114 §7.2.4.1 setting 5", vec![settings(&[5, 0])], wrong_setting),
        ("9114 §7.1 a setting without a value", vec![settings(&[6])], wrong_length),
        ("9114 §7.2.5 PUSH_PROMISE", vec![control(&[&frame(5, &[0])])], unexpected),
        ("9114 §7.2.7 MAX_PUSH_ID", vec![control(&[&max_push_id(4), &max_push_id(9)])], Status(200)),
        ("9114 §7.2.7 MAX_PUSH_ID shrinks", vec![control(&[&max_push_id(9), &max_push_id(4)])], wrong_id),
        ("9114 §7.2.8 type 2", vec![control(&[&frame(2, &[])])], unexpected),
        ("9114 §7.2.8 type 6", vec![control(&[&frame(6, &[])])], unexpected),
        ("9114 §7.2.8 type 8", vec![control(&[&frame(8, &[])])], unexpected),
        ("9114 §7.2.8 type 9", vec![control(&[&frame(9, &[])])], unexpected),
        ("9114 §7.2.8 a reserved type", vec![control(&[&grease()])], Status(200)),
        (
            "9218 §7.2 PRIORITY_UPDATE",
            vec![control(&[&[0x80, 0x0f, 7, 0, 4, 0, b'u', b'=', b'1']])],
            Status(200),
        ),
    ];
    check_rows(rows, reaction_to_client);
}

#[test]
fn qpack_is_held_to_its_rules() {
    let decompression = Connection(Code::QPACK_DECOMPRESSION_FAILED);
    let encoder = Connection(Code::QPACK_ENCODER_STREAM_ERROR);
    let decoder = Connection(Code::QPACK_DECODER_STREAM_ERROR);
    let created = Connection(Code::H3_STREAM_CREATION_ERROR);
    let closed = Connection(Code::H3_CLOSED_CRITICAL_STREAM);
    let with = |lines: &[u8]| encoded(&[&section(&GET)[..], lines].concat());
    let rows = vec![
        ("9204 §4.2 both streams", vec![OneWay(vec![2]), OneWay(vec![3])], Status(200)),
        ("9204 §4.2 a second encoder stream", vec![OneWay(vec![2]), OneWay(vec![2])], created),
        ("9204 §4.2 a second decoder stream", vec![OneWay(vec![3]), OneWay(vec![3])], created),
        ("9204 §4.2 the encoder stream ends", vec![OneWayEnd(vec![2])], closed),
        ("9204 §4.2 the decoder stream ends", vec![OneWayEnd(vec![3])], closed),
        ("9204 §4.2 the decoder stream is reset", vec![OneWayReset(vec![3])], closed),
        ("9204 §4.3.1 a capacity of 0", vec![OneWay(vec![2, 0x20])], Status(200)),
        ("9204 §4.3.1 a capacity beyond the limit", vec![OneWay(vec![2, 0x21])], encoder),
        ("9204 §3.2.2 an insert with a static name", vec![OneWay(vec![2, 0xc1, 1, b'a'])], encoder),
        ("9204 §2.2.3 an insert with a dynamic name", vec![OneWay(vec![2, 0x80, 1, b'a'])], encoder),
        ("9204 §4.3.3 an insert with a literal name", vec![OneWay(vec![2, 0x41, b'a', 1, b'a'])], encoder),
        ("9204 §4.3.4 a duplicate", vec![OneWay(vec![2, 0x00])], encoder),
        ("9204 §4.4.1 a section acknowledgment", vec![OneWay(vec![3, 0x80])], decoder),
        ("9204 §4.4.2 a stream cancellation", vec![OneWay(vec![3, 0x40])], Status(200)),
        ("9204 §4.4.3 an increment of 0", vec![OneWay(vec![3, 0x00])], decoder),
        ("9204 §4.4.3 an increment beyond what was sent", vec![OneWay(vec![3, 0x01])], decoder),
        ("9204 §4.5.1.1 a required insert count", vec![encoded(&[2, 0, 0x80])], decompression),
        ("9204 §4.5.1.2 a negative base", vec![encoded(&[0, 0x80, 0xd1])], decompression),
        ("9204 §4.5.1 an empty section", vec![encoded(&[])], decompression),
        ("9204 §3.1 beyond the static table", vec![with(&[0xff, 36])], decompression),
        ("9204 §3.1 a name beyond the static table", vec![with(&[0x5f, 84, 1, b'a'])], decompression),
        ("9204 §4.5.2 a dynamic field line", vec![with(&[0x80])], decompression),
        ("9204 §4.5.3 a post-base field line", vec![with(&[0x10])], decompression),
        ("9204 §4.5.4 a dynamic name", vec![with(&[0x40, 1, b'a'])], decompression),
        ("9204 §4.5.5 a post-base name", vec![with(&[0x00, 1, b'a'])], decompression),
        (
            "9204 §4.1.1 an integer of 63 bits",
            vec![with(&[&[0xff][..], &[0xff; 8], &[0x7f]].concat())],
            decompression,
        ),
        ("9204 §4.1.1 half an integer", vec![with(&[0xff])], decompression),
        ("9204 §4.1.2 half a string", vec![with(&[0x51, 9, b'/'])], decompression),
        ("7541 §5.2 EOS in a string", vec![with(&[0x5f, 80, 0x84, 0xff, 0xff, 0xff, 0xff])], decompression),
        ("7541 §5.2 padding of zeros", vec![with(&[0x5f, 80, 0x81, 0x18])], decompression),
        ("7541 §5.2 padding of a byte", vec![with(&[0x5f, 80, 0x82, 0x1f, 0xff])], decompression),
        ("9204 §4.5.4 a name of the static table", vec![with(&[0x5f, 80, 0x81, 0x1f])], Status(200)),
        (
            "9204 §2.2.3 in trailers",
            vec![Request([get(), frame(HEADERS, &[0, 0, 0x80])].concat())],
            decompression,
        ),
    ];
    check_rows(rows, reaction_to_client);
}
