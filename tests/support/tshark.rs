//! A real tshark with the plugin that this build made, run as a user who may load personal plugins.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, process};

/// Nobody: Debian's Wireshark, like others, loads no personal plugins for root.
const NOBODY: &str = "65534";

/// The name of a home folder, before the number of its process.
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
        let tshark = Tshark { home: home(), as_nobody: is_root() };
        let version = minor_version(&tshark.run(&["--version"]));
        let folder = tshark.home.join(format!(".local/lib/wireshark/plugins/{version}/epan"));
        fs::create_dir_all(&folder).expect("the home folder can be written");
        fs::copy(plugin(), folder.join("kraft.so")).expect("the plugin can be copied");
        let plugins = tshark.output(&["-G", "plugins"]);
        let ours = folder.join("kraft.so");
        let is_loaded = plugins.0.lines().any(|line| line.ends_with(&*ours.to_string_lossy()));
        assert!(is_loaded, "tshark does not load {}. It says:\n{}{}", ours.display(), plugins.0, plugins.1);
        tshark
    })
}

impl Tshark {
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

    fn output(&self, arguments: &[&str]) -> (String, String) {
        let mut command = if self.as_nobody {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", "tshark"]);
            command
        } else {
            Command::new("tshark")
        };
        command.args(arguments).env("HOME", &self.home).env("XDG_CONFIG_HOME", self.home.join(".config"));
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

/// Where cargo has put the plugin: beside the folder of the test program.
fn plugin() -> PathBuf {
    let program = env::current_exe().expect("the test program has a path");
    let folder = program.parent().expect("it lies in a folder");
    folder.join("libkraft.so")
}

/// A folder that anyone may read, new for this test program. Those of programs that have ended are removed.
fn home() -> PathBuf {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(HOME_PREFIX));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let home = env::temp_dir().join(format!("{HOME_PREFIX}{}", process::id()));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("there is room for temporary files");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
    home
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// `4.0` of `TShark (Wireshark) 4.0.17 ...`.
fn minor_version(text: &str) -> String {
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let parts: Vec<&str> = version.expect("tshark tells its version").split('.').take(2).collect();
    parts.join(".")
}
