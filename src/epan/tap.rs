//! Statistics: what a PDU counts as, handed to Wireshark's tree of counters (`-z kraft,tree`) and to its table of service
//! response times (`-z kraft,srt`).
//!
//! The way of a count: while a packet is dissected, the shim queues a [`Tally`] for each PDU, if anyone listens. When the
//! packet is done, epan hands the tallies to the listeners whose filter it passes.
//!
//! What counts runs outside of the guard. epan's counters abort rather than throw; even so nothing here owns anything while
//! they are called.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{State, state, sys};
use crate::schema::names;
use crate::tally::{Label, ROOTS, Tally, Unanswered};

const _: () = assert!(size_of::<Tally>() <= size_of::<sys::kraft_tally>());
const _: () = assert!(align_of::<Tally>() <= align_of::<sys::kraft_tally>() && !std::mem::needs_drop::<Tally>());

/// What is remembered of each tree of counters.
#[derive(Default)]
pub struct Trees(Vec<(*mut sys::stats_tree, Unanswered)>);

impl Trees {
    fn of(&mut self, tree: *mut sys::stats_tree) -> &mut Unanswered {
        let place = self.0.iter().position(|(known, _)| *known == tree).unwrap_or_else(|| {
            self.0.push((tree, Unanswered::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    fn forget(&mut self, tree: *mut sys::stats_tree) {
        self.0.retain(|(known, _)| *known != tree);
    }
}

/// Tells what the PDU counts as that [`kraft_decode`](super::kraft_decode) has dissected last; false if that failed. A
/// request that it answers is not unanswered any more, in any tree.
#[unsafe(no_mangle)]
extern "C" fn kraft_tally_pdu(pdu: *const sys::kraft_pdu, tally: *mut sys::kraft_tally) -> c_int {
    // SAFETY: the shim hands structs of its own, and no other entry point runs.
    let (pdu, state) = unsafe { (&*pdu, state()) };
    let State { history, tape, summary, text, trees } = state;
    let Some(summary) = summary else { return 0 };
    let told = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the shim got `captured` from epan for this packet.
        let told = Tally::of(summary, unsafe { pdu.view() }.captured, tape, history);
        for (tree, unanswered) in &mut trees.0 {
            // SAFETY: a tree is in the list from its first packet until epan cleans it up.
            unanswered.answer(&told, &mut |path, count| unsafe { set(*tree, text, path, count) });
        }
        // SAFETY: the shim has allocated it, and it is large enough and aligned as asserted above.
        unsafe { tally.cast::<Tally>().write(told) };
    }));
    told.is_ok().into()
}

/// A tree of counters begins, or begins anew.
#[unsafe(no_mangle)]
extern "C" fn kraft_tree_init(tree: *mut sys::stats_tree) {
    // SAFETY: epan calls this between dissections.
    let state = unsafe { state() };
    state.trees.forget(tree);
    for root in ROOTS {
        // SAFETY: the tree is the one that epan has made.
        unsafe { set(tree, &mut state.text, &[root], 0) };
    }
}

/// A tree of counters is done with.
#[unsafe(no_mangle)]
extern "C" fn kraft_tree_cleanup(tree: *mut sys::stats_tree) {
    // SAFETY: epan calls this between dissections.
    unsafe { state() }.trees.forget(tree);
}

/// Counts a PDU in a tree of counters.
#[unsafe(no_mangle)]
extern "C" fn kraft_tree_packet(
    tree: *mut sys::stats_tree,
    _: *mut sys::packet_info,
    _: *mut sys::epan_dissect_t,
    tally: *const c_void,
    _: sys::tap_flags_t,
) -> sys::tap_packet_status {
    // SAFETY: epan hands what the shim has queued, when the packet is dissected and no other entry point runs.
    let (tally, state) = unsafe { (&*tally.cast::<Tally>(), state()) };
    let State { history, text, trees, .. } = state;
    let counted = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the tree is the one that epan counts in.
        tally.count(history, &mut |path, raised| unsafe { raise(tree, text, path, raised) });
        // SAFETY: likewise.
        trees.of(tree).ask(tally, history, &mut |path, count| unsafe { set(tree, text, path, count) });
    }));
    if counted.is_ok() { sys::TAP_PACKET_REDRAW } else { sys::TAP_PACKET_DONT_REDRAW }
}

/// Raises the last `raised` rows of a path by 1.
///
/// # Safety
/// The tree must be alive.
unsafe fn raise(tree: *mut sys::stats_tree, text: &mut String, path: &[Label], raised: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let parent = find(tree, text, &path[..path.len() - raised]);
        path[path.len() - raised..]
            .iter()
            .fold(parent, |parent, label| row(tree, text, parent, *label, sys::MN_INCREASE, 1));
    }
}

/// Lets the last row of a path show a number.
///
/// # Safety
/// As for [`raise`].
unsafe fn set(tree: *mut sys::stats_tree, text: &mut String, path: &[Label], count: u32) {
    let Some((last, above)) = path.split_last() else { return };
    // SAFETY: as the caller promises.
    unsafe {
        let parent = find(tree, text, above);
        row(tree, text, parent, *last, sys::MN_SET, count as c_int);
    }
}

/// The last row of a path, which is added where it is missing.
unsafe fn find(tree: *mut sys::stats_tree, text: &mut String, path: &[Label]) -> c_int {
    // Setting no flag only looks the row up.
    // SAFETY: as for `raise`.
    path.iter().fold(ROOT, |parent, label| unsafe { row(tree, text, parent, *label, sys::MN_SET_FLAGS, 0) })
}

/// The id of the tree itself.
const ROOT: c_int = 0;

unsafe fn row(
    tree: *mut sys::stats_tree,
    text: &mut String,
    parent: c_int,
    label: Label,
    mode: sys::manip_node_mode,
    value: c_int,
) -> c_int {
    text.clear();
    let _ = write!(text, "{label}\0");
    // SAFETY: as for `raise`; epan copies the text.
    unsafe { sys::kraft_tree_row(tree, text.as_ptr().cast(), parent, mode, value) }
}

/// API keys that have a row in the table of service response times, far more than there are today.
const ROWS: i16 = 128;

/// A table of service response times begins. epan leaves out rows without time.
#[unsafe(no_mangle)]
extern "C" fn kraft_srt_init(_: *mut sys::register_srt, tables: *mut sys::GArray) {
    // SAFETY: epan calls this between dissections.
    let text = unsafe { &mut state().text };
    // SAFETY: epan has made the array and copies the names of the rows; the other texts live for ever.
    unsafe {
        let (name, short, column, filter) = (c"Kafka KRaft", c"KRaft", c"API", c"kraft.api_key");
        let table = sys::init_srt_table(
            name.as_ptr(),
            short.as_ptr(),
            tables,
            ROWS.into(),
            column.as_ptr(),
            filter.as_ptr(),
            std::ptr::null_mut(),
        );
        for key in 0..ROWS {
            text.clear();
            let _ = match names::api_key(key) {
                Some(api) => write!(text, "{}\0", api.name),
                None => write!(text, "API key {key}\0"),
            };
            sys::init_srt_table_row(table, key.into(), text.as_ptr().cast());
        }
    }
}

/// Adds the time that a request took to its table.
#[unsafe(no_mangle)]
extern "C" fn kraft_srt_packet(
    data: *mut c_void,
    pinfo: *mut sys::packet_info,
    _: *mut sys::epan_dissect_t,
    tally: *const c_void,
    _: sys::tap_flags_t,
) -> sys::tap_packet_status {
    // SAFETY: epan hands what the shim has queued.
    let tally = unsafe { &*tally.cast::<Tally>() };
    let Some((key, asked_ns)) = tally.response_to().filter(|(key, _)| (0..ROWS).contains(key)) else {
        return sys::TAP_PACKET_DONT_REDRAW;
    };
    let asked =
        sys::nstime_t { secs: asked_ns.div_euclid(1_000_000_000), nsecs: asked_ns.rem_euclid(1_000_000_000) as c_int };
    // SAFETY: epan hands its data of the table that `kraft_srt_init` has made, the only one, and the row is there.
    unsafe {
        let tables = (*data.cast::<sys::srt_data_t>()).srt_array;
        let table = *(*tables).data.cast::<*mut sys::srt_stat_table>();
        sys::add_srt_table_data(table, key.into(), &asked, pinfo);
    }
    sys::TAP_PACKET_REDRAW
}
