//! `add`, `rm` and `mv` after random changes.

use std::{fs, os::unix::fs::symlink};

use testkit::{Oracle, Repo};

use crate::{SAPWOOD, random::Random};

/// Changes a random file of a small tree.
fn change(repo: &Repo<'_>, random: &mut Random) {
    let names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b", "e/a", "x.o", "d/y.o"];
    let path = names[random.below(names.len())];
    let place = repo.join(path);
    match random.below(6) {
        0 => drop(fs::remove_file(&place)),
        1 => {
            if place.is_dir() {
                fs::remove_dir_all(&place).expect("it is there");
            }
            let _ = fs::remove_file(&place);
            if fs::create_dir_all(place.parent().expect("in the repository")).is_ok() {
                let _ = symlink("a", &place);
            }
        }
        2 => {
            let top = path.split('/').next().expect("a name");
            let top = repo.join(top);
            if top.is_file() {
                fs::remove_file(&top).expect("it is there");
                fs::create_dir(&top).expect("nothing is there");
                fs::write(top.join("inside"), b"x\n").expect("a new file");
            }
        }
        _ => {
            let parent = place.parent().expect("in the repository");
            if fs::create_dir_all(parent).is_ok() && !place.is_dir() {
                let _ = fs::remove_file(&place);
                let lines = random.below(5);
                fs::write(&place, "line\n".repeat(lines)).expect("a new file");
            }
        }
    }
}

#[test]
fn random_changes_are_added_removed_and_moved_like_gits() {
    let rounds = 12;
    for seed in 0..rounds {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            repo.write(".gitignore", "*.o\n");
            repo.write("a", "1\n");
            repo.write("d/a", "1\n");
            repo.write("d/e/b", "1\n");
            repo.commit("first");
        });
        let mut random = Random::new(seed);
        for step in 0..8 {
            let seed = random.next();
            oracle.both(|repo| {
                let mut random = Random::new(seed);
                for _ in 0..4 {
                    change(repo, &mut random);
                }
            });
            let lines: &[&[&str]] = &[
                &["add", "-v", "."],
                &["add", "-A", "d"],
                &["add", "-u"],
                &["add", "-N", "."],
                &["add", "a", "d"],
                &["add", "-n", "."],
                &["add", "--no-all", "-v", "d"],
                &["rm", "-r", "d/e"],
                &["rm", "--cached", "a"],
                &["rm", "-f", "a"],
                &["rm", "-rf", "d"],
                &["rm", "d/a", "b"],
                &["mv", "a", "b"],
                &["mv", "d/e", "e"],
                &["mv", "-k", "a", "d/a", "e"],
                &["mv", "-f", "a", "d/a"],
                &["mv", "d", "g"],
            ];
            let line = lines[random.below(lines.len())];
            oracle.same_as(&format!("seed {seed}, step {step}"), line);
        }
    }
}
