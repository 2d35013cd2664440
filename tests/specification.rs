//! Golden test number one: the two sample messages of the specification page of API key 62 give its object tree, line for
//! line and offset for offset.

use kraft::dissect::{Look, Pdu, dissect};
use kraft::dump;
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::tape::Tape;

/// The smallest legal request: zero numbers, empty strings, one element an array (79 bytes).
const REQUEST: &str = "0000004b 003e0004 00000000 0000 00 00000000 01 00000000000000000000000000000000 \
                       02 01 01 0000 0000 00 02 01 0000 0000 00 01 00 02 00000000000000000000000000000000 \
                       0000000000000000 00";

/// The smallest legal response (24 bytes).
const RESPONSE: &str = "00000014 00000000 00 00000000 0000 0000000000000000 00";

fn bytes(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.replace(' ', "").as_bytes()).expect("the samples are hex")
}

fn object_tree(captured: &[u8], sender: Side, frame: u32, connection: ConnectionId, history: &mut History) -> String {
    let sighting = Sighting { frame, time_ns: 0 };
    let pdu = Pdu {
        captured,
        length: captured.len() as u32,
        sighting,
        connection,
        sender,
        server: Some(Side::B),
        source: 0,
        destination: 0,
        is_local: false,
        stray: false,
    };
    let mut tape = Tape::new();
    let summary = dissect(&pdu, Look::First, history, &mut tape);
    let mut text = String::new();
    dump::tree(&pdu, &tape, &summary, &mut text);
    text
}

#[test]
fn both_sample_messages_give_the_object_tree_of_the_specification_page() {
    let mut history = History::new();
    let connection = history.connect();
    let request = object_tree(&bytes(REQUEST), Side::A, 1, connection, &mut history);
    let response = object_tree(&bytes(RESPONSE), Side::B, 2, connection, &mut history);
    assert_eq!(request, include_str!("specification/request.txt"));
    assert_eq!(response, include_str!("specification/response.txt"));
}
