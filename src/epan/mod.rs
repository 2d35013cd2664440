//! The half that knows Wireshark: registration, the functions that the C shim calls, painting.
//!
//! The way of a PDU (`shim.c` tells the reasons):
//!
//! ```text
//! epan ──► kraft_dissect_tcp ──► tcp_dissect_pdus ──► dissect_pdu ──► kraft_decode   no epan call, panics caught
//!                                                        │       └──► kraft_paint    inside the guard, owns nothing
//!                                                        └── raises what was caught, or asks for missing bytes
//! ```

#![allow(unsafe_code)]

mod paint;
mod register;
mod sys;
mod tap;

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dissect::{Look, Pdu, Summary, dissect};
use crate::framing::Segment;
use crate::pairing::{ConnectionId, History, Nature, PduId, Sighting};
use crate::recognize::{Side, opens_connection};
use crate::schema::Direction;
use crate::tape::{Stop, Tape};
use crate::wire::Halt;

/// What lives from one call of epan to the next: the memory of the open file, and the result of the last decoding.
struct State {
    history: History,
    tape: Tape,
    /// `None` after a panic in the decoder.
    summary: Option<Summary>,
    /// Scratch for texts, so that none is allocated for each item.
    text: String,
    /// Of the trees of counters that are shown.
    trees: tap::Trees,
}

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: epan dissects, opens and closes files in one thread; the plugin starts no other.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(None));

/// The state of the plugin.
///
/// # Safety
/// No other reference to it may be alive. The entry points below take it once each, and none of them runs inside another:
/// what they call of epan (only `kraft_paint` and those of the statistics do) does not dissect.
unsafe fn state() -> &'static mut State {
    // SAFETY: as the caller promises.
    unsafe { &mut *STATE.0.get() }.get_or_insert_with(|| State {
        history: History::new(),
        tape: Tape::new(),
        summary: None,
        text: String::new(),
        trees: tap::Trees::default(),
    })
}

/// A capture file is opened: nothing is remembered of the one before.
#[unsafe(no_mangle)]
extern "C" fn kraft_file_opened() {
    // SAFETY: epan calls this between dissections.
    let state = unsafe { state() };
    (state.history, state.trees) = (History::new(), tap::Trees::default());
}

/// The capture file is closed: its memory is given back.
#[unsafe(no_mangle)]
extern "C" fn kraft_file_closed() {
    // SAFETY: epan calls this between dissections, so that nobody holds a reference.
    unsafe { *STATE.0.get() = None };
}

/// A new connection; its number plus 1, so that 0 can stand for none.
#[unsafe(no_mangle)]
extern "C" fn kraft_connect() -> u32 {
    // SAFETY: called by the shim while no other entry point runs.
    unsafe { state() }.history.connect().0 + 1
}

/// A frame is dissected for the first time.
#[unsafe(no_mangle)]
extern "C" fn kraft_frame_begins() {
    // SAFETY: called by the shim while no other entry point runs.
    unsafe { state() }.history.begin_frame();
}

/// The number of the first PDU of a frame that has been dissected before, plus 1; 0 if it is not known.
#[unsafe(no_mangle)]
extern "C" fn kraft_first_of_frame(frame: u32) -> u32 {
    // SAFETY: called by the shim while no other entry point runs.
    unsafe { state() }.history.first_of_frame(frame).map_or(0, |PduId(id)| id + 1)
}

/// Whether a connection that begins with this segment is Kafka's.
#[unsafe(no_mangle)]
extern "C" fn kraft_opens_connection(segment: *const sys::kraft_segment) -> c_int {
    // SAFETY: the shim hands a segment of its own, and no other entry point runs.
    let (segment, state) = unsafe { ((*segment).view(), state()) };
    let opens = catch_unwind(AssertUnwindSafe(|| {
        opens_connection(segment.captured, segment.length, segment.max_size, &mut state.tape)
    }));
    opens.unwrap_or(false).into()
}

/// The sender of the next PDU is the client of its connection: what it sends opens one.
#[unsafe(no_mangle)]
extern "C" fn kraft_client_speaks(next: *const sys::kraft_pdu) {
    // SAFETY: the shim hands a struct of its own, and no other entry point runs.
    let (next, state) = unsafe { (&*next, state()) };
    if next.look() == Look::First {
        state.history.learn_client(next.connection(), next.sender());
    }
}

/// Whether a PDU begins with the segment. On later passes `next` names what was recorded of it.
#[unsafe(no_mangle)]
extern "C" fn kraft_begins_pdu(next: *const sys::kraft_pdu, segment: *const sys::kraft_segment) -> c_int {
    // SAFETY: the shim hands structs of its own, and no other entry point runs.
    let (next, segment, state) = unsafe { (&*next, (*segment).view(), state()) };
    let begins = match next.look() {
        Look::First => {
            let advance = || state.history.begins_pdu(next.connection(), next.sender(), &segment);
            catch_unwind(AssertUnwindSafe(advance)).unwrap_or(true)
        }
        Look::Again(id) => id.and_then(|id| state.history.nature(id)) != Some(Nature::Stray),
    };
    begins.into()
}

/// Decodes a PDU and remembers it. Calls nothing of epan.
#[unsafe(no_mangle)]
extern "C" fn kraft_decode(pdu: *mut sys::kraft_pdu) {
    // SAFETY: the shim hands a PDU of its own that nobody else looks at, and no other entry point runs.
    let (pdu, state) = unsafe { (&mut *pdu, state()) };
    // SAFETY: the shim got `captured` from epan for this packet.
    let decoded = unsafe { pdu.view() };
    let look = pdu.look();
    let State { history, tape, .. } = state;
    let id = history.next_id();
    history.register.session_timeout_ns = i64::from(pdu.session_timeout_ms) * 1_000_000;
    // A panic is a bug of ours, and costs this PDU only: what the history holds of it may be incomplete, never unsound.
    let summary = catch_unwind(AssertUnwindSafe(|| {
        panic_if_asked(decoded.captured, b"panic at once");
        let summary = dissect(&decoded, look, history, tape);
        panic_if_asked(decoded.captured, b"panic in dissect");
        summary
    }))
    .ok();
    match &summary {
        Some(summary) => pdu.tell(summary, &state.tape),
        None if look == Look::First => state.history.stand_in(id, decoded.connection, decoded.sighting),
        None => {}
    }
    state.summary = summary;
}

/// Shows what [`kraft_decode`] found, inside the guard.
#[unsafe(no_mangle)]
extern "C" fn kraft_paint(pdu: *mut sys::kraft_pdu) {
    // SAFETY: as in `kraft_decode`; an exception of epan leaves this function by longjmp, and then nothing of it is alive.
    let (pdu, state) = unsafe { (&*pdu, state()) };
    let painted = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the pointers in `pdu` are those epan gave the shim for this packet.
        unsafe { paint::paint(pdu, &pdu.view(), state.summary.as_ref(), &state.tape, &state.history, &mut state.text) };
        // SAFETY: as above.
        panic_if_asked(unsafe { pdu.view() }.captured, b"panic in paint");
    }));
    if painted.is_err() {
        // SAFETY: as above.
        unsafe { paint::paint_panic(pdu) };
    }
}

/// In a build for tests, panics at a PDU that holds these words.
fn panic_if_asked(captured: &[u8], words: &[u8]) {
    assert!(!cfg!(feature = "test-panic") || !captured.windows(words.len()).any(|here| here == words), "as asked");
}

impl sys::kraft_segment {
    /// The segment as the pure half knows it.
    ///
    /// # Safety
    /// `captured` must point to `captured_length` bytes that stay as they are while the result is used.
    unsafe fn view(&self) -> Segment<'_> {
        Segment {
            // SAFETY: as the caller promises.
            captured: unsafe { bytes(self.captured, self.captured_length) },
            length: self.length,
            sequence: (self.has_sequence != 0).then_some((self.sequence, self.next_sequence)),
            max_size: self.max_size,
        }
    }
}

impl sys::kraft_pdu {
    fn look(&self) -> Look {
        match (self.first_pass != 0, self.first_id.checked_sub(1)) {
            (true, _) => Look::First,
            (false, first) => Look::Again(first.map(|first| PduId(first + self.ordinal))),
        }
    }

    fn connection(&self) -> ConnectionId {
        ConnectionId(self.connection - 1)
    }

    fn sender(&self) -> Side {
        side(self.sender_is_b != 0)
    }

    /// The PDU as the pure half knows it.
    ///
    /// # Safety
    /// `captured` must point to `captured_length` bytes that stay as they are while the result is used.
    unsafe fn view(&self) -> Pdu<'_> {
        Pdu {
            // SAFETY: as the caller promises.
            captured: unsafe { bytes(self.captured, self.captured_length) },
            length: self.length,
            sighting: Sighting { frame: self.frame, time_ns: self.time_ns },
            connection: self.connection(),
            sender: self.sender(),
            server: (self.server >= 0).then(|| side(self.server == 1)),
            source: self.source.into(),
            destination: self.destination.into(),
            is_local: self.is_local != 0,
            stray: self.stray != 0,
        }
    }

    /// Tells the shim what it needs to know of the result.
    fn tell(&mut self, summary: &Summary, tape: &Tape) {
        self.is_request = (summary.direction == Direction::Request).into();
        if let (Some((key, version)), None, None) = (summary.api, summary.body, tape.stop()) {
            self.undecoded = 1;
            (self.api_key, self.api_version) = (key, version);
        }
        if let Some(Stop { at, why: Halt::NotCaptured { needs } }) = tape.stop() {
            (self.missing_at, self.missing_length) = (at, needs);
        }
    }
}

fn side(is_b: bool) -> Side {
    if is_b { Side::B } else { Side::A }
}

/// # Safety
/// `captured` is null, or points to `len` bytes that stay as they are while the result is used.
unsafe fn bytes<'a>(captured: *const u8, len: u32) -> &'a [u8] {
    if captured.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(captured, len as usize) }
}
