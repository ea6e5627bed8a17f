#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use sys::xattr;

use super::*;

fn layer(dir: &Path, form: Form) -> Layer {
    let upper = dir.join("upper");
    fs::create_dir_all(&upper).expect("created");
    Layer {
        upper,
        state: dir.join("state"),
        base: "base".into(),
        base_files: Vec::new(),
        base_record: None,
        base_changed: None,
        lower: Vec::new(),
        dir: dir.to_owned(),
        form,
        rules: String::new(),
    }
}

fn shell(layer: &Layer, script: &str) {
    let status = Command::new("sh").args(["-ec", script]).current_dir(&layer.upper).status();
    assert!(status.expect("a shell").success(), "{script}");
}

fn kinds(list: &List) -> Vec<(String, Kind)> {
    list.lines().iter().map(|line| (line.path.to_string(), line.kind.clone())).collect()
}

fn found(layer: &Layer) -> Vec<(String, Kind)> {
    kinds(&changed_paths(layer).expect("listed"))
}

fn directory(path: &str, below: Below) -> (String, Kind) {
    (path.into(), Kind::Directory(below))
}

fn entry(path: &str, kind: Kind) -> (String, Kind) {
    (path.into(), kind)
}

#[test]
fn lists_the_marks_of_overlayfs() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let (layer, name) =
        if xattr::sees_trusted() { (layer(dir.path(), Form::Trusted), "trusted") } else { return };
    testkit::need_program("setfattr");
    shell(
        &layer,
        &format!(
            "echo gitdir: x >.git; mkdir -p same/opaque/inner same/renamed/inner other
             mknod same/gone c 0 0; mknod device c 1 3; mkfifo fifo; ln -s / link; echo >file
             setfattr -n {name}.overlay.opaque -v y same/opaque
             setfattr -n {name}.overlay.redirect -v /from same/renamed
             setfattr -n {name}.overlay.opaque -v x other; : >other/hidden; : >other/empty
             setfattr -n {name}.overlay.whiteout -v y other/hidden
             setfattr -n {name}.overlay.whiteout -v y file
             setfattr -n user.overlay.opaque -v y other"
        ),
    );
    assert_eq!(
        found(&layer),
        [
            entry("device", Kind::Special),
            entry("fifo", Kind::Special),
            entry("file", Kind::File),
            entry("link", Kind::Symlink),
            directory("other", Below::Same),
            entry("other/empty", Kind::File),
            entry("other/hidden", Kind::Whiteout),
            directory("same", Below::Same),
            entry("same/gone", Kind::Whiteout),
            directory("same/opaque", Below::Nothing),
            directory("same/opaque/inner", Below::Nothing),
            directory("same/renamed", Below::Redirected("/from".into())),
            directory("same/renamed/inner", Below::Same),
        ]
    );
}

#[test]
fn lists_the_marks_of_fuse_overlayfs() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::Fuse);
    shell(&layer, "mkdir -p a/b c; : >a/.wh.x; : >a/b/.wh..wh..opq; : >c/.wh..wh.odd; : >.whole");
    let below = |mark| if xattr::sees_trusted() { mark } else { Below::Unseen };
    assert_eq!(
        found(&layer),
        [
            entry(".whole", Kind::File),
            directory("a", below(Below::Same)),
            directory("a/b", Below::Nothing),
            entry("a/x", Kind::Whiteout),
            directory("c", below(Below::Same)),
        ]
    );
    let overlay = Layer { form: Form::User, ..layer.clone() };
    assert!(found(&overlay).contains(&entry("a/.wh.x", Kind::File)), "an ordinary name for overlayfs");
}

#[test]
fn lists_the_marks_of_unionfs() {
    for metadata in unionfs::METADATA {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let base = dir.path().join("base");
        let layer = Layer {
            base_files: vec![base.clone()],
            lower: vec![base.clone()],
            ..layer(dir.path(), Form::UnionFs)
        };
        for path in ["same", "again/deep", "gone", "made"] {
            fs::create_dir_all(base.join(path)).expect("made");
        }
        fs::write(base.join("was-file"), "").expect("written");
        // `again` was removed with its files and made again, `made/x` was written again.
        shell(
            &layer,
            &format!(
                "mkdir same again again/deep made new was-file; : >same/file; : >made/x
                 mkdir {metadata}; cd {metadata}; : >file_HIDDEN~; mkdir again_HIDDEN~ gone_HIDDEN~ again gone
                 : >again/x_HIDDEN~; mkdir again/deep_HIDDEN~; : >gone/x_HIDDEN~; mkdir same; : >same/x_HIDDEN~"
            ),
        );
        assert_eq!(
            found(&layer),
            [
                directory("again", Below::Nothing),
                directory("again/deep", Below::Nothing),
                entry("again/x", Kind::Whiteout),
                entry("file", Kind::Whiteout),
                entry("gone", Kind::Whiteout),
                directory("made", Below::Same),
                entry("made/x", Kind::File),
                directory("new", Below::Nothing),
                directory("same", Below::Same),
                entry("same/file", Kind::File),
                entry("same/x", Kind::Whiteout),
                directory("was-file", Below::Unseen),
            ]
        );
        // A directory of the user with such a name, or one of the base, is not mistaken for
        // metadata.
        shell(&layer, &format!(": >{metadata}/mine"));
        assert!(matches!(changed_paths(&layer), Err(Error::UnionFs { .. })));
        shell(&layer, &format!("rm {metadata}/mine"));
        assert!(changed_paths(&layer).is_ok());
        fs::create_dir(base.join(metadata)).expect("made");
        assert!(matches!(changed_paths(&layer), Err(Error::UnionFs { .. })));
    }
}

#[test]
fn a_hostile_layer_is_neither_followed_nor_opened() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    // Opening the FIFO would block forever, and following the links would leave the layer or loop.
    shell(
        &layer,
        "mkfifo fifo; ln -s .. up; ln -s loop loop; ln -s / root; mkdir repo; ln -s / repo/.git
         printf x >'new
line'; mkdir -p .git/objects; echo >.git/objects/x; mkdir sub; mkdir sub/.git; echo >sub/.git/HEAD
         touch -d @-5 old; touch -d 2200-01-01 future",
    );
    for name in ["user.overlay.opaque", "user.overlay.redirect"] {
        let long = "z".repeat(3000);
        shell(&layer, &format!("mkdir -p odd; setfattr -n {name} -v '{long}' odd || :"));
    }
    fs::write(layer.upper.join(sys::os_str(b"\xff\xfe")), "x").expect("any bytes");
    symlink("/dev/zero", layer.upper.join("zero")).expect("a link");
    let lines = changed_paths(&layer).expect("listed");
    let names: Vec<_> = lines.lines().iter().map(|line| line.path.to_string()).collect();
    assert!(!names.iter().any(|name| name.starts_with(".git") || name.starts_with("sub/.git/")));
    assert!(names.contains(&"sub/.git".to_owned()) && names.contains(&"new\nline".to_owned()));
    assert!(lines.lines().iter().any(|line| line.path == "repo/.git" && line.kind == Kind::Repository));
    let bytes = lines.to_bytes();
    assert_eq!(List::parse(&bytes), Some(lines));
}

#[test]
fn a_path_that_is_too_long_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    let name = "n".repeat(250);
    shell(&layer, &format!("for i in $(seq 20); do mkdir {name}; cd -P {name}; done"));
    assert!(matches!(changed_paths(&layer), Err(Error::Unreadable { .. })));
    shell(&layer, "rm -r n*; mkdir -p $(yes d | head -n 1000 | tr '\\n' /)");
    assert_eq!(found(&layer).len(), 1000);
}

#[test]
fn an_ignored_directory_without_tracked_paths_is_one_line() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    shell(
        &layer,
        "printf 'out/\\n*.d\\n' >.gitignore; mkdir -p out/a out/b.d x/out y.d/sub; echo >out/a/f; echo >y.d/sub/f",
    );
    let worktree = Dir::open(&layer.upper).expect("opened");
    let listed = |tracked: &'static str| {
        let mut prune =
            IgnoredDirectories::new(&worktree, &[], false, |path| tracked.starts_with(&*format!("{path}/")));
        kinds(&scan(&layer, &mut prune).expect("listed"))
    };
    assert_eq!(
        listed(""),
        [
            entry(".gitignore", Kind::File),
            entry("out", Kind::Ignored),
            directory("x", Below::Same),
            entry("x/out", Kind::Ignored),
            entry("y.d", Kind::Ignored),
        ]
    );
    let listed = listed("out/a/f");
    assert!(
        listed.contains(&entry("out/a/f", Kind::File)) && listed.contains(&entry("out/b.d", Kind::Ignored))
    );
}

#[test]
fn an_unreadable_directory_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    shell(&layer, "mkdir closed");
    fs::set_permissions(layer.upper.join("closed"), fs::Permissions::from_mode(0o000)).expect("ours");
    let answer = changed_paths(&layer);
    match sys::user::effective_uid() {
        0 => assert!(answer.is_ok(), "root reads everything"),
        _ => assert!(matches!(answer, Err(Error::Unreadable { .. }))),
    }
}

#[test]
fn tokens_belong_to_one_base() {
    let token = token_of_empty("base");
    let previous = MonitorToken::parse(token.as_ref(), "base").expect("a token");
    assert_eq!((previous.snapshot.as_str(), previous.listed), (EMPTY, Listed::Yes));
    assert_eq!(MonitorToken::parse(token.as_ref(), "other"), None);
    assert_eq!(MonitorToken::parse(token.as_ref(), ""), None);
    let unlisted = token_of("base", "12", Listed::No);
    assert_eq!(
        MonitorToken::parse(unlisted.as_ref(), "base").map(|previous| previous.listed),
        Some(Listed::No)
    );
    assert_eq!(MonitorToken::parse(b"1700000000000000000".into(), "base"), None);
    assert_eq!(MonitorToken::parse(unknown_token().as_ref(), "base"), None);
}

#[test]
fn a_file_that_changes_within_a_tick_is_repeated() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    fs::write(layer.upper.join("f"), "x").expect("written");
    let young = changed_paths(&layer).expect("listed");
    assert_eq!(young.lines()[0].time, Time::Unsettled);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let settled = changed_paths(&layer).expect("listed");
    assert_eq!(settled.lines()[0].time, Time::Settled);
    let worktree = Dir::open(&layer.upper).expect("opened");
    let shown = compare::Shown { worktree: &worktree, lower: &[] };
    let changed = |before, now| compare::changed(before, now, shown).expect("sure");
    assert_eq!(changed(&young, &settled), ["f"]);
    assert_eq!(changed(&settled, &settled), Vec::<BString>::new());
}

/// A directory may take the place of a tracked file without a mark: a rebase writes it over a file
/// of the base, and a sparse base lacks the file.
#[test]
fn a_directory_that_no_lower_layer_has_is_reported_itself() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let layer = layer(dir.path(), Form::User);
    let base = dir.path().join("base");
    fs::create_dir_all(base.join("copied")).expect("made");
    fs::write(base.join("was-file"), "").expect("written");
    symlink("copied", base.join("was-link")).expect("a link");
    shell(&layer, "mkdir -p copied/new was-file was-link");
    let (worktree, base) = [&layer.upper, &base].map(|dir| Dir::open(dir).expect("opened")).into();
    let shown = compare::Shown { worktree: &worktree, lower: std::slice::from_ref(&base) };
    let now = changed_paths(&layer).expect("listed");
    let probes = [".sapwood-probe", "copied/.sapwood-probe", "copied/new/.sapwood-probe"];
    let mut expected = vec!["copied/new", "was-file", "was-file/.sapwood-probe"];
    expected.extend(["was-link", "was-link/.sapwood-probe"]);
    expected.extend(probes);
    expected.sort_unstable();
    assert_eq!(compare::changed(&List::default(), &now, shown).expect("sure"), expected);
}
