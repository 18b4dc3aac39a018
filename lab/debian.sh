# shellcheck shell=bash
# Packages of Debian's moving releases, fetched through an apt root of our own inside the cache:
# neither the host's sources nor its package state are touched. Sourced after common.sh.

APT=$CACHE/apt
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
SUITES=(testing unstable)

# fetch NAME PACKAGE...: downloads the packages and everything they depend on, and leaves the
# list of their files in $APT/NAME.debs. A complete earlier download is taken as it is.
fetch() {
    local list=$APT/$1.debs suite
    shift
    if [ -f "$list" ] && [ "$(head -n 1 "$list")" = "# $*" ] && all_present "$list"; then
        return
    fi
    apt_root
    for suite in "${SUITES[@]}"; do
        # Both releases move: an index of yesterday names files that are gone today.
        if fetch_from "$suite" "$list" "$@" || { update && fetch_from "$suite" "$list" "$@"; }; then
            return
        fi
        say "not available from Debian $suite: $*"
    done
    die "cannot fetch from Debian ${SUITES[*]}: $*"
}

# unpack NAME DIR [REGEX]: unpacks what `fetch NAME` listed (files whose name matches REGEX).
unpack() {
    local deb target=$2
    mkdir -p "$target"
    while read -r deb; do
        dpkg-deb --fsys-tarfile "$APT/archives/$deb" |
            tar -x -C "$target" --keep-directory-symlink --no-same-owner \
                --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' \
                --exclude='./usr/share/info/*' --exclude='./usr/share/locale/*' ||
            die "cannot unpack $deb"
    done < <(grep -v '^#' "$APT/$1.debs" | grep -E "${3:-.}")
}

# fetch_source PACKAGE DIR: downloads a package's upstream source and unpacks it into DIR.
fetch_source() {
    local package=$1 target=$2 suite tarball
    apt_root
    for suite in "${SUITES[@]}"; do
        mkdir -p "$APT/sources"
        if (cd "$APT/sources" && apt_get source -qq --download-only -t "$suite" "$package" >/dev/null); then
            tarball=$(find "$APT/sources" -name "${package}_*.orig.tar.*z*" ! -name '*.asc' | sort -V | tail -n 1)
            mkdir -p "$target"
            tar -x -f "$tarball" -C "$target" --strip-components=1 --no-same-owner
            return
        fi
        say "no source in Debian $suite: $package"
    done
    die "cannot fetch the source from Debian ${SUITES[*]}: $package"
}

# fetch_file PATH SHA256 TARGET: downloads a file of the mirror's pool, one that stays as it is.
fetch_file() {
    apt_root
    APT_CONFIG=$APT/apt.conf /usr/lib/apt/apt-helper -qq download-file \
        "$(mirror | sed 's|/*$||')/pool/$1" "$3" "SHA256:$2" ||
        die "cannot fetch from Debian's pool: $1"
}

# use_own_libraries SYSROOT FILE: makes a program of the sysroot run on this host, whose C library
# may be older. A wrapper around the dynamic loader would not do: user-mode Linux executes
# /proc/self/exe, and its memory layout depends on being started by the kernel itself.
use_own_libraries() {
    local libraries=$1/usr/lib/x86_64-linux-gnu
    patchelf --force-rpath --set-rpath "$libraries" \
        --set-interpreter "$libraries/ld-linux-x86-64.so.2" "$2"
}

# own_private_libraries SYSROOT: libraries that look for others in a folder of their own find the
# sysroot's.
own_private_libraries() {
    local libraries=$1/usr/lib/x86_64-linux-gnu file folder
    find "$libraries" -name '*.so*' -type f | while read -r file; do
        folder=$(patchelf --print-rpath "$file" 2>/dev/null) || continue
        case $folder in
            /*) patchelf --set-rpath "$1$folder:$libraries" "$file" ;;
        esac
    done
}

apt_get() { APT_CONFIG=$APT/apt.conf apt-get "$@"; }

update() {
    say "reading Debian's package indexes"
    apt_get update -qq || die "cannot read Debian's package indexes from $(mirror)"
    touch "$APT/updated"
}

all_present() {
    local deb
    while read -r deb; do
        [ -s "$APT/archives/$deb" ] || return 1
    done < <(grep -v '^#' "$1")
}

fetch_from() {
    local suite=$1 list=$2
    shift 2
    {
        printf '# %s\n' "$*"
        apt_get install -s -t "$suite" "$@" | archive_names
    } >"$list.new" || return
    apt_get install -y -qq --download-only -t "$suite" "$@" >/dev/null || return
    all_present "$list.new" || return
    mv "$list.new" "$list"
}

# Turns apt's "Inst NAME (VERSION Debian:SUITE [ARCH])" into the names apt gives its downloads.
archive_names() {
    sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*\[([a-z0-9]+)\]\).*/\1_\2_\3.deb/p' | sed 's/:/%3a/g'
}

apt_root() {
    [ "$(dpkg --print-architecture)" = amd64 ] || die "guests are prepared on amd64 hosts only"
    [ -f "$KEYRING" ] || die "missing $KEYRING (package debian-archive-keyring)"
    mkdir -p "$APT/lists/partial" "$APT/archives/partial" "$APT/none"
    touch "$APT/status"
    local suite from
    from=$(mirror)
    for suite in "${SUITES[@]}"; do
        printf 'deb [signed-by=%s] %s %s main\n' "$KEYRING" "$from" "$suite"
        printf 'deb-src [signed-by=%s] %s %s main\n' "$KEYRING" "$from" "$suite"
    done >"$APT/sources.list"
    # Proxies and the like still come from the host's apt.conf.d.
    cat >"$APT/apt.conf" <<EOF
Dir::State "$APT";
Dir::State::status "$APT/status";
Dir::State::lists "lists";
Dir::Cache "$APT";
Dir::Cache::archives "archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::sourcelist "$APT/sources.list";
Dir::Etc::sourceparts "$APT/none";
Dir::Etc::preferences "$APT/none/preferences";
Dir::Etc::preferencesparts "$APT/none";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
EOF
    [ -f "$APT/updated" ] || update
}

# The Debian mirror that this host already uses or, on a derivative, debootstrap's default.
mirror() {
    local found=${SLUICE_DEBIAN_MIRROR:-}
    [ -n "$found" ] || found=$(
        apt-get indextargets --format "\$(ORIGIN) \$(LABEL) \$(REPO_URI)" |
            sed -n 's/^Debian Debian //p' | head -n 1
    )
    [ -n "$found" ] || found=$(
        sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)" 2>/dev/null | head -n 1
    )
    [ -n "$found" ] || die "no Debian mirror found: set SLUICE_DEBIAN_MIRROR"
    printf '%s\n' "$found"
}
