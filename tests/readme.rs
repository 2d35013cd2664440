//! What the README says is so: every command prints what stands below it, every table is that of the schema, the rules and
//! the plugin. What `docs` holds is there: the profile loads and does what it is for, and each picture is told of.
//!
//! `KRAFT_BLESS=1 cargo test --test readme` writes outputs and tables anew; read the difference before you commit it.
#![cfg(feature = "plugin")]

mod support {
    pub mod tshark;
}

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::{env, fs, iter, thread};

use kraft::rule::{Rule, Severity};
use kraft::schema::{self, Direction, Field, Kind, header};
use kraft::wire;
use roxmltree::{Document, Node};
use support::tshark::tshark;

/// What the dissector calls itself in the tree.
const OURS: &str = "Kafka KRaft Control Plane";
/// Stands before a table that is written here, and behind it.
const MADE: &str = "<!-- made by tests/readme.rs: ";
const END: &str = "<!-- end -->";
/// Bytes that a picture may have.
const PICTURE: u64 = 150_000;

// The page.

#[test]
fn what_the_readme_shows_is_so() {
    let path = root().join("README.md");
    let page = read(&path);
    let now = as_it_is(&page);
    if env::var_os("KRAFT_BLESS").is_some() {
        assert!(env::var_os("CI").is_none(), "texts are blessed by people, not by CI");
        fs::write(&path, now).expect("the README can be written");
        return;
    }
    let mut wrong = String::new();
    for (number, (says, is)) in iter::zip(page.lines(), now.lines()).enumerate().filter(|(_, (says, is))| says != is) {
        let _ = write!(wrong, "\nREADME.md:{}\n  says {says}\n  is   {is}", number + 1);
        if page.lines().count() != now.lines().count() {
            break;
        }
    }
    assert!(page == now, "{wrong}");
}

#[test]
fn what_the_pages_link_to_is_there() {
    let folders = [root(), root().join("docs")];
    let pages =
        folders.iter().flat_map(|folder| files(folder)).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut missing = Vec::new();
    for page in pages {
        let text = read(&page);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let folder = page.parent().expect("a page lies in a folder");
        missing.extend(
            links
                .filter(|link| !link.contains("://") && !link.starts_with('#') && !folder.join(link).exists())
                .map(|link| format!("{}: {link}", page.display())),
        );
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_picture_is_small_and_is_told_of() {
    let told = read(&root().join("docs/screens.md"));
    for picture in files(&root().join("docs/images")) {
        let name = picture.file_name().expect("a picture has a name").to_string_lossy();
        let size = fs::metadata(&picture).expect("a picture can be looked at").len();
        assert!(told.contains(&format!("](images/{name})")), "docs/screens.md does not show {name}");
        assert!(size < PICTURE, "{name} has {size} bytes, more than {PICTURE}");
    }
}

/// The page with all outputs and tables as they are now.
fn as_it_is(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        if line == "```console" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            commands(&block, &mut out);
            out.push_str("```\n");
        } else if let Some(name) = line.strip_prefix(MADE).and_then(|rest| rest.strip_suffix(" -->")) {
            let table: Vec<&str> = lines.by_ref().take_while(|line| *line != END).collect();
            match name {
                "answers" => answers(&table, &mut out),
                "preferences" => preferences(&mut out),
                "filter names" => filter_names(&mut out),
                "findings" => findings(&mut out),
                _ => panic!("no table is called {name}"),
            }
            let _ = writeln!(out, "{END}");
        }
    }
    out
}

/// Commands with what they print.
fn commands(block: &[&str], out: &mut String) {
    for part in block.join("\n").split("$ ").skip(1) {
        let command = part.lines().next().unwrap_or_default();
        let printed = printed(command);
        assert!(!printed.trim().is_empty(), "{command} prints nothing");
        let _ = write!(out, "$ {command}\n{printed}");
    }
}

/// What a command prints: tshark, and perhaps a pipe behind it. Of a tree (`-O`) only our part.
fn printed(command: &str) -> String {
    let (tshark, pipe) = command.split_once(" | ").map_or((command, None), |(tshark, pipe)| (tshark, Some(pipe)));
    let words = words(tshark);
    let (tshark, arguments) = words.split_first().expect("a command has a name");
    assert_eq!(tshark, "tshark", "only tshark is run: {command}");
    let mut text = run(arguments);
    if let Some(pipe) = pipe {
        text = through(pipe, text);
    }
    if !arguments.iter().any(|argument| argument == "-O") {
        return text.lines().fold(String::new(), |out, line| out + line.trim_end() + "\n");
    }
    let trees = text.split("\n\n").filter_map(|packet| packet.find(OURS).map(|at| packet[at..].trim_end()));
    trees.flat_map(|tree| tree.lines().chain([""])).map(in_seconds).collect::<Vec<_>>().join("\n")
}

/// Wireshark 4.6 shows a short time in milliseconds.
fn in_seconds(line: &str) -> String {
    let time = line.trim_start().strip_prefix("[Time: ").and_then(|rest| rest.strip_suffix(" milliseconds]"));
    let Some(ms) = time.and_then(|time| time.parse::<f64>().ok()) else { return line.to_owned() };
    format!("{}[Time: {:.9} seconds]", &line[..line.len() - line.trim_start().len()], ms / 1000.0)
}

/// What a shell makes of a text.
fn through(pipe: &str, text: String) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", pipe]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("there is a shell");
    let mut into = shell.stdin.take().expect("its input is a pipe");
    let writer = thread::spawn(move || into.write_all(text.as_bytes()));
    let output = shell.wait_with_output().expect("a shell ends");
    // A pipe may end before it has read everything.
    let _ = writer.join();
    assert!(output.status.success(), "{pipe}: {}", output.status);
    String::from_utf8(output.stdout).expect("tshark prints UTF-8")
}

/// Runs tshark with captures that it can read.
fn run(arguments: &[String]) -> String {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| if argument.starts_with("captures/") { readable(argument) } else { argument.clone() })
        .collect();
    tshark().run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn readable(capture: &str) -> String {
    tshark().readable(&root().join(capture))
}

/// The words of a command as a shell reads them, as far as this page needs it.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

// Its tables.

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn head(out: &mut String, cells: &[&str]) {
    row(out, cells);
    row(out, &vec!["---"; cells.len()]);
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Each row asks a capture; the last cell is what it answers.
fn answers(table: &[&str], out: &mut String) {
    for (i, line) in table.iter().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let (2.., [question, filter, capture, ..]) = (i, &cells[..]) else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        row(out, &[question, filter, capture, &answer(filter.trim_matches('`'), capture)]);
    }
}

/// How many frames a filter finds, and what the first of them says.
fn answer(filter: &str, capture: &str) -> String {
    let mut arguments = words(filter);
    if !filter.starts_with('-') {
        arguments = vec!["-Y".to_owned(), filter.to_owned()];
    }
    let capture = format!("captures/{capture}");
    arguments.extend(["-2", "-r", &capture, "-T", "pdml"].map(str::to_owned));
    let pdml: String = run(&arguments).chars().filter(|c| !c.is_control() || c.is_ascii_whitespace()).collect();
    let document = Document::parse(&pdml).expect("PDML is XML");
    let packets: Vec<Node> = document.descendants().filter(|node| node.has_tag_name("packet")).collect();
    let first = packets.first().unwrap_or_else(|| panic!("{filter} finds nothing in {capture}"));
    let number = shown(*first, "frame.number").expect("a packet has a number");
    let plural = if packets.len() == 1 { "frame" } else { "frames" };
    format!("{} {plural}; {number}: {}", packets.len(), said(*first, filter))
}

/// What is said of a packet: the finding that the filter names, else what holds the value that it names, else its first
/// warning or error, else what it is.
fn said(packet: Node, filter: &str) -> String {
    let items: Vec<Node> = packet.descendants().filter(|node| node.has_tag_name("field")).collect();
    let named = items.iter().find(|item| is_finding(**item) && filter.contains(name(**item)));
    let value = items.iter().find(|item| names_value(filter, **item)).and_then(|item| item.parent());
    let holder = value.filter(|parent| parent.has_tag_name("field"));
    let grave = items.iter().find(|item| name(**item).starts_with("kraft.expert.") && severity(**item) >= WARNING);
    let itself = packet.children().rfind(|node| node.has_tag_name("proto"));
    let text = named.copied().or(holder).or(grave.copied()).or(itself).and_then(|node| node.attribute("showname"));
    let text = text.expect("tshark shows a packet");
    text.strip_prefix(OURS).map_or(text, |text| text.trim_start_matches(", ")).to_owned()
}

/// Whether an item is what a finding says, of this protocol or another.
fn is_finding(item: Node) -> bool {
    item.parent().is_some_and(|parent| name(parent) == "_ws.expert") && !name(item).starts_with("_ws.")
}

fn severity(finding: Node) -> u32 {
    let severity = finding.parent().and_then(|parent| shown(parent, "_ws.expert.severity")?.parse().ok());
    severity.expect("a finding has a severity")
}

/// Whether a filter asks for this field of ours to have the value it has.
fn names_value(filter: &str, item: Node) -> bool {
    let (name, value) = (name(item), item.attribute("show").unwrap_or_default());
    let asked = [format!("{name} == {value}"), format!("{name} == \"{value}\"")];
    name.starts_with("kraft.") && filter.split(" and ").any(|part| asked.iter().any(|asked| asked == part))
}

/// Wireshark's number for this severity.
const WARNING: u32 = 0x0060_0000;

fn name<'a>(node: Node<'a, '_>) -> &'a str {
    node.attribute("name").unwrap_or_default()
}

fn shown<'a>(node: Node<'a, '_>, field: &str) -> Option<&'a str> {
    node.descendants().find(|node| name(*node) == field)?.attribute("show")
}

/// The preferences as Wireshark knows them. Those that Decode As keeps are in no list of tshark's.
fn preferences(out: &mut String) {
    head(out, &["name", "default", "what"]);
    row(
        out,
        &["`kraft.tcp.port`", "9093", "TCP ports of controllers, for connections that the capture does not begin with"],
    );
    row(out, &["`kraft.tls.port`", "9093", "likewise inside TLS"]);
    let text = tshark().run(&["-G", "defaultprefs"]);
    let mut about = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.strip_prefix("#kraft.").and_then(|line| line.split_once(": ")) {
            // The last line above tells the type.
            row(out, &[&code(&format!("kraft.{name}")), value, about.split_last().map_or("", |(_, rest)| rest[0])]);
        }
        match line.strip_prefix("# ") {
            Some(line) => about.push(line),
            None => about.clear(),
        }
    }
}

/// All fields: those of the schema in its order, then those that are made of a whole conversation.
fn filter_names(out: &mut String) {
    let mut registered = registered();
    let mut told = BTreeSet::new();
    head(out, &["name", "type", "in", "what"]);
    for message in schema::messages() {
        message.walk(&mut |_, above, field| {
            let Some(name) = schema::filter_name(above, field).filter(|name| !told.contains(name)) else { return };
            registered.remove(&name).unwrap_or_else(|| panic!("{name} is in the schema and not in Wireshark"));
            row(out, &[&code(&name), &kind(field), &places(&name), field.about]);
            told.insert(name);
        });
    }
    registered.retain(|name, _| !name.starts_with("kraft.expert."));
    for (name, Registered { kind, about }) in registered {
        row(out, &[&code(&name), &kind, "generated", &about]);
    }
}

/// What a field holds, in Kafka's words.
fn kind(field: &Field) -> String {
    let kind = match field.kind {
        Kind::Bool => "boolean",
        Kind::Int8 => "int8",
        Kind::Int16 => "int16",
        Kind::Uint16 => "uint16",
        Kind::Int32 => "int32",
        Kind::Uint32 => "uint32",
        Kind::Varint => "varint",
        Kind::Int64 => "int64",
        Kind::Uuid => "UUID",
        Kind::String => "string",
        Kind::Rest => "bytes",
        Kind::Struct(_) => "struct",
        Kind::Array(_) | Kind::Tags => "count",
    };
    let named = if field.names.all().next().is_some() { ", named" } else { "" };
    format!("{kind}{named}")
}

/// Every message that has the field of this name, with the first version that does.
fn places(name: &str) -> String {
    let mut places = Vec::new();
    for message in schema::messages() {
        message.walk(&mut |_, above, field| {
            if schema::filter_name(above, field).as_deref() == Some(name) {
                let since = above.iter().chain([&field]).map(|field| field.versions.first).max().unwrap_or(0);
                let since = if since > 0 { format!(" v{since}+") } else { String::new() };
                places.push(format!("{}{since}", title(message)));
            }
        });
    }
    places.join(", ")
}

/// `BrokerRegistration request`, `every response`.
fn title(message: &schema::Message) -> String {
    let around = ["every message", "flexible versions", "every request", "every response"];
    let found = header::AROUND.iter().position(|structure| structure.id == message.id);
    let api = schema::APIS.iter().find_map(|api| {
        let way =
            [Direction::Request, Direction::Response].into_iter().find(|way| api.message(*way).id == message.id)?;
        let name = schema::names::api_key(api.key)?.name;
        Some(format!("{name} {}", if way == Direction::Request { "request" } else { "response" }))
    });
    found.map(|i| around[i].to_owned()).or(api).expect("every message is one of these")
}

/// A field as Wireshark knows it.
struct Registered {
    kind: String,
    about: String,
}

/// All fields of ours in a running Wireshark.
fn registered() -> BTreeMap<String, Registered> {
    let text = tshark().run(&["-G", "fields"]);
    let fields = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let ours = fields.filter(|columns| columns[0] == "F" && columns.get(4) == Some(&"kraft"));
    ours.map(|columns| {
        let kind = match columns[3] {
            "FT_FRAMENUM" => "frame number",
            "FT_RELATIVE_TIME" => "time",
            "FT_STRING" => "string",
            "FT_NONE" => "none",
            other => other,
        };
        let about = columns.get(7).copied().unwrap_or_default().to_owned();
        (columns[2].to_owned(), Registered { kind: kind.to_owned(), about })
    })
    .collect()
}

/// The rules: of requests and responses, then of bytes; the gravest first.
fn findings(out: &mut String) {
    static INTERNAL_ERROR: &str = "A bug of this dissector: please report it with the capture";
    let mut registered = registered();
    registered.retain(|name, _| name.starts_with("kraft.expert."));
    head(out, &["name", "severity", "of", "what"]);
    let mut tell = |rule: &Rule, about: &str| {
        let name = format!("kraft.expert.{}", rule.name);
        assert!(registered.remove(&name).is_some(), "{name} is a rule and not in Wireshark");
        row(out, &[&code(&name), &format!("{:?}", rule.severity), about, rule.summary]);
    };
    for message in schema::messages() {
        let mut rules: Vec<&Rule> = message.checks.iter().map(|check| &check.rule).collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.severity));
        rules.iter().for_each(|rule| tell(rule, &title(message)));
    }
    let mut rules: Vec<&Rule> = wire::RULES.iter().collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.severity));
    rules.iter().for_each(|rule| tell(rule, "the bytes"));
    let internal_error = registered.remove("kraft.expert.internal_error");
    assert!(internal_error.is_some() && registered.is_empty(), "no rules for {:?}", registered.keys());
    row(out, &["`kraft.expert.internal_error`", &format!("{:?}", Severity::Error), "this dissector", INTERNAL_ERROR]);
}

// The profile.

/// Captures in which every coloring rule and every filter button of the profile has something to show.
const SCENES: [&str; 4] =
    ["ok/errors-v4.pcap", "ok/trouble-no-authority.pcap", "ok/trouble-old-broker.pcap", "bad/malformed-null.pcap"];

#[test]
fn the_columns_of_the_profile_tell_api_broker_error_and_response_time() {
    let text = in_profile("ok/trouble-old-broker.pcap", &["-2", "-Y", "kraft.api_key == 62", "-T", "tabs"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').map(str::trim).collect()).collect();
    let line = |frame: &str| lines.iter().find(|columns| columns[0] == frame).expect("a registration");
    let ours = |frame| line(frame)[line(frame).len() - 5..].to_vec();
    let request = "BrokerRegistration v3 Request, broker 2, cluster FG7wh_aHR3--sFBlvgMVSw";
    assert_eq!(ours("107"), ["BrokerRegistration", "2", "", "", request]);
    let response = "BrokerRegistration v3 Response, UNSUPPORTED_VERSION (35)";
    assert_eq!(ours("108"), ["BrokerRegistration", "", "UNSUPPORTED_VERSION", "0.003266000", response]);
}

#[test]
fn each_coloring_rule_of_the_profile_colors_something() {
    let rules = read(&profile().join("colorfilters"));
    let rules: BTreeSet<&str> = rules.lines().filter_map(|line| line.strip_prefix('@')?.split('@').next()).collect();
    let asked = ["-2", "--color", "-T", "fields", "-e", "frame.coloring_rule.name"];
    let seen: String = SCENES.iter().map(|capture| in_profile(capture, &asked)).collect();
    let seen: BTreeSet<&str> = seen.lines().filter(|name| !name.is_empty()).collect();
    assert_eq!(seen, rules);
}

#[test]
fn each_filter_button_of_the_profile_finds_something() {
    for line in read(&profile().join("dfilter_buttons")).lines().filter(|line| line.starts_with('"')) {
        // Four values in quotes; a quote within one of them has a backslash before it.
        let values: Vec<&str> = line.trim_matches('"').split("\",\"").collect();
        let [_, label, filter, _] = values[..] else { panic!("{line}") };
        let filter = filter.replace("\\\"", "\"");
        let found = SCENES.iter().any(|capture| !in_profile(capture, &["-2", "-Y", &filter]).is_empty());
        assert!(found, "{label} finds nothing");
    }
}

fn profile() -> PathBuf {
    root().join("docs/profile/KRaft")
}

/// What tshark says of a capture with the profile.
fn in_profile(capture: &str, arguments: &[&str]) -> String {
    static INSTALLED: Once = Once::new();
    let file = readable(&format!("captures/{capture}"));
    INSTALLED.call_once(|| {
        let home = Path::new(&file).parent().expect("a copy lies in the home folder");
        let folder = home.join(".config/wireshark/profiles/KRaft");
        fs::create_dir_all(&folder).expect("the home folder can be written");
        for part in files(&profile()) {
            fs::copy(&part, folder.join(part.file_name().expect("a file has a name")))
                .expect("a profile can be copied");
        }
    });
    tshark().run(&[&["-C", "KRaft", "-r", &file], arguments].concat())
}

// Files.

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}
