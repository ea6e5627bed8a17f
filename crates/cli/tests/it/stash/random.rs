//! Random changes: each round trip has the same result as with Git.

use super::Pair;
use crate::{full, random::Random};

const PATHS: [&str; 10] =
    ["a", "b", "dir/c", "dir/deep/d", "gone/only", "run", "link", "new", "n/w", "dir/x.o"];

/// One random change, as shell code.
fn change(random: &mut Random) -> String {
    let path = PATHS[random.below(PATHS.len())];
    let value = random.below(4);
    let dir = path.rsplit_once('/').map_or(".", |(dir, _)| dir);
    match random.below(8) {
        0 => format!("rm -f {path}"),
        1 => format!("git rm -qf --ignore-unmatch {path}"),
        2 => format!("mkdir -p {dir}; rm -f {path}; ln -s {value} {path}"),
        3 => format!("test ! -f {path} || test -L {path} || chmod +x {path}"),
        4 => format!("git rm -q --cached --ignore-unmatch {path}"),
        5 => format!("mkdir -p {dir}; rm -f {path}; echo {value} >{path}; git add -f {path}"),
        _ => format!("mkdir -p {dir}; rm -f {path}; echo {value} >{path}"),
    }
}

#[test]
fn round_trips() {
    let rounds = if full() { 400 } else { 24 };
    for round in 0..rounds {
        let mut random = Random::new(round);
        let pair = Pair::new();
        let mut told = Vec::new();
        for _ in 0..2 {
            for _ in 0..1 + random.below(5) {
                let script = change(&mut random);
                pair.both(&script);
                told.push(script);
            }
            let forms: [&[&str]; 8] = [
                &["push"],
                &["-u"],
                &["-a", "-m", "m"],
                &["-k"],
                &["push", "-S"],
                &["push", "--", "dir", "a"],
                &["push", "-k", "-u"],
                &["create"],
            ];
            let push = forms[random.below(forms.len())];
            println!("{round}: {told:?} {push:?}");
            pair.same(push);
            if random.below(2) == 0 {
                let script = change(&mut random);
                pair.both(&script);
                told.push(script);
            }
            let forms: [&[&str]; 4] = [&["pop"], &["pop", "--index"], &["apply", "-q"], &["branch", "fresh"]];
            let pop = forms[random.below(forms.len())];
            println!("{round}: {told:?} {pop:?}");
            pair.same(pop).native(&["list"]);
        }
    }
}
