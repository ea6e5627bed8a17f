//! Trees whose names or links lead into the repository: CVE-2014-9390, CVE-2019-1351 to
//! CVE-2019-1354, CVE-2021-21300.

use bstr::ByteSlice as _;
use testkit::{FILTER_PROTOCOL, Repo};

use super::{AttackDir, TreeEntry, everywhere, harmless_clone, hook, source};

/// Commands that check out a whole branch or its files in a harmless clone.
const LINES: &[&[&str]] = &[
    &["-C", "work", "checkout", "-q", "origin/evil"],
    &["-C", "work", "switch", "-f", "evil"],
    &["-C", "work", "reset", "--hard", "origin/evil"],
    &["-C", "work", "checkout", "origin/evil", "--", "."],
    &["-C", "work", "restore", "-SW", "--source=origin/evil", ":/"],
    &["-C", "work", "reset", "-q", "origin/evil"],
];

fn attack(field: &mut AttackDir<'_>, url: &str, settings: &[&str]) {
    let clone = [settings, &["clone", "--template=", "-b", "evil", url, "work"]].concat();
    field.same(&clone, |_| {});
    for line in LINES {
        field.same(&[settings, line].concat(), |repo| harmless_clone(repo, url));
    }
}

/// CVE-2014-9390: other spellings of `.git` that a case-insensitive file system treats as equal.
/// CVE-2019-1352 and CVE-2019-1353: its short name and its streams on NTFS, which may be mounted on
/// any system.
#[test]
fn refuses_other_names_of_the_git_directory() {
    everywhere(|sandbox, field| {
        let hook = hook(sandbox);
        let program = TreeEntry::Program(&hook);
        let settings: &[&str] = &["-c", "core.protectHFS=true"];
        for (number, path) in [
            ".GIT/hooks/post-checkout",
            "git~1/hooks/post-checkout",
            ".git::$INDEX_ALLOCATION/hooks/post-checkout",
            ".g\u{200c}it/hooks/post-checkout",
            "dir/.Git. ./config",
            ".git\\hooks\\post-checkout",
        ]
        .into_iter()
        .enumerate()
        {
            let url =
                source(sandbox, &format!("source{number}"), &[("a", TreeEntry::File("a")), (path, program)]);
            let clone = [settings, &["clone", "--template=", "-b", "evil", &url, "work"]].concat();
            let run = field.same(&clone, |_| {});
            assert_eq!(run.code, 128, "{path}");
            let line = LINES[number % LINES.len()];
            let run = field.same(&[settings, line].concat(), |repo| harmless_clone(repo, &url));
            assert!(run.stderr.contains_str("invalid path"), "{path}: {}", run.stderr);
        }
    });
}

/// A `.gitmodules` that is a link, in every spelling.
#[test]
fn refuses_links_called_gitmodules() {
    everywhere(|sandbox, field| {
        for (number, path) in [".gitmodules", ".GITMODULES", "gitmod~1", "GI7EBA~1"].into_iter().enumerate() {
            let url = source(
                sandbox,
                &format!("source{number}"),
                &[("a", TreeEntry::File("a")), (path, TreeEntry::Link(".git/config"))],
            );
            let run = field.same(&["clone", "--template=", "-b", "evil", &url, "work"], |_| {});
            assert_ne!(run.code, 0, "{path}");
        }
    });
}

/// CVE-2019-1351 and CVE-2019-1354: names that are drives, devices or several components on
/// Windows. They are ordinary names on other systems.
#[test]
fn accepts_names_that_are_paths_on_windows() {
    everywhere(|sandbox, field| {
        let held = [
            ("C:\\a", TreeEntry::File("a")),
            ("\u{e4}:tmp", TreeEntry::File("b")),
            ("..\\x", TreeEntry::File("c")),
        ];
        let url = source(sandbox, "source", &[&held[..], &[("NUL", TreeEntry::File("d"))]].concat());
        attack(field, &url, &[]);
    });
}

/// The plain form of CVE-2021-21300: a link into the repository, and files that a case-insensitive
/// file system would write through it.
#[test]
fn writes_no_file_through_a_link_of_the_same_name() {
    everywhere(|sandbox, field| {
        let hook = hook(sandbox);
        let url = source(
            sandbox,
            "source",
            &[
                ("A/one", TreeEntry::File("1")),
                ("A/post-checkout", TreeEntry::Program(&hook)),
                ("A/two", TreeEntry::File("2")),
                ("a", TreeEntry::Link(".git/hooks")),
                ("b", TreeEntry::Link(".git/hooks")),
                ("B/post-checkout", TreeEntry::Program(&hook)),
                ("E", TreeEntry::Link(".git/hooks")),
                ("e/post-checkout", TreeEntry::Program(&hook)),
            ],
        );
        attack(field, &url, &[]);
    });
}

/// A link out of the worktree.
#[test]
fn writes_no_file_through_a_link_out_of_the_worktree() {
    everywhere(|sandbox, field| {
        let url = source(
            sandbox,
            "source",
            &[
                ("Dir/file", TreeEntry::File("inside")),
                ("Dir/deep/er/file", TreeEntry::File("inside")),
                ("dir", TreeEntry::Link("../..")),
                ("link", TreeEntry::Link("../../../home")),
                ("LINK/file", TreeEntry::File("inside")),
            ],
        );
        attack(field, &url, &[]);
    });
}

/// A tracked directory that has become a link in the user's own worktree.
#[test]
fn does_not_follow_a_directory_that_became_a_link() {
    everywhere(|sandbox, field| {
        let url = source(
            sandbox,
            "source",
            &[("d/file", TreeEntry::File("new")), ("e/x/y", TreeEntry::File("new"))],
        );
        let prepare = |repo: &Repo<'_>| {
            harmless_clone(repo, &url);
            std::fs::create_dir(repo.join("elsewhere")).expect("made");
            repo.symlink("../elsewhere", "work/d");
            repo.symlink("../elsewhere", "work/e");
        };
        for line in LINES {
            field.same(line, prepare);
        }
    });
}

/// A filter that delays files: they are written last, when the links exist (CVE-2021-21300).
#[test]
fn writes_no_delayed_file_through_a_link() {
    const LATE: &str = r#"
my %late;
while (1) {
    my %told = map { /^([^=]+)=(.*)$/s } lines();
    if ($told{command} eq "list_available_blobs") {
        packet("pathname=$_\n") for grep { !$late{$_}{named}++ } sort keys %late;
        flush(); packet("status=success\n"); flush();
        next;
    }
    my $data = content();
    my $path = $told{pathname};
    if ($late{$path}) { $data = (delete $late{$path})->{data}; }
    elsif ($told{"can-delay"}) {
        $late{$path} = { data => $data }; packet("status=delayed\n"); flush(); next;
    }
    packet("status=success\n"); flush();
    packet($data) if length $data; flush(); flush();
}
"#;
    everywhere(|sandbox, field| {
        let hook = hook(sandbox);
        let filter = sandbox.repo("");
        filter.write("filter.pl", [FILTER_PROTOCOL, LATE].concat());
        let setting = format!("filter.late.process=perl '{}'", filter.join("filter.pl").display());
        let url = source(
            sandbox,
            "source",
            &[
                (".gitattributes", TreeEntry::File("post-checkout filter=late\n")),
                ("A/post-checkout", TreeEntry::Program(&hook)),
                ("a", TreeEntry::Link(".git/hooks")),
            ],
        );
        let settings = ["-c", &setting, "-c", "filter.late.required=true"];
        let clone = [&settings[..], &["clone", "--template=", "-b", "evil", &url, "work"]].concat();
        field.same(&clone, |_| {});
    });
}
