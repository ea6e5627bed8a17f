//! Random configuration files, edited by Git and by this crate.

use std::fs;

use format::config::Edit;
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
