//! Values written into a configuration file: CVE-2025-48384.

use super::{AttackDir, TreeEntry, everywhere, harmless_clone, source};

/// A value that ends in a carriage return is quoted, because it would be read without it otherwise.
#[test]
fn keeps_a_trailing_carriage_return() {
    everywhere(|sandbox, field| {
        let url = source(sandbox, "source\r", &[("file", TreeEntry::File("1"))]);
        let lines: &[&[&str]] = &[
            &["clone", "-q", "--template=", &url, "work"],
            &["clone", "-q", "--template=", "--bare", &url, "work"],
            &["clone", "-q", "--template=", "-c", "some.thing=else\r", &url, "work"],
            &["clone", "-q", "--template=", "-c", "some.th\r.ing= a;b#\"\\\t\n\r", &url, "work"],
        ];
        for line in lines {
            let run = field.same(line, |_| {});
            assert_eq!(run.code, 0, "{line:?}: {}", run.stderr);
        }
        upstream(field, &url);
    });
}

/// Creates a branch that tracks a branch of the remote with such a URL.
fn upstream(field: &mut AttackDir<'_>, url: &str) {
    let line = ["-C", "work", "checkout", "-q", "-b", "x", "--track", "there/evil"];
    field.same(&line, |repo| {
        harmless_clone(repo, url);
        repo.git(&["-C", "work", "remote", "rename", "origin", "there"]);
    });
}
