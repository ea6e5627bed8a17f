//! `diff-files` and `diff-index` with random options in random repositories.

use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full, random::Random};

const NAMES: [&str; 12] =
    ["a", "b", "c", "sub/a", "sub/b", "sub/deep/a", "dir/c", "dir/d", "e", "f", "sub/x", "ä"];

/// Returns one of a few contents, with some lines changed.
fn content(random: &mut Random) -> String {
    let kind = random.below(5);
    let count = [0, 1, 8, 30, 30, 30][random.below(6)];
    let mut lines: Vec<String> = (0..count).map(|line| format!("line {kind} {line} of it\n")).collect();
    for _ in 0..[0, 0, 1, 4][random.below(4)] {
        if count > 0 {
            lines[random.below(count)] = format!("other {}\n", random.below(50));
        }
    }
    lines.concat()
}

fn write(repo: &Repo<'_>, path: &str, random: &mut Random) {
    if repo.join(path).symlink_metadata().is_ok() {
        repo.remove(path);
    }
    match random.below(8) {
        0 => repo.symlink(["a", "b", "e"][random.below(3)], path),
        1 => repo.write_executable(path, content(random)),
        _ => repo.write(path, content(random)),
    }
}

/// Makes some changes in the worktree.
fn mess(repo: &Repo<'_>, random: &mut Random) {
    for _ in 0..random.below(9) {
        let (path, other) = (NAMES[random.below(NAMES.len())], NAMES[random.below(NAMES.len())]);
        let [file, target] = [path, other].map(|path| repo.join(path));
        let is_there = |path: &std::path::Path| path.symlink_metadata().is_ok();
        match random.below(8) {
            0 | 1 => write(repo, path, random),
            2 if is_there(&file) => repo.remove(path),
            // The file has a new modification time, so its content has to be compared.
            3 if file.is_file() && !file.is_symlink() => {
                let text = std::fs::read(&file).expect("a file");
                repo.write(path, text);
            }
            4.. if is_there(&file) && !is_there(&target) => {
                std::fs::create_dir_all(target.parent().expect("below the root")).expect("a directory");
                match random.below(2) {
                    0 => std::fs::rename(&file, &target).expect("moved"),
                    _ if file.is_symlink() => repo.symlink("b", other),
                    _ => drop(std::fs::copy(&file, &target).expect("copied")),
                }
            }
            _ => {}
        }
    }
}

fn make(repo: &Repo<'_>, random: &mut Random) {
    for name in ["one", "two"] {
        repo.git(&["init", "-q", "-b", "main", name]);
        repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "same"]);
    }
    let ignored = ["all", "dirty", "none"][random.below(3)];
    let of_one = format!("[submodule \"one\"]\n\tpath = one\n\turl = x\n\tignore = {ignored}\n");
    repo.write(".gitmodules", of_one);
    for path in NAMES {
        if random.below(4) > 0 {
            write(repo, path, random);
        }
    }
    repo.write("sub/stays", "1\n");
    repo.commit("first");
    mess(repo, random);
    if random.below(3) > 0 {
        repo.git(&["add", "-A"]);
    }
    if random.below(3) == 0 {
        repo.git(&["add", "-A"]);
        repo.git(&["checkout", "-q", "-b", "side"]);
        repo.try_git(&["commit", "-q", "-m", "side"]);
        repo.git(&["checkout", "-q", "-f", "main"]);
        mess(repo, random);
        repo.git(&["add", "-A"]);
        repo.try_git(&["commit", "-q", "-m", "main"]);
        repo.try_git(&["merge", "-q", "side"]);
    }
    mess(repo, random);
    if random.below(2) == 0 {
        repo.git(&["add", "-N", "."]);
    }
    if random.below(4) == 0 {
        repo.try_git(&["update-index", "--assume-unchanged", NAMES[random.below(NAMES.len())]]);
        repo.try_git(&["update-index", "--skip-worktree", NAMES[random.below(NAMES.len())]]);
    }
    match random.below(4) {
        0 => drop(repo.git(&["-C", "two", "commit", "-q", "--allow-empty", "-m", "next"])),
        1 => repo.write("one/new", "x\n"),
        2 => drop(repo.try_git(&["update-index", "--add", "--cacheinfo", &gitlink(repo)])),
        _ => {}
    }
}

/// Returns index information for a second submodule at the commit of the first.
fn gitlink(repo: &Repo<'_>) -> String {
    let commit = repo.git(&["-C", "one", "rev-parse", "HEAD"]).stdout;
    format!("160000,{},three", String::from_utf8_lossy(commit.trim_ascii()))
}

const OPTIONS: &[&[&str]] = &[
    &["-M"],
    &["-M20%"],
    &["-M100%"],
    &["-C"],
    &["-C"],
    &["-C30%"],
    &["-C", "-C"],
    &["-C", "-C70%"],
    &["--find-copies-harder"],
    &["--no-find-copies-harder"],
    &["--no-renames"],
    &["--no-rename-empty"],
    &["--rename-empty"],
    &["-R"],
    &["-R"],
    &["-z"],
    &["-RzM"],
    &["-zRC40%"],
    &["-zl3"],
    &["--raw"],
    &["--abbrev"],
    &["--quiet"],
    &["--exit-code"],
    &["-B"],
    &["-B", "-M"],
    &["-B20%/20%", "-M60%"],
    &["-B40%/90%", "-C"],
    &["-B/1", "-C"],
    &["-B/99%", "-M"],
    &["-l1"],
    &["-l1", "-M50"],
    &["-l4"],
    &["--diff-filter=CX"],
    &["--diff-filter=AMR"],
    &["--diff-filter=x"],
    &["--diff-filter=B"],
    &["--diff-filter=bD"],
    &["--diff-filter=cM"],
    &["--diff-filter=Dd"],
    &["--diff-filter=*C"],
    &["-O.gitmodules"],
    &["-O/dev/null"],
    &["-O:(optional)nowhere"],
    &["-O", ""],
    &["--ita-invisible-in-index"],
    &["--ita-visible-in-index"],
    &["--ignore-submodules=none"],
    &["--ignore-submodules=all"],
];

const NEEDLES: &[&[&str]] = &[
    &["-Sother"],
    &["-Sline 2 1"],
    &["-Sof it\nline 1", "--pickaxe-all"],
    &["-Sdirty"],
    &["--quiet", "--skip-to=b"],
    &["--quiet", "--rotate-to=sub/b"],
    &["--quiet", "-Sother 1"],
    &["--quiet", "--find-object=:b"],
    &["-Gline [0-9] 2"],
    &["-G^other 4?[0-9]$", "--pickaxe-all"],
    &["-Git$"],
    &["-S^other [1-4]?5$", "--pickaxe-regex"],
    &["-S[0-9]* of( it)*$|^other", "--pickaxe-regex"],
    &["--find-object=HEAD:a"],
    &["--find-object=HEAD:sub"],
];

/// The oldest Git whose output is compared; older ones print some lists differently.
pub(crate) const NEWEST: (u32, u32) = (2, 55);

const FORMATS: &[&[&str]] = &[&[], &["--name-only"], &["--name-status"], &["-s"]];

/// Returns a random command line. `--relative` is used only if `can_be_within` is true.
fn line(random: &mut Random, can_be_within: bool) -> Vec<&'static str> {
    let mut args: Vec<&str> = match random.below(4) {
        0 | 1 => vec!["diff-files"],
        2 => vec!["diff-index"],
        _ => vec!["diff-index", "--cached"],
    };
    let is_of_a_tree = args[0] == "diff-index";
    match random.below(10) {
        0 if is_of_a_tree => args.push("-m"),
        0 => args.push("-1"),
        1 if !is_of_a_tree => args.push("-3"),
        2 if can_be_within => args.push("--relative"),
        3 if can_be_within => args.push("--relative=sub"),
        _ => {}
    }
    for _ in 0..random.below(6) {
        args.extend(OPTIONS[random.below(OPTIONS.len())]);
    }
    if random.below(5) == 0 {
        args.extend(NEEDLES[random.below(NEEDLES.len())]);
    }
    args.extend(FORMATS[random.below(FORMATS.len())]);
    if is_of_a_tree {
        args.push("HEAD");
    }
    if random.below(4) == 0 {
        args.extend([&["--", "sub"][..], &["--", ":!a"], &["--", "*a", "one"]][random.below(3)]);
    }
    args
}

#[test]
fn diffs_random_repositories_as_git_does() {
    let seeds = if full() { 300 } else { 18 };
    let (mut copies, mut limited, mut found, mut rewritten) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        if sandbox.git_version() < NEWEST {
            println!("skipped: this Git is old");
            return;
        }
        let repo = sandbox.init("repo");
        make(&repo, &mut random);
        // With `--relative`, Git fails if a path outside of the directory is unmerged.
        let can_be_within = repo.git(&["ls-files", "-u"]).stdout.is_empty();
        for _ in 0..36 {
            let args = line(&mut random, can_be_within);
            let place = sandbox.repo(["repo", "repo/sub"][random.below(2)]);
            let (theirs, ours) = (place.try_git(&args), place.run(SAPWOOD.as_ref(), &args));
            let answer = |run: &testkit::Run| (run.code, run.stdout.clone(), run.stderr.clone());
            assert_eq!(answer(&theirs), answer(&ours), "seed {seed}: {args:?}; git left, ours right");
            let contains = |text: &[u8], part: &str| text.windows(part.len()).any(|at| at == part.as_bytes());
            copies += usize::from(contains(&ours.stdout, "C100"));
            let rewrites = [" M0", " M100", " T100"].iter().any(|part| contains(&ours.stdout, part));
            rewritten += usize::from(rewrites);
            let looks = args.iter().any(|arg| arg.starts_with("-S") || arg.starts_with("-G"));
            found += usize::from(looks && !ours.stdout.is_empty());
            limited += usize::from(contains(&ours.stderr, "only found copies"));
        }
    }
    let counts =
        format!("{copies} lists of copies, {limited} limited, {found} of a text, {rewritten} rewritten");
    assert!(copies > 3 && limited > 0 && found > 3 && rewritten > 3, "{counts}: the dice are loaded");
}
