//! Compares edits with those of `git config` on the same file.

use std::process::Command;

use proptest::prelude::*;

use super::*;

fn set(key: &str, value: &str) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

fn add(key: &str, value: &str) -> Edit {
    Edit::Add { key: key.into(), value: value.into() }
}

fn after(content: &str, edits: &[Edit]) -> String {
    String::from_utf8(edit(content.as_bytes(), edits).expect("valid")).expect("text")
}

/// Makes the same edit with Git. Returns `None` if Git refuses.
#[allow(clippy::disallowed_methods)]
fn by_git(content: &str, change: &Edit) -> Option<String> {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let path = dir.path().join("config");
    std::fs::write(&path, content).expect("written");
    let mut git = Command::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", dir.path());
    git.arg("config").arg("--file").arg(&path);
    match change {
        Edit::Set { key, value } => git.args([key.to_string(), value.to_string()]),
        Edit::Add { key, value } => git.args(["--add".to_string(), key.to_string(), value.to_string()]),
        Edit::Unset { key } => git.args(["--unset-all".to_string(), key.to_string()]),
    };
    let done = git.output().expect("git runs").status.success();
    done.then(|| std::fs::read_to_string(&path).expect("read"))
}

#[test]
fn writes_the_configuration_of_a_new_clone() {
    let edits = [
        set("core.repositoryformatversion", "0"),
        set("core.bare", "false"),
        set("remote.origin.url", "/srv/a b"),
        set("extensions.objectformat", "sha256"),
        set("core.repositoryformatversion", "1"),
        add("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        set("branch.feat/x.remote", "origin"),
    ];
    let expected = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\
        [remote \"origin\"]\n\turl = /srv/a b\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
        [extensions]\n\tobjectformat = sha256\n\
        [branch \"feat/x\"]\n\tremote = origin\n";
    assert_eq!(after("", &edits), expected);
}

#[test]
fn edits_like_git() {
    let files = [
        "",
        "[a]",
        "[a]\n",
        "[a]\n\tb = 1\n",
        "[a]\nb=1",
        "[a] b = 1\n",
        "# top\n[a]\n\t# about b\n\tb = 1 ; why\n\tc = 2\n[d]\n\te = f\n",
        "[a]\n\tb = 1\n[d]\n\te = f\n[a]\n\tc = 2\n\n# end\n",
        "[a]\n\tb = one \\\n two\n\tc\n",
        "[A]\n\tB = 1\n[a \"X\"]\n\tb = 2\n[a \"x\"]\n\tb = 3\n",
        "[a.x]\n\tb = 4\n",
        "[a \"q\\\"\\\\\"]\n\tb = 5\n",
        "\u{feff}[a]\n\tb = 1\n",
        "[a]\n\n\n[d]\n\te = \"f ; g\"\n\n",
        "[a]\r\n\tb = 1\r\n",
    ];
    let edits = [
        set("a.b", "new"),
        set("A.B", "new"),
        set("a.c", " padded "),
        set("a.x.b", "x"),
        set("a.X.b", "X"),
        set("a.q\"\\.b", "tab\tquote\"back\\"),
        set("d.e", "semi;colon"),
        set("new.sub.section.Name", "line\nbreak"),
        add("a.b", "more"),
        add("d.e", "more#"),
        Edit::Unset { key: "a.b".into() },
        Edit::Unset { key: "d.e".into() },
    ];
    for file in files {
        for change in &edits {
            let Some(expected) = by_git(file, change) else { continue };
            assert_eq!(after(file, std::slice::from_ref(change)), expected, "{file:?} {change:?}");
        }
    }
}

#[test]
fn refusals() {
    let twice = "[a]\nb = 1\nb = 2\n";
    assert_eq!(edit(twice.as_bytes(), &[set("a.b", "3")]), Err(Error::Multiple { key: "a.b".into() }));
    for (key, error) in [
        ("bad", Error::NoSection("bad".into())),
        (".x", Error::NoSection(".x".into())),
        ("a.", Error::NoName("a.".into())),
        ("a.1", Error::InvalidKey("a.1".into())),
        ("a_.b", Error::InvalidKey("a_.b".into())),
        ("a.x\ny.b", Error::Newline("a.x\ny.b".into())),
    ] {
        assert_eq!(edit(b"", &[set(key, "v")]), Err(error));
    }
    for (file, line) in [
        ("[a\n", 1),
        ("[a ]\n", 1),
        ("[b]\n[a\t]\nb = 1\n", 2),
        ("\n= 1\n", 2),
        ("[a]\nb = \"x\n", 2),
        ("[a]\nb ? 1\n", 2),
    ] {
        assert_eq!(edit(file.as_bytes(), &[set("a.b", "1")]), Err(Error::Syntax { line }), "{file:?}");
    }
}

fn changed(content: &str, change: Change<'_>, select: &str) -> Result<String, Error> {
    let after =
        super::change(content.as_bytes(), &change, &|value| value.is_some_and(|value| value == select));
    after.map(|after| String::from_utf8(after).expect("text"))
}

#[test]
fn changes_selected_values() {
    let content = "[a]\n\tb = 1\n\tb = \"2 ;\" ; kept\n\tb = x \\\n y\n\tb = 1\n";
    let to = |value, all| Change { key: "a.b".into(), value, comment: None, all };
    let other = Some("3".into());
    assert_eq!(
        changed(content, to(other, false), "2 ;").as_deref(),
        Ok("[a]\n\tb = 1\n\tb = 3\n\tb = x \\\n y\n\tb = 1\n")
    );
    assert_eq!(
        changed(content, to(other, true), "1").as_deref(),
        Ok("[a]\n\tb = \"2 ;\" ; kept\n\tb = x \\\n y\n\tb = 3\n")
    );
    assert_eq!(
        changed(content, to(None, false), "x  y").as_deref(),
        Ok("[a]\n\tb = 1\n\tb = \"2 ;\" ; kept\n\tb = 1\n")
    );
    assert_eq!(changed(content, to(other, false), "1"), Err(Error::Multiple { key: "a.b".into() }));
    assert_eq!(changed(content, to(None, false), "none"), Err(Error::Nothing));
    let commented = Change { comment: Some(" # why".into()), ..to(Some(" v".into()), false) };
    assert_eq!(changed("[a]", commented, "").as_deref(), Ok("[a]\n\tb = \" v\" # why\n"));
}

#[test]
fn renames_and_removes_sections() {
    let renamed = |content: &str, old: &str, new: Option<&str>| {
        let (after, count) =
            rename_section(content.as_bytes(), old.into(), new.map(BStr::new)).expect("a name");
        (String::from_utf8(after).expect("text"), count)
    };
    let content = "[a] b = 1\n# kept\n  [a \"x\"] ; note\n\tc = 2\n[d]\n[a]\n";
    assert_eq!(
        renamed(content, "a", Some("n.y\"")),
        ("[n \"y\\\"\"]\n\tb = 1\n# kept\n  [a \"x\"] ; note\n\tc = 2\n[d]\n[n \"y\\\"\"]\n".into(), 2)
    );
    assert_eq!(renamed(content, "a.x", None), ("[a] b = 1\n# kept\n[d]\n[a]\n".into(), 1));
    assert_eq!(renamed(content, "A", None), (content.into(), 0));
    assert_eq!(rename_section(b"", "a".into(), Some("b_".into())), Err(SectionError::Name("b_".into())));
    assert_eq!(rename_section(b"[a]\0", "a".into(), None), Err(SectionError::NotText));
}

proptest! {
    #[test]
    fn never_panics(content in proptest::collection::vec(any::<u8>(), 0..100)) {
        for change in [set("a.b", "1"), add("a.x.b", "2"), Edit::Unset { key: "a.b".into() }] {
            let _ = edit(&content, &[change]);
        }
        let _ = rename_section(&content, "a".into(), Some("b".into()));
        let _ = rename_section(&content, "a.x".into(), None);
    }

    #[test]
    fn setting_a_value_twice_changes_nothing(value in "[ -~\t\n]{0,20}") {
        let once = after("[a]\n\tc = 1\n", &[set("a.b", &value)]);
        let twice = after(&once, &[set("a.b", &value)]);
        prop_assert_eq!(once, twice);
    }
}
