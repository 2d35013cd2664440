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

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dissect::{Look, Pdu, Summary, dissect};
use crate::pairing::{ConnectionId, History, PduId, Sighting};
use crate::recognize::Side;
use crate::tape::Tape;
use crate::wire::Halt;

/// What lives from one call of epan to the next: the memory of the open file, and the result of the last decoding.
struct State {
    history: History,
    tape: Tape,
    /// `None` after a panic in the decoder.
    summary: Option<Summary>,
    /// Scratch for texts, so that none is allocated for each item.
    text: String,
}

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: epan dissects, opens and closes files in one thread; the plugin starts no other.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(None));

/// The state of the plugin.
///
/// # Safety
/// No other reference to it may be alive. The entry points below take it once each, and none of them runs inside another:
/// what they call of epan (only `kraft_paint` does) does not dissect.
unsafe fn state() -> &'static mut State {
    // SAFETY: as the caller promises.
    unsafe { &mut *STATE.0.get() }.get_or_insert_with(|| State {
        history: History::new(),
        tape: Tape::new(),
        summary: None,
        text: String::new(),
    })
}

/// A capture file is opened: nothing is remembered of the one before.
#[unsafe(no_mangle)]
extern "C" fn kraft_file_opened() {
    // SAFETY: epan calls this between dissections.
    unsafe { state() }.history = History::new();
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

/// Decodes a PDU and remembers it. Calls nothing of epan.
#[unsafe(no_mangle)]
extern "C" fn kraft_decode(pdu: *mut sys::kraft_pdu) {
    // SAFETY: the shim hands a PDU of its own that nobody else looks at, and no other entry point runs.
    let (pdu, state) = unsafe { (&mut *pdu, state()) };
    // SAFETY: the shim got `captured` from epan for this packet.
    let decoded = unsafe { decoded_pdu(pdu) };
    let look = match (pdu.first_pass != 0, pdu.id.checked_sub(1)) {
        (true, _) => Look::First,
        (false, first) => Look::Again(first.map(|first| PduId(first + pdu.ordinal))),
    };
    let State { history, tape, .. } = state;
    // A panic is a bug of ours, and costs this PDU only: what the history holds of it may be incomplete, never unsound.
    let summary = catch_unwind(AssertUnwindSafe(|| dissect(&decoded, look, history, tape))).ok();
    if let Some(Summary { id: Some(PduId(id)), .. }) = summary {
        pdu.id = id + 1;
    }
    if let Some(Halt::NotCaptured { needs }) = summary.and(state.tape.stop()).map(|stop| stop.why) {
        pdu.missing_at = state.tape.stop().map_or(0, |stop| stop.at);
        pdu.missing_length = needs;
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
        unsafe { paint::paint(pdu, &decoded_pdu(pdu), state.summary.as_ref(), &state.tape, &mut state.text) };
    }));
    if painted.is_err() {
        // SAFETY: as above.
        unsafe { paint::paint_panic(pdu) };
    }
}

/// The PDU as the pure half knows it.
///
/// # Safety
/// `pdu.captured` must point to `pdu.captured_length` bytes that stay as they are while the result is used.
unsafe fn decoded_pdu(pdu: &sys::kraft_pdu) -> Pdu<'_> {
    let captured = if pdu.captured.is_null() {
        &[]
    } else {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts(pdu.captured, pdu.captured_length as usize) }
    };
    let side = |is_b| if is_b { Side::B } else { Side::A };
    Pdu {
        captured,
        length: pdu.length,
        sighting: Sighting { frame: pdu.frame, time_ns: pdu.time_ns },
        connection: ConnectionId(pdu.connection - 1),
        sender: side(pdu.sender_is_b != 0),
        server: (pdu.server >= 0).then(|| side(pdu.server == 1)),
    }
}
