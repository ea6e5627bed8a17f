//! `hash-object` compared with Git.

use crate::scripted::Scripted;

const SETUP: &str = "
    mkdir d && printf 'a\\r\\nb\\r\\n' >crlf.txt && cp crlf.txt d/x.txt && echo 1 >plain && : >empty &&
    echo '*.txt text' >.gitattributes && git add . && git commit -q -m one";

#[test]
fn names_and_writes() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("hash-object", line);
    native("git hash-object plain crlf.txt d/x.txt empty");
    native("git hash-object -w -t blob plain crlf.txt; git hash-object --no-filters -w crlf.txt");
    native("cd d && git hash-object -w x.txt && git hash-object --no-filters ../plain");
    native("echo new | git hash-object -w --stdin; git hash-object --stdin <crlf.txt");
    native("git hash-object --stdin --path=z.txt <crlf.txt; git hash-object --path=z.bin crlf.txt");
    native("cd d && git hash-object --stdin --path=y.txt <../crlf.txt");
    native("echo more | git hash-object --stdin plain; git hash-object --stdin </dev/null");
    native("printf 'plain\\ncrlf.txt\\n\"d/x.txt\"\\n' | git hash-object -w --stdin-paths");
    native("printf 'crlf.txt\\n' | git hash-object --stdin-paths --no-filters");
    native("printf 'tree nonsense' | git hash-object -t commit --literally --stdin -w");
    native("git -c core.bigFileThreshold=2 hash-object plain crlf.txt");
}

#[test]
fn refuses_what_git_refuses() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("hash-object", line);
    native("git hash-object missing; git hash-object -w plain missing empty; git hash-object d");
    native("git hash-object -t blob --literally -w d; git hash-object --no-filters d");
    native("printf 'plain\\nmissing\\n' | git hash-object --stdin-paths");
    native("printf '\"plain\\n' | git hash-object --stdin-paths");
    native("git hash-object --literally -t nonsense plain; git hash-object --no-literally plain");
    native(
        "git -c core.bigFileThreshold=-1 hash-object plain; git -c core.bigFileThreshold=x hash-object -w plain",
    );
    for line in [
        "git hash-object --stdin-paths --stdin",
        "git hash-object --stdin-paths plain",
        "git hash-object --stdin-paths --path=x",
        "git hash-object --stdin --stdin",
        "git hash-object --path=x --no-filters plain",
    ] {
        native(&format!("{line} 2>&1 </dev/null | head -n 1"));
    }
    both.handed_over("git hash-object -t tree plain", "no blob");
    both.handed_over("cd d && git hash-object ../plain", "not plain");
}
