//! tshark's own account of a packet (PDML), as far as it is about this protocol.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

/// An item of the protocol tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its filter name.
    pub filter: String,
    /// Offset of its first byte from the beginning of the PDU.
    pub at: u32,
    /// Bytes it covers; 0 for a generated one.
    pub len: u32,
    /// Its value.
    pub show: String,
}

/// The items of each PDU, by the frame that shows it; within a frame in the order of the PDUs.
pub fn pdus(pdml: &str) -> BTreeMap<u32, Vec<Vec<Item>>> {
    let clean: String = pdml.chars().filter(|c| !c.is_control() || c.is_ascii_whitespace()).collect();
    let document = Document::parse(&clean).expect("PDML is XML");
    let packets = document.descendants().filter(|node| node.has_tag_name("packet"));
    packets.map(|packet| (frame_number(packet), protocols(packet))).filter(|(_, pdus)| !pdus.is_empty()).collect()
}

fn frame_number(packet: Node) -> u32 {
    let number = packet.descendants().find(|node| node.attribute("name") == Some("frame.number"));
    number.and_then(|node| node.attribute("show")?.parse().ok()).expect("a packet has a number")
}

fn protocols(packet: Node) -> Vec<Vec<Item>> {
    packet.children().filter(|node| node.attribute("name") == Some("kraft")).map(items).collect()
}

fn items(protocol: Node) -> Vec<Item> {
    let start = number(protocol, "pos");
    let fields = protocol.descendants().filter(|node| node.has_tag_name("field"));
    let ours = fields.filter(|node| node.attribute("name").is_some_and(|name| name.starts_with("kraft.")));
    ours.map(|node| Item {
        filter: node.attribute("name").unwrap_or_default().to_owned(),
        // What covers nothing stands nowhere.
        at: if number(node, "size") == 0 { 0 } else { number(node, "pos").saturating_sub(start) },
        len: number(node, "size"),
        show: show(node.attribute("show").unwrap_or_default()),
    })
    .collect()
}

/// Booleans are numbers in Wireshark 4.0 and words later.
fn show(text: &str) -> String {
    match text {
        "True" => "1".to_owned(),
        "False" => "0".to_owned(),
        _ => text.to_owned(),
    }
}

fn number(node: Node, attribute: &str) -> u32 {
    node.attribute(attribute).and_then(|text| text.parse().ok()).unwrap_or(0)
}
