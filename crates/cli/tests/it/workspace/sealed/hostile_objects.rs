//! Objects that are not what they seem: see [`super::hostile`].

use super::hostile::{
    Case,
    Land::{Fails, Lands},
    each,
};

const ROLES: &[Case<'_>] = &[
    (
        "a blob that becomes .gitmodules",
        "b=$(blob '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./evil\\n'); \
      on $(printf '100644 blob %s\\ta\\n' $b | git mktree); \
      on $(printf '100644 blob %s\\t.gitmodules\\n' $b | git mktree)",
        Fails("refused"),
    ),
    (
        "a large blob that becomes .gitmodules",
        "{ printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./evil\\n'; \
      head -c 40000000 /dev/zero | tr '\\0' '\\n'; } >l; b=$(git hash-object -w l); rm l; \
      on $(printf '100644 blob %s\\ta\\n' $b | git mktree); \
      on $(printf '100644 blob %s\\t.gitmodules\\n' $b | git mktree)",
        Fails("refused"),
    ),
];

const KINDS: &[Case<'_>] = &[
    (
        "a blob that is also a tree",
        "b=$(blob z); on $({ entry 40000 a $b; entry 100644 d $b; } | any tree)",
        Fails("is named as a tree and as a blob"),
    ),
    (
        "a blob that is a tree in the next commit",
        "b=$(blob z); on $(entry 100644 a $b | any tree); on $(entry 40000 a $b | any tree)",
        Fails("is named as a blob and as a tree"),
    ),
    (
        "a tree of the repository as blob",
        "on $(entry 100644 a $(git rev-parse HEAD^{tree}) | any tree)",
        Fails("is a tree, not a blob"),
    ),
    (
        "a commit of the repository as tree",
        "on $(entry 40000 a $(git rev-parse HEAD) | any tree)",
        Fails("is named as a commit and as a tree"),
    ),
    (
        "the empty tree as blob",
        "on $(entry 100644 a $(git mktree </dev/null) | any tree)",
        Fails("is a tree, not a blob"),
    ),
];

/// Writes a pack with a blob and `$1` deltas, each of which appends a byte to the one before, and
/// lets the branch hold the last of them.
const CHAIN: &str = r#"
chain() {
perl -MDigest::SHA=sha1 -MCompress::Zlib -e '
    sub varint {
        my ($n, $s) = (shift, "");
        while ($n > 127) { $s .= chr($n & 127 | 128); $n >>= 7 }
        $s . chr $n
    }
    sub head {
        my ($kind, $n) = @_;
        my $first = $kind << 4 | $n & 15;
        $n > 15 ? chr($first | 128) . varint($n >> 4) : chr $first
    }
    sub back {
        my $n = shift;
        my $s = chr($n & 127);
        while ($n >>= 7) { $s = chr(--$n & 127 | 128) . $s }
        $s
    }
    my ($count, $last) = (shift, 12);
    my $pack = "PACK" . pack("NN", 2, $count + 1) . head(3, 1) . compress("x");
    for my $n (1..$count) {
        my $delta = varint($n) . varint($n + 1) . chr(0xb0) . pack("v", $n) . chr(1) . "y";
        my $at = length $pack;
        $pack .= head(6, length $delta) . back($at - $last) . compress($delta);
        $last = $at;
    }
    print $pack, sha1($pack)' $1 | git index-pack --stdin >/dev/null
b=$(perl -e 'print "x", "y" x shift' $1 | git hash-object --stdin)
on $(printf '100644 blob %s\tz\n' $b | git mktree)
}
"#;

#[test]
fn a_blob_is_checked_in_all_its_roles() {
    each("copy", ROLES);
}

#[test]
fn objects_of_two_kinds_are_refused() {
    each("copy", KINDS);
}

#[test]
fn objects_that_take_too_much_are_refused() {
    let chain = |count: &str| format!("{CHAIN}\nchain {count}");
    each(
        "copy",
        &[
            ("a chain of deltas as long as Git makes them", &chain("4095"), Lands),
            ("a longer chain of deltas", &chain("4096"), Fails("cannot be read")),
            (
                "a blob that is larger than the disk",
                "b=$(blob q | tr 0-9 1-90); f=$(file_of $b); mkdir -p $(dirname $f); \
      perl -MCompress::Zlib -e 'print compress(\"blob 99999999999999\\0x\")' >$f; \
      on $(printf '100644 blob %s\\tz\\n' $b | git mktree --missing)",
                Fails("has 99999999999999 bytes"),
            ),
            ("a .gitignore that never ends", "fresh; truncate -s 1T $ws/.gitignore", Lands),
            (
                "a .gitignore below that never ends",
                "fresh; mkdir $ws/d; truncate -s 1T $ws/d/.gitignore; echo x >$ws/d/x",
                Lands,
            ),
        ],
    );
}
