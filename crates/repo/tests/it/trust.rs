//! Directories and files that another user could change.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, lchown, symlink},
    path::{Path, PathBuf},
};

use repo::{OpenOptions, Repository, Trust};
use testkit::Sandbox;

use crate::options;

const OTHER: u32 = 54321;
const FRIEND: u32 = 54322;

struct Place {
    sandbox: Sandbox,
}

impl Place {
    /// Returns `None`, and prints the reason, if files cannot be given away.
    fn new() -> Option<Place> {
        let sandbox = Sandbox::new();
        sandbox.init("r");
        let probe = sandbox.path().join("probe");
        fs::write(&probe, "").expect("written");
        if chown(&probe, Some(OTHER), None).is_err() {
            println!("skipped: only root can give files away");
            return None;
        }
        Some(Place { sandbox })
    }

    fn options(&self, variables: &[(&str, &str)]) -> OpenOptions {
        let mut options = options(&self.sandbox.repo("r"));
        options.env.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        options
    }

    fn trust(&self) -> Trust {
        Repository::open(&self.options(&[])).expect("opened").trust()
    }

    /// Makes the directory `a/b` with the modes and owners of both.
    fn dir(&self, name: &str, above: (u32, u32, u32), last: (u32, u32, u32)) -> PathBuf {
        let top = self.sandbox.path().join(name);
        fs::create_dir_all(top.join("b")).expect("created");
        for (path, (mode, user, group)) in [(top.join("b"), last), (top.clone(), above)] {
            chown(&path, Some(user), Some(group)).expect("root may");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
        }
        top.join("b")
    }
}

fn reason(trust: &Trust, dir: &Path) -> String {
    let error = trust.check_dir(dir).expect_err("refused").to_string();
    assert!(error.contains("git config --global --add safe.directory"), "{error}");
    error.lines().next().expect("a line").to_owned()
}

#[test]
fn a_directory_is_trusted_if_nobody_else_can_change_or_exchange_it() {
    let Some(place) = Place::new() else { return };
    let trust = place.trust();
    let own = (0o755, 0, 0);
    for (name, above, last) in [
        ("plain", own, own),
        ("sticky", (0o1777, 0, 0), own),
        ("sticky-group", (0o3775, 0, OTHER), own),
        ("root-group", (0o775, 0, 0), (0o775, 0, 0)),
    ] {
        trust.check_dir(&place.dir(name, above, last)).expect(name);
    }
    for (name, above, last, why) in [
        ("open", (0o777, 0, 0), own, "/open'"),
        ("open-below", own, (0o777, 0, 0), "/b'"),
        ("sticky-below", own, (0o1777, 0, 0), "/b'"),
        ("foreign-group", (0o775, 0, OTHER), own, "/foreign-group'"),
        ("foreign", own, (0o755, OTHER, 0), "/b' belongs to the user 54321"),
        ("foreign-above", (0o755, OTHER, 0), own, "foreign-above' belongs to the user 54321"),
    ] {
        let dir = place.dir(name, above, last);
        let said = reason(&trust, &dir);
        assert!(said.contains("belongs to") || said.contains(": other users may write to '"), "{said}");
        assert!(said.rsplit(": ").next().is_some_and(|reason| reason.contains(why)), "{name}: {said}");
        // A missing directory would be made there.
        if above != own {
            reason(&trust, &dir.with_file_name("missing"));
        }
    }
    trust.check_dir(&place.sandbox.path().join("missing/too")).expect("it can be made");
    trust.check_dir_above(&place.sandbox.path().join("sticky")).expect("a new directory is safe there");
    assert!(trust.check_dir_above(&place.sandbox.path().join("open")).is_err());
    assert!(trust.check_dir_above(&place.sandbox.path().join("foreign/b")).is_err());
    // The repository is checked when it is opened, and its bases are as safe as its hooks.
    let inside = place.sandbox.path().join("r/.git/sapwood/bases");
    fs::create_dir_all(&inside).expect("created");
    chown(&inside, Some(OTHER), None).expect("root may");
    trust.check_dir(&inside).expect("the repository's own");
    reason(&trust, &place.sandbox.path().join("r/.git/../../foreign/b"));
}

#[test]
fn links_are_followed_if_a_trusted_user_made_them() {
    let Some(place) = Place::new() else { return };
    let trust = place.trust();
    let root = place.sandbox.path();
    place.dir("plain", (0o755, 0, 0), (0o755, 0, 0));
    place.dir("sticky", (0o1777, 0, 0), (0o755, 0, 0));
    let foreign = place.dir("foreign", (0o755, OTHER, 0), (0o755, 0, 0));
    for (link, target) in
        [("own", "../plain/b"), ("bad", "../plain/b"), ("out", "../foreign/b"), ("loop", "loop")]
    {
        symlink(target, root.join("sticky").join(link)).expect("made");
    }
    lchown(root.join("sticky/bad"), Some(OTHER), None).expect("root may");
    trust.check_dir(&root.join("sticky/own")).expect("root's link");
    assert!(reason(&trust, &root.join("sticky/bad")).contains("the link"));
    assert!(reason(&trust, &root.join("sticky/out")).contains("foreign' belongs"));
    assert!(trust.check_dir(&root.join("sticky/loop")).is_err());
    // A mount point may lie below a directory of another user, as a worktree may, but not behind
    // that user's links.
    trust.check_mount_point(&foreign).expect("root's directory");
    assert!(trust.check_mount_point(&root.join("sticky/bad")).is_err());
    assert!(trust.check_mount_point(&root.join("foreign")).is_err());
    trust.check_mount_point(&root.join("foreign/missing")).expect("it is made later");
}

#[test]
fn safe_directory_and_sudo_and_the_owner_of_the_repository_count() {
    let Some(place) = Place::new() else { return };
    let dir = place.dir("foreign", (0o755, 0, 0), (0o755, OTHER, 0));
    let opened =
        |variables: &[(&str, &str)]| Repository::open(&place.options(variables)).expect("opened").trust();
    let declared = |value: &str| {
        opened(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", value),
        ])
    };
    for value in ["*", dir.to_str().expect("UTF-8"), &format!("{}/*", dir.parent().expect("above").display())]
    {
        declared(value).check_dir(&dir).expect(value);
    }
    reason(&declared("/nowhere"), &dir);
    // The repository itself declares nothing.
    let repo = place.sandbox.repo("r");
    repo.git(&["config", "safe.directory", "*"]);
    reason(&place.trust(), &dir);
    opened(&[("SUDO_UID", "54321")]).check_dir(&dir).expect("the user who called sudo");
    let team = place.dir("team", (0o755, OTHER, OTHER), (0o775, OTHER, OTHER));
    reason(&opened(&[("SUDO_UID", "54321")]), &team);
    opened(&[("SUDO_UID", "54321"), ("SUDO_GID", "54321")]).check_dir(&team).expect("the user's own group");
    let file = repo.join(".git/record");
    for (owner, is_trusted) in [(0, true), (FRIEND, false), (OTHER, false)] {
        fs::write(&file, "").expect("written");
        chown(&file, Some(owner), None).expect("root may");
        assert_eq!(place.trust().check_file(&file).is_ok(), is_trusted, "{owner}");
        declared(repo.path.to_str().expect("UTF-8")).check_file(&file).expect("declared");
    }
    for path in [repo.path.clone(), repo.join(".git")] {
        chown(path, Some(OTHER), None).expect("root may");
    }
    // An explicit path opens a repository whoever owns it, and its hooks run.
    let git_dir = Some(repo.join(".git"));
    let opened = Repository::open(&OpenOptions { git_dir, ..place.options(&[]) }).expect("opened");
    opened.trust().check_file(&file).expect("the owner of the repository");
}
