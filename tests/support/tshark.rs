//! A real tshark with the plugin that this build made, run as a user who may load personal plugins.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, process};

/// Nobody: Debian's Wireshark, like others, loads no personal plugins for root.
const NOBODY: &str = "65534";

/// The name of a home folder, before the number of its process and a name of its own.
const HOME_PREFIX: &str = "kraft-tshark-";

/// A tshark, with a home folder of its own that holds the plugin.
pub struct Tshark {
    home: PathBuf,
    as_nobody: bool,
}

/// The tshark of this test run.
///
/// # Panics
/// Where there is none, or it does not load the plugin: a test that cannot run has failed.
pub fn tshark() -> &'static Tshark {
    static TSHARK: OnceLock<Tshark> = OnceLock::new();
    TSHARK.get_or_init(|| {
        let tshark = Tshark::with_plugin("ours", &plugin());
        let (plugins, said) = tshark.output(&["-G", "plugins"]);
        let is_loaded = plugins.lines().any(|line| line.ends_with("/kraft.so") && line.contains(HOME_PREFIX));
        assert!(is_loaded, "tshark does not load the plugin. It says:\n{plugins}{said}");
        tshark
    })
}

impl Tshark {
    /// A tshark that finds this plugin in a home folder of this name, be it one that it will load or not.
    pub fn with_plugin(name: &str, plugin: &[u8]) -> Tshark {
        let tshark = Tshark { home: home(name), as_nobody: is_root() };
        let version = minor_version(&tshark.run(&["--version"]));
        let folder = tshark.home.join(format!(".local/lib/wireshark/plugins/{version}/epan"));
        fs::create_dir_all(&folder).expect("the home folder can be written");
        fs::write(folder.join("kraft.so"), plugin).expect("the home folder can be written");
        tshark
    }

    /// What tshark prints with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.output(arguments).0
    }

    /// A copy of a file where the user of tshark can read it.
    pub fn readable(&self, path: &Path) -> String {
        let name = path.file_name().expect("a capture has a name");
        self.write(&name.to_string_lossy(), &fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    }

    /// A file of its own that tshark can read.
    pub fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.home.join(name);
        // A file that is already there may be in use by another test with the same content.
        if fs::read(&path).ok().as_deref() != Some(content) {
            let draft = self.home.join(format!("{name}.{:?}", std::thread::current().id()));
            fs::write(&draft, content).expect("the home folder can be written");
            fs::set_permissions(&draft, fs::Permissions::from_mode(0o644)).expect("a file of ours");
            fs::rename(&draft, &path).expect("a file of ours");
        }
        path.to_string_lossy().into_owned()
    }

    /// What tshark prints, and what it says on stderr.
    ///
    /// # Panics
    /// If it fails.
    pub fn output(&self, arguments: &[&str]) -> (String, String) {
        self.output_under(&[], arguments)
    }

    /// The same, run by another program: by valgrind, say.
    ///
    /// # Panics
    /// If it fails.
    pub fn output_under(&self, program: &[&str], arguments: &[&str]) -> (String, String) {
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        let as_nobody: &[&str] = if self.as_nobody { &["setpriv", &user, &group, "--clear-groups"] } else { &[] };
        let words = [as_nobody, program, &["tshark"], arguments].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("HOME", &self.home).env("XDG_CONFIG_HOME", self.home.join(".config"));
        let output = command
            .env("WIRESHARK_PLUGIN_DIR", self.home.join("none"))
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "tshark cannot be run ({error}). Install it: ./install.sh, or the package tshark (wireshark-cli)"
                )
            });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stderr);
        assert!(output.status.success(), "tshark {arguments:?}: {}\n{said}", output.status);
        (text(&output.stdout), said)
    }
}

/// The plugin that cargo has built: it lies beside the test program.
pub fn plugin() -> Vec<u8> {
    let program = env::current_exe().expect("the test program has a path");
    let path = program.with_file_name("libkraft.so");
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A folder that anyone may read, new for this test program. Those of programs that have ended are removed.
fn home(name: &str) -> PathBuf {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let folder = entry.file_name();
        let owner = folder.to_str().and_then(|folder| folder.strip_prefix(HOME_PREFIX)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let home = env::temp_dir().join(format!("{HOME_PREFIX}{}-{name}", process::id()));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("there is room for temporary files");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
    home
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// `4.0` of `TShark (Wireshark) 4.0.17 ...`.
pub fn minor_version(text: &str) -> String {
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let parts: Vec<&str> = version.expect("tshark tells its version").split('.').take(2).collect();
    parts.join(".")
}
