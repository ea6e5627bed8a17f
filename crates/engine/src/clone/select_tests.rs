use super::*;

fn oid(number: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes")
}

fn theirs(name: &str, number: u8) -> RemoteRef {
    RemoteRef { name: name.into(), oid: oid(number), symref: None, peeled: None }
}

fn ref_options() -> RefOptions {
    RefOptions {
        refspecs: Vec::new(),
        branch: None,
        revision: None,
        single_branch: false,
        tags: true,
        later_tags: LaterTags::Followed,
        bare: false,
        mirror: false,
        remote: "origin".into(),
        default_branch: "trunk".into(),
    }
}

fn advertised() -> Advertisement {
    let mut head = theirs("HEAD", 1);
    head.symref = Some("refs/heads/main".into());
    let refs = vec![
        head,
        theirs("refs/heads/a", 2),
        theirs("refs/heads/main", 1),
        theirs("refs/notes/commits", 4),
        theirs("refs/tags/v1", 3),
    ];
    Advertisement { refs, ..Advertisement::default() }
}

fn names(selection: &Selection) -> Vec<String> {
    selection.mapped.iter().filter_map(|mapped| mapped.ours.as_ref()).map(BString::to_string).collect()
}

#[test]
fn maps_refs_of_plain_bare_and_mirror_clones() {
    let plain = ref_options().select(&advertised()).expect("found");
    assert_eq!(names(&plain), ["refs/remotes/origin/a", "refs/remotes/origin/main", "refs/tags/v1"]);
    assert!(matches!(&plain.head, NewHead::Branch(branch) if branch.name == "refs/heads/main"));
    let refspec = ref_options().fetch_refspec(&plain);
    assert_eq!(refspec, Some("+refs/heads/*:refs/remotes/origin/*".into()));

    let bare = RefOptions { bare: true, ..ref_options() };
    let selection = bare.select(&advertised()).expect("found");
    assert_eq!(names(&selection), ["refs/heads/a", "refs/heads/main", "refs/tags/v1"]);
    assert_eq!(bare.fetch_refspec(&selection), None);

    let mirror = RefOptions { mirror: true, tags: false, ..bare };
    let selection = mirror.select(&advertised()).expect("found");
    let everything = ["refs/heads/a", "refs/heads/main", "refs/notes/commits", "refs/tags/v1"];
    assert_eq!(names(&selection), everything);
    assert_eq!(mirror.fetch_refspec(&selection), Some("+refs/*:refs/*".into()));
}

#[test]
fn selects_a_single_branch_or_tag() {
    let one = RefOptions { single_branch: true, ..ref_options() };
    let selection = one.select(&advertised()).expect("found");
    assert_eq!(names(&selection), ["refs/remotes/origin/main"]);
    assert_eq!(selection.follow_tags, [theirs("refs/tags/v1", 3)]);
    assert_eq!(one.fetch_refspec(&selection), Some("+refs/heads/main:refs/remotes/origin/main".into()));

    let tag = RefOptions { branch: Some("v1".into()), ..one };
    let selection = tag.select(&advertised()).expect("found");
    assert_eq!(selection.head, NewHead::Tag(theirs("refs/tags/v1", 3)));
    assert_eq!(tag.fetch_refspec(&selection), Some("+refs/tags/v1:refs/tags/v1".into()));

    let none = RefOptions { branch: Some("v2".into()), ..tag };
    let refused = none.select(&advertised()).expect_err("there is none").to_string();
    assert_eq!(refused, "Remote branch v2 not found in upstream origin");
}

#[test]
fn selects_a_revision() {
    let of = |name: &str| RefOptions { revision: Some(name.into()), tags: false, ..ref_options() };
    let selection = of("v1").select(&advertised()).expect("found");
    assert_eq!(selection.head, NewHead::Tag(theirs("refs/tags/v1", 3)));
    assert_eq!((names(&selection), of("v1").fetch_refspec(&selection)), (Vec::new(), None));
    let name = oid(9).to_string();
    let selection = of(&name).select(&advertised()).expect("an object");
    assert_eq!(selection.head, NewHead::Tag(theirs(&name, 9)));
    assert_eq!(of(&name).ref_prefixes(), ["HEAD"]);
    assert_eq!(of("main^").select(&advertised()), Err(Error::Revision("main^".into())));
    let refused = of(&name[..9]).select(&advertised()).expect_err("no ref").to_string();
    assert_eq!(refused, format!("Remote revision {} not found in upstream origin", &name[..9]));
}

#[test]
fn guesses_the_branch_of_head() {
    let mut found = advertised();
    found.refs[0].symref = None;
    let guessed = |found: &Advertisement| match ref_options().select(found).expect("found").head {
        NewHead::Branch(branch) => branch.name.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(guessed(&found), "refs/heads/main");
    found.refs.push(theirs("refs/heads/master", 1));
    assert_eq!(guessed(&found), "refs/heads/master");
    found.refs.push(theirs("refs/heads/trunk", 1));
    assert_eq!(guessed(&found), "refs/heads/trunk");
    found.refs[0].oid = oid(9);
    assert_eq!(ref_options().select(&found).expect("found").head, NewHead::Detached(theirs("HEAD", 9)));
}

#[test]
fn handles_empty_remotes_and_unborn_branches() {
    let mut found = Advertisement::default();
    let selection = ref_options().select(&found).expect("fine");
    assert_eq!((selection.empty, &selection.head), (true, &NewHead::Unborn("refs/heads/trunk".into())));
    found.unborn_head = Some("refs/heads/x".into());
    let selection = ref_options().select(&found).expect("fine");
    assert_eq!(selection.head, NewHead::Unborn("refs/heads/x".into()));
    found.refs.push(theirs("refs/heads/y", 1));
    let selection = ref_options().select(&found).expect("fine");
    assert_eq!((selection.empty, &selection.head), (false, &NewHead::Unborn("refs/heads/x".into())));
}

#[test]
fn skips_malformed_names() {
    let mut found = advertised();
    for name in ["refs/heads/../../../x", "refs/heads/a b", "refs/heads/x.lock", "refs/heads/-ok"] {
        found.refs.push(theirs(name, 5));
    }
    let selection = ref_options().select(&found).expect("found");
    assert_eq!(selection.funny.len(), 3);
    assert!(names(&selection).contains(&"refs/remotes/origin/-ok".to_owned()));
}

#[test]
fn applies_configured_refspecs_first() {
    let parse = |text: &str| Refspec::parse(text.into());
    let notes = parse("+refs/notes/*:refs/notes/*").expect("valid");
    let with = RefOptions { refspecs: vec![notes], ..ref_options() };
    let selection = with.select(&advertised()).expect("found");
    assert_eq!(names(&selection)[0], "refs/notes/commits");
    let missing = RefOptions { refspecs: vec![parse("refs/x:refs/y").expect("valid")], ..ref_options() };
    assert_eq!(missing.select(&advertised()), Err(Error::NoSuchRef("refs/x".into())));
    for text in ["main", "^refs/heads/x", "refs/a/*:refs/b", "refs/*/x:refs/*/y", "x:refs/y"] {
        assert_eq!(parse(text), Err(Error::Refspec(text.into())));
    }
}

#[test]
fn honours_hide_refs() {
    let rules = ["refs/pull/", "refs/x", "!refs/pull/1"].map(BString::from);
    for (name, hidden) in [
        ("refs/pull/2/head", true),
        ("refs/pull/1/head", false),
        ("refs/x", true),
        ("refs/xy", false),
        ("refs/heads/a", false),
    ] {
        assert_eq!(is_hidden(name.into(), &rules), hidden, "{name}");
    }
}
