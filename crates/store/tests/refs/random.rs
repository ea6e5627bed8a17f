//! Random histories of refs with conflicting names.

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Update { name: usize, new: usize, expected: Option<usize> },
    Delete { name: usize, expected: Option<usize> },
    Head { name: usize },
    Alias { name: usize, target: usize },
    Detach { new: usize },
    Pack,
}

const NAMES: [&str; 9] = [
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/a/b",
    "refs/heads/a/b/c",
    "refs/heads/a-b",
    "refs/heads/a/d",
    "refs/tags/a",
    "refs/tags/a/b",
    "refs/notes/n",
];

fn op() -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    // One of three commits, or none.
    let expected = prop::option::weighted(0.3, 0..4usize);
    prop_oneof![
        6 => (name.clone(), 0..3usize, expected).prop_map(|(name, new, expected)| Op::Update { name, new, expected }),
        4 => (name.clone(), prop::option::weighted(0.3, 0..3usize)).prop_map(|(name, expected)| Op::Delete { name, expected }),
        2 => name.clone().prop_map(|name| Op::Head { name }),
        1 => (name.clone(), name.clone()).prop_map(|(name, target)| Op::Alias { name, target }),
        1 => (0..3usize).prop_map(|new| Op::Detach { new }),
        1 => Just(Op::Pack),
    ]
}

fn run(twins: &Twins, op: &Op) {
    let value = |index: usize| twins.commits.get(index).copied();
    let hex = |index: usize| value(index).unwrap_or(ObjectId::null(HashKind::Sha1)).to_string();
    match *op {
        Op::Update { name, new, expected } => {
            let name = NAMES[name];
            let mut args = vec!["update-ref".to_owned(), "-m".into(), "up".into(), name.into(), hex(new)];
            args.extend(expected.map(hex));
            let expected = match expected.map(value) {
                None => Expected::Any,
                Some(None) => Expected::Missing,
                Some(Some(oid)) => Expected::Is(oid),
            };
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            twins.step(&args, vec![update(name, value(new).expect("a commit"), expected, "up")]);
        }
        Op::Delete { name, expected } => {
            let name = NAMES[name];
            let mut args = vec!["update-ref".to_owned(), "--no-deref".into(), "-d".into(), name.into()];
            args.extend(expected.map(hex));
            let expected = expected.and_then(value).map_or(Expected::Any, Expected::Is);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            twins.step(&args, vec![delete(name, expected)]);
        }
        Op::Head { name } => {
            let name = NAMES[name];
            twins.step(&["symbolic-ref", "-m", "to", "HEAD", name], vec![symbolic("HEAD", name, "to")]);
        }
        // Symbolic refs never form a cycle.
        Op::Alias { name, target } if target >= name => {}
        Op::Alias { name, target } => {
            let (name, target) = (NAMES[name], NAMES[target]);
            for repo in [twins.git(), twins.ours()] {
                repo.try_git(&["symbolic-ref", "-m", "as", name, target]);
            }
        }
        Op::Detach { new } => {
            let oid = value(new).expect("a commit");
            let args = ["update-ref", "--no-deref", "-m", "off", "HEAD", &oid.to_string()];
            twins.step(&args, vec![update("HEAD", oid, Expected::Any, "off")]);
        }
        Op::Pack => {
            twins.both(&["pack-refs", "--all"]);
            twins.same("pack-refs");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 60, ..ProptestConfig::default() })]
    #[test]
    fn histories_agree_with_git(ops in prop::collection::vec(op(), 1..16)) {
        let twins = Twins::new();
        for op in &ops {
            run(&twins, op);
        }
    }
}
