//! `config` compared with Git: the shim and Git run one after the other on the same files.

use bstr::BString;
use testkit::{Repo, Run, Sandbox};

use crate::shim::Shim;

/// The content of the repository's own file.
const OWN: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
    [user]\n\tname = Ann\n\
    ; about the remote\n\
    [remote \"origin\"]\n\turl = /srv/a\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
    \tfetch = +refs/tags/*:refs/tags/*\n\
    [Sect]\n\tFlag\n\tNumber = 3k\n\tSize = 0x10\n\tBad = maybe\n\tEmpty =\n\tPath = ~/x\n\
    \tDate = never\n\tColor = bold red\n\tMany = one\n\tmany = two # kept\n\tMANY = one more\n\
    [sect \"Sub.X\"]\n\tkey = \"a ; b\"\n\
    [a.old]\n\tb = 1\n\
    [one]\n\tonly = here\n\
    [include]\n\tpath = ../extra\n";

/// Settings for URLs.
const URLS: &str = "[http]\n\tproxy = p\n\tverify\n\
    [http \"https://Example.com\"]\n\tproxy = q\n\tverify = false\n\
    [http \"https://*.com/a\"]\n\tproxy = r\n\tcookie = ~/c\n\
    [http \"https://me@example.com:443/a/\"]\n\tproxy = s\n\
    [http \"example.com\"]\n\tproxy = t\n\
    [other \"https://example.com/%41\"]\n\tproxy = u\n";

/// Other files, by path below the worktree.
const FILES: &[(&str, &str)] = &[
    (".git/config", OWN),
    ("extra", "[extra]\n\tkey = included\n[user]\n\tname = Bob\n"),
    ("conf", "# top\n[a]\n\t# about b\n\tb = 1 ; why\n[a] c = 2\n[d \"e\"]\n\tf = g\n\n"),
    ("urls", URLS),
    ("crlf", "[a]\r\n\tb = 1\r\n"),
    ("dir/conf", "[below]\n\tkey = 1\n"),
    ("home/.gitconfig", "[user]\n\temail = a@example.com\n[color]\n\tui = always\n"),
];

/// A repository in which the files are reset for each command.
struct ConfigFixture<'s> {
    repo: Repo<'s>,
    shim: Shim,
}

impl<'s> ConfigFixture<'s> {
    fn new(sandbox: &'s Sandbox) -> ConfigFixture<'s> {
        let repo = sandbox.init("repo");
        repo.commit("one");
        ConfigFixture { repo, shim: Shim::new() }
    }

    fn reset(&self) {
        for (path, content) in FILES {
            self.repo.write(path, content);
        }
        for made in ["new", "dir/new"] {
            if self.repo.exists(made) {
                self.repo.remove(made);
            }
        }
    }

    fn after(&self) -> Vec<Option<BString>> {
        let paths = FILES.iter().map(|(path, _)| *path).chain(["new", ".git/config.lock"]);
        paths.map(|path| self.repo.exists(path).then(|| self.repo.read(path))).collect()
    }

    /// Runs a shell line with Git and with the shim as `git`.
    #[track_caller]
    fn same(&self, line: &str) -> Run {
        let script = format!("HOME=$PWD/home; export HOME; unset XDG_CONFIG_HOME; {line}");
        let shell = |path: &str| {
            self.reset();
            let mut shell = self.repo.command("sh".as_ref());
            let run = crate::shim::finished(shell.args(["-c", &format!("{path}{script}")]));
            (run, self.after())
        };
        let theirs = shell("");
        let ours = shell(&self.shim.prelude());
        assert_eq!(theirs.0, ours.0, "{line}: git left, shim right");
        assert_eq!(theirs.1, ours.1, "{line}: the files of git left, of the shim right");
        ours.0
    }

    #[track_caller]
    fn native(&self, line: &str) {
        self.same(line);
        self.shim.was_native(&[line]);
    }
}

#[test]
fn reads_as_git_does() {
    let sandbox = Sandbox::new();
    let fixture = ConfigFixture::new(&sandbox);
    for line in [
        "--get user.name",
        "user.email",
        "USER.NAME",
        "--get sect.Sub.X.key",
        "--get sect.sub.x.key",
        "--get a.old.b",
        "--get nothing.here",
        "--get-all remote.origin.fetch",
        "--get-all remote.origin.fetch tags",
        "--get-all remote.origin.fetch !tags",
        "--get --fixed-value sect.many one",
        "--get sect.many ^one$",
        "sect.many",
        "--get-regexp sect",
        "--get-regexp ^REMOTE\\..*\\.URL$",
        "--get-regexp -z --show-origin --show-scope ^user",
        "--name-only --get-regexp sect",
        "--get-regexp no.such",
        "-l",
        "--list -z",
        "-l --name-only",
        "-l --show-origin --show-scope",
        "-lz --show-origin --show-scope",
        "-l --local",
        "-l --local --includes",
        "-l --global --show-scope",
        "-l --worktree --show-scope --show-origin",
        "-l -f conf --show-origin",
        "-l -f missing",
        "-f missing a.b",
        "-f crlf a.b",
        "--bool sect.flag",
        "--bool sect.number",
        "--bool sect.empty",
        "--bool sect.bad",
        "--int sect.number",
        "--int sect.bad",
        "--int sect.flag",
        "--int sect.size",
        "--bool-or-int sect.flag",
        "--bool-or-int sect.number",
        "--type=bool-or-str sect.bad",
        "--type=bool-or-str sect.flag",
        "--path sect.path",
        "--expiry-date sect.date",
        "--type=color sect.color",
        "--type=color sect.bad",
        "--type=int --no-type sect.bad",
        "-l --type=bool",
        "-l --type=int",
        "--get-color sect.color",
        "--get-color sect.none \"bold blue\"",
        "--get-color \"\" reset",
        "--get-colorbool color.diff",
        "--get-colorbool color.diff true",
        "--default=x --get nothing.here",
        "--default=1k --int nothing.here",
        "--default=y --int nothing.here",
        "--default=x --type=color nothing.here",
        "--show-origin --show-scope --default=x nothing.here",
        "list --show-scope",
        "list -z --local",
        "get user.name",
        "get --all remote.origin.fetch",
        "get --all --show-names remote.origin.fetch",
        "get --regexp --all --show-names ^sect",
        "get --value=two sect.many",
        "get --all --value=one --fixed-value sect.many",
        "get --default=3 nothing.here",
        "get --type=color --default=green \"\"",
        "--get key",
        "--get a.",
        "--get 1.2",
        "--get a.b_c",
        "--get-regexp (",
        "--get user.name (",
        "--global user.name x --get",
        "-f urls --get-urlmatch http.proxy https://example.com",
        "-f urls --get-urlmatch HTTP.Proxy https://example.com/a/b",
        "-f urls --get-urlmatch http https://me@example.com/a",
        "-f urls --get-urlmatch -z --show-scope http https://x.com:443/ab",
        "-f urls --bool --get-urlmatch http.verify http://x.org",
        "-f urls --int --get-urlmatch http.verify https://example.com",
        "-f urls --path --get-urlmatch http.cookie https://x.com/a",
        "-f urls --get-urlmatch other.proxy https://example.com/A",
        "-f urls --get-urlmatch nothing https://example.com",
        "-f urls --get-urlmatch http.proxy example.com",
        "get -f urls --url=https://a.com/a/x http",
        "get -f urls --url=https://a.com/../x http",
        "-f - --get a.b <conf",
        "-f - -l --show-origin <conf",
        "-f - --get a.b <extra",
        "--blob=HEAD:no --get a.b",
    ] {
        let quoted = line.replace('(', "'('").replace("\\..*\\.", "'\\..*\\.'").replace('$', "\\$");
        fixture.same(&format!("git config {quoted}"));
    }
}

#[test]
fn frequent_forms_are_native() {
    let sandbox = Sandbox::new();
    let fixture = ConfigFixture::new(&sandbox);
    for line in [
        "config --get user.name",
        "config user.name",
        "config user.name Eve",
        "config --global user.name Eve",
        "config --local user.name Eve",
        "config --file new user.name Eve",
        "config -l -z",
        "config --null --list --show-origin",
        "config --get-regexp ^remote",
        "config --unset-all remote.origin.fetch",
        "config --unset one.only",
        "config --add remote.origin.fetch x",
        "config --replace-all remote.origin.fetch x",
        "config --rename-section remote.origin remote.other",
        "config --remove-section remote.origin",
        "config --bool --get core.bare",
        "config set user.name Eve",
        "config unset user.name",
        "config get nothing.here",
        "config --get-urlmatch user https://example.com/x",
        "-C dir config --get user.name",
        "-C dir config -f conf --show-origin -l",
        "-c a.b=c config a.b",
        "-C / config --global -l",
        "-C / config --get user.email",
        "-C / config user.email x",
    ] {
        fixture.native(&format!("git {line}"));
    }
    for line in ["config -e", "config --bool", "config a.b c d e"] {
        fixture.same(&format!("GIT_EDITOR=: git {line} 2>/dev/null"));
    }
}

#[test]
fn writes_as_git_does() {
    let sandbox = Sandbox::new();
    let fixture = ConfigFixture::new(&sandbox);
    for line in [
        "user.name Eve",
        "user.new Eve",
        "New.Sub.Key x",
        "sect.many x",
        "sect.many x two",
        "sect.many x one",
        "sect.many x !t",
        "sect.many x none",
        "--fixed-value --replace-all sect.many x one",
        "--fixed-value sect.flag x one",
        "--replace-all sect.many x",
        "--replace-all sect.many x one",
        "--add sect.many x",
        "--add one.other x",
        "--unset sect.many",
        "--unset sect.many two",
        "--unset sect.nothing",
        "--unset-all sect.many",
        "--unset-all sect.many one",
        "--unset one.only",
        "--unset a.old.b",
        "--unset remote.origin.url",
        "-f conf a.b 2",
        "-f conf a.c 3",
        "-f conf --unset a.b",
        "-f conf --unset a.c",
        "-f conf --unset d.e.f",
        "-f crlf a.b 2",
        "-f crlf a.c 2",
        "-f new a.b 2",
        "-f new --unset a.b",
        "-f new --rename-section a b",
        "-f dir/no/new a.b c",
        "--bool sect.flag YES",
        "--bool sect.flag 0",
        "--bool sect.flag nonsense",
        "--int sect.number 1m",
        "--int sect.number x",
        "--int sect.number 99999999999999999999",
        "--bool-or-int sect.number on",
        "--bool-or-int sect.number 07",
        "--bool-or-str sect.bad off",
        "--path sect.path '~/y'",
        "--expiry-date sect.date 'last week'",
        "--type=color sect.color 'ul blue'",
        "--type=color sect.color nonsense",
        "a.b ' padded '",
        "a.b 'tab\tand \"quotes\" ; # \\'",
        "a.b ''",
        "--comment why a.b c",
        "--comment '#why' a.b ' c '",
        "--comment '\t# why' --add sect.many c",
        "--rename-section remote.origin remote.a\\\"b",
        "--rename-section sect Other",
        "--rename-section Sect.Sub.X Other",
        "--rename-section sect.Sub.X x.y.z",
        "--rename-section nothing x",
        "--rename-section user ''",
        "--rename-section user a_b",
        "-f conf --rename-section a x.y",
        "-f conf --remove-section a",
        "-f conf --remove-section d.e",
        "--remove-section nothing",
        "set user.name Eve",
        "set sect.many x",
        "set --all sect.many x",
        "set --value=two sect.many x",
        "set --append sect.many x",
        "set --type=bool sect.flag no",
        "unset sect.many",
        "unset --all sect.many",
        "unset --value=one --fixed-value sect.many",
        "rename-section one two",
        "remove-section one",
        "--worktree user.name Eve",
        "--system user.name Eve",
        "key x",
        ".x y",
        "a. x",
        "a.1 x",
        "a_b.c x",
    ] {
        fixture.same(&format!("git config {line}"));
        fixture.same(&format!("cd dir && git config {line}"));
    }
    fixture.same("git config \"a.x\ny.b\" c");
    fixture.same(": >.git/config.lock; git config a.b c; rm .git/config.lock");
    fixture.same(": >conf.lock; git config -f conf --remove-section a; rm conf.lock");
    fixture.same("chmod 600 conf; git config -f conf a.b 3; stat -c %a conf");
    fixture.same("umask 077; git config -f new a.b 3; stat -c %a new");
    fixture.same("git config core.sharedRepository all; umask 077; git config -f new a.b 3; stat -c %a new");
    fixture.same("ln -s conf link; git config -f link a.b 3; readlink link; rm link");
    fixture.same("cd /; git config a.b c");
    fixture.same("GIT_CONFIG=conf git config a.b c; GIT_CONFIG=conf git config -l");
    fixture.same("echo x >>conf; git config -f conf a.b c");
    fixture.same("echo x >>.git/config; git config a.b c; git config a.b");
}

/// Git replaces a device or FIFO by a file. The shim does not hand such a call over.
#[test]
fn no_device_or_fifo_is_replaced() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let shim = Shim::new();
    let made = repo.command("mkfifo".as_ref()).arg("fifo").status().expect("part of coreutils");
    assert!(made.success());
    for (program, file) in [
        (std::path::PathBuf::from(crate::SAPWOOD), "fifo"),
        (crate::SAPWOOD.into(), "/dev/null"),
        (shim.program().into(), "fifo"),
    ] {
        let run = repo.run(&program, &["config", "--file", file, "a.b", "c"]);
        assert_eq!(run.code, 4, "{file}: {}", run.stderr);
        let place = repo.join(file);
        let message = format!("error: '{}' is not a regular file, and is not replaced\n", place.display());
        assert_eq!(run.stderr, message);
    }
    let kind = std::fs::metadata(repo.join("fifo")).expect("there").file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    let null = std::fs::metadata("/dev/null").expect("there").file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&null));
}
