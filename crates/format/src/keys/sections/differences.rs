//! Settings of status, differences, and their colours and columns.

use crate::keys::define;

define! {
    color {
        ADVICE_ALL: Option<BString> = "color.advice*";
        DIFF: Option<BString> = "color.diff", Porcelain All Form::BoolOr(&["never", "always", "auto"]);
        PAGER: bool = "color.pager" or "true";
        REMOTE_ALL: Option<BString> = "color.remote*";
        STATUS: Option<BString> = "color.status";
        STATUS_ADDED: Option<BString> = "color.status.added";
        STATUS_SLOT: Option<BString> = "color.status.*";
        STATUS_UPDATED: Option<BString> = "color.status.updated";
        UI: Option<BString> = "color.ui";
    }
    column {
        CLEAN: Option<BString> = "column.clean", Clean All;
        STATUS: Option<BString> = "column.status", Porcelain All;
        UI: Option<BString> = "column.ui", Columns All;
    }
    diff {
        ALGORITHM: Option<BString> = "diff.algorithm", Porcelain All Form::AnyCase(
            &["myers", "default", "minimal", "patience", "histogram"],
            "unknown value for config 'diff.algorithm': \0",
        );
        AUTO_REFRESH_INDEX: bool = "diff.autoRefreshIndex" or "true", Porcelain All;
        COLOR: Option<BString> = "diff.color";
        COLOR_ALL: Option<BString> = "diff.color.*";
        CONTEXT: Option<i32> = "diff.context", Porcelain All Form::Count;
        DIRSTAT: Option<BString> = "diff.dirstat", Plumbing All;
        DRIVER_ALGORITHM: Option<BString> = "diff.*.algorithm", Plumbing All;
        DRIVER_BINARY: Option<bool> = "diff.*.binary";
        DRIVER_COMMAND: Option<BString> = "diff.*.command", Plumbing All;
        DRIVER_FUNCNAME: Option<BString> = "diff.*.funcname", Plumbing All;
        DRIVER_TEXTCONV: Option<BString> = "diff.*.textconv", Plumbing All;
        DRIVER_WORD_REGEX: Option<BString> = "diff.*.wordRegex", Plumbing All;
        DRIVER_XFUNCNAME: Option<BString> = "diff.*.xfuncname", Plumbing All;
        EXTERNAL: Option<BString> = "diff.external", Porcelain All;
        IGNORE_SUBMODULES: Option<BString> = "diff.ignoreSubmodules", Submodules All;
        INDENT_HEURISTIC: bool = "diff.indentHeuristic" or "true", Plumbing All;
        INTER_HUNK_CONTEXT: Option<i32> = "diff.interHunkContext", Porcelain All Form::Count;
        MNEMONIC_PREFIX: bool = "diff.mnemonicPrefix" or "false", Porcelain All;
        NO_PREFIX: bool = "diff.noPrefix" or "false", Porcelain All;
        ORDER_FILE: Option<BString> = "diff.orderFile", Porcelain All;
        RELATIVE: bool = "diff.relative" or "false", Porcelain All;
        RENAME_LIMIT: Option<i32> = "diff.renameLimit", Plumbing All;
        RENAMES: Option<bool> = "diff.renames";
        STAT_GRAPH_WIDTH: Option<i32> = "diff.statGraphWidth", Porcelain All;
        STAT_NAME_WIDTH: Option<i32> = "diff.statNameWidth", Porcelain All;
        SUBMODULE: Option<BString> = "diff.submodule", Porcelain All;
        SUPPRESS_BLANK_EMPTY: bool = "diff.suppressBlankEmpty" or "false", Plumbing All;
        TRUST_EXIT_CODE: bool = "diff.trustExitCode" or "false", Porcelain All;
        WORD_REGEX: Option<BString> = "diff.wordRegex", Porcelain All;
        WS_ERROR_HIGHLIGHT: Option<BString> = "diff.wsErrorHighlight", Plumbing All Form::Highlight;
    }
    status {
        AHEAD_BEHIND: Option<bool> = "status.aheadBehind";
        BRANCH: Option<bool> = "status.branch";
        COLOR: Option<BString> = "status.color";
        COLOR_SLOT: Option<BString> = "status.color.*";
        COMPARE_BRANCHES: BString = "status.compareBranches" or "@{upstream}";
        DISPLAY_COMMENT_PREFIX: bool = "status.displayCommentPrefix" or "false";
        RELATIVE_PATHS: bool = "status.relativePaths" or "true";
        RENAME_LIMIT: Option<i32> = "status.renameLimit";
        RENAMES: Option<bool> = "status.renames";
        SHORT: bool = "status.short" or "false";
        SHOW_STASH: bool = "status.showStash" or "false";
        SHOW_UNTRACKED_FILES: Option<BString> = "status.showUntrackedFiles";
        SUBMODULE_SUMMARY: Option<i32> = "status.submoduleSummary";
    }
}
