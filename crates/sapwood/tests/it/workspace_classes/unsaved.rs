//! Work that a removal would lose, and work that it would not.

use bstr::ByteSlice as _;
use testkit::{NoMountsBelow, Sandbox};

use super::{class, classed, create, reaped, script};

/// A state of a workspace that landed.
struct State {
    name: &'static str,
    /// The script that makes it.
    make: &'static str,
    /// A part of the reason why the workspace is unsaved; empty if it is not.
    reason: &'static str,
    /// The default branch does not get its commits.
    stays_open: bool,
}

const fn unsaved(name: &'static str, make: &'static str, reason: &'static str) -> State {
    State { name, make, reason, stays_open: false }
}

const fn saved(name: &'static str, make: &'static str) -> State {
    State { name, make, reason: "", stays_open: false }
}

/// The functions of the scripts. Two branches change one file in `diverge`.
const FUNCTIONS: &str = "
    N=$(basename \"$PWD\")
    admin=$(git rev-parse --absolute-git-dir)
    common=$(git rev-parse --git-common-dir)
    mkdir -p $common/info
    diverge() {
        echo base >f-$N; git add .; git commit -qm base
        git checkout -q -b other-$N; echo theirs >f-$N; git commit -qam theirs
        echo more >g-$N; git add .; git commit -qm more
        git checkout -q $N; echo ours >f-$N; git commit -qam ours
    }
    repository() {
        git init -q $1; echo x >$1/x; git -C $1 add .; git -C $1 commit -qm x
    }
";

const STATES: [State; 34] = [
    unsaved("staged, without a file", "echo x >new; git add new; rm new", "its index"),
    unsaved("removed from the index", "git rm -q --cached a", "its index"),
    unsaved("a mode in the index", "git update-index --chmod=+x a", "its index"),
    unsaved("a file that nobody looks at", "git update-index --assume-unchanged a; echo x >>a", "'a'"),
    unsaved("a branch without commits", "git checkout -q --orphan new-$N", "is not committed"),
    unsaved("a merge", "diverge; ! git merge -q other-$N", "a merge is"),
    unsaved("the stash of a merge", "git rev-parse HEAD >$admin/MERGE_AUTOSTASH", "a merge is"),
    unsaved("a pick", "diverge; ! git cherry-pick other-$N~1", "a cherry-pick is"),
    unsaved("a revert", "diverge; ! git revert --no-edit HEAD~1", "a revert is"),
    unsaved("a rebase", "diverge; ! git rebase -q other-$N", "a rebase is"),
    unsaved("a rebase by patches", "diverge; ! git rebase -q --apply other-$N", "a rebase or am is"),
    unsaved(
        "an am",
        "diverge; git format-patch -q --stdout -1 other-$N~1 >x.o; ! git am -q x.o",
        "a rebase or am is",
    ),
    unsaved(
        "the rest of a sequence",
        "diverge; ! git cherry-pick other-$N~1 other-$N
         git add .; git commit -qm concluded; test ! -e $admin/CHERRY_PICK_HEAD",
        "a sequence of picks is",
    ),
    unsaved("a bisection", "git bisect start", "a bisection is"),
    unsaved("a stash", "echo x >>a; git stash -q", "the stash"),
    unsaved("a stash with a message", "echo x >>a; git stash push -qm message", "the stash"),
    unsaved("a ref of its own", "git update-ref refs/worktree/mine HEAD", "refs of its own"),
    State {
        name: "a commit of no branch",
        make: "git checkout -q --detach; git commit -q --allow-empty -m lost",
        reason: "no branch or tag",
        stays_open: true,
    },
    unsaved("a repository inside", "repository lib", "a repository inside"),
    unsaved("an ignored repository", "repository vendor", "a repository inside"),
    unsaved("a repository below an ignored directory", "repository vendor/one/two", "a repository inside"),
    unsaved(
        "a submodule with an object",
        "git init -q --bare $admin/modules/sub; echo x | git -C $admin/modules/sub hash-object -w --stdin",
        "a submodule",
    ),
    unsaved(
        "a submodule in a submodule with an object",
        "git init -q --bare $admin/modules/sub; git init -q --bare $admin/modules/sub/modules/one/two
         echo x | git -C $admin/modules/sub/modules/one/two hash-object -w --stdin",
        "a submodule",
    ),
    unsaved("a renamed directory", "mv dir moved 2>/dev/null || cp -r dir moved", ""),
    saved("no change", ""),
    saved("ignored files", "echo x >x.o; mkdir vendor; echo x >vendor/x"),
    saved("a file that Git excludes", "echo excluded >>$common/info/exclude; echo x >excluded"),
    saved("a file that was changed back", "echo x >a; echo 1 >a"),
    saved("a directory without files", "mkdir -p new/deep"),
    saved(
        "tags and notes",
        "git tag light-$N; git tag -a -m tag annotated-$N; git notes add -m note; git notes show",
    ),
    State {
        name: "a commit that only a tag has",
        make: "git checkout -q --detach; git commit -q --allow-empty -m t; git tag -a -m t at-$N",
        reason: "",
        stays_open: true,
    },
    saved("a commit that the branch has", "git checkout -q --detach"),
    saved(
        "a stash of another branch",
        "git checkout -q -b x-$N; echo x >>a; git stash -q; git checkout -q $N",
    ),
    saved("a submodule without objects", "git init -q --bare $admin/modules/sub"),
];

#[test]
fn only_unsaved_work_keeps_a_workspace_that_landed() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = super::committed(&sandbox);
    repo.write(".gitignore", "*.o\nvendor/\n");
    repo.commit("ignores");
    let mut wrong = Vec::new();
    let (mut goes, mut objects) = (Vec::new(), Vec::new());
    for (at, state) in STATES.iter().enumerate() {
        let name = format!("w{at:02}");
        let workspace = create(&sandbox, &repo, &name);
        workspace.write(format!("own-{name}"), "mine\n");
        workspace.commit("own");
        script(&workspace, &[FUNCTIONS, state.make].concat());
        let of_head = workspace.try_git(&["rev-parse", "-q", "--verify", "HEAD"]).stdout;
        let of_branch = || repo.git(&["rev-parse", &name]).stdout;
        let head = if of_head.is_empty() { of_branch() } else { of_head }.to_string();
        if !state.stays_open {
            repo.git(&["merge", "-q", "--no-edit", head.trim()]);
            objects.push(head.trim().to_owned());
        }
        let class = class(&repo, &name);
        let reason = class.unsaved.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_unsaved = !state.reason.is_empty() || state.name == "a renamed directory";
        if !reason.contains(state.reason) || reason.is_empty() == is_unsaved {
            wrong.push(format!("{}: '{reason}'", state.name));
        }
        if !is_unsaved && !state.stays_open {
            goes.push(name);
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let names = |names: Vec<String>| -> Vec<&str> {
        let at = |name: &String| STATES[name[1..].parse::<usize>().expect("a number")].name;
        names.iter().map(at).collect()
    };
    assert_eq!(names(reaped(&repo)), names(goes));
    // Branches, tags, notes and stashes are the repository's.
    assert_eq!(repo.git(&["tag", "--list"]).stdout.lines().count(), 3);
    assert_eq!(repo.git(&["notes", "list"]).stdout.lines().count(), 1);
    assert_eq!(repo.git(&["stash", "list"]).stdout.lines().count(), 3);
    objects.iter().for_each(|oid| drop(repo.git(&["cat-file", "-e", oid])));
    repo.git(&["fsck", "--connectivity-only"]);
}

/// The upper layer shows an untracked file that a status hides. Where only a status would decide,
/// nothing does.
#[test]
fn a_setting_that_hides_untracked_files_removes_none() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = super::committed(&sandbox);
    let undecided = "echo x >staged; git add staged; git reset -q; rm staged";
    let all = [("clean", ""), ("new", "echo x >new"), ("reset", undecided), ("both", undecided)];
    for (name, make) in all {
        let workspace = create(&sandbox, &repo, name);
        workspace.write(format!("own-{name}"), "mine\n");
        workspace.commit("own");
        script(&workspace, make);
        if name == "both" {
            workspace.write("new", "x\n");
        }
        repo.git(&["merge", "-q", "--no-edit", name]);
    }
    repo.git(&["config", "status.showUntrackedFiles", "no"]);
    let reasons = ["clean", "new", "reset", "both"].map(|name| class(&repo, name).unsaved.is_some());
    assert_eq!(reasons, [false, true, true, true]);
    assert_eq!(reaped(&repo), ["clean"]);
    repo.git(&["config", "--unset", "status.showUntrackedFiles"]);
    assert_eq!(reaped(&repo), ["reset"], "a status decides");
    assert_eq!(classed(&repo).len(), 2);
}
