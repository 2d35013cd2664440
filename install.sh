#!/usr/bin/env bash
# Builds the plugin and puts it where this machine's Wireshark looks for it. What it can do: ./install.sh --help
# Best read from the bottom: `main` names the steps, and every step stands above the one that calls it.
set -euo pipefail

readonly OLDEST_WIRESHARK=4.0
readonly CAPTURE=captures/ok/v4-kafka-3.9.pcap
readonly PROFILE=docs/profile/KRaft
readonly PACKAGES=target/package # where packages are made, apart from what other builds leave

usage() {
    cat <<'END'
Usage: ./install.sh [--test | --package | --uninstall | --help]

  (nothing)     install what is missing, build the plugin, put it where Wireshark looks for it, show it at work
  --test        install what is missing, then run all tests; the plugin is not installed
  --package     install what is missing, then make a Debian package of the plugin, for this machine's version of Wireshark;
                nothing of it is installed
  --uninstall   remove the plugin
  --help        print this

Run by a user it installs for that user, and asks for sudo only to install packages that are missing.
Run by root it installs for all users: Wireshark, when root runs it, ignores plugins in personal folders.
END
}

# What building and running takes, and which packages bring it. Each need has its test, the function `has_<need>`.
needs_table() {
    cat <<END
need      | what it is                               | apt                             | dnf                         | pacman
tshark    | tshark, Wireshark on the command line    | tshark                          | wireshark-cli               | wireshark-cli
headers   | Wireshark's development headers          | libwireshark-dev libglib2.0-dev | wireshark-devel glib2-devel | wireshark-cli glib2
libclang  | libclang and its headers                 | libclang-dev                    | clang-devel                 | clang
compiler  | a C compiler and the C library's headers | gcc libc6-dev                   | gcc glibc-devel             | gcc
pkgconfig | pkg-config                               | pkg-config                      | pkgconf-pkg-config          | pkgconf
cargo     | cargo $(oldest_rust) or newer            | cargo                           | cargo                       | rust
setpriv   | setpriv, to test as no root              | util-linux                      | util-linux                  | util-linux
valgrind  | valgrind, to count instructions          | valgrind                        | valgrind                    | valgrind
dpkgdev   | Debian's tools that make packages        | dpkg-dev                        |                             |
END
}

# --- Talking ---------------------------------------------------------------------------------------------------------

bold='' red='' yellow='' plain=''
if [[ -t 1 && -t 2 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' red=$'\e[1;31m' yellow=$'\e[1;33m' plain=$'\e[0m'
fi

step() { printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"; }
say() { printf '    %s\n' "$*"; }
warn() { printf '%swarning:%s %s\n' "$yellow" "$plain" "$*" >&2; }
die() {
    printf '\n%serror:%s %s\n' "$red" "$plain" "$*" >&2
    exit 1
}

# --- Who runs this, and as whom --------------------------------------------------------------------------------------

builder=()  # what runs cargo as the person behind sudo, so that the checkout does not fill with root's files
scratch=''  # a folder for what tshark says on stderr
arriving='' # the plugin's file while it is being copied

tidy_up() { rm -rf -- ${scratch:+"$scratch"} ${arriving:+"$arriving"}; }

home_of() { getent passwd "$1" | cut -d: -f6; }

# Cargo and Wireshark both need a home that can be written; `su` and containers do not always leave one.
settle_home() {
    [[ ${HOME:-} == /* && -d $HOME && -w $HOME ]] && return
    local home
    home=$(home_of "$EUID")
    [[ -d $home && -w $home ]] ||
        die "The home folder ${HOME:-$home} cannot be written. Set HOME to a folder of yours, and run $again again."
    say "HOME (${HOME:-not set}) is no folder that can be written; using $home"
    export HOME=$home
}

settle_builder() {
    local person=${SUDO_USER:-root}
    if ((EUID == 0)) && [[ $person == "$(stat -c %U .)" && $person != root ]]; then
        builder=(sudo -u "$person" -H --)
    fi
}

as_builder() { "${builder[@]}" "$@"; }

# A run as root may have left folders that a user cannot write, and cargo's own words about it are hard to read.
check_target() {
    local locked
    if [[ -e target ]]; then
        locked=$(as_builder find "$PWD/target" -type d ! -writable -print -quit)
    else
        locked=$(as_builder find "$PWD" -maxdepth 0 ! -writable)
    fi
    [[ -z $locked ]] || die "$locked cannot be written by you; perhaps a run as root made it.
Remove what was built (sudo rm -rf '$PWD/target'), or copy these sources to a folder of yours, and run $again again."
}

# --- Versions --------------------------------------------------------------------------------------------------------

# The first number that a program's --version says; nothing if it does not run.
version_of() { as_builder "$1" --version 2>/dev/null | sed -nE '1s/^[^0-9]*([0-9]+(\.[0-9]+)*).*/\1/p'; }
headers_version() { pkg-config --modversion wireshark; }

at_least() { [[ -n $1 ]] && printf '%s\n' "$2" "$1" | sort -V -C; }
minor_of() { cut -d. -f1,2 <<<"$1"; }

oldest_rust() { sed -nE 's/^rust-version *= *"(.*)"/\1/p' Cargo.toml; }

# The first cargo that is new enough, on PATH or where rustup puts it (not every shell has that folder on PATH).
find_cargo() {
    local cargo home=$HOME
    ((${#builder[@]} == 0)) || home=$(home_of "$SUDO_USER")
    while read -r cargo; do
        if at_least "$(version_of "$cargo")" "$(oldest_rust)"; then
            printf '%s\n' "$cargo"
            return
        fi
    done < <(type -aP cargo || true; printf '%s\n' "${CARGO_HOME:-$home/.cargo}/bin/cargo")
    return 1
}

check_versions() {
    local tshark headers
    tshark=$(version_of tshark) headers=$(headers_version)
    at_least "$tshark" "$OLDEST_WIRESHARK" ||
        die "This Wireshark is $tshark, and the plugin needs $OLDEST_WIRESHARK or newer: upgrade Wireshark, and run $again again."
    [[ $(minor_of "$tshark") == "$(minor_of "$headers")" ]] ||
        die "$(type -P tshark) is Wireshark $tshark, but its development headers are those of $headers, and Wireshark loads no plugin of another version.
Install the headers of $tshark (from where that Wireshark came; PKG_CONFIG_PATH names the folder of its wireshark.pc), or put the tshark of $headers first on PATH."
    say "Wireshark $tshark, headers $headers, cargo $(version_of "$cargo") ($cargo)"
}

# --- What is missing, and getting it ---------------------------------------------------------------------------------

has_tshark() { [[ -n $(version_of tshark) ]]; }
has_pkgconfig() { type -P pkg-config >/dev/null; }
has_compiler() { echo 'int main(void) { return 0; }' | cc -x c -o "$scratch/program" - 2>/dev/null; }
has_setpriv() { type -P setpriv >/dev/null; }
has_valgrind() { [[ -n $(version_of valgrind) ]]; }
has_dpkgdev() { type -P dpkg-shlibdeps >/dev/null && type -P dpkg-gencontrol >/dev/null; }
has_cargo() { find_cargo >/dev/null; }

# Where a compiler can tell, the headers must be there and not only their pkg-config file.
has_headers() {
    local flags
    read -ra flags < <(pkg-config --cflags wireshark 2>/dev/null) || return 1
    has_compiler || return 0
    cc "${flags[@]}" -fsyntax-only -x c -include epan/packet.h /dev/null 2>/dev/null
}

# Looks where bindgen looks. The runtime library alone, without clang's own headers, would not do.
has_libclang() {
    local folders=(/usr/lib /usr/lib64 /usr/local/lib /usr/lib/*-linux-gnu /usr/lib*/llvm*/lib* /usr/lib/llvm/*/lib*)
    [[ -z ${LIBCLANG_PATH:-} ]] || return 0
    any_file "${folders[@]/%//libclang.so*}" "${folders[@]/%//libclang-[0-9]*.so*}" &&
        any_file "${folders[@]/%//clang/*/include/stddef.h}"
}

any_file() {
    local pattern
    for pattern; do
        if compgen -G "$pattern" >/dev/null; then return; fi
    done
    return 1
}

missing_of() {
    local need
    for need; do
        "has_$need" || printf '%s\n' "$need"
    done
}

# A cell of the table: of a need, what a column says.
told_of() { needs_table | awk -F' *[|] *' -v need="$1" -v column="$2" \
    'NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) wanted = i } $1 == need { print $wanted }'; }

# The packages of several needs, one a line and each once.
packages_of() {
    local manager=$1 need
    shift
    for need; do told_of "$need" "$manager"; done | tr ' ' '\n' | awk '!seen[$0]++'
}

package_manager() {
    local kin
    # shellcheck source=/dev/null
    kin=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") || return
    case " $kin " in
    *' debian '* | *' ubuntu '*) type -P apt-get >/dev/null && echo apt ;;
    *' fedora '*) type -P dnf >/dev/null && echo dnf ;;
    *' arch '*) type -P pacman >/dev/null && echo pacman ;;
    *) return 1 ;;
    esac
}

# Which Rust this distribution would install.
offered_rust() {
    case $1 in
    apt) LC_ALL=C apt-cache policy rustc | sed -n 's/^ *Candidate: *//p' ;;
    dnf) LC_ALL=C dnf --quiet repoquery --latest-limit=1 --queryformat '%{version}\n' cargo ;;
    pacman) LC_ALL=C pacman -Si rust | sed -n 's/^Version *: *//p' ;;
    esac 2>/dev/null | sed -nE '1s/^([0-9]+:)?([0-9.]+).*/\2/p'
}

# Stops, unless the distribution's own cargo will do.
check_offered_rust() {
    local wanted offered
    wanted=$(oldest_rust)
    type -P rustup >/dev/null &&
        die "The plugin needs Rust $wanted or newer. Run 'rustup default stable' and 'rustup update', and then $again again."
    offered=$(offered_rust "$1") || true
    at_least "$offered" "$wanted" && return
    die "The plugin needs Rust $wanted or newer, and this distribution offers ${offered:-none, or its package lists are not here}.
Install Rust with rustup (https://rustup.rs; it needs no root), and run $again again."
}

may_be_root() { ((EUID == 0)) || type -P sudo >/dev/null; }

as_root() {
    ((EUID == 0)) || set -- sudo "$@"
    say "\$ $*"
    "$@"
}

install_command() {
    case $1 in
    apt) echo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ;;
    dnf) echo dnf install --assumeyes ;;
    pacman) echo pacman -S --needed --noconfirm ;;
    esac
}

# Fresh machines have no package lists, and old lists name packages that are gone.
refresh_lists() {
    [[ $1 == apt ]] || return 0
    as_root apt-get update --quiet || warn "apt-get could not refresh all of its lists; trying with what it has."
}

stop_without_root() {
    local manager=$1
    shift
    [[ $manager != apt ]] || set -- apt-get update '&&' "$@"
    die "Installing packages takes root, and there is no sudo. As root, run

    $*

and then, as yourself, $again again."
}

stop_without_manager() {
    local need
    for need; do
        say "$(told_of "$need" 'what it is'): $(told_of "$need" apt) on Debian, $(told_of "$need" dnf) on Fedora, $(told_of "$need" pacman) on Arch"
    done
    die "This script knows apt, dnf and pacman only. Install what is named above (Wireshark $OLDEST_WIRESHARK or newer, Rust $(oldest_rust) or newer), and run $again again."
}

install_missing() {
    local manager need command packages
    manager=$(package_manager) || stop_without_manager "$@"
    if may_be_root; then refresh_lists "$manager"; fi
    if [[ " $* " == *' cargo '* ]]; then check_offered_rust "$manager"; fi
    read -ra command < <(install_command "$manager")
    mapfile -t packages < <(packages_of "$manager" "$@")
    may_be_root || stop_without_root "$manager" "${command[@]}" "${packages[@]}"
    as_root "${command[@]}" "${packages[@]}" || die "The packages could not be installed; the reason stands above.
Often it is the network, or old package lists (refresh them: apt-get update, dnf upgrade --refresh, pacman -Syu). Then run $again again."
    hash -r
    for need in $(missing_of "$@"); do
        die "Still missing after that: $(told_of "$need" 'what it is'). Reinstall what brings it ($(told_of "$need" "$manager")), and see that nothing else of that name stands before it on PATH ($PATH)."
    done
}

# Installs what is missing of the given needs, and leaves the cargo to use in `cargo`.
provide() {
    local lacking need
    step "Looking for what is needed"
    scratch=$(mktemp -d)
    mapfile -t lacking < <(missing_of "$@")
    if ((${#lacking[@]} > 0)); then
        for need in "${lacking[@]}"; do say "missing: $(told_of "$need" 'what it is')"; done
        step "Installing what is missing"
        install_missing "${lacking[@]}"
    fi
    cargo=$(find_cargo)
    check_versions
}

# --- Building and testing --------------------------------------------------------------------------------------------

run_cargo() {
    local remedy=$1
    shift
    say "\$ cargo $* --locked"
    as_builder env PATH="${cargo%/*}:$PATH" "$cargo" "$@" --locked ||
        die "$remedy; the reason stands above. If it is a crate that could not be fetched, see that this machine has a network, and run $again again."
}

# Cargo does not see that the headers under it have become those of another Wireshark: after an upgrade, build anew.
forget_other_wireshark() {
    local target=$1 mark=$1/wireshark-version
    [[ -f $mark && $(<"$mark") == "$(headers_version)" ]] && return
    as_builder mkdir -p "$target"
    as_builder rm -rf "$target"/{debug,release}/{build,.fingerprint}/wireshark-kraft-*
    headers_version | as_builder tee "$mark" >/dev/null
}

build() {
    step "Building the plugin"
    check_target
    forget_other_wireshark target
    run_cargo "The plugin could not be built" build --release --target-dir target
}

# --- Putting the plugin where Wireshark looks ------------------------------------------------------------------------

# Where plugins for this version of Wireshark stand: `plugin_folder Personal`, `plugin_folder Global`.
plugin_folder() { as_builder tshark -G folders 2>/dev/null | sed -nE "s|^$1 Plugins:[[:space:]]*(.*[^/])/*$|\1/epan|p"; }

# The folders above those of the single minor versions of Wireshark; the usual ones where no tshark is left to ask.
plugin_roots() {
    if has_tshark; then
        plugin_folder Personal
        plugin_folder Global
    else
        printf '%s/any/epan\n' "${HOME:-$(home_of "$EUID")}"/.local/lib/wireshark/plugins /usr/{,local/}lib{,64,/*-linux-gnu}/wireshark/plugins
    fi | sed 's|/[^/]*/epan$||'
}

# Every copy of the plugin, for whichever version of Wireshark.
copies() {
    local root copy
    while read -r root; do
        for copy in "$root"/*/epan/kraft.so; do
            [[ ! -e $copy ]] || printf '%s\n' "$copy"
        done
    done < <(plugin_roots)
}

# The Debian package that a file came with; nothing if it came with none.
package_of() { dpkg-query --search -- "$1" 2>/dev/null | sed -n '1s/:.*//p'; }

put_plugin() {
    local folder=$1
    step "Putting it where Wireshark looks"
    (umask 022 && mkdir -p "$folder") || die "$folder cannot be made: see that it can be written, and run $again again."
    arriving=$folder/.kraft.so.$$
    if ! install -m 644 target/release/libkraft.so "$arriving" || ! mv -f "$arriving" "$folder/kraft.so"; then
        die "The plugin could not be put into $folder; the reason stands above."
    fi
    arriving=''
    say "$folder/kraft.so"
}

# That tshark runs says nothing: it goes on without a plugin that it cannot load.
check_listed() {
    local plugin=$1 listed
    listed=$(tshark -G plugins 2>"$scratch/said" | awk -F' *\t' '$1 == "kraft.so" { print $NF }')
    [[ $listed -ef $plugin ]] && say "tshark lists it" && return
    rm -f -- "$plugin"
    [[ -z $listed ]] || die "tshark loads another copy, $listed. Remove that one, and run $again again."
    ((EUID == 0)) || (($(id -g) != 0)) ||
        die "Wireshark ignores plugins in personal folders when its group is root's. Run $again with another group."
    die "tshark does not load the plugin, so it was removed again. $(grep -i kraft "$scratch/said" || echo 'tshark gives no reason.')
If that is about a version or a symbol: $(type -P tshark) is not the Wireshark whose headers ($(headers_version)) are installed. Install the headers that belong to it, and run $again again."
}

# What a package has put there is the package manager's. And Wireshark prefers the plugin for all users, so that a user's own
# copy would never be loaded.
check_global_copy() {
    local copy package
    copy=$(plugin_folder Global)/kraft.so
    [[ -e $copy ]] || return 0
    package=$(package_of "$copy") || true
    [[ -z $package ]] || die "$copy belongs to the package $package.
Remove that first (sudo apt purge $package), or make a new package ($self --package)."
    ((EUID == 0)) || die "Wireshark loads $copy, which is for all users, and would ignore yours.
Renew it (sudo $self) or remove it (sudo $self --uninstall)."
}

# The minor version of Wireshark whose folder a plugin stands in.
minor_of_folder() { basename "${1%/epan/kraft.so}"; }

# After an upgrade of Wireshark the copy for the old version stays where it was, and nobody looks there any more.
warn_of_other_copies() {
    local plugin=$1 copy minor
    minor=$(minor_of_folder "$plugin")
    while read -r copy; do
        if [[ $(minor_of_folder "$copy") != "$minor" ]]; then
            warn "$copy is for Wireshark $(minor_of_folder "$copy"); $minor does not look there. If that version is gone: rm '$copy'"
        elif [[ ! $copy -ef $plugin ]]; then
            warn "$copy is another copy for Wireshark $minor, for one user. $self --uninstall removes all."
        fi
    done < <(copies)
}

# Where the profile belongs: of one user (Personal) or of all (Global).
profile_folder() {
    as_builder tshark -G folders 2>/dev/null | sed -nE "s|^$1 configuration:[[:space:]]*(.*[^/])/*$|\1/profiles/KRaft|p"
}

# Wireshark's users change their profiles, so one that is there is never touched.
put_profile() {
    local folder
    folder=$(profile_folder "$1")
    step "The profile KRaft: columns, colors and filter buttons for this protocol"
    if [[ -e $folder ]]; then
        say "$folder is there already and stays as it is"
    elif (umask 022 && mkdir -p "$folder" && cp "$PROFILE"/* "$folder"); then
        say "$folder"
    else
        warn "The profile could not be put into $folder; the plugin works without it."
        return
    fi
    say "Choose it in Wireshark under Edit, Configuration Profiles, or start: wireshark -C KRaft"
}

# Where the profile may be; the usual places where no tshark is left to ask.
profile_folders() {
    if has_tshark; then
        profile_folder Personal
        profile_folder Global
    else
        printf '%s/wireshark/profiles/KRaft\n' "${XDG_CONFIG_HOME:-${HOME:-$(home_of "$EUID")}/.config}" /usr/{,local/}share
    fi
}

# Only a profile as it was installed: one that has been changed is somebody's work.
remove_profiles() {
    local folder file
    while read -r folder; do
        [[ -d $folder && -z $(package_of "$folder/preferences") ]] || continue
        for file in "$PROFILE"/*; do
            [[ ${file##*/} == recent ]] || cmp -s "$file" "$folder/${file##*/}" || continue 2
        done
        rm -rf -- "$folder" 2>/dev/null && say "removed $folder" && remove_empty_folders "${folder%/*}"
    done < <(profile_folders)
}

# A folder and those above it, as far as nothing else is in them.
remove_empty_folders() { rmdir --parents --ignore-fail-on-non-empty -- "$1" 2>/dev/null || true; }

show() {
    local first
    step "Every registration in a capture of a real cluster: $CAPTURE"
    dissect -Y 'kraft.api_key == 62'
    first=$(dissect -Y 'kraft.api_key == 62' -T fields -e frame.number | sed -n 1p)
    step "The first of them, in full"
    dissect -Y "frame.number == $first" -O kraft
}

dissect() {
    tshark -r "$CAPTURE" "$@" 2>"$scratch/said" || {
        cat "$scratch/said" >&2
        die "tshark could not dissect $CAPTURE; its words stand above."
    }
}

hint() {
    step "Done"
    cat <<'END'
    Open a capture in Wireshark, or print one:   tshark -r FILE -Y kraft -O kraft
    Filters:                                     kraft.api_key == 62    kraft.broker_id == 2    kraft.error_code !== 0
    Controllers on other ports than 9093:        -o kraft.tcp.port:9093,19093
    README.md has all names. An upgrade of Wireshark to another minor version leaves the plugin behind: run ./install.sh again.
END
}

# --- A package for Debian --------------------------------------------------------------------------------------------

# A package is for the Wireshark of this Debian: its folders, its libraries, its version.
check_debian() {
    local manager
    manager=$(package_manager) || true
    [[ $manager == apt ]] || die "A package is made on the Debian, or kin of it, that it is for, and this machine is none.
$self without --package installs the plugin here."
}

check_packaged_tshark() {
    local tshark
    tshark=$(type -P tshark)
    [[ -n $(package_of "$(realpath "$tshark")") ]] ||
        die "$tshark came with no package, so that a package of the plugin could not depend on it. $self without --package installs the plugin for it."
}

version_of_crate() { sed -nE 's/^version *= *"(.*)"/\1/p' Cargo.toml; }

# The time that the package is of: of the sources, not of the day, so that the same sources make the same package.
source_date() {
    printf '%s\n' "${SOURCE_DATE_EPOCH:-$(as_builder git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
}

# Like `build`, but without this machine's paths in what the compiler leaves, and without the build id, which is made of them.
build_for_package() {
    local flags
    flags="'--remap-path-prefix=$PWD=.', '--remap-path-prefix=$(cargo_home)=cargo', '-Clink-arg=-Wl,--build-id=none'"
    step "Building the plugin"
    check_target
    forget_other_wireshark "$PACKAGES"
    run_cargo "The plugin could not be built" build --release --target-dir "$PACKAGES" --config "build.rustflags=[$flags]"
}

# shellcheck disable=SC2016 # the inner shell is to expand it: HOME is the builder's
cargo_home() { as_builder sh -c 'echo "${CARGO_HOME:-$HOME/.cargo}"'; }

# Everything that the package puts on a machine, and what Debian's tools want to know of it, in $scratch/debian.
stage() {
    local name=$1 maintainer=$2 minor=${1##*-} tree=$scratch/debian/tmp documents
    documents=$tree/usr/share/doc/$name
    umask 022
    install -D -m 644 "$PACKAGES/release/libkraft.so" "$tree$(plugin_folder Global)/kraft.so"
    strip --strip-unneeded --remove-section=.comment "$tree$(plugin_folder Global)/kraft.so"
    install -D -m 644 -t "$tree$(profile_folder Global)" "$PROFILE"/*
    install -D -m 644 -t "$documents" docs/debian/copyright README.md
    write_changelog "$name" "$maintainer" >"$scratch/debian/changelog"
    install -m 644 "$scratch/debian/changelog" "$documents/changelog.Debian"
    gzip -9n "$documents/changelog.Debian" "$documents/README.md"
    install -D -m 644 docs/debian/lintian-overrides "$tree/usr/share/lintian/overrides/$name"
    sed "s/@MINOR@/$minor/; s/@NEXT@/${minor%.*}.$((${minor#*.} + 1))/; s/@MAINTAINER@/$maintainer/" \
        docs/debian/control.in >"$scratch/debian/control"
}

write_changelog() {
    cat <<END
wireshark-kraft ($(version_of_crate)-1) unstable; urgency=medium

  * Release $(version_of_crate), built for Wireshark $(minor_of "$(headers_version)").

 -- $2  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END
}

# The plugin names no library of Wireshark, see build.rs: this is one that names them, and uses of them what the plugin uses.
link_stand_in() {
    local plugin=$1 libraries
    read -ra libraries < <(pkg-config --libs wireshark)
    # What has no version is not of the C library.
    nm --dynamic --undefined-only "$plugin" |
        awk '$1 == "U" && $2 !~ /@/ { printf "extern char %s[]; void *use_%d = %s;\n", $2, NR, $2 }' |
        cc -shared -fPIC -nostdlib -Wl,--as-needed,-z,defs -o "$2" -x c - "${libraries[@]}"
}

# Has Debian's tools find what the plugin depends on, and put all into a package.
assemble() {
    local plugin
    plugin=debian/tmp$(plugin_folder Global)/kraft.so
    mkdir -p debian/tmp/DEBIAN debian/stand-in/DEBIAN &&
        link_stand_in "$plugin" debian/stand-in/kraft.so &&
        dpkg-shlibdeps "$plugin" debian/stand-in/kraft.so &&
        (cd debian/tmp && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums) &&
        dpkg-gencontrol &&
        dpkg-deb --root-owner-group --build debian/tmp .
}

# --- The commands ----------------------------------------------------------------------------------------------------

install_plugin() {
    local folder whose=Personal
    ((EUID != 0)) || whose=Global
    if ((EUID == 0)) && [[ -n ${SUDO_USER:-} ]]; then
        say "Run through sudo, this installs for all users; without sudo it installs for $SUDO_USER alone."
    fi
    settle_home
    settle_builder
    provide tshark headers libclang compiler pkgconfig cargo
    check_global_copy
    build
    folder=$(plugin_folder "$whose")
    put_plugin "$folder"
    check_listed "$folder/kraft.so"
    warn_of_other_copies "$folder/kraft.so"
    put_profile "$whose"
    show
    hint
}

test_all() {
    local needs=(tshark headers libclang compiler pkgconfig cargo valgrind)
    ((EUID != 0)) || needs+=(setpriv)
    settle_home
    settle_builder
    provide "${needs[@]}"
    check_target
    forget_other_wireshark target
    step "Testing the decoder alone, which knows nothing of Wireshark"
    run_cargo "The decoder did not pass its tests (one alone: cargo test --no-default-features NAME)" test --no-fail-fast --no-default-features
    step "Testing everything, with the plugin in tshark"
    run_cargo "The plugin could not be built" build
    run_cargo "The plugin did not pass its tests (one alone: cargo test NAME)" test --no-fail-fast
    step "All tests passed"
}

package() {
    local name maintainer
    maintainer="${DEBFULLNAME:-The developers of wireshark-kraft} <${DEBEMAIL:-wireshark-kraft@noreply.invalid}>"
    unset WIRESHARK_PLUGIN_DIR WIRESHARK_DATA_DIR # with these, tshark would name folders of this user's own
    settle_home
    settle_builder
    check_debian
    provide tshark headers libclang compiler pkgconfig cargo dpkgdev
    check_packaged_tshark
    SOURCE_DATE_EPOCH=$(source_date)
    export SOURCE_DATE_EPOCH
    build_for_package
    step "Making the package"
    name=wireshark-kraft-$(minor_of "$(headers_version)")
    stage "$name" "$maintainer"
    if ! (cd "$scratch" && assemble) >"$scratch/said" 2>&1; then
        cat "$scratch/said" >&2
        die "The package could not be made; the reason stands above."
    fi
    chmod 755 "$scratch"
    as_builder cp "$scratch"/*.deb "$PACKAGES/"
    tell_of_package "$(basename "$scratch"/*.deb)" "$name"
}

tell_of_package() {
    dpkg-deb --field "$PACKAGES/$1" Package Version Architecture Depends | sed 's/^/    /'
    step "Done"
    cat <<END
    $PACKAGES/$1
    Install it:                  sudo apt install ./$PACKAGES/$1
    Remove it:                   sudo apt purge $2
    For another Wireshark:       run $self --package on a Debian that has it; no package fits two minor versions
END
}

uninstall() {
    local copy package removed=0 left=()
    settle_builder
    step "Removing the plugin"
    while read -r copy; do
        package=$(package_of "$copy") || true
        if [[ -n $package ]]; then
            say "$copy belongs to the package $package and stays; to remove it: sudo apt purge $package"
            removed=1
        elif rm -f -- "$copy" 2>/dev/null; then
            say "removed $copy"
            remove_empty_folders "${copy%/*}"
            removed=1
        else
            left+=("$copy")
        fi
    done < <(copies)
    remove_profiles
    ((${#left[@]} == 0)) || die "Only root can remove what is for all users (sudo $self --uninstall): ${left[*]}"
    ((removed)) || say "There is none."
}

fail_usage() {
    printf '%serror:%s %s\n\n' "$red" "$plain" "$1" >&2
    usage >&2
    exit 2
}

main() {
    (($# <= 1)) || fail_usage "one argument at most, not $#: $*"
    printf -v self '%q' "$0"
    readonly self again="$self${1:+ $1}"
    unset CDPATH
    cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
    trap tidy_up EXIT
    case ${1-install} in
    install) install_plugin ;;
    --test) test_all ;;
    --package) package ;;
    --uninstall) uninstall ;;
    --help | -h) usage ;;
    *) fail_usage "unknown argument: $1" ;;
    esac
}

main "$@"
