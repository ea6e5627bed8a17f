#!/bin/sh
# Installs sapwood from a release, without root and without a compiler:
#
#     sh install.sh [--from <URL or directory>] [--prefix <directory>] [--digest-only]
#
# The release lies at --from: SHA256SUMS, its signature, and the archive for this machine. The script
# checks the signature with `ssh-keygen` and the key below, then the digest of the archive, and only then
# unpacks it. It installs nothing if a check fails. `--digest-only` leaves the signature out, for machines
# without OpenSSH: the digests then only show a damaged download.
# The default of --prefix is ~/.local. A program that exists there is replaced in one step.
set -eu
key=
version=
from=${SAPWOOD_RELEASE:-}
prefix=${HOME:-}/.local
signed=yes
fail() {
    echo "install.sh: $*" >&2
    exit 1
}
while [ $# != 0 ]; do
    case $1 in
    --from) from=${2:?--from needs a value} && shift ;;
    --prefix) prefix=${2:?--prefix needs a value} && shift ;;
    --digest-only) signed= ;;
    *)
        echo "usage: sh install.sh [--from <URL or directory>] [--prefix <directory>] [--digest-only]" >&2
        exit 129
        ;;
    esac
    shift
done
# Nothing runs before the last line: a download that was cut off does nothing.
main() {
    [ "$(uname -s)" = Linux ] || fail "sapwood runs on Linux only"
    [ -n "$version" ] || fail "this is not the script of a release: it has no key and no version"
    [ -n "$from" ] || fail "--from names the place of the release"
    case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no program for $(uname -m); build it from the sources" ;;
    esac
    name=sapwood-$version-$machine-linux
    place=$(mktemp -d)
    new=
    trap 'rm -rf "$place"; [ -z "$new" ] || rm -f "$new"' EXIT
    trap 'exit 1' HUP INT TERM

    get SHA256SUMS
    if [ "$signed" ]; then
        command -v ssh-keygen >/dev/null ||
            fail "there is no ssh-keygen to check the signature: install OpenSSH, or add --digest-only"
        get SHA256SUMS.sig
        echo "sapwood $key" >"$place/signers"
        ssh-keygen -Y verify -f "$place/signers" -I sapwood -n sapwood-release -s "$place/SHA256SUMS.sig" \
            <"$place/SHA256SUMS" >/dev/null 2>&1 || fail "the signature of SHA256SUMS is wrong"
    fi
    get "$name.tar.gz"
    wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$place/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS does not name $name.tar.gz"
    found=$(sha256sum "$place/$name.tar.gz" | cut -d' ' -f1)
    [ "$found" = "$wanted" ] || fail "the digest of $name.tar.gz is wrong"

    mkdir "$place/new"
    # gzip apart from tar: some versions of tar have no -z.
    gzip -dc "$place/$name.tar.gz" | tar -xf - -C "$place/new"
    "$place/new/$name/bin/sapwood" --version >/dev/null || fail "the program does not run on this machine"
    (cd "$place/new/$name" && find . -type f) >"$place/files"
    while read -r file; do
        file=${file#./}
        mkdir -p "$prefix/$(dirname "$file")"
        new=$prefix/$(dirname "$file")/.$(basename "$file").new.$$
        cp "$place/new/$name/$file" "$new" || fail "cannot write below $prefix"
        mv -f "$new" "$prefix/$file"
    done <"$place/files"
    echo "$("$prefix/bin/sapwood" --version) is $prefix/bin/sapwood"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "Add it to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    command -v git >/dev/null || echo "Install Git too: sapwood hands over to it what it does not do itself."
}
# Fetches a file of the release.
get() {
    case $from in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL --retry 3 -o "$place/$1" "$from/$1" || fail "cannot fetch $from/$1"
        elif command -v wget >/dev/null; then
            wget -q -O "$place/$1" "$from/$1" || fail "cannot fetch $from/$1"
        else
            fail "there is neither curl nor wget"
        fi
        ;;
    *) cp "$from/$1" "$place/$1" 2>/dev/null || fail "there is no $from/$1" ;;
    esac
}
main
