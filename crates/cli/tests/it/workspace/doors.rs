//! The promises of workspaces, for each backend by each door: root mounts, an ordinary user mounts
//! in a namespace or by FUSE, the mount service mounts, or nobody does and the files are a copy.

use std::path::PathBuf;

use serde_json::Value;
use testkit::{Run, mount_service::MountService};

use super::{
    create::{Place, leftovers},
    ordinary::UnprivilegedFixture,
    service::served,
};
use crate::SAPWOOD;

/// The process that mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Root,
    User,
    Service,
}

const DOORS: &[(Door, &[&str])] = &[
    (Door::Root, &["image", "overlay", "overlay-user", "fuse", "copy"]),
    (Door::User, &["overlay-user", "fuse", "copy"]),
    (Door::Service, &["image"]),
];

/// A repository, and the user whose commands run in it.
enum Scene {
    Root(Place),
    User(Box<UnprivilegedFixture>, Option<Box<MountService>>),
}

impl Scene {
    fn new(door: Door) -> Option<Scene> {
        Some(match door {
            Door::Root => Scene::Root(Place::new()),
            Door::User => Scene::User(Box::new(UnprivilegedFixture::new()?), None),
            Door::Service => {
                let (service, owned) = served(&[])?;
                Scene::User(Box::new(owned), Some(Box::new(service)))
            }
        })
    }

    fn place(&self) -> &Place {
        match self {
            Scene::Root(place) => place,
            Scene::User(owned, _) => &owned.place,
        }
    }

    fn run(&self, args: &[&str]) -> Run {
        match self {
            Scene::Root(place) => place.run(args),
            Scene::User(owned, _) => owned.run(args),
        }
    }

    fn done(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
        run.stdout.to_string()
    }

    /// Runs a shell script in a workspace. `$GIT` and `$SAPWOOD` are the programs.
    fn inside(&self, name: &str, script: &str) -> String {
        match self {
            Scene::Root(_) => {
                let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
                let script = format!("GIT='{git}'; SAPWOOD='{SAPWOOD}'; {script}");
                self.done(&["exec", name, "--", "sh", "-ec", &script])
            }
            Scene::User(owned, _) => owned.inside(name, script),
        }
    }

    /// Returns the status that Git and sapwood agree on.
    fn status(&self, name: &str) -> String {
        let both = "test \"$($GIT status --porcelain -uall)\" = \"$($SAPWOOD status --porcelain -uall)\"";
        self.inside(name, &format!("$GIT status --porcelain -uall; {both}"))
    }

    fn listed(&self, name: &str) -> Value {
        let all: Value = serde_json::from_str(&self.done(&["list", "--json"])).expect("JSON");
        let all = all.as_array().expect("a list");
        all.iter().find(|workspace| workspace["name"] == name).expect("it is listed").clone()
    }
}

/// A promise, and its check.
type Promise = (&'static str, fn(&Scene));

/// The promises, in the order in which they are tried with one workspace.
const PROMISES: &[Promise] = &[
    ("a new workspace is clean and whole", |scene| {
        assert_eq!(scene.status("one"), "");
        assert_eq!(
            scene.inside("one", "cat file dir/deep/file; cat link/file; $GIT fsck"),
            "changed\nmore\nmore\n"
        );
    }),
    ("every kind of change is seen", |scene| {
        scene.inside(
            "one",
            "echo more >>file; echo new >new; rm dir/empty; rm -r dir/deep; echo x >dir/deep; chmod -x run; echo o >x.o",
        );
        let expected = " D dir/deep/file\n D dir/empty\n M file\n M run\n?? dir/deep\n?? new\n";
        assert_eq!(scene.status("one"), expected);
    }),
    ("unsaved work is not removed", |scene| {
        let refused = scene.run(&["remove", "one"]);
        assert_ne!(refused.code, 0, "{}", refused.stdout);
        scene.done(&["gc"]);
        assert_eq!(scene.inside("one", "cat new"), "new\n");
    }),
    ("an unmounted workspace is no worktree, and comes back", |scene| {
        if !["image", "overlay", "overlay-user", "fuse"]
            .iter()
            .any(|name| scene.listed("one")["backend"] == *name)
        {
            return;
        }
        let before = scene.status("one");
        scene.done(&["unmount", "one"]);
        let there = scene.place().workspace("one");
        assert_ne!(there.try_git(&["status"]).code, 0, "all files would be deleted");
        assert_eq!(scene.listed("one")["mounted"], false);
        scene.done(&["mount", "one"]);
        assert_eq!(scene.status("one"), before);
    }),
    ("a checkpoint brings the work back", |scene| {
        let before = scene.status("one");
        scene.inside("one", "$SAPWOOD checkpoint -q; rm -rf new dir; $SAPWOOD undo -q");
        assert_eq!(scene.status("one"), before);
        assert_eq!(scene.inside("one", "cat new"), "new\n");
    }),
    ("a commit is in the repository", |scene| {
        scene.inside("one", "$GIT add -A; $GIT commit -qm three");
        assert_eq!(scene.status("one"), "");
        assert_eq!(
            scene.inside("one", "cd \"$($GIT rev-parse --git-common-dir)\"; $GIT show topic:new"),
            "new\n"
        );
    }),
    ("it gets another commit", |scene| {
        scene.inside("one", "$SAPWOOD switch -q --detach HEAD~1; test ! -e new; test -f dir/deep/file");
        assert_eq!(scene.status("one"), "");
        scene.inside("one", "$GIT switch -q topic; test -f new");
        assert_eq!(scene.status("one"), "");
    }),
];

fn keeps_its_promises(door: Door, backend: &str) {
    let Some(scene) = Scene::new(door) else { return };
    let lines = scene.done(&["doctor"]);
    let line = lines.lines().find(|line| line[2..].starts_with(&format!("{backend} "))).expect("its line");
    let created = scene.run(&["create", "one", "-b", "topic", "--backend", backend]);
    if !line.ends_with(" works") {
        assert_ne!(created.code, 0, "{line}");
        println!("skipped: {door:?} {line}");
        return;
    }
    assert_eq!(created.code, 0, "{door:?} {backend}: {}", created.stderr);
    for (promise, check) in PROMISES {
        println!("{door:?} {backend}: {promise}");
        check(&scene);
    }
    // A base is never changed.
    scene.done(&["base", "verify"]);
    scene.done(&["remove", "one"]);
    assert_eq!(leftovers(scene.place()), Vec::<PathBuf>::new(), "{door:?} {backend}");
    assert!(!scene.place().workspace("one").path.exists());
    if let Scene::User(_, Some(service)) = &scene {
        assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
    }
}

#[test]
fn root_keeps_the_promises() {
    try_all(Door::Root);
}

#[test]
fn an_ordinary_user_keeps_the_promises() {
    try_all(Door::User);
}

#[test]
fn the_mount_service_keeps_the_promises() {
    try_all(Door::Service);
}

fn try_all(door: Door) {
    let (_, backends) = DOORS.iter().find(|(other, _)| *other == door).expect("a row");
    backends.iter().for_each(|backend| keeps_its_promises(door, backend));
}
