use bstr::ByteSlice as _;
use format::{HashKind, Kind, ObjectId};

use super::*;
use crate::pack_indexing::Observer as _;

const OID: &str = "0123456789012345678901234567890123456789";
const PERSON: &str = "A U Thor <a@b> 1234567890 +0000";

/// Returns the ids of all flaws of an object, and true if it is refused.
fn flaws_with(words: &str, kind: Kind, content: &[u8]) -> (Vec<String>, bool) {
    let mut rules = Rules::strict(HashKind::Sha1);
    rules.set_all(words.into()).expect("known ids");
    let oid = ObjectId::from_hex(HashKind::Sha1, OID.as_bytes()).expect("a name");
    let found = object(&rules, &oid, kind, content, &mut Files::default());
    (ids(&found), found.is_refused)
}

fn ids(found: &Findings) -> Vec<String> {
    let lead = format!("object {OID}: ");
    let id = |line: &Line| {
        let (Line::Error(text) | Line::Warning(text)) = line;
        let text = text.to_str_lossy();
        text.strip_prefix(&lead).and_then(|rest| rest.split_once(": ")).map(|(id, _)| id.to_owned())
    };
    found.lines.iter().filter_map(id).collect()
}

#[track_caller]
fn flaw(kind: Kind, content: impl AsRef<[u8]>, id: &str, is_refused: bool) {
    let content = content.as_ref();
    assert_eq!(flaws_with("", kind, content), (vec![id.to_owned()], is_refused), "{:?}", content.as_bstr());
}

fn commit(author: &str) -> String {
    format!("tree {OID}\nauthor {author}\ncommitter {PERSON}\n\nmessage\n")
}

#[test]
fn people() {
    for (person, id) in [
        ("<a@b> 1 +0000", "missingNameBeforeEmail"),
        ("A 1 +0000", "missingEmail"),
        ("A> <a@b> 1 +0000", "badName"),
        ("A<a@b> 1 +0000", "missingSpaceBeforeEmail"),
        ("A <a<b> 1 +0000", "badEmail"),
        ("A <a@b>1 +0000", "missingSpaceBeforeDate"),
        ("A <a@b> x +0000", "badDate"),
        ("A <a@b> 1x +0000", "badDate"),
        ("A <a@b> 01 +0000", "zeroPaddedDate"),
        ("A <a@b> 9223372036854775808 +0000", "badDateOverflow"),
        ("A <a@b> 1 0000", "badTimezone"),
        ("A <a@b> 1 +000", "badTimezone"),
    ] {
        flaw(Kind::Commit, commit(person), id, true);
    }
    for person in [PERSON, " <> 0 +0000", "A <a@b>  \t1 -1234"] {
        assert_eq!(flaws_with("", Kind::Commit, commit(person).as_bytes()), (Vec::new(), false), "{person}");
    }
}

#[test]
fn commits() {
    let person = format!("author {PERSON}\ncommitter {PERSON}\n\n");
    for (content, id) in [
        (format!("tree {OID}\0\n"), "nulInHeader"),
        (format!("tree {OID}"), "unterminatedHeader"),
        (format!("{person}x"), "missingTree"),
        (format!("tree x\n{person}"), "badTreeSha1"),
        (format!("tree {OID}\nparent x\n{person}"), "badParentSha1"),
        (format!("tree {OID}\ncommitter {PERSON}\n\n"), "missingAuthor"),
        (format!("tree {OID}\nauthor {PERSON}\n{person}"), "multipleAuthors"),
        (format!("tree {OID}\nauthor {PERSON}\n\n"), "missingCommitter"),
        (format!("tree {OID}\n{person}a\0b"), "nulInCommit"),
    ] {
        flaw(Kind::Commit, content, id, true);
    }
    let two = format!("tree {OID}\nauthor x\n{person}");
    let demoted = flaws_with("missingEmail=warn,multipleAuthors=ignore", Kind::Commit, two.as_bytes());
    assert_eq!(demoted, (vec!["missingEmail".to_owned()], false));
}

#[test]
fn tags() {
    let start = format!("object {OID}\ntype commit\ntag v1\n");
    let tagger = format!("tagger {PERSON}\n");
    for (content, id) in [
        ("type commit\n\n".to_owned(), "missingObject"),
        (format!("object x\ntype commit\ntag v1\n{tagger}\n"), "badObjectSha1"),
        (format!("object {OID}\ntag v1\n\n"), "missingTypeEntry"),
        (format!("object {OID}\ntype what\ntag v1\n{tagger}\n"), "badType"),
        (format!("object {OID}\ntype commit\n{tagger}\n"), "missingTagEntry"),
        (format!("{start}tagger A\n\n"), "missingEmail"),
    ] {
        flaw(Kind::Tag, content, id, true);
    }
    flaw(Kind::Tag, format!("object {OID}\ntype commit\ntag a..b\n{tagger}\n"), "badTagName", false);
    flaw(Kind::Tag, format!("{start}\nmessage"), "missingTaggerEntry", false);
    let extra = format!("{start}{tagger}extra\n\n");
    assert_eq!(flaws_with("", Kind::Tag, extra.as_bytes()), (Vec::new(), false));
    let wanted = flaws_with("extraHeaderEntry=error", Kind::Tag, extra.as_bytes());
    assert_eq!(wanted, (vec!["extraHeaderEntry".to_owned()], true));
    let signed = format!("{start}{tagger}gpgsig x\n y\n\n");
    assert_eq!(flaws_with("extraHeaderEntry=error", Kind::Tag, signed.as_bytes()), (Vec::new(), false));
}

fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
    let entry =
        |(mode, name): &(&str, &str)| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[1; 20]].concat();
    entries.iter().flat_map(entry).collect()
}

#[test]
fn trees() {
    for (entries, id) in [
        (&[("100644", "a/b")][..], "fullPathname"),
        (&[("40000", ".")], "hasDot"),
        (&[("40000", "..")], "hasDotdot"),
        (&[("40000", ".GiT")], "hasDotgit"),
        (&[("40000", "git~1")], "hasDotgit"),
        (&[("40000", "a\\.git")], "hasDotgit"),
        (&[("40000", ".g\u{200c}it")], "hasDotgit"),
        (&[("0100644", "a")], "zeroPaddedFilemode"),
        (&[("100644", "b"), ("100644", "a")], "treeNotSorted"),
        (&[("40000", "a"), ("100644", "a.b")], "treeNotSorted"),
        (&[("100644", "a"), ("40000", "a")], "duplicateEntries"),
        (&[("100644", "a"), ("100644", "a.b"), ("40000", "a")], "duplicateEntries"),
        (&[("120000", ".gitmodules")], "gitmodulesSymlink"),
        (&[("120000", "GITMOD~1")], "gitmodulesSymlink"),
    ] {
        flaw(Kind::Tree, tree(entries), id, true);
    }
    for (entries, id) in [
        (&[("100664", "a")][..], "badFilemode"),
        (&[("120000", ".gitattributes")], "gitattributesSymlink"),
        (&[("120000", ".gitignore")], "gitignoreSymlink"),
        (&[("120000", ".mailmap")], "mailmapSymlink"),
    ] {
        flaw(Kind::Tree, tree(entries), id, false);
    }
    let mut null = tree(&[("100644", "a")]);
    null.truncate(9);
    null.extend([0; 20]);
    flaw(Kind::Tree, null, "nullSha1", true);
    flaw(Kind::Tree, tree(&[("100644", &"a".repeat(4097))]), "largePathname", true);
    for bytes in [&b"100644 a\0"[..], &tree(&[("100648", "a")]), &tree(&[("100644", "")])] {
        flaw(Kind::Tree, bytes, "badTree", true);
    }
    let sorted = tree(&[("100644", "a.b"), ("40000", "a"), ("160000", "b"), ("120000", "c")]);
    assert_eq!(flaws_with("", Kind::Tree, &sorted), (Vec::new(), false));
}

#[test]
fn files() {
    let rules = Rules::strict(HashKind::Sha1);
    let oid = ObjectId::from_hex(HashKind::Sha1, OID.as_bytes()).expect("a name");
    let modules = Roles { modules: true, attributes: false };
    for (content, id) in [
        ("[submodule \"../a\"]\n\turl = x\n", "gitmodulesName"),
        ("[submodule \"a\"]\n\turl = -x\n", "gitmodulesUrl"),
        ("[submodule \"a\"]\n\tpath = -x\n", "gitmodulesPath"),
        ("[submodule \"a\"]\n\tupdate = !x\n", "gitmodulesUpdate"),
    ] {
        let found = blob(&rules, &oid, Some(content.as_bytes()), modules);
        assert_eq!((ids(&found), found.is_refused), (vec![id.to_owned()], true), "{content}");
    }
    let found = blob(&rules, &oid, Some(b"[submodule \"a\"]\n\turl = b\n[bad"), modules);
    assert_eq!((ids(&found), found.is_refused), (vec!["gitmodulesParse".to_owned()], false));
    let found = blob(&rules, &oid, None, modules);
    assert_eq!(ids(&found), ["gitmodulesLarge"]);
    let attributes = Roles { modules: false, attributes: true };
    let found = blob(&rules, &oid, Some(&[b'a'; 2048]), attributes);
    assert_eq!(ids(&found), ["gitattributesLineLength"]);
    assert_eq!(ids(&blob(&rules, &oid, None, attributes)), ["gitattributesLarge"]);
    let mut found = Files::default();
    let entries = [("100644", ".GITMODULES"), ("100644", ".gitattributes"), ("100644", "a\\.gitmodules")];
    object(&rules, &oid, Kind::Tree, &tree(&entries), &mut found);
    assert_eq!((found.modules.len(), found.attributes.len()), (1, 1));
}

#[test]
fn files_before_their_trees_are_checked_in_a_second_reading() {
    let oid = ObjectId::from_bytes(HashKind::Sha1, &[1; 20]).expect("the name in trees");
    let content = b"[submodule \"../a\"]\n\turl = x\n";
    let checker = Checker::new(Rules::strict(HashKind::Sha1), u64::MAX);
    checker.object(&oid, Kind::Blob, content, 0);
    checker.object(&ObjectId::empty_tree(HashKind::Sha1), Kind::Tree, &tree(&[("100644", ".gitmodules")]), 1);
    checker.verdict(&mut |_| ()).expect("nothing is wrong so far");

    let root = tempfile::tempdir().expect("a directory for tests");
    let elsewhere = crate::database::Objects::new(root.path(), HashKind::Sha1);
    assert!(checker.lacks_files(&elsewhere));
    Late(&checker).object(&oid, Kind::Blob, content, 0);
    let mut said = Vec::new();
    let finished = checker.finish(&elsewhere, Absent::Reported, &mut |line| said.push(line.clone()));
    assert_eq!(finished, Err(Refused::File));
    assert!(matches!(&said[..], [Line::Error(text)] if text.contains_str(": gitmodulesName: ")), "{said:?}");
}

/// Returns the bytes of all messages of some findings.
fn said(found: &Findings) -> usize {
    found.lines.iter().map(Line::len).sum()
}

#[test]
fn messages_about_one_object_are_bounded() {
    let rules = Rules::strict(HashKind::Sha1);
    let oid = ObjectId::from_hex(HashKind::Sha1, OID.as_bytes()).expect("a name");
    let links: Vec<(&str, &str)> = vec![("120000", ".mailmap"); 30_000];
    let mut files = Files::default();
    let many = object(&rules, &oid, Kind::Tree, &tree(&links), &mut files);
    // Each key repeats the name of its section.
    let section = format!("[submodule \"../{}\"]\n{}", "a".repeat(1 << 16), "k\n".repeat(5_000));
    let modules = Roles { modules: true, attributes: false };
    let long = blob(&rules, &oid, Some(section.as_bytes()), modules);
    assert!(many.is_refused && long.is_refused);
    for found in [many, long] {
        assert!(said(&found) < 2 << 20, "{}", said(&found));
        assert!(found.lines.iter().any(|line| format!("{line:?}").contains("more flaws are not shown")));
    }
}

#[test]
fn what_waits_for_the_verdict_is_bounded() {
    let oid = |byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).expect("20 bytes");
    let warned = tree(&[("120000", ".mailmap"); 10_000]);
    let refused = tree(&[("40000", ".git")]);
    let mut rules = Rules::strict(HashKind::Sha1);
    rules.set_all("mailmapSymlink=warn,duplicateEntries=ignore".into()).expect("known ids");
    let text = |refuses: bool| {
        let checker = Checker::new(rules.clone(), u64::MAX);
        for offset in 0..40 {
            checker.object(&oid(1), Kind::Tree, &warned, offset);
        }
        if refuses {
            checker.object(&oid(2), Kind::Tree, &refused, 1);
        }
        let mut lines = Vec::new();
        let verdict = checker.verdict(&mut |line| lines.push(line.clone()));
        assert_eq!(verdict.is_err(), refuses);
        lines
    };
    let all = text(false);
    assert!(all.iter().map(Line::len).sum::<usize>() < 20 << 20);
    assert_eq!(all.last(), Some(&Line::Warning("more flaws are not shown".into())));
    let until_refused = text(true);
    assert!(until_refused.iter().map(Line::len).sum::<usize>() < 2 << 20, "only those before it");
    assert!(matches!(until_refused.last(), Some(Line::Error(text)) if text.contains_str("hasDotgit")));
}

#[test]
fn a_tree_may_name_many_files() {
    let mut content = Vec::new();
    for number in 0..60_000_u32 {
        content.extend_from_slice(b"100644 .gitmodules\0");
        content.extend_from_slice(&[&number.to_be_bytes()[..], &[1; 16]].concat());
    }
    let rules = Rules::strict(HashKind::Sha1);
    let oid = ObjectId::from_hex(HashKind::Sha1, OID.as_bytes()).expect("a name");
    let mut files = Files::default();
    object(&rules, &oid, Kind::Tree, &content, &mut files);
    assert_eq!(files.modules.len(), 60_000);
}
