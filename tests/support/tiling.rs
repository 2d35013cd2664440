//! The shape that every tape has.

use kraft::tape::Event;

/// Walks over a tape and gives the offset at which it ends.
///
/// Length prefixes of what is opened, and leaves, lie end to end: each begins where the one before it ends. So offsets never
/// go back, no byte belongs to two values, and none before the end belongs to no value. What is closed was opened, and its
/// range is that of what lies between.
///
/// # Panics
/// If it is not so.
pub fn tiled(events: &[Event]) -> u32 {
    let mut open = Vec::new();
    let mut end = 0;
    for event in events {
        match *event {
            Event::Open { at, len, prefix, .. } => {
                assert_eq!(at, end, "{event:?} does not begin where the value before it ends");
                open.push(at + len);
                end += u32::from(prefix);
            }
            Event::Leaf { at, len, .. } => {
                assert_eq!(at, end, "{event:?} does not begin where the value before it ends");
                end += len;
            }
            Event::Close => assert_eq!(open.pop(), Some(end), "what closes at {end} was opened with another end"),
            Event::Note { .. } => {}
        }
    }
    assert!(open.is_empty(), "{} events stay open", open.len());
    end
}
