//! `checkout -- <paths>` and `restore`: their results and their output.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

fn history(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("dir/sub/c", "one\n");
    repo.symlink("a", "link");
    repo.commit("first");
    repo.git(&["tag", "v1"]);
    repo.write("a", "two\n");
    repo.write("dir/sub/c", "two\n");
    repo.remove("dir/b");
    repo.write("new", "new\n");
    repo.commit("second");
}

fn oracle() -> Oracle {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.write("a", "changed\n");
        repo.write("dir/sub/c", "changed\n");
        repo.git(&["add", "dir/sub/c"]);
        repo.remove("new");
        repo.write("untracked", "untracked\n");
    });
    oracle
}

#[test]
fn checks_out_paths_from_the_index() {
    let oracle = oracle();
    oracle.same(&["checkout", "a"]);
    oracle.same(&["checkout", "--", "a"]);
    oracle.same(&["checkout", "."]);
    oracle.same(&["checkout", "nothing", "a"]);
    oracle.same(&["checkout", "--", "nothing", "none"]);
    oracle.same(&["checkout", "-q", "untracked"]);
    oracle.both(|repo| {
        repo.remove("dir");
        repo.write("dir", "a file in the way\n");
    });
    oracle.same(&["checkout", "dir"]);
    oracle.both(|repo| {
        repo.remove("a");
        repo.write("a/x/y", "a directory in the way\n");
    });
    oracle.same(&["checkout", "a"]);
    oracle.same_in("dir", &["checkout", "../a", "sub"]);
    oracle.same_in("dir/sub", &["checkout", ":/"]);
}

#[test]
fn checks_out_paths_from_a_tree() {
    let oracle = oracle();
    oracle.same(&["checkout", "v1", "--", "a"]);
    oracle.same(&["checkout", "v1", "dir"]);
    oracle.same(&["checkout", "HEAD", "."]);
    oracle.same(&["checkout", "--no-overlay", "v1", "--", "."]);
    oracle.same(&["checkout", "v1", "--", "nothing"]);
    oracle.same(&["checkout", "v1^{tree}", "--", "*b"]);
    oracle.same(&["checkout", "nowhere", "--", "a"]);
    oracle.same(&["checkout", "-b", "x", "v1", "--", "a"]);
}

#[test]
fn restore() {
    let oracle = oracle();
    oracle.same(&["restore"]);
    oracle.same(&["restore", "a"]);
    oracle.same(&["restore", "--staged", "dir"]);
    oracle.same(&["restore", "--source", "v1", "."]);
    oracle.same(&["restore", "-s", "v1", "--overlay", "dir"]);
    oracle.same(&["restore", "-SW", "."]);
    oracle.same(&["restore", "--source=v1", "--staged", "."]);
    oracle.same(&["restore", "--source=HEAD", "--staged", "--worktree", "."]);
    oracle.same(&["restore", "--source=nowhere", "a"]);
    oracle.same(&["restore", "nothing"]);
    oracle.same(&["restore", "--no-worktree", "a"]);
    oracle.same(&["restore", "--staged", "--no-staged", "a"]);
    oracle.same(&["restore", "a", "../outside"]);
}

#[test]
fn resolves_arguments_that_name_both_a_revision_and_a_path() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.write("v1", "a file called like a tag\n");
        repo.commit("third");
    });
    oracle.same(&["checkout", "v1"]);
    oracle.same(&["checkout", "main"]);
    oracle.same(&["checkout", "v1", "a"]);
    oracle.same(&["checkout", "--", "v1"]);
    oracle.same(&["checkout", "v1", "--", "a"]);
    oracle.same(&["checkout", "a", "v1"]);
}

#[test]
fn handles_unmerged_paths() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.git(&["switch", "-q", "-c", "topic", "v1"]);
        repo.write("a", "topic\n");
        repo.commit("on topic");
        repo.git(&["switch", "-q", "main"]);
    });
    oracle.both(|repo| {
        repo.try_git(&["merge", "topic"]);
    });
    oracle.same(&["checkout", "a"]);
    oracle.same(&["checkout", "-f", "."]);
    oracle.same(&["restore", "."]);
    oracle.same(&["restore", "--ignore-unmerged", "."]);
    oracle.same(&["restore", "-q", "--ignore-unmerged", "."]);
    oracle.same(&["checkout", "HEAD", "--", "a"]);
}

#[test]
fn does_not_count_paths_it_cannot_write() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["a", "b", "lost"] {
            repo.write(path, path);
        }
        repo.commit("first");
    });
    oracle.both(|repo| {
        let lost = repo.git(&["rev-parse", ":lost"]).stdout.to_string();
        let (dir, name) = lost.trim().split_at(2);
        repo.remove(format!(".git/objects/{dir}/{name}"));
        ["a", "b", "lost"].iter().for_each(|path| repo.remove(path));
    });
    oracle.same(&["checkout", "."]);
    oracle.same(&["checkout", "lost"]);
}

/// Restoring uses the attribute files of the worktree as they were before. A switch uses the
/// attribute files of its target.
#[test]
fn uses_attributes_of_the_worktree_first() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write(".gitattributes", "*.txt text\n");
        repo.write("dir/.gitattributes", "*.txt eol=crlf\n");
        for path in ["a.txt", "dir/a.txt", "dir/below/a.txt", "+dir/a.txt", "other/a.txt"] {
            repo.write(path, "one\ntwo\n");
        }
        repo.commit("lf");
    });
    let files = ["a.txt", "dir/a.txt", "dir/below/a.txt", "+dir/a.txt", "other/a.txt"];
    let change = |repo: &Repo<'_>| {
        repo.write(".gitattributes", "*.txt eol=crlf\n");
        repo.write("dir/.gitattributes", "*.txt eol=lf\n");
        repo.write("other/.gitattributes", "*.txt -text\n");
        files.iter().filter(|path| repo.exists(path)).for_each(|path| repo.remove(path));
    };
    for args in [
        &["checkout", "--", "*.txt"][..],
        &["checkout", "HEAD", "--", "*.txt"],
        &["restore", "*.txt"],
        // The attribute files themselves are restored as well.
        &["restore", "."],
        &["checkout", "--", "."],
        &["restore", ".gitattributes", "a.txt", "dir/a.txt"],
        &["restore", "-SW", "--source=HEAD", "."],
        &["checkout", "-f", "HEAD"],
        &["reset", "--hard"],
    ] {
        for workers in ["1", "8"] {
            let workers = format!("checkout.workers={workers}");
            let with = [&["-c", &workers, "-c", "checkout.thresholdForParallelism=0"], args].concat();
            oracle.both(change);
            oracle.same(&with);
        }
    }
}
