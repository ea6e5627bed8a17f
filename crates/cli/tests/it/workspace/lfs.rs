//! Files of Git LFS, and of other filters that are processes, in bases.

use std::fs;

use testkit::{FILTER_PROTOCOL, Repo};

use super::create::Place;
use crate::SAPWOOD;

/// A filter that logs each request. It delivers missing objects late, all in one batch, as
/// `git-lfs filter-process` does.
const PROCESS: &str = r#"
open(my $log, ">>", "LOG"); select((select($log), $| = 1)[0]);
print $log "started\n";
my %late;
while (1) {
    my %told = map { split(/=/, $_, 2) } lines();
    my $command = $told{command} // last; my $path = $told{pathname} // "";
    if ($command eq "list_available_blobs") {
        print $log "batch " . join(" ", sort keys %late) . "\n" if %late && !$late{listed};
        my @ready = grep { $_ ne "listed" && !$late{listed} } sort keys %late;
        $late{listed} = 1;
        packet("pathname=$_\n") for @ready; flush(); packet("status=success\n"); flush(); next;
    }
    my $data = content();
    if ($command eq "smudge" && $told{"can-delay"}) {
        print $log "delayed $path\n";
        $late{$path} = 1; packet("status=delayed\n"); flush(); next;
    }
    print $log "$command $path\n";
    packet("status=success\n"); flush(); packet("late $path\n"); flush(); flush();
}
"#;

const STORED: &str = "the object\n";

/// Returns the pointer to an object with a name of this digit.
fn pointer(digit: &str, size: usize) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {size}\n", digit.repeat(64))
}

/// Commits two pointers to an object that is in the local store, and three to missing ones.
fn commit(place: &Place) -> Repo<'_> {
    let repo = place.repo();
    repo.write(".gitattributes", "*.bin filter=lfs\n");
    for path in ["a.bin", "dir/b.bin"] {
        repo.write(path, pointer("a", STORED.len()));
    }
    for path in ["c.bin", "dir/d.bin", "e.bin"] {
        repo.write(path, pointer("b", 5));
    }
    repo.commit("pointers");
    let object = format!(".git/lfs/objects/aa/aa/{}", "a".repeat(64));
    repo.write(object, STORED);
    let log = repo.join(".git/log");
    let script = [FILTER_PROTOCOL, PROCESS].concat().replace("LOG", log.to_str().expect("plain"));
    repo.write(".git/filter.pl", script);
    let programs = place.sandbox.repo("programs");
    fs::create_dir_all(&programs.path).expect("a directory");
    let script = repo.join(".git/filter.pl");
    programs.write_executable("git-lfs", format!("#!/bin/sh\nexec perl '{}'\n", script.display()));
    repo.git(&["config", "filter.lfs.process", "git-lfs filter-process"]);
    repo.git(&["config", "filter.lfs.required", "true"]);
    repo
}

/// Runs `sapwood workspace` with the program `git-lfs` of the test.
fn run(place: &Place, args: &[&str]) {
    let mut command = place.repo().command(SAPWOOD.as_ref());
    let programs = place.sandbox.repo("programs").path;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = command.env("PATH", path).arg("workspace").args(args).output().expect("it runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn objects_in_the_local_store_need_no_filter_and_others_come_in_one_batch() {
    for backend in ["image", "overlay"] {
        let place = Place::new();
        let repo = commit(&place);
        run(&place, &["create", "-q", "one", "--detach", "--backend", backend]);
        let shown = place.done(&["exec", "one", "--", "cat", "a.bin", "dir/b.bin", "c.bin", "dir/d.bin"]);
        assert_eq!(shown, "the object\nthe object\nlate c.bin\nlate dir/d.bin\n", "{backend}");
        let log = fs::read_to_string(repo.join(".git/log")).expect("a log");
        let mut lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.iter().filter(|line| **line == "started").count(), 1, "{log}");
        lines.retain(|line| line.starts_with("delayed") || line.starts_with("batch"));
        let expected = ["delayed c.bin", "delayed dir/d.bin", "delayed e.bin", "batch c.bin dir/d.bin e.bin"];
        assert_eq!(lines, expected, "{backend}: {log}");
    }
}

#[test]
fn settings_that_keep_pointers_leave_the_files_to_the_filter() {
    for setting in ["lfs.fetchexclude", "lfs.fetchinclude"] {
        let place = Place::new();
        let repo = commit(&place);
        repo.git(&["config", setting, "*"]);
        run(&place, &["create", "-q", "one", "--detach", "--backend", "image"]);
        assert_eq!(place.done(&["exec", "one", "--", "cat", "a.bin"]), "late a.bin\n", "{setting}");
    }
}

/// A larger object would be read into memory as a whole.
#[test]
fn an_object_above_the_size_limit_is_left_to_the_filter() {
    for (limit, expected) in [(STORED.len(), STORED), (STORED.len() - 1, "late a.bin\n")] {
        let place = Place::new();
        let repo = commit(&place);
        repo.git(&["config", "core.bigFileThreshold", &limit.to_string()]);
        run(&place, &["create", "-q", "one", "--detach", "--backend", "image"]);
        assert_eq!(place.done(&["exec", "one", "--", "cat", "a.bin"]), expected, "{limit}");
    }
}
