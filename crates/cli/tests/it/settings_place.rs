//! Settings that are read in one scope only, and paths in settings: the source of each, and the
//! directory that relative paths start from. Every row runs with Git and with sapwood in a copy of
//! the same directory: see [`crate::environments`].

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use crate::environments::world::Stage;

/// Runs each `(setup, script)`, with `$G` as the program; output and files must be equal.
fn same(rows: &[(String, String)]) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stage = Stage::new();
                while let Some((setup, script)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = stage.compare_scripts(setup, script);
                    if !found.is_empty() {
                        let text = format!("{setup}; {script}\n    {}", found.join("\n    "));
                        failed.lock().expect("nobody panics with it").push(text);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "{} of {} rows differ:\n{}", failed.len(), rows.len(), failed.join("\n"));
}

fn rows(setups: &[&str], scripts: &[&str]) -> Vec<(String, String)> {
    let with = |setup: &str| {
        scripts.iter().map(move |script| (setup.to_owned(), (*script).to_owned())).collect::<Vec<_>>()
    };
    setups.iter().flat_map(|setup| with(setup)).collect()
}

#[test]
fn reads_worktree_config_only_from_the_repository() {
    let setups = [
        "git config --global extensions.worktreeConfig true",
        "git config --global extensions.worktreeConfig nonsense",
        "printf '[extensions]\\n\\tworktreeConfig = true\\n' >top/.git/more; git -C top config include.path more",
        "git -C top config extensions.worktreeConfig true",
        "git -C top config extensions.worktreeConfig true; git -C top config core.repositoryFormatVersion 1",
        "git -C top config extensions.worktreeConfig true; git -C top config --unset core.repositoryFormatVersion",
        "git -C top config core.bare 1; git -C top config core.worktree @/top; git -C top config core.bare 00",
        "git -C top config core.bare FALSE",
    ];
    let setup = |setup: &str| {
        format!(
            "{setup}; git -C top config core.sparseCheckout true; printf '[core]\\n\\tabbrev = 9\\n' >top/.git/config.worktree"
        )
    };
    let mut all = rows(&setups, &["cd top; $G sparse-checkout set d; $G sparse-checkout list; $G status"]);
    for row in setups {
        all.push((setup(row), "cd top; $G worktree add -q @/new topic".to_owned()));
    }
    for given in ["-c extensions.worktreeConfig=true", "-c extensions.worktreeConfig=false"] {
        all.push((
            "true".to_owned(),
            format!("cd top; $G {given} sparse-checkout set d; $G sparse-checkout list"),
        ));
        all.push((setup("true"), format!("cd top; $G {given} worktree add -q @/new topic")));
    }
    let counted =
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=extensions.worktreeConfig GIT_CONFIG_VALUE_0=true;";
    all.push((
        "true".to_owned(),
        format!("cd top; {counted} $G sparse-checkout set d; $G sparse-checkout list"),
    ));
    all.push((
        "git -C top config core.bare 1".to_owned(),
        "cd top; $G --work-tree=. sparse-checkout set d".to_owned(),
    ));
    same(&all);
}

#[test]
fn upgrades_the_format_by_the_repositorys_own_settings() {
    let setups = [
        "git config --global extensions.relativeWorktrees true",
        "git config --global core.repositoryFormatVersion 1",
        "git config --global extensions.relativeWorktrees true; git config --global core.repositoryFormatVersion 1",
        "git -C top config core.repositoryFormatVersion 1",
        "git -C top config core.repositoryFormatVersion 1; git -C top config extensions.relativeWorktrees true",
        "git -C top config --unset core.repositoryFormatVersion",
        "git -C top config --unset core.repositoryFormatVersion; git -C top config extensions.relativeWorktrees true",
        "git -C top config extensions.unheardOf 1",
        "printf '[core]\\n\\trepositoryFormatVersion = 1\\n[extensions]\\n\\trelativeWorktrees = true\\n' >top/.git/more; \
         git -C top config include.path more",
    ];
    same(&rows(&setups, &["cd top; $G worktree add -q --relative-paths @/new topic; $G status"]));
}

#[test]
fn ignores_extensions_outside_of_the_repository() {
    let extensions = [
        "objectFormat sha256",
        "refStorage reftable",
        "compatObjectFormat sha256",
        "preciousObjects true",
        "noop-v1 1",
        "unheardOf 1",
        "partialClone origin",
        "relativeWorktrees nonsense",
        "worktreeConfig nonsense",
    ];
    let mut all = Vec::new();
    for extension in extensions {
        let script =
            "cd top; $G status --short; $G reset --hard -q; $G ls-files -s; cd ../bare.git; $G worktree list";
        let own = format!(
            "git -C top config extensions.worktreeConfig true; git config -f top/.git/config.worktree extensions.{extension}"
        );
        all.push((format!("git config --global extensions.{extension}"), script.to_owned()));
        all.push((own, script.to_owned()));
        // Version 1 has fewer extensions that both programs accept.
        all.push((format!("git -C top config extensions.{extension} || true"), script.to_owned()));
    }
    all.extend(rows(
        &["git config --global core.bare true", "git config --global core.worktree @/other", "true"],
        &[
            "cd top; $G worktree list; $G clean -ndx; cd .git; $G worktree list; $G -c core.bare=false worktree list; $G --bare worktree list",
            "cd bare.git; $G -c core.bare=false worktree list; $G -c core.bare=true worktree list",
            "cd top/.git/worktrees/linked; $G worktree list",
            "cd bare.git; $G -c core.bare=false --work-tree=@/plain checkout -q topic",
        ],
    ));
    all.extend(rows(
        &["git -C top config --unset core.bare; git -C top config core.worktree @/other"],
        &["cd top/.git; $G --bare clean -fdx; $G --bare worktree list", "cd top; $G ls-files -o"],
    ));
    same(&all);
}

#[test]
fn resolves_safe_directory_from_the_current_directory() {
    let values = [
        ".",
        "./",
        "..",
        "top",
        "../*",
        "@/top",
        "@/top/",
        "@/*",
        "@/top/*",
        "@/top/.git",
        "@/alias",
        "@/none/*",
        "*",
        "",
        ":(optional)@/top",
        ":(optional)@/none",
        "~/../top",
        "@/linked",
        "@/bare.git",
    ];
    let scripts = [
        "cd top; $G status -s; $G -C d ls-files -o; cd .git; $G worktree list; cd ../../bare.git; $G worktree list; cd refs; $G worktree list",
        "cd linked; $G status -s; cd ../alias/d; $G status -s; cd @; $G -C top/d -C .. ls-files -o; cd top/sub; $G ls-files",
        "cd plain; $G clone -q --template= ../top x; cd ../bare.git; $G clone -q --template= . ../y; \
         cd ../top/.git; $G clone -q --template= ../../top ../../z; cd ..; $G clone -q --template= . ../w",
    ];
    let scripts = scripts.map(|script| format!("export GIT_TEST_ASSUME_DIFFERENT_OWNER=1; {script}"));
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let setups = values.map(|value| format!("git config --global safe.directory '{value}'"));
    let setups: Vec<&str> = setups.iter().map(String::as_str).collect();
    let mut all = rows(&setups, &scripts);
    let several = "printf '[safe]\\n\\tdirectory = x\\n\\tdirectory\\n\\tdirectory = y/z\\n\\tdirectory = *\\n' >>home/.gitconfig";
    let included = "printf '[include]\\n\\tpath = more\\n' >>home/.gitconfig; printf '[safe]\\n\\tdirectory = *\\n' >home/more";
    let conditional = "printf '[includeIf \"gitdir:top/\"]\\n\\tpath = more\\n' >>home/.gitconfig; \
                       printf '[safe]\\n\\tdirectory = *\\n' >home/more";
    let own = "git -C top config safe.directory '*'";
    all.extend(rows(&[several, included, conditional, own], &scripts));
    let given = ["-c safe.directory=.", "-c safe.directory=*", "-c safe.directory=x"];
    for given in given {
        let script = format!(
            "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1; cd top; $G {given} status -s; cd ../plain; $G {given} clone -q --template= ../top x"
        );
        all.push(("true".to_owned(), script));
    }
    let bare = ["explicit", "all", "Explicit", "", "nonsense"];
    let bare = bare.map(|value| format!("git config --global safe.bareRepository '{value}'"));
    let bare: Vec<&str> = bare.iter().map(String::as_str).collect();
    all.extend(rows(
        &bare,
        &["cd bare.git; $G worktree list; cd refs; $G worktree list; cd ../../top/.git/worktrees/linked; $G worktree list; \
           cd ../../../../bare.git; $G --git-dir=. worktree list; cd ../top; $G ls-files"],
    ));
    all.push(("true".to_owned(), "cd bare.git; $G -c safe.bareRepository=nonsense worktree list".to_owned()));
    same(&all);
}

#[test]
fn resolves_relative_paths_as_git_does() {
    let places = "for d in top top/d linked linked/d plain; do mkdir -p @/$d; echo '*.ign' >@/$d/rules; \
                  echo 't text eol=crlf' >@/$d/attributes; mkdir -p @/$d/hooks; \
                  printf '#!/bin/sh\\necho '$d' $PWD\\n' >@/$d/hooks/post-checkout; chmod +x @/$d/hooks/post-checkout; \
                  printf '[core]\\n\\tabbrev = 11\\n' >@/$d/more; done; cp top/more home/more; cp top/more top/.git/more; \
                  echo i >top/x.ign; echo i >linked/d/x.ign; git -C top update-index -q --refresh; ";
    let everywhere = |script: &str| {
        format!("for d in top top/d linked linked/d alias alias/d; do cd @/$d; {script}; done; cd @/plain; ")
    };
    let outside = "--git-dir=../top/.git --work-tree=../top";
    let mut all = Vec::new();
    let mut add = |setup: String, script: String| all.push((format!("{places}{setup}"), script));
    for value in ["rules", "./rules", "../rules", "d/rules", "~/rules", "@/plain/rules"] {
        let script = "$G ls-files -o --exclude-standard; $G check-ignore -v x.ign d/x.ign; $G status -s; $G clean -n -d; $G clean -fd";
        add(
            format!("git config --global core.excludesFile '{value}'"),
            everywhere(script) + &format!("$G {outside} status -s; $G {outside} clean -nd"),
        );
    }
    for value in ["attributes", "../attributes", "d/attributes"] {
        add(
            format!("git config --global core.attributesFile '{value}'"),
            everywhere("$G check-attr -a t; rm -f @/top/t @/linked/t; $G checkout -f -q"),
        );
    }
    for value in ["hooks", "../hooks", "d/hooks", ".git/hooks"] {
        add(
            format!("git config --global core.hooksPath '{value}'"),
            everywhere("$G checkout -q --detach") + &format!("$G {outside} checkout -q --detach"),
        );
    }
    for scope in ["--global", "-f top/.git/config", "-f top/.git/config.worktree"] {
        for value in ["more", "./more", "../more", "../d/more", "~/more"] {
            add(
                format!(
                    "git -C top config extensions.worktreeConfig true; git config {scope} include.path '{value}'"
                ),
                everywhere("$G worktree list"),
            );
        }
    }
    let conditions = [
        "./",
        "./top/",
        "./top/.git",
        "top/",
        "top/.git",
        ".git/",
        "@/top/",
        "@/alias/",
        "~/../top/",
        "top",
        "**/top/**",
        "./**",
        "./../top/",
        "~/",
    ];
    for condition in conditions {
        for file in ["home/.gitconfig", "top/.git/config"] {
            add(
                format!("printf '[includeIf \"gitdir:{condition}\"]\\n\\tpath = @/home/more\\n' >>{file}"),
                everywhere("$G worktree list")
                    + "cd @/top/.git; $G worktree list; $G --git-dir=../../alias/.git worktree list",
            );
        }
    }
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        add(
            String::new(),
            everywhere(&format!("{name}=more $G worktree list; {name}=../more $G worktree list")),
        );
    }
    for value in [".git/objects", "../.git/objects", "../top/.git/objects", "@/top/.git/objects"] {
        add(
            String::new(),
            everywhere(&format!(
                "GIT_OBJECT_DIRECTORY={value} $G ls-files -s t; GIT_OBJECT_DIRECTORY={value} $G worktree list"
            )),
        );
    }
    for value in [".git/index", "spare", "../spare", "../top/.git/index"] {
        add(
            String::new(),
            everywhere(&format!(
                "GIT_INDEX_FILE={value} $G read-tree HEAD; GIT_INDEX_FILE={value} $G ls-files"
            )),
        );
    }
    for value in
        ["@/top", "@", "top", ".", ":@/alias", "@/alias", "@/top/", "@/top/d/..", ":@/top/", "/", "::@/top/."]
    {
        add(
            "mkdir -p top/d/deep".to_owned(),
            format!("export GIT_CEILING_DIRECTORIES={value}; ")
                + &everywhere("$G ls-files t; cd deep && $G ls-files; cd @/top/.git/refs; $G worktree list"),
        );
    }
    add(
        String::new(),
        "$G -C top -C d -C .. -C '' ls-files; $G -C top --git-dir=.git -C d ls-files; $G --git-dir=top/.git -C top ls-files; \
         $G -C top/d --work-tree=.. ls-files; $G -C top/d -C ../../linked --git-dir=../top/.git ls-files -o; $G -C none status; \
         $G -C top/t status; cd top; $G -C @ -C top ls-files"
            .to_owned(),
    );
    same(&all);
}

#[test]
fn clone_reads_settings_at_the_time_git_does() {
    let settings = [
        "[core]\\n autocrlf = true",
        "[core]\\n eol = crlf",
        "[core]\\n symlinks = false",
        "[core]\\n filemode = false",
        "[core]\\n attributesFile = @/attributes",
        "[core]\\n logAllRefUpdates = false",
        "[core]\\n hooksPath = @/hooks",
        "[core]\\n sparseCheckout = true",
        "[filter \\\"x\\\"]\\n smudge = tr 3 9",
        "[index]\\n version = 4",
        "[feature]\\n manyFiles = true",
        "[checkout]\\n workers = 2",
        "[clone]\\n defaultRemoteName = else",
        "[branch]\\n autoSetupRebase = always",
        "[user]\\n name = Somebody",
        "[advice]\\n detachedHead = false",
    ];
    let conditions = ["onbranch:main", "onbranch:**", "gitdir:new/", "hasconfig:remote.*.url:**/from"];
    let from = "git init -q -b main --template= from; cd from; printf '1\\n' >t; printf '3\\n' >f; \
                printf '* text=auto\\nf filter=x\\n' >.gitattributes; git add .; git commit -qm 1; git branch topic; cd ..; \
                mkdir hooks; printf '#!/bin/sh\\necho hook\\n' >hooks/post-checkout; chmod +x hooks/post-checkout; \
                echo 't -text eol=crlf' >attributes; ";
    let script = "unset GIT_COMMITTER_NAME; export EMAIL=e; $G -c user.name=Me clone --template= from new; \
                  $G -c user.name=Me clone -q --template= -b topic from new2";
    let mut all = Vec::new();
    for setting in settings {
        for condition in conditions {
            // Git reads these two sections before the remote has its URL and HEAD points to a
            // branch.
            if condition.starts_with("hasconfig")
                && ["[index]", "[feature]"].iter().any(|it| setting.starts_with(it))
            {
                continue;
            }
            let setup = format!(
                "{from}printf '[includeIf \"{condition}\"]\\n\\tpath = more\\n' >>home/.gitconfig; printf \"{setting}\\n\" >home/more"
            );
            all.push((setup, script.to_owned()));
        }
        all.push((format!("{from}printf \"{setting}\\n\" >>home/.gitconfig"), script.to_owned()));
    }
    // A switch and a new worktree read settings at the same point as Git.
    for setting in settings {
        let setup = format!(
            "{from}printf '[includeIf \"onbranch:topic\"]\\n\\tpath = more\\n' >>home/.gitconfig; printf \"{setting}\\n\" >home/more; \
             cd from; git rm -q f; git commit -qm 2"
        );
        let script = "cd from; $G switch -q topic; rm t; $G checkout -q -f; $G worktree add -q @/other2 main; \
                      $G worktree add -q -b third @/third topic";
        all.push((setup, script.to_owned()));
    }
    same(&all);
}

#[test]
fn clone_obeys_the_requested_formats() {
    let mut all = Vec::new();
    for value in ["files", "sha1", "nonsense"] {
        for name in ["GIT_DEFAULT_REF_FORMAT", "GIT_DEFAULT_HASH", "GIT_REFERENCE_BACKEND"] {
            for options in ["", "--ref-format=files "] {
                all.push((
                    "true".to_owned(),
                    format!("{name}={value} $G clone --template= {options}top new"),
                ));
            }
        }
        for name in ["init.defaultRefFormat", "init.defaultObjectFormat"] {
            all.push((
                format!("git config --global {name} {value}"),
                "$G clone --template= top new".to_owned(),
            ));
        }
    }
    for options in
        ["-c init.defaultRefFormat=files -c feature.experimental=true", "-c init.defaultRefFormat=reftable"]
    {
        all.push(("true".to_owned(), format!("$G {options} clone --template= --ref-format=files top new")));
    }
    all.push(("true".to_owned(), "GIT_DEFAULT_HASH=sha256 $G clone --template= top new".to_owned()));
    same(&all);
    // sapwood refuses a format that it cannot create, and leaves no files.
    let stage = Stage::new();
    for given in [
        "GIT_DEFAULT_REF_FORMAT=reftable $G",
        "GIT_REFERENCE_BACKEND=reftable:///x $G",
        "$G -c feature.experimental=true",
        "$G -c init.defaultRefFormat=reftable",
    ] {
        let found = stage.refused(&format!("{given} clone --template= top new"));
        assert!(found.contains("ref format 'reftable' is not supported"), "{given}: {found}");
    }
}
