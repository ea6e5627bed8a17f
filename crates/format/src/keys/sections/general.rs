//! Settings of all other sections.

use crate::keys::define;

define! {
    add {
        IGNORE_ERRORS: Option<bool> = "add.ignoreErrors";
        IGNORE_ERRORS_OLD: Option<bool> = "add.ignore-errors";
    }
    alias {
        ONE: Option<BString> = "alias.*";
    }
    attr {
        TREE: Option<BString> = "attr.tree", Every All;
    }
    author {
        EMAIL: Option<BString> = "author.email", Every All;
        NAME: Option<BString> = "author.name", Every All;
    }
    checkout {
        DEFAULT_REMOTE: Option<BString> = "checkout.defaultRemote";
        GUESS: bool = "checkout.guess" or "true";
        THRESHOLD_FOR_PARALLELISM: i32 = "checkout.thresholdForParallelism" or "100";
        WORKERS: Option<i32> = "checkout.workers";
    }
    clean {
        REQUIRE_FORCE: bool = "clean.requireForce" or "true";
    }
    commit {
        CLEANUP: Option<BString> = "commit.cleanup";
        GPG_SIGN: bool = "commit.gpgSign" or "false";
        STATUS: bool = "commit.status" or "true";
        TEMPLATE: Option<PathText> = "commit.template";
        VERBOSE: Option<BString> = "commit.verbose";
    }
    commit_graph {
        CHANGED_PATHS: Option<bool> = "commitGraph.changedPaths";
        CHANGED_PATHS_VERSION: Option<i32> = "commitGraph.changedPathsVersion";
        GENERATION_VERSION: i32 = "commitGraph.generationVersion" or "2";
        MAX_NEW_FILTERS: Option<i32> = "commitGraph.maxNewFilters";
        READ_CHANGED_PATHS: bool = "commitGraph.readChangedPaths" or "true";
    }
    committer {
        EMAIL: Option<BString> = "committer.email", Every All;
        NAME: Option<BString> = "committer.name", Every All;
    }
    extensions {
        ALL_SETTINGS: Option<BString> = "extensions.*";
        OBJECT_FORMAT: Option<BString> = "extensions.objectFormat";
        PARTIAL_CLONE: Option<BString> = "extensions.partialClone";
        REF_STORAGE: Option<BString> = "extensions.refStorage";
        RELATIVE_WORKTREES: Option<bool> = "extensions.relativeWorktrees";
        SUBMODULE_PATH_CONFIG: Option<bool> = "extensions.submodulePathConfig";
        WORKTREE_CONFIG: Option<bool> = "extensions.worktreeConfig";
    }
    feature {
        EXPERIMENTAL: bool = "feature.experimental" or "false", Repository Last;
        MANY_FILES: bool = "feature.manyFiles" or "false", Repository Last;
    }
    filter {
        CLEAN: Option<BString> = "filter.*.clean";
        PROCESS: Option<BString> = "filter.*.process";
        REQUIRED: bool = "filter.*.required" or "false";
        SMUDGE: Option<BString> = "filter.*.smudge";
    }
    format {
        ALL_SETTINGS: Option<BString> = "format.*";
    }
    fsmonitor {
        ALLOW_REMOTE: bool = "fsmonitor.allowRemote" or "false";
        SOCKET_DIR: Option<PathText> = "fsmonitor.socketDir";
    }
    gc {
        AUTO: Option<i32> = "gc.auto";
        AUTO_DETACH: Option<bool> = "gc.autoDetach";
        AUTO_PACK_LIMIT: Option<i32> = "gc.autoPackLimit";
    }
    gpg {
        FORMAT: BString = "gpg.format" or "openpgp", Signing All
            Form::Word(&["openpgp", "x509", "ssh"], "invalid value for 'gpg.format': '\0'");
        MIN_TRUST_LEVEL: Option<BString> = "gpg.minTrustLevel", Signing All Form::AnyCase(
            &["undefined", "never", "marginal", "fully", "ultimate"],
            "invalid value for 'gpg.mintrustlevel': '\0'",
        );
        OPENPGP_PROGRAM: Option<BString> = "gpg.openpgp.program", Signing All;
        PROGRAM: Option<BString> = "gpg.program", Signing All;
        SSH_ALLOWED_SIGNERS_FILE: Option<PathText> = "gpg.ssh.allowedSignersFile", Signing All;
        SSH_DEFAULT_KEY_COMMAND: Option<BString> = "gpg.ssh.defaultKeyCommand", Signing All;
        SSH_PROGRAM: Option<BString> = "gpg.ssh.program", Signing All;
        SSH_REVOCATION_FILE: Option<PathText> = "gpg.ssh.revocationFile", Signing All;
        X509_PROGRAM: Option<BString> = "gpg.x509.program", Signing All;
    }
    help {
        AUTOCORRECT: Option<BString> = "help.autoCorrect";
    }
    hook {
        ALL_SETTINGS: Option<BString> = "hook.*";
        COMMAND: Option<BString> = "hook.*.command";
        ENABLED: bool = "hook.*.enabled" or "true";
        EVENT: Option<BString> = "hook.*.event";
    }
    i18n {
        COMMIT_ENCODING: BString = "i18n.commitEncoding" or "UTF-8", Every All;
        LOG_OUTPUT_ENCODING: Option<BString> = "i18n.logOutputEncoding", Every All;
    }
    include {
        PATH: Option<PathText> = "include.path";
    }
    includeif {
        ALL_SETTINGS: Option<BString> = "includeIf.*";
    }
    index {
        RECORD_END_OF_INDEX_ENTRIES: Option<bool> = "index.recordEndOfIndexEntries";
        RECORD_OFFSET_TABLE: Option<bool> = "index.recordOffsetTable";
        SKIP_HASH: Option<bool> = "index.skipHash", Repository Last;
        SPARSE: bool = "index.sparse" or "false", Repository Last;
        THREADS: Option<BString> = "index.threads";
        VERSION: Option<i32> = "index.version";
    }
    init {
        DEFAULT_BRANCH: Option<BString> = "init.defaultBranch";
        DEFAULT_OBJECT_FORMAT: Option<BString> = "init.defaultObjectFormat";
        DEFAULT_REF_FORMAT: Option<BString> = "init.defaultRefFormat";
        DEFAULT_SUBMODULE_PATH_CONFIG: bool = "init.defaultSubmodulePathConfig" or "false";
        TEMPLATE_DIR: Option<PathText> = "init.templateDir";
    }
    lfs {
        FETCH_EXCLUDE: Option<BString> = "lfs.fetchexclude";
        FETCH_INCLUDE: Option<BString> = "lfs.fetchinclude";
        STORAGE: Option<BString> = "lfs.storage";
    }
    log {
        ALL_SETTINGS: Option<BString> = "log.*";
    }
    maintenance {
        AUTO: Option<bool> = "maintenance.auto";
        AUTO_DETACH: Option<bool> = "maintenance.autoDetach";
        INCREMENTAL_REPACK_AUTO: Option<i32> = "maintenance.incremental-repack.auto";
    }
    merge {
        AUTOSTASH: bool = "merge.autostash" or "false";
        CONFLICT_STYLE: BString = "merge.conflictStyle" or "merge", Checkout All Form::Word(
            &["merge", "diff3", "zdiff3"],
            "unknown style '\0' given for 'merge.conflictstyle'",
        );
        DIFFSTAT: Option<BString> = "merge.diffstat";
        FF: Option<BString> = "merge.ff";
        STAT: Option<BString> = "merge.stat";
        VERIFY_SIGNATURES: bool = "merge.verifySignatures" or "false";
    }
    midx {
        VERSION: Option<i32> = "midx.version";
    }
    notes {
        ALL_SETTINGS: Option<BString> = "notes.*";
        REWRITE_AMEND: bool = "notes.rewrite.amend" or "true";
        REWRITE_REF: Option<BString> = "notes.rewriteRef";
    }
    pack {
        COMPRESSION: Option<i32> = "pack.compression", Every All Form::Level("pack");
        INDEX_VERSION: Option<i32> = "pack.indexVersion";
        PACK_SIZE_LIMIT: Option<u64> = "pack.packSizeLimit", Every All;
        THREADS: Option<i32> = "pack.threads";
        WRITE_REVERSE_INDEX: bool = "pack.writeReverseIndex" or "true";
    }
    pager {
        ONE: Option<BString> = "pager.*";
    }
    promisor {
        QUIET: bool = "promisor.quiet" or "false";
    }
    rebase {
        AUTOSTASH: bool = "rebase.autostash" or "false";
    }
    rerere {
        ENABLED: Option<bool> = "rerere.enabled";
    }
    safe {
        BARE_REPOSITORY: BString = "safe.bareRepository" or "all";
        DIRECTORY: Option<BString> = "safe.directory";
    }
    sapwood {
        /// the level of zstd for bases that are pushed, 1 to 19; unset: 9
        BASE_COMPRESSION: Option<BString> = "sapwood.baseCompression";
        /// the directory of bases; unset: `sapwood/bases` in the repository
        BASE_DIR: Option<PathText> = "sapwood.baseDir";
        /// marks a repository that `base mirror` made
        BASE_MIRROR: bool = "sapwood.baseMirror" or "false";
        /// the remote of bases, where a command names none
        BASE_REMOTE: Option<BString> = "sapwood.baseRemote";
        /// how long a request that fails is repeated; unset: 10s
        BASE_RETRY: Option<BString> = "sapwood.baseRetry";
        /// sign the bases that are pushed
        BASE_SIGN: bool = "sapwood.baseSign" or "false";
        /// the file of the signers whose bases are accepted
        BASE_SIGNERS: Option<PathText> = "sapwood.baseSigners";
        /// `never`, `now`, or the age at which checkpoints are removed
        CHECKPOINT_EXPIRE: BString = "sapwood.checkpointExpire" or "14.days.ago";
        /// the number of checkpoints of a worktree that are kept
        CHECKPOINT_KEEP: i32 = "sapwood.checkpointKeep" or "200";
        /// the number of small packs to keep, or a boolean; true: 25
        FOLD_PACKS: BString = "sapwood.foldPacks" or "true";
        /// the HTTP client: `builtin`, `git`, or `auto` for Git if there is one
        HTTP: BString = "sapwood.http" or "auto";
        /// the socket of the mount service; unset: `/run/sapwood/mountd.sock`
        MOUNT_SERVICE: Option<PathText> = "sapwood.mountService";
        /// write the objects of `add` as a pack: `auto`, a boolean, or from this number of objects
        PACK_ON_ADD: BString = "sapwood.packOnAdd" or "auto";
        /// write files while the pack of a clone still arrives
        PIPELINED_CLONE: bool = "sapwood.pipelinedClone" or "true";
        /// keep what a killed transfer has received; `auto` or unset: if it is much
        RESUMABLE_CLONE: Option<bool> = "sapwood.resumableClone";
        /// makes workspaces of `worktree add` repositories of their own
        SEALED: bool = "sapwood.sealed" or "false";
        /// the directory of the upper layers of workspaces; unset: in the repository
        UPPER_DIR: Option<PathText> = "sapwood.upperDir";
        /// the directory of new workspaces; unset: `<main worktree>.workspaces`
        WORKSPACE_DIR: Option<PathText> = "sapwood.workspaceDir";
        /// the most bytes that the changes of a new workspace may have on the disk, as `2G`
        WORKSPACE_QUOTA: Option<u64> = "sapwood.workspaceQuota";
        /// `auto`: a workspace does not wait for the disk; `always`: it does
        WORKSPACE_SYNC: BString = "sapwood.workspaceSync" or "auto";
        /// `workspace` or `checkout`: the kind of new worktrees, and of clones
        WORKTREE: BString = "sapwood.worktree" or "checkout";
    }
    sparse {
        EXPECT_FILES_OUTSIDE_OF_PATTERNS: bool = "sparse.expectFilesOutsideOfPatterns" or "false", Every All;
    }
    split_index {
        MAX_PERCENT_CHANGE: Option<i32> = "splitIndex.maxPercentChange";
        SHARED_INDEX_EXPIRE: BString = "splitIndex.sharedIndexExpire" or "2.weeks.ago";
    }
    stash {
        INDEX: bool = "stash.index" or "false";
        SHOW_INCLUDE_UNTRACKED: bool = "stash.showIncludeUntracked" or "false";
        SHOW_PATCH: bool = "stash.showPatch" or "false";
        SHOW_STAT: bool = "stash.showStat" or "true";
    }
    trace2 {
        ALL_SETTINGS: Option<BString> = "trace2.*";
    }
    trailer {
        SEPARATORS: BString = "trailer.separators" or ":";
    }
    user {
        EMAIL: Option<BString> = "user.email", Every All;
        NAME: Option<BString> = "user.name", Every All;
        SIGNING_KEY: Option<BString> = "user.signingKey", Signing All;
        USE_CONFIG_ONLY: bool = "user.useConfigOnly" or "false", Every All;
    }
    versionsort {
        ALL_SETTINGS: Option<BString> = "versionsort.*";
    }
    worktree {
        GUESS_REMOTE: bool = "worktree.guessRemote" or "false";
        USE_RELATIVE_PATHS: bool = "worktree.useRelativePaths" or "false";
    }
}
