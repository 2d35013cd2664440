//! What a message costs: it allocates nothing, and its instructions are those of `tests/instructions.txt`, or fewer.
//!
//! Instructions are counted by valgrind in a release build, since time is noise on a machine that does other things, too.
//! A message that has come to cost a fifth more fails. `KRAFT_BLESS=1 cargo test --test cost` takes down what was counted;
//! read the difference before you commit it. Other compilers and other versions of Wireshark have lines of their own.

// Some of what other tests share with these is of no use here.
#[allow(dead_code)]
mod support {
    pub mod capture_writer;
    pub mod load;
    #[cfg(feature = "plugin")]
    pub mod tshark;
    pub mod work;
}

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, id};
use std::sync::Mutex;
use std::{env, fs};

use kraft::schema::Direction;
use kraft::tape::Tape;
use support::load;
use support::work::{Exchange, to_tape};

/// A count above so many times the one taken down is a regression; below one divided by it, the line is out of date.
const TOLERANCE: f64 = 1.2;
/// Where counts are taken down.
const COUNTS: &str = "tests/instructions.txt";
const ABOUT: &str = "\
# Instructions of a message in a release build, as tests/cost.rs counts them: where, what, how many.
# KRAFT_BLESS=1 cargo test --test cost takes them down anew; lines of other compilers and other Wiresharks stay.
";

/// Pairs of request and response after which everything that grows has been big enough, and as many again.
const PAIRS: i32 = 20_000;
/// Allocations of so many pairs: buffers that grow to the double, and no more.
const GROWTH: u64 = 100;

#[test]
fn decoding_into_a_used_tape_allocates_nothing() {
    for (direction, bytes) in [(Direction::Request, load::request()), (Direction::Response, load::response())] {
        let mut tape = Tape::new();
        to_tape(direction, &bytes, &mut tape);
        let info = allocation_counter::measure(|| to_tape(direction, &bytes, &mut tape));
        assert_eq!(info.count_total, 0, "{direction:?}");
    }
}

#[test]
fn a_conversation_allocates_only_as_it_grows() {
    let mut exchange = Exchange::new(10, &load::request(), &load::response());
    let mut converse = |numbers: std::ops::Range<i32>| {
        numbers.for_each(|number| {
            exchange.ask(number);
            exchange.answer(number);
        });
    };
    converse(0..PAIRS);
    let info = allocation_counter::measure(|| converse(PAIRS..2 * PAIRS));
    assert!(info.count_total <= GROWTH, "{} allocations of {PAIRS} pairs", info.count_total);
}

#[test]
fn the_half_without_wireshark_takes_no_more_instructions() {
    let Some(valgrind) = Valgrind::find() else { return };
    let program = built(&["--no-default-features", "--features=work", "--bin=kraft-work"], "kraft-work");
    let folder = Folder::new();
    let files = [("request", load::request()), ("response", load::response())].map(|(name, content)| {
        let path = folder.0.join(name);
        fs::write(&path, content).expect("a folder of ours");
        path.to_string_lossy().into_owned()
    });
    let counts = [("request", 5000), ("response", 5000), ("pair", 5000)].map(|(work, times)| {
        // What a program does before and after its work is in both runs.
        let [once, twice] = [times, 2 * times].map(|times: u64| {
            let mut command = valgrind.command(&["--collect-atstart=yes"]);
            command.arg(&program).args([work, &times.to_string()]).args(&files);
            collected(&command.output().expect("valgrind runs"))
        });
        (work, (twice - once) / times)
    });
    hold(&format!("rust-{}", rust_version()), &counts);
}

#[cfg(feature = "plugin")]
mod in_tshark {
    use super::support::capture_writer::{CaptureWriter, End};
    use super::support::tshark::{Tshark, minor_version};
    use super::*;

    /// The ways to read a capture: one line a packet; a field of each; those that a filter finds, of which there are none,
    /// in two passes.
    const MODES: [(&str, &[&str]); 3] = [
        ("summary", &[]),
        ("fields", &["-T", "fields", "-e", "kraft.broker_id"]),
        ("filter", &["-2", "-Y", "kraft.broker_id == -5"]),
    ];
    const PAIRS: u64 = 500;

    /// What epan calls us by; all that it then does for us counts.
    const ENTRY: &str = "--toggle-collect=dissect_tcp";

    #[test]
    fn the_plugin_takes_no_more_instructions() {
        let Some(valgrind) = Valgrind::find() else { return };
        let plugin = fs::read(built(&["--lib"], "libkraft.so")).expect("cargo has built it");
        let tshark = Tshark::with_plugin("cost", &plugin);
        let capture = tshark.write("cost.pcap", &capture());
        // Most of the time tshark starts, on one core each.
        let counts = std::thread::scope(|scope| {
            let running = MODES.map(|(mode, arguments)| {
                let (tshark, valgrind, capture) = (&tshark, &valgrind, &capture);
                scope.spawn(move || (mode, count(tshark, valgrind, capture, arguments) / (2 * PAIRS)))
            });
            running.map(|thread| thread.join().expect("it says itself why"))
        });
        hold(&format!("wireshark-{}", minor_version(&tshark.run(&["--version"]))), &counts);
    }

    fn count(tshark: &Tshark, valgrind: &Valgrind, capture: &str, arguments: &[&str]) -> u64 {
        let words = valgrind.words(&[ENTRY]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let arguments = [&["-n", "-r", capture], arguments].concat();
        total(&tshark.output_under(&words, &arguments).1)
    }

    /// Registrations over one connection, each answered before the next.
    fn capture() -> Vec<u8> {
        let mut writer = CaptureWriter::new();
        let mut connection = writer.open(40_000, 9093);
        let (mut request, mut response) = (load::request(), load::response());
        for number in 0..PAIRS as i32 {
            request[8..12].copy_from_slice(&number.to_be_bytes());
            response[4..8].copy_from_slice(&number.to_be_bytes());
            writer.send(&mut connection, End::Client, &request);
            writer.send(&mut connection, End::Server, &response);
        }
        writer.finish()
    }
}

/// Holds counts against those taken down for this place, or takes them down.
fn hold(place: &str, counts: &[(&str, u64)]) {
    let place = format!("{}-{place}", env::consts::ARCH);
    let is_ci = env::var_os("CI").is_some();
    if env::var_os("KRAFT_BLESS").is_some() {
        assert!(!is_ci, "counts are blessed by people, not by CI");
        return bless(&place, counts);
    }
    let known = read();
    let judged = counts.iter().map(|&(what, count)| {
        let (verdict, why) = judge(count, known.get(&(place.clone(), what.to_owned())).copied());
        (verdict, format!("{place} {what} {count}: {why}\n"))
    });
    let judged: Vec<(Verdict, String)> = judged.collect();
    let all =
        |wanted| judged.iter().filter(|(verdict, _)| *verdict == wanted).map(|(_, line)| &**line).collect::<String>();
    let [grown, fallen, unknown] = [Verdict::Grown, Verdict::Fallen, Verdict::Unknown].map(all);
    say(&format!("{fallen}{unknown}"));
    assert!(grown.is_empty(), "\n{grown}Find out why; if it must be so, KRAFT_BLESS=1 cargo test --test cost");
    assert!(unknown.is_empty() || !is_ci, "\n{unknown}KRAFT_BLESS=1 cargo test --test cost takes that down");
}

/// What a count is beside the one taken down.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Same,
    Grown,
    Fallen,
    Unknown,
}

fn judge(count: u64, before: Option<u64>) -> (Verdict, String) {
    let Some(before) = before else {
        return (Verdict::Unknown, format!("NOT HELD AGAINST ANYTHING, for {COUNTS} has no such line"));
    };
    let ratio = count as f64 / before as f64;
    let why = format!("{ratio:.2} times the {before} instructions of {COUNTS}");
    if ratio > TOLERANCE {
        (Verdict::Grown, why)
    } else if ratio < 1.0 / TOLERANCE {
        (Verdict::Fallen, format!("{why}; well done, KRAFT_BLESS=1 cargo test --test cost takes that down"))
    } else {
        (Verdict::Same, why)
    }
}

#[test]
fn a_fifth_more_is_too_much_and_a_fifth_less_is_told() {
    let verdicts = [119, 121, 84, 83].map(|count| judge(count, Some(100)).0);
    assert!(verdicts == [Verdict::Same, Verdict::Grown, Verdict::Same, Verdict::Fallen]);
    assert!(judge(100, None).0 == Verdict::Unknown);
}

/// The file has one writer at a time.
static WRITING: Mutex<()> = Mutex::new(());

fn bless(place: &str, counts: &[(&str, u64)]) {
    let _writing = WRITING.lock();
    let mut all = read();
    all.extend(counts.iter().map(|(what, count)| ((place.to_owned(), (*what).to_owned()), *count)));
    let lines =
        all.iter().fold(ABOUT.to_owned(), |text, ((place, what), count)| format!("{text}{place} {what} {count}\n"));
    fs::write(COUNTS, lines).unwrap_or_else(|error| panic!("{COUNTS}: {error}"));
}

/// What was taken down: by place and work.
fn read() -> BTreeMap<(String, String), u64> {
    let text = fs::read_to_string(COUNTS).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let [place, what, count] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{COUNTS}: {line}") };
        ((place.to_owned(), what.to_owned()), count.parse().unwrap_or_else(|_| panic!("{COUNTS}: {line}")))
    };
    lines.map(parse).collect()
}

/// Says something of a test that passes, which the harness would keep to itself.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A valgrind that counts instructions.
struct Valgrind {
    folder: Folder,
}

impl Valgrind {
    /// Where there is none nothing is measured, which CI must not take for a success.
    fn find() -> Option<Valgrind> {
        if Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
            return Some(Valgrind { folder: Folder::new() });
        }
        let remedy = "NOT MEASURED: instructions are counted by valgrind, which is not here. Install it: ./install.sh --test, \
                      or the package valgrind\n";
        assert!(env::var_os("CI").is_none(), "{remedy}");
        say(remedy);
        None
    }

    /// What stands before the program that it is to run. It says the count, and its file is of no use.
    fn words(&self, options: &[&str]) -> Vec<String> {
        let file = format!("--callgrind-out-file={}", self.folder.0.join("%p").display());
        let words = ["valgrind", "--tool=callgrind", &file].into_iter().chain(options.iter().copied());
        words.map(str::to_owned).collect()
    }

    fn command(&self, options: &[&str]) -> Command {
        let words = self.words(options);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

/// A folder that anyone may write: tshark may run as somebody else.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::os::unix::fs::PermissionsExt;
        let name = format!("kraft-cost-{}-{:?}", id(), std::thread::current().id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("there is room for temporary files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("a folder of ours");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn collected(output: &Output) -> u64 {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    total(&said)
}

/// The count that callgrind says when the program has ended.
fn total(said: &str) -> u64 {
    let count = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.filter(|count| *count > 0).unwrap_or_else(|| panic!("valgrind has counted nothing. It says:\n{said}"))
}

/// What cargo makes in a release build.
fn built(what: &[&str], file: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(["build", "--release", "--locked"]).args(what).output();
    let output = output.expect("cargo runs this test, so it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    target.join("release").join(file)
}

/// `1.85` of `rustc 1.85.0 (...)`.
fn rust_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("cargo needs it, too");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).expect("rustc tells its version");
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}
