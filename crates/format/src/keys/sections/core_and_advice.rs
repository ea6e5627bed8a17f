//! `core.*`, and `advice.*` as far as Git knows it. Git ignores other advice.

use crate::keys::define;

define! {
    core {
        ABBREV: Option<BString> = "core.abbrev", Every All Form::Abbreviation;
        ASK_PASS: Option<BString> = "core.askPass", Every All;
        ATTRIBUTES_FILE: Option<PathText> = "core.attributesFile", Every All;
        AUTOCRLF: BoolOr<AutoCrlf> = "core.autocrlf" or "false", Every All;
        BARE: Option<bool> = "core.bare", Every All;
        BIG_FILE_THRESHOLD: u64 = "core.bigFileThreshold" or "512m", Contents Last;
        CHECK_ROUNDTRIP_ENCODING: BString = "core.checkRoundtripEncoding" or "SHIFT-JIS", Every All;
        CHECK_STAT: BString = "core.checkStat" or "default", Every All
            Form::Word(&["default", "minimal"], "invalid value for 'core.checkstat': '\0'");
        COMMENT_CHAR: Option<BString> = "core.commentChar", Every All Form::Character;
        COMMENT_STRING: Option<BString> = "core.commentString", Every All Form::Character;
        COMMIT_GRAPH: bool = "core.commitGraph" or "true", Repository Last;
        COMPRESSION: Option<i32> = "core.compression", Every All Form::Level("zlib");
        CREATE_OBJECT: Option<BString> = "core.createObject", Every All
            Form::Mode(&["rename", "link"], "invalid mode for object creation: \0");
        DELTA_BASE_CACHE_LIMIT: u64 = "core.deltaBaseCacheLimit" or "96m", Every All;
        DISAMBIGUATE: BString = "core.disambiguate" or "none", Every All Form::Word(
            &["none", "commit", "committish", "tree", "treeish", "blob"],
            "unknown hint type for 'core.disambiguate': \0",
        );
        EDITOR: Option<BString> = "core.editor", Every All;
        EOL: BString = "core.eol" or "native";
        EXCLUDES_FILE: Option<PathText> = "core.excludesFile", Every All;
        FILE_MODE: bool = "core.fileMode" or "true", Every All;
        FILES_REF_LOCK_TIMEOUT: i32 = "core.filesRefLockTimeout" or "100";
        FSMONITOR: Option<PathText> = "core.fsmonitor";
        FSMONITOR_HOOK_VERSION: Option<i32> = "core.fsmonitorHookVersion";
        FSYNC: Option<BString> = "core.fsync", Every All;
        FSYNC_METHOD: Option<BString> = "core.fsyncMethod", Every All;
        FSYNC_OBJECT_FILES: Option<bool> = "core.fsyncObjectFiles";
        GIT_PROXY: Option<BString> = "core.gitProxy";
        HIDE_DOT_FILES: Option<BString> = "core.hideDotFiles";
        HOOKS_PATH: Option<PathText> = "core.hooksPath", Hooks Last;
        IGNORE_CASE: bool = "core.ignoreCase" or "false", Every All;
        IGNORE_STAT: bool = "core.ignoreStat" or "false", Every All;
        LOCKFILE_PID: bool = "core.lockfilePid" or "false", Every All;
        LOG_ALL_REF_UPDATES: Option<BoolOr<LogAll>> = "core.logAllRefUpdates", Refs Last
            Form::GivenBoolOr(LogAll::WORDS);
        LOOSE_COMPRESSION: Option<i32> = "core.looseCompression", Every All Form::Level("zlib");
        MAX_TREE_DEPTH: Option<i32> = "core.maxTreeDepth", Every Last;
        MULTI_PACK_INDEX: bool = "core.multiPackIndex" or "true", Repository Last;
        PACKED_GIT_LIMIT: Option<u64> = "core.packedGitLimit", Every All;
        PACKED_GIT_WINDOW_SIZE: Option<u64> = "core.packedGitWindowSize", Every All;
        PACKED_REFS_TIMEOUT: i32 = "core.packedRefsTimeout" or "1000";
        PRECOMPOSE_UNICODE: Option<bool> = "core.precomposeUnicode", Every All;
        PREFER_SYMLINK_REFS: bool = "core.preferSymlinkRefs" or "false", Plumbing Last;
        PRELOAD_INDEX: Option<bool> = "core.preloadIndex";
        PROTECT_HFS: bool = "core.protectHFS" or "false", Every All;
        PROTECT_NTFS: bool = "core.protectNTFS" or "true", Every All;
        QUOTE_PATH: bool = "core.quotePath" or "true", Every All;
        REPOSITORY_FORMAT_VERSION: Option<i32> = "core.repositoryFormatVersion";
        SAFECRLF: BoolOr<SafeCrlf> = "core.safecrlf" or "warn", Every All;
        SHARED_REPOSITORY: Option<BString> = "core.sharedRepository";
        SPARSE_CHECKOUT: bool = "core.sparseCheckout" or "false", Every All;
        SPARSE_CHECKOUT_CONE: bool = "core.sparseCheckoutCone" or "false", Every All;
        SPLIT_INDEX: Option<bool> = "core.splitIndex";
        SSH_COMMAND: Option<BString> = "core.sshCommand";
        SYMLINKS: bool = "core.symlinks" or "true", Every All;
        TRUSTCTIME: bool = "core.trustctime" or "true", Every All;
        UNTRACKED_CACHE: Option<bool> = "core.untrackedCache", Every All Form::Text;
        USE_REPLACE_REFS: bool = "core.useReplaceRefs" or "true", Every All;
        WARN_AMBIGUOUS_REFS: bool = "core.warnAmbiguousRefs" or "true", Plumbing Last;
        WHITESPACE: Option<BString> = "core.whitespace", Every All;
        WORKTREE: Option<BString> = "core.worktree";
    }
    advice {
        ADD_EMBEDDED_REPO: bool = "advice.addEmbeddedRepo" or "true", Every All;
        ADD_EMPTY_PATHSPEC: bool = "advice.addEmptyPathspec" or "true", Every All;
        ADD_IGNORED_FILE: bool = "advice.addIgnoredFile" or "true", Every All;
        AMBIGUOUS_FETCH_REFSPEC: bool = "advice.ambiguousFetchRefspec" or "true", Every All;
        AM_WORK_DIR: bool = "advice.amWorkDir" or "true", Every All;
        CHECKOUT_AMBIGUOUS_REMOTE_BRANCH_NAME: bool = "advice.checkoutAmbiguousRemoteBranchName" or "true", Every All;
        COMMIT_BEFORE_MERGE: bool = "advice.commitBeforeMerge" or "true", Every All;
        DEFAULT_BRANCH_NAME: bool = "advice.defaultBranchName" or "true", Every All;
        DETACHED_HEAD: bool = "advice.detachedHead" or "true", Every All;
        DIVERGING: bool = "advice.diverging" or "true", Every All;
        FETCH_REMOTE_HEAD_WARN: bool = "advice.fetchRemoteHEADWarn" or "true", Every All;
        FETCH_SHOW_FORCED_UPDATES: bool = "advice.fetchShowForcedUpdates" or "true", Every All;
        FORCE_DELETE_BRANCH: bool = "advice.forceDeleteBranch" or "true", Every All;
        GRAFT_FILE_DEPRECATED: bool = "advice.graftFileDeprecated" or "true", Every All;
        IGNORED_HOOK: bool = "advice.ignoredHook" or "true", Every All;
        IMPLICIT_IDENTITY: bool = "advice.implicitIdentity" or "true", Every All;
        MERGE_CONFLICT: bool = "advice.mergeConflict" or "true", Every All;
        NESTED_TAG: bool = "advice.nestedTag" or "true", Every All;
        OBJECT_NAME_WARNING: bool = "advice.objectNameWarning" or "true", Every All;
        PUSH_ALREADY_EXISTS: bool = "advice.pushAlreadyExists" or "true", Every All;
        PUSH_FETCH_FIRST: bool = "advice.pushFetchFirst" or "true", Every All;
        PUSH_NEEDS_FORCE: bool = "advice.pushNeedsForce" or "true", Every All;
        PUSH_NON_FAST_FORWARD: bool = "advice.pushNonFastForward" or "true", Every All;
        PUSH_NON_FF_CURRENT: bool = "advice.pushNonFFCurrent" or "true", Every All;
        PUSH_NON_FF_MATCHING: bool = "advice.pushNonFFMatching" or "true", Every All;
        PUSH_REF_NEEDS_UPDATE: bool = "advice.pushRefNeedsUpdate" or "true", Every All;
        PUSH_UNQUALIFIED_REF_NAME: bool = "advice.pushUnqualifiedRefName" or "true", Every All;
        PUSH_UPDATE_REJECTED: bool = "advice.pushUpdateRejected" or "true", Every All;
        REBASE_TODO_ERROR: bool = "advice.rebaseTodoError" or "true", Every All;
        REF_SYNTAX: bool = "advice.refSyntax" or "true", Every All;
        RESET_NO_REFRESH: bool = "advice.resetNoRefresh" or "true", Every All;
        RESOLVE_CONFLICT: bool = "advice.resolveConflict" or "true", Every All;
        RM_HINTS: bool = "advice.rmHints" or "true", Every All;
        SEQUENCER_IN_USE: bool = "advice.sequencerInUse" or "true", Every All;
        SET_UPSTREAM_FAILURE: bool = "advice.setUpstreamFailure" or "true", Every All;
        SKIPPED_CHERRY_PICKS: bool = "advice.skippedCherryPicks" or "true", Every All;
        SPARSE_INDEX_EXPANDED: bool = "advice.sparseIndexExpanded" or "true", Every All;
        STATUS_AHEAD_BEHIND_WARNING: bool = "advice.statusAheadBehindWarning" or "true", Every All;
        STATUS_HINTS: bool = "advice.statusHints" or "true", Every All;
        STATUS_UOPTION: bool = "advice.statusUoption" or "true", Every All;
        SUBMODULE_ALTERNATE_ERROR_STRATEGY_DIE: bool = "advice.submoduleAlternateErrorStrategyDie" or "true", Every All;
        SUBMODULE_MERGE_CONFLICT: bool = "advice.submoduleMergeConflict" or "true", Every All;
        SUBMODULES_NOT_UPDATED: bool = "advice.submodulesNotUpdated" or "true", Every All;
        SUGGEST_DETACHING_HEAD: bool = "advice.suggestDetachingHead" or "true", Every All;
        UPDATE_SPARSE_PATH: bool = "advice.updateSparsePath" or "true", Every All;
        WAITING_FOR_EDITOR: bool = "advice.waitingForEditor" or "true", Every All;
        WORKTREE_ADD_ORPHAN: bool = "advice.worktreeAddOrphan" or "true", Every All;
    }
}
