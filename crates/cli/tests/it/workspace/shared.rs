//! One base directory, which root fills and nobody else can write, for users with other ids and
//! other umasks.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow, has_program};

use crate::SAPWOOD;

/// The size of the file that must not be stored twice, in bytes.
const LARGE: usize = 4 << 20;
/// The disk space that the metadata of a base may take, in bytes.
const METADATA: u64 = 1 << 20;

/// A user with a repository of their own.
struct User<'s> {
    id: u32,
    umask: &'static str,
    repo: Repo<'s>,
    sapwood: PathBuf,
}

/// A base directory, seen through a read-only mount, and a directory for users.
struct Fleet {
    // Must be dropped first, because it unmounts.
    _mounts: NoMountsBelow,
    sandbox: Sandbox,
    /// On a disk: the kernel mounts no image from memory.
    disk: tempfile::TempDir,
    sapwood: PathBuf,
}

impl Fleet {
    /// Returns `None`, and prints the reason, if this process cannot become another user.
    fn new() -> Option<Fleet> {
        if !Command::new("true").uid(1).status().is_ok_and(|status| status.success()) {
            println!("skipped: only root can become another user");
            return None;
        }
        let sandbox = Sandbox::new();
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        for dir in [&*sandbox.path(), disk.path()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("own directory");
        }
        let sapwood = disk.path().join("sapwood");
        testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
        let reaches = Command::new("test").uid(1).arg("-x").arg(&sapwood).status();
        if !reaches.is_ok_and(|status| status.success()) {
            println!("skipped: another user cannot reach the directories of tests");
            return None;
        }
        let repo = sandbox.init("repo");
        repo.write("file", "content\n");
        repo.write("dir/deep/file", "more\n");
        repo.write("dir/empty", "");
        repo.write_executable("run", "#!/bin/sh\n");
        repo.symlink("dir/deep", "link");
        repo.write("large", vec![b'l'; LARGE]);
        (0..200).for_each(|number| repo.write(format!("many{}/{number}", number % 5), format!("{number}\n")));
        repo.write(".gitignore", "*.o\n");
        repo.commit("one");
        let fleet = Fleet { _mounts: NoMountsBelow::new(disk.path()), sandbox, disk, sapwood };
        fleet.add_bases(&fleet.root("022"));
        for dir in ["bases", "ro"] {
            let _ = fs::create_dir(fleet.disk.path().join(dir));
        }
        let script = "mount --bind bases ro && mount -o remount,bind,ro ro";
        let mounted = Command::new("sh").args(["-ec", script]).current_dir(fleet.disk.path()).status();
        assert!(mounted.expect("it can be run").success());
        Some(fleet)
    }

    /// Adds both kinds of base of the current commit.
    fn add_bases(&self, root: &User<'_>) {
        let dir = self.disk.path().join("bases");
        let bases = dir.to_str().expect("a plain name");
        for backend in ["image", "overlay"] {
            root.done(&["base", "add", "-q", "--backend", backend, "--base-dir", bases]);
        }
    }

    fn root(&self, umask: &'static str) -> User<'_> {
        User { id: 0, umask, repo: self.sandbox.repo("repo"), sapwood: self.sapwood.clone() }
    }

    /// Returns a user with a clone of the repository.
    fn user(&self, id: u32, umask: &'static str) -> User<'_> {
        let path = self.disk.path().join(format!("user-{id}-{umask}"));
        let source = self.sandbox.repo("repo").path.clone();
        let to = path.to_str().expect("a plain name");
        self.sandbox.repo("repo").git(&["clone", "-q", "--no-local", source.to_str().expect("plain"), to]);
        let status = Command::new("chown").arg("-R").arg(format!("{id}:{id}")).arg(&path).status();
        assert!(status.expect("it can be run").success());
        let dir = self.disk.path().join(format!("workspaces-{id}-{umask}"));
        fs::create_dir(&dir).expect("a new directory");
        std::os::unix::fs::chown(&dir, Some(id), Some(id)).expect("root may give files away");
        let repo = self.sandbox.repo(to);
        let user = User { id, umask, repo, sapwood: self.sapwood.clone() };
        user.plain("git", &["config", "sapwood.workspaceDir", dir.to_str().expect("a plain name")]);
        user
    }

    fn shared(&self) -> String {
        self.disk.path().join("ro").to_str().expect("a plain name").to_owned()
    }
}

impl User<'_> {
    fn plain(&self, program: &str, args: &[&str]) -> Run {
        let script = format!("umask {}; exec \"$@\"", self.umask);
        let mut command = self.repo.command(Path::new("sh"));
        command.uid(self.id).gid(self.id).current_dir(&self.repo.path);
        let output = command.args(["-c", &script, "sh", program]).args(args).output().expect("it can be run");
        let code = output.status.code().unwrap_or(-1);
        Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
    }

    fn run(&self, args: &[&str]) -> Run {
        self.plain(self.sapwood.to_str().expect("a plain name"), &[&["workspace"], args].concat())
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
        run.stdout.to_string()
    }

    /// Runs a shell script in the workspace `one`.
    #[track_caller]
    fn inside(&self, script: &str) -> String {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        let script = format!("GIT='{git}'; SAPWOOD='{}'; {script}", self.sapwood.display());
        self.done(&["exec", "one", "--", "sh", "-ec", &script])
    }

    /// Returns the disk space that the user's own base directory takes, in bytes.
    fn stored(&self) -> u64 {
        fn of(dir: &Path, disk: u64) -> u64 {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let size = |path: PathBuf| {
                let meta = path.symlink_metadata().expect("it is there");
                // An image is mounted in its base.
                let below = if meta.is_dir() && meta.dev() == disk { of(&path, disk) } else { 0 };
                if meta.dev() == disk { meta.blocks() * 512 + below } else { 0 }
            };
            entries.map(|entry| size(entry.path())).sum()
        }
        let repo = fs::metadata(&self.repo.path).expect("it is there");
        of(&self.repo.join(".git/sapwood/bases"), repo.dev())
    }

    /// Creates a workspace, edits it, looks at it with both programs, and removes it.
    fn live(&self, shared: &str, backend: &str, expected: &str) {
        let said = format!("uid {} umask {} {backend}", self.id, self.umask);
        let options = ["create", "one", "-b", "topic", "--base-dir", shared, "--backend", backend, "--json"];
        let created: serde_json::Value = serde_json::from_str(&self.done(&options)).expect("JSON");
        assert_eq!(created["backend"], expected, "{said}: {created:#}");
        assert!(self.stored() < METADATA, "{said}: {} bytes", self.stored());
        let read = "cat file dir/deep/file link/file many3/13; test -x run; wc -c <large";
        assert_eq!(self.inside(read), format!("content\nmore\nmore\n13\n{LARGE}\n"), "{said}");
        let both = "test \"$($GIT status --porcelain)\" = \"$($SAPWOOD status --porcelain)\"";
        assert_eq!(self.inside(&format!("$GIT status --porcelain; {both}")), "", "{said}");
        // The index has the stat data that the mount shows: Git reads no file without a monitor.
        let reads = "strace -f -o ../calls -e trace=open,openat \
                     $GIT --no-optional-locks -c core.fsmonitor=false status --porcelain; \
                     grep -c 'many[0-9]/[0-9]\\|\"large\\|\"file' ../calls || true";
        assert_eq!(self.inside(reads), "0\n", "{said}: a refresh of all files");
        let stats = "strace -f -o ../calls -e trace=newfstatat,lstat,statx $SAPWOOD status --porcelain; \
                     grep -c 'many[0-9]/' ../calls || true";
        assert_eq!(self.inside(stats), "0\n", "{said}");
        self.inside(
            "echo more >>file; echo x >>large; echo new >new; rm many1/1; chmod +x dir/deep/file; mv run ran",
        );
        let changed = " M dir/deep/file\n M file\n M large\n D many1/1\n D run\n?? new\n?? ran\n";
        assert_eq!(
            self.inside(&format!("$GIT status --porcelain; {both}; wc -c <large")),
            format!("{changed}{}\n", LARGE + 2),
            "{said}"
        );
        self.inside("$GIT add -A; $GIT commit -qm two");
        assert_eq!(self.inside(&format!("$GIT status --porcelain; {both}; $GIT fsck")), "", "{said}");
        assert_eq!(self.inside("find . ! -user $(id -u) | grep -v '^./.git$' || true"), "", "{said}");
        assert!(self.stored() < METADATA, "{said}: {} bytes", self.stored());
        self.done(&["base", "verify", "-q"]);
        self.done(&["unmount", "one"]);
        self.done(&["mount", "one"]);
        assert_eq!(
            self.inside(&format!("$GIT status --porcelain; {both}; tail -n 1 file")),
            "more\n",
            "{said}"
        );
        self.done(&["remove", "one"]);
        self.plain("git", &["branch", "-qD", "topic"]);
    }
}

#[test]
fn users_with_any_umask_share_one_read_only_base() {
    let Some(fleet) = Fleet::new() else { return };
    let shared = fleet.shared();
    for umask in ["022", "077", "002"] {
        let root = fleet.user(0, umask);
        for backend in ["image", "overlay", "overlay-user"] {
            root.live(&shared, backend, backend);
        }
        root.live(&shared, "auto", "image");
    }
    if kernel_version() < (6, 16) {
        println!("skipped for other users: overlay-user shares their files from Linux 6.16 on");
        return;
    }
    for (id, umask) in [(54321, "022"), (54322, "077"), (54323, "002")] {
        let user = fleet.user(id, umask);
        user.live(&shared, "auto", "overlay-user");
        user.live(&shared, "overlay-user", "overlay-user");
    }
}

fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).flat_map(str::parse);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[test]
fn a_base_of_another_user_stays_while_it_is_shown() {
    let Some(fleet) = Fleet::new() else { return };
    let dir = fleet.disk.path().join("bases");
    fleet.sandbox.repo("repo").git(&["config", "--global", "--add", "safe.directory", "*"]);
    // The directory can be written by everybody, so the metadata lie beside the other bases.
    let everybody = "chmod 777 . users; chmod 666 lock; touch transfers; chmod 666 transfers";
    let done = Command::new("sh").args(["-ec", everybody]).current_dir(&dir).status();
    assert!(done.expect("it can be run").success());
    let bases = dir.to_str().expect("a plain name");
    let mut cases = vec![(fleet.user(0, "077"), "image", 1)];
    if kernel_version() >= (6, 16) {
        cases.push((fleet.user(54321, "022"), "overlay-user", 2));
    }
    for (user, backend, kept) in cases {
        let root = fleet.user(0, "022");
        fleet.add_bases(&root);
        let count = |of: &str| root.done(&["base", of, "--base-dir", bases]).lines().count();
        assert_eq!(count("list"), 2, "{backend}");
        user.done(&["create", "one", "-q", "--detach", "--base-dir", bases, "--backend", backend]);
        assert!(!user.repo.join(".git/sapwood/bases").exists(), "{backend}");
        assert_eq!((count("list"), count("verify")), (3, 3), "{backend}");
        root.done(&["base", "prune", "-n", "--base-dir", bases]);
        root.done(&["base", "prune", "-q", "--base-dir", bases]);
        assert_eq!((count("list"), count("verify")), (kept, kept), "{backend}");
        assert_eq!(user.inside("cat file; wc -c <large"), format!("content\n{LARGE}\n"), "{backend}");
        user.done(&["remove", "--force", "one"]);
        root.done(&["base", "prune", "-q", "--base-dir", bases]);
        assert_eq!(count("list"), 0, "{backend}");
        fs::remove_dir_all(&root.repo.path).expect("removed");
        fs::remove_dir_all(fleet.disk.path().join("workspaces-0-022")).expect("removed");
    }
}

/// Ordinary users may not open `/dev/fuse` everywhere, and `fusermount3` wants a name for its user.
/// So the test has its own `/dev` and its own list of users, in a mount namespace.
#[test]
fn fuse_overlayfs_shows_the_user_as_the_owner() {
    if !["fuse-overlayfs", "fusermount3", "strace"].iter().all(|name| has_program(name)) {
        println!("skipped: this needs 'fuse-overlayfs', 'fusermount3' and 'strace'");
        return;
    }
    let Some(fleet) = Fleet::new() else { return };
    let user = fleet.user(54321, "077");
    let script = r#"
        mkdir dev; mount -t tmpfs none dev; cp -a /dev/null /dev/zero /dev/urandom dev/
        mknod -m 666 dev/fuse c 10 229; mount --move dev /dev
        { cat /etc/passwd; echo "ordinary:x:$ID:$ID::/:/bin/sh"; } >passwd
        chmod 644 passwd; mount --bind passwd /etc/passwd
        cd "$REPO"; umask 077
        exec setpriv --reuid "$ID" --regid "$ID" --clear-groups sh -ec '
            "$SAPWOOD" workspace create one -q --detach --base-dir "$SHARED" --backend fuse
            both() { "$GIT" status --porcelain; "$SAPWOOD" status --porcelain >"$CALLS.out"; \
                     "$GIT" status --porcelain | cmp - "$CALLS.out"; }
            cd "$TOP"; both; find . ! -user "$ID"
            strace -f -o "$CALLS" -e trace=open,openat \
                "$GIT" --no-optional-locks -c core.fsmonitor=false status --porcelain
            grep -c "many[0-9]/[0-9]\|\"large\|\"file" "$CALLS" || true
            echo more >>file; rm many1/1; echo x >>dir/deep/file; both
            cd "$REPO"; "$SAPWOOD" workspace unmount -q one; "$SAPWOOD" workspace mount -q one
            cd "$TOP"; both; "$GIT" commit -qam two; both
            cd "$REPO"; "$SAPWOOD" workspace rebase -q -d one main
            cd "$TOP"; both; cat file; cd "$REPO"; "$SAPWOOD" workspace remove one'
    "#;
    let top = fleet.disk.path().join("workspaces-54321-077/one");
    let mut command = user.repo.command(Path::new("unshare"));
    command.current_dir(fleet.disk.path()).env("ID", "54321").env("REPO", &user.repo.path);
    command.env("SAPWOOD", &fleet.sapwood).env("SHARED", fleet.shared()).env("TOP", &top);
    command.env("GIT", std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned()));
    command.env("CALLS", user.repo.path.join("calls"));
    let output = command.args(["-m", "--propagation", "private", "sh", "-ec", script]).output();
    let output = output.expect("it can be run");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let changed = " M dir/deep/file\n M file\n D many1/1\n";
    assert_eq!(said, format!("0\n{changed}{changed}content\n"), "{errors}");
    assert!(output.status.success(), "{errors}");
    assert!(user.stored() < METADATA, "{} bytes", user.stored());
}
