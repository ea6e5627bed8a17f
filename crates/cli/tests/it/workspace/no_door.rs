//! Places in which few may mount: containers, other users, a read-only root. A day's commands work
//! in each.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use testkit::{Sandbox, container, disk::ordinary_user_reaches, has_program};

use crate::SAPWOOD;

/// The commands of a day, with a directory of its own as the current one.
const DAY: &str = r#"
set -eu
s() { "$SAPWOOD" "$@"; }
s init -q -b main source; cd source
mkdir dir; echo one >file; echo two >dir/two; ln -s file link
s add .; s commit -q -m one; cd ..
s clone -q source clone; cd clone
s workspace create one >../said 2>../created
s workspace create two >>../said 2>>../created
s workspace exec one -- sh -c 'echo more >>file; rm dir/two; "$SAPWOOD" status --short; "$SAPWOOD" commit -qam two'
s workspace exec one -- "$SAPWOOD" checkpoint -q -m mark
s workspace list >../listed
test "$(s rev-parse one)" != "$(s rev-parse main)"
test -z "$(s workspace exec one -- "$SAPWOOD" status --short)"
if [ -e /proc/self/mountinfo ]; then
    s workspace remove one
    s workspace remove two
else
    # A mount inside would not be seen.
    ! s workspace remove one 2>../refused
    grep -q "cannot read '/proc/self/mountinfo'" ../refused
fi
s switch -q -c topic; echo three >three; s add three; s commit -q -m three; s switch -q main
s status --short --branch
s reset -q --hard topic; s stash list; s worktree list >/dev/null
s doctor >../found
cat file three
"#;

const PRINTED: &str = " D dir/two\n M file\n## main...origin/main\none\nthree\n";

/// A place for processes.
struct Kind {
    name: &'static str,
    /// The program that makes the place, and its arguments. `{top}` is the directory of the test.
    outer: &'static [&'static str],
    /// A container engine's list of system calls holds.
    in_container: bool,
    /// The backends that a workspace may have there.
    backends: &'static [&'static str],
}

const COPIES: &[&str] = &["copy", "reflink", "btrfs"];
const ANY: &[&str] = &["image", "overlay", "overlay-user", "fuse", "copy", "reflink", "btrfs"];

const KINDS: &[Kind] = &[
    Kind {
        name: "root in a container",
        outer: &["setpriv", "--inh-caps=-all", "--bounding-set", container::CAPABILITIES],
        in_container: true,
        backends: COPIES,
    },
    Kind {
        name: "a user in a container",
        outer: &["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--bounding-set=-all"],
        in_container: true,
        backends: COPIES,
    },
    Kind {
        name: "a user without a name",
        outer: &["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--no-new-privs"],
        in_container: false,
        backends: ANY,
    },
    Kind {
        name: "root of a user namespace",
        outer: &["unshare", "--user", "--map-root-user", "--mount"],
        in_container: false,
        backends: ANY,
    },
    Kind {
        name: "a user namespace without ids",
        outer: &["unshare", "--user"],
        in_container: false,
        backends: COPIES,
    },
    Kind {
        name: "no /proc",
        outer: &[
            "bwrap", "--bind", "/", "/", "--dev", "/dev", "--tmpfs", "/proc", "--bind", "{top}", "{top}",
        ],
        in_container: false,
        backends: COPIES,
    },
    Kind {
        name: "a read-only root",
        outer: &[
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--bind",
            "{top}",
            "{top}",
        ],
        in_container: false,
        backends: ANY,
    },
];

/// Runs the day in a place, in an empty directory.
fn day(kind: &Kind, dir: &Path, sapwood: &Path) -> Output {
    let top = dir.parent().and_then(Path::to_str).expect("a plain name");
    let mut words = kind.outer.iter().map(|word| word.replace("{top}", top));
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).args(["sh", "-c", DAY]).current_dir(dir).env_clear();
    let path = std::env::var_os("PATH").expect("a path of programs");
    command.env("PATH", path).env("SAPWOOD", sapwood).env("LC_ALL", "C");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "A U Thor").env(format!("GIT_{role}_EMAIL"), "a@example.com");
    }
    if let Some(git) = std::env::var_os("SAPWOOD_TEST_GIT") {
        command.env("SAPWOOD_GIT", git);
    }
    if kind.in_container { container::output(&mut command) } else { command.output() }.expect("it runs")
}

#[test]
fn a_day_works_where_nobody_may_mount() {
    let sandbox = Sandbox::new();
    let sapwood: PathBuf = sandbox.path().join("bin/sapwood");
    fs::create_dir_all(sandbox.path().join("bin")).expect("a directory");
    testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
    if !ordinary_user_reaches(&sapwood) {
        println!("skipped: an ordinary user cannot reach the directories of tests");
        return;
    }
    for kind in KINDS {
        if !has_program(kind.outer[0]) {
            println!("skipped: {}", kind.name);
            continue;
        }
        let dir = sandbox.path().join(kind.name.replace('/', ""));
        fs::create_dir(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("everybody may write");
        let output = day(kind, &dir, &sapwood);
        let [printed, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let created = read("created");
        assert!(output.status.success(), "{}: {errors}{created}{printed}", kind.name);
        assert_eq!(printed, PRINTED, "{}: {errors}", kind.name);
        let listed = read("listed");
        let has = |backend: &&str| listed.lines().all(|line| line.contains(&format!("  {backend}  ")));
        assert!(kind.backends.iter().any(has), "{}: {listed}{created}", kind.name);
        // A copy names its reason and the remedy once, and not for each workspace.
        let reasons = created.lines().filter(|line| line.contains("sapwood workspace doctor")).count();
        let is_copy = listed.contains("  copy  ");
        assert_eq!(reasons, usize::from(is_copy), "{}: {created}", kind.name);
    }
}
