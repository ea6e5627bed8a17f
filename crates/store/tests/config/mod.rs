//! Random configuration files, edited by Git and by this crate.

use std::fs;

use bstr::{BStr, BString, ByteSlice as _};
use format::config::{self, Change, Edit};
use proptest::prelude::*;
use store::{Fsync, LockOptions};
use testkit::Sandbox;

const PIECES: [&str; 24] = [
    "[a]\n",
    "[A]\n",
    "[a]",
    "[a \"x\"]\n",
    "[a \"X\"] ; comment\n",
    "[a \"q\\\"\\\\\"]\n",
    "[a.x]\n",
    "[d]\n",
    "\tb = 1\n",
    "\tB=2\n",
    "  b\n",
    "\tb = \"quoted # ; \\\" \"  \n",
    "\tb = one \\\n  two\n",
    "\tc = 3 # why\n",
    "\tc = 4",
    " e = f\n",
    "# about\n",
    "; about\n",
    "\t# inner\n",
    "\n",
    "\n\n",
    " \t",
    "\r\n",
    "\tb = 5\r\n",
];

const KEYS: [&str; 9] = ["a.b", "A.b", "a.B", "a.c", "a.x.b", "a.X.b", "a.q\"\\.b", "d.e", "new.sub.key"];

fn change() -> impl Strategy<Value = Edit> {
    let key = prop::sample::select(KEYS.to_vec());
    let value = prop_oneof![
        "[a-z #;\\\\\"\t\n\r]{0,6}",
        Just(" padded ".to_owned()),
        Just("+refs/heads/*:refs/remotes/origin/*".to_owned()),
    ];
    (0..3usize, key, value).prop_map(|(which, key, value)| {
        let (key, value) = (key.into(), value.into());
        match which {
            0 => Edit::Set { key, value },
            1 => Edit::Add { key, value },
            _ => Edit::Unset { key },
        }
    })
}

fn arguments(edit: &Edit) -> Vec<String> {
    match edit {
        Edit::Set { key, value } => vec![key.to_string(), value.to_string()],
        Edit::Add { key, value } => vec!["--add".into(), key.to_string(), value.to_string()],
        Edit::Unset { key } => vec!["--unset-all".into(), key.to_string()],
    }
}

/// A change that Git makes with options of the older form of `git config`.
#[derive(Clone, Debug)]
struct Call {
    key: &'static str,
    value: Option<String>,
    /// If set, only this value is changed.
    only: Option<&'static str>,
    all: bool,
    comment: bool,
}

fn call() -> impl Strategy<Value = Call> {
    let value = prop::option::weighted(0.6, "[a-z #;\\\\\"\t]{0,4}");
    let only =
        prop::option::of(prop::sample::select(vec!["1", "2", "quoted # ; \" ", "one   two", "3", "", "5"]));
    (prop::sample::select(KEYS.to_vec()), value, only, any::<bool>(), any::<bool>())
        .prop_map(|(key, value, only, all, comment)| Call { key, value, only, all, comment })
}

impl Call {
    fn arguments(&self) -> Vec<&str> {
        let mut args = Vec::new();
        match (&self.value, self.all) {
            (Some(_), true) => args.push("--replace-all"),
            (Some(_), false) => {}
            (None, true) => args.push("--unset-all"),
            (None, false) => args.push("--unset"),
        }
        if self.comment && self.value.is_some() {
            args.extend(["--comment", "why"]);
        }
        if self.only.is_some() {
            args.push("--fixed-value");
        }
        args.push(self.key);
        args.extend(self.value.as_deref());
        args.extend(self.only);
        args
    }

    fn apply(&self, content: &[u8]) -> Result<Vec<u8>, config::Error> {
        let change = Change {
            key: self.key.into(),
            value: self.value.as_ref().map(|value| value.as_bytes().as_bstr()),
            comment: (self.comment && self.value.is_some()).then_some(BStr::new(" # why")),
            all: self.all,
        };
        let select = |value: Option<&BStr>| match (self.only, value) {
            (Some(only), Some(value)) => value == only,
            _ => true,
        };
        config::change(content, &change, &select)
    }
}

const SECTIONS: [&str; 8] = ["a", "A", "a.x", "a.X", "a.q\"\\", "d", "new", "a.sub.y"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn changes_agree_with_git(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
        call in call(),
    ) {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("");
        let before = pieces.concat();
        repo.write("git", &before);
        let run = repo.try_git(&[&["config", "--file", "git"], &call.arguments()[..]].concat());
        let result = call.apply(before.as_bytes());
        let code = match &result {
            Ok(_) => 0,
            Err(config::Error::Nothing | config::Error::Multiple { .. }) => 5,
            Err(_) => 128,
        };
        prop_assert_eq!(code, run.code, "{:?} {}", result, run.stderr);
        let after = result.map_or_else(|_| before.into(), BString::from);
        prop_assert_eq!(repo.read("git"), after);
    }

    #[test]
    fn renamed_sections_agree_with_git(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
        old in prop::sample::select(SECTIONS.to_vec()),
        new in prop::option::of(prop::sample::select(SECTIONS.to_vec())),
    ) {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("");
        let before = pieces.concat();
        repo.write("git", &before);
        let option = if new.is_some() { "--rename-section" } else { "--remove-section" };
        let mut args = vec!["config", "--file", "git", option, old];
        args.extend(new);
        let run = repo.try_git(&args);
        let (after, count) =
            config::rename_section(before.as_bytes(), old.into(), new.map(BStr::new)).expect("a name");
        prop_assert_eq!(run.code == 0, count > 0, "{}", run.stderr);
        prop_assert_eq!(repo.read("git"), BString::from(after));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn edits_agree_with_git(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
        edits in prop::collection::vec(change(), 1..4),
    ) {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("");
        for name in ["git", "ours"] {
            repo.write(name, pieces.concat());
        }
        for edit in edits {
            let mut args = vec!["config".to_owned(), "--file".into(), "git".into()];
            args.extend(arguments(&edit));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let run = repo.try_git(&args);
            let before = fs::read(repo.join("ours")).expect("reads");
            let result = store::config::edit(
                &repo.join("ours"), std::slice::from_ref(&edit), &LockOptions::default(), &Fsync::default());
            // Git fails if a key to unset does not exist.
            let nothing_to_unset = run.code == 5 && matches!(edit, Edit::Unset { .. });
            prop_assert_eq!(result.is_ok(), run.code == 0 || nothing_to_unset, "{:?} {}", result, run.stderr);
            prop_assert_eq!(repo.read("git"), repo.read("ours"), "{:?} in {:?}", edit, bstr::BStr::new(&before));
        }
    }
}
