//! Builds what the half that knows Wireshark needs: bindings from `wrapper.h` and the C shim, both from the headers of the
//! Wireshark that pkg-config finds. Without the feature `plugin` there is nothing to build.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "plugin")]
    plugin::build();
}

#[cfg(feature = "plugin")]
mod plugin {
    use std::env;
    use std::panic::{self, AssertUnwindSafe};
    use std::path::PathBuf;

    const NO_WIRESHARK: &str = "Wireshark's development files were not found. Install them and build again:
    Debian, Ubuntu   apt install wireshark-dev libwireshark-dev pkg-config
    Fedora           dnf install wireshark-devel pkgconf-pkg-config
    Arch             pacman -S wireshark-cli pkgconf
or run ./install.sh, which does it. (The decoder alone builds without them: cargo build --no-default-features.)";

    const NO_CLANG: &str = "libclang could not read Wireshark's headers. Install it and build again:
    Debian, Ubuntu   apt install libclang-dev
    Fedora           dnf install clang-devel
    Arch             pacman -S clang
or run ./install.sh, which does it. (The decoder alone builds without it: cargo build --no-default-features.)";

    /// What of epan's API is bound. Whatever these names need comes along.
    const FUNCTIONS: &str = "proto_register_(protocol|field_array|subtree_array)|expert_register_(protocol|field_array)\
        |prefs_register_protocol\
        |proto_tree_add_(item|int|uint|uint_format_value|int64|string|boolean|time|guid_format|none_format|protocol_format)\
        |proto_item_(add_subtree|append_text)\
        |proto_tree_add_expert_format|expert_add_info(_format)?\
        |col_(add_str|append_str|set_str)|init_srt_table(_row)?|add_srt_table_data|kraft_.*";
    const VARIABLES: &str = "WIRESHARK_VERSION_(MAJOR|MINOR)|ENC_NA|COL_(PROTOCOL|INFO)\
        |PI_(MALFORMED|PROTOCOL|UNDECODED|REQUEST_CODE|RESPONSE_CODE|SEQUENCE|CHAT|NOTE|WARN|ERROR)|proto_kraft\
        |MN_(INCREASE|SET|SET_FLAGS)|TAP_PACKET_(DONT_REDRAW|REDRAW)";
    const TYPES: &str = "hf_register_info|ei_register_info|value_string|e_guid_t|nstime_t|ft_framenum_type_t|ftenum|field_display_e\
        |srt_data_t";

    /// What only pointers are passed of. Their layouts, which change between versions, stay out of Rust.
    const OPAQUE: &str = "_packet_info|tvbuff|_proto_node|epan_column_info|pref_module|expert_module|dissector_handle\
        |epan_dissect|_srt_stat_table";

    pub fn build() {
        for file in ["wrapper.h", "src/epan/shim.h", "src/epan/shim.c", "src/epan/builtin.h"] {
            println!("cargo:rerun-if-changed={file}");
        }
        let Ok(wireshark) = pkg_config::Config::new().cargo_metadata(false).atleast_version("4.0").probe("wireshark")
        else {
            fail(NO_WIRESHARK)
        };
        bind(&wireshark.include_paths);
        compile_shim(&wireshark.include_paths);
        // The plugin itself leaves epan's symbols to the process that loads it, so that a plugin of the wrong version is
        // refused with Wireshark's own clear sentence. Test programs have no such process.
        for library in ["wireshark", "wsutil", "glib-2.0"] {
            println!("cargo:rustc-link-arg-tests=-l{library}");
        }
        println!("cargo:rerun-if-env-changed=CI");
    }

    fn bind(include_paths: &[PathBuf]) {
        let bindings = bindgen::Builder::default()
            .header("wrapper.h")
            .clang_args(include_paths.iter().map(|path| format!("-I{}", path.display())))
            .allowlist_function(FUNCTIONS)
            .allowlist_var(VARIABLES)
            .allowlist_type(TYPES)
            .opaque_type(OPAQUE)
            .blocklist_item("_packet_info__bindgen_ty_1")
            .prepend_enum_name(false)
            .generate_comments(false)
            .layout_tests(false)
            .merge_extern_blocks(true)
            .rust_edition(bindgen::RustEdition::Edition2024)
            .rust_target(bindgen::RustTarget::stable(85, 0).unwrap_or_default())
            .formatter(bindgen::Formatter::None);
        // bindgen panics where there is no libclang at all.
        let bindings = panic::catch_unwind(AssertUnwindSafe(|| bindings.generate()))
            .unwrap_or_else(|_| fail(NO_CLANG))
            .unwrap_or_else(|error| fail(&format!("{NO_CLANG}\n({error})")));
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
        bindings.write_to_file(out).expect("OUT_DIR can be written");
    }

    fn compile_shim(include_paths: &[PathBuf]) {
        cc::Build::new()
            .file("src/epan/shim.c")
            .includes(include_paths)
            .flag("-Wall")
            .flag("-Wextra")
            // A newer compiler or header must not break a user's build; CI is where warnings are to be seen to.
            .warnings_into_errors(env::var_os("CI").is_some())
            .compile("kraft_shim");
    }

    fn fail(why: &str) -> ! {
        eprintln!("\n{why}\n");
        std::process::exit(1);
    }
}
