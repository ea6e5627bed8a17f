//! `write-tree` compared with Git: trees, the cache-tree, faults in the index, and sparse indexes.

use crate::scripted::Scripted;

const SETUP: &str = "
    mkdir -p d/e f && echo 1 >a && echo 2 >d/b && echo 3 >d/e/c && echo 4 >f/g && git add . &&
    git commit -q -m one && echo 5 >d/e/c && git add d";

#[test]
fn writes_what_git_writes() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("write-tree", line);
    native("git write-tree && git ls-files -s && git ls-tree -r -t $(git write-tree)");
    native("git write-tree --prefix=d && git write-tree --prefix=d//e/ && git write-tree --prefix=");
    native(
        "git write-tree --prefix=d/missing; git write-tree --prefix=a; git write-tree --prefix=/d; git write-tree --no-prefix",
    );
    native(
        "echo x >d/new && git add -N d/new && git write-tree && git write-tree --prefix=d/ && git ls-files -s",
    );
    native("mkdir i && echo x >i/new && git add -N i && git write-tree && git write-tree --prefix=i");
    native("git rm -q -r --cached . && git write-tree && git ls-files -s");
    native("git read-tree HEAD && git write-tree --ignore-cache-tree && git write-tree --missing-ok");
    native("git write-tree extra words");
}

#[test]
fn refuses_what_git_refuses() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("write-tree", line);
    native(
        "for n in 1 2 3; do echo 0123456789012345678901234567890123456789; done >/dev/null
         git update-index --add --cacheinfo 100644,1234567890123456789012345678901234567890,d/x &&
         git write-tree; git write-tree --missing-ok",
    );
    native(
        "git update-index --add --cacheinfo 100755,2234567890123456789012345678901234567890,zz; git write-tree",
    );
    native(
        "git update-index --add --cacheinfo 160000,3234567890123456789012345678901234567890,sub && git rm -q --cached zz d/x && git write-tree",
    );
    native(
        "blob=$(git hash-object -w a) && for n in 1 2 3 4 5 6; do
            printf '100644 %s 1\\tu%s\\n100644 %s 2\\tu%s\\n' $blob $n $blob $n; done |
         git update-index --index-info && git write-tree",
    );
}

#[test]
fn keeps_a_sparse_index_sparse() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("write-tree", line);
    native(
        "git commit -q -m two && git sparse-checkout set --cone --sparse-index f && git write-tree &&
         echo 6 >f/g && git add f && git write-tree && git ls-files --sparse -s",
    );
}
