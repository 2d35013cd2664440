//! Damaged copies of PDUs, the same in every run.

use kraft::tape::{Event, Tape, Value};

use super::random::Random;

/// Bytes at the edges of what an encoding can say.
const EDGES: [u8; 6] = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff];
/// The largest counts and lengths: uvarint, int16 and int32, too long a uvarint.
const HUGE: [&[u8]; 5] =
    [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x7f, 0xff], &[0x7f, 0xff, 0xff, 0xff], &[0xff; 6], &[0x81, 0x80, 0x00]];

/// A damaged copy of a PDU, and the length of the frame it stands in: mostly that of the copy, at times more than that.
pub fn damaged(pdu: &[u8], tape: &Tape, random: &mut Random) -> (Vec<u8>, u32) {
    let mut bytes = pdu.to_vec();
    for _ in 0..=random.below(3) {
        damage(&mut bytes, tape, random);
    }
    let sent = bytes.len();
    if random.below(8) == 0 {
        bytes.truncate(random.below(sent + 1));
    }
    if let (Some(size), false) = (bytes.first_chunk_mut(), random.below(16) == 0) {
        *size = (sent as u32).saturating_sub(4).to_be_bytes();
    }
    (bytes, sent as u32)
}

/// Damages one place.
fn damage(bytes: &mut Vec<u8>, tape: &Tape, random: &mut Random) {
    let at = random.below(bytes.len());
    let end = (at + 1 + random.below(8)).min(bytes.len());
    match random.below(7) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = EDGES[random.below(EDGES.len())]),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.extend_from_within(at..end),
        5 => drop(bytes.splice(at..at, (0..random.below(8)).map(|_| random.below(256) as u8).collect::<Vec<_>>())),
        _ => blow_up(bytes, tape, random),
    }
}

/// Puts a huge number in the place of a count or a length.
fn blow_up(bytes: &mut Vec<u8>, tape: &Tape, random: &mut Random) {
    let prefixes: Vec<(u32, u8)> = tape.events().iter().filter_map(prefix).collect();
    if let Some(&(at, len)) = prefixes.get(random.below(prefixes.len())) {
        let (at, end) = (at as usize, at as usize + usize::from(len));
        if end <= bytes.len() {
            bytes.splice(at..end, HUGE[random.below(HUGE.len())].iter().copied());
        }
    }
}

fn prefix(event: &Event) -> Option<(u32, u8)> {
    match *event {
        Event::Open { at, prefix, .. } if prefix > 0 => Some((at, prefix)),
        Event::Leaf { at, value: Value::Text { prefix }, .. } => Some((at, prefix)),
        Event::Leaf { at, len, value: Value::Null, .. } => Some((at, len as u8)),
        _ => None,
    }
}
