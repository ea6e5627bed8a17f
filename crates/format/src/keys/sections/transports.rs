//! Settings of branches, remotes, transports and submodules.

use crate::keys::define;

define! {
    branch {
        AUTO_SETUP_MERGE: Option<BString> = "branch.autoSetupMerge", Every All
            Form::BoolOr(&["always", "inherit", "simple"]);
        AUTO_SETUP_REBASE: BString = "branch.autoSetupRebase" or "never", Every All
            Form::Word(&["never", "local", "remote", "always"], "malformed value for branch.autosetuprebase");
        MERGE: Option<BString> = "branch.*.merge";
        MERGE_OPTIONS: Option<BString> = "branch.*.mergeOptions";
        PUSH_REMOTE: Option<BString> = "branch.*.pushRemote";
        REBASE: Option<BString> = "branch.*.rebase";
        REMOTE: Option<BString> = "branch.*.remote";
    }
    clone {
        DEFAULT_REMOTE_NAME: BString = "clone.defaultRemoteName" or "origin", Clone All;
        FILTER_SUBMODULES: bool = "clone.filterSubmodules" or "false", Clone All;
        REJECT_SHALLOW: bool = "clone.rejectShallow" or "false", Clone All;
    }
    fetch {
        ALL_REMOTES: bool = "fetch.all" or "false";
        BUNDLE_CREATION_TOKEN: Option<BString> = "fetch.bundleCreationToken";
        BUNDLE_URI: Option<BString> = "fetch.bundleURI";
        FSCK_OBJECTS: Option<bool> = "fetch.fsckObjects";
        FSCK_SKIP_LIST: Option<PathText> = "fetch.fsck.skipList";
        NEGOTIATION_ALGORITHM: Option<BString> = "fetch.negotiationAlgorithm";
        OUTPUT: BString = "fetch.output" or "full";
        PARALLEL: i32 = "fetch.parallel" or "1";
        PRUNE: bool = "fetch.prune" or "false";
        PRUNE_TAGS: bool = "fetch.pruneTags" or "false";
        RECURSE_SUBMODULES: Option<BString> = "fetch.recurseSubmodules";
        SHOW_FORCED_UPDATES: bool = "fetch.showForcedUpdates" or "true";
        UNPACK_LIMIT: Option<i32> = "fetch.unpackLimit";
        URI_PROTOCOLS: Option<BString> = "fetch.uriProtocols";
        WRITE_COMMIT_GRAPH: bool = "fetch.writeCommitGraph" or "false";
    }
    http {
        PROXY: Option<BString> = "http.proxy";
    }
    protocol {
        ALLOW: Option<BString> = "protocol.allow";
        ALLOW_ONE: Option<BString> = "protocol.*.allow";
        VERSION: Option<BString> = "protocol.version";
    }
    pull {
        AUTOSTASH: Option<bool> = "pull.autostash";
        FF: Option<BString> = "pull.ff";
        REBASE: Option<BString> = "pull.rebase";
    }
    push {
        DEFAULT: BString = "push.default" or "simple", Every All Form::Word(
            &["nothing", "matching", "simple", "upstream", "tracking", "current"],
            "malformed value for push.default: \0\n\
                error: must be one of nothing, matching, simple, upstream or current",
        );
    }
    receive {
        DENY_NON_FASTFORWARDS: Option<bool> = "receive.denyNonFastforwards";
    }
    remote {
        FETCH: Option<BString> = "remote.*.fetch";
        FOLLOW_REMOTE_HEAD: Option<BString> = "remote.*.followRemoteHEAD";
        MIRROR: bool = "remote.*.mirror" or "false";
        NEGOTIATION_INCLUDE: Option<BString> = "remote.*.negotiationInclude";
        NEGOTIATION_RESTRICT: Option<BString> = "remote.*.negotiationRestrict";
        PARTIAL_CLONE_FILTER: Option<BString> = "remote.*.partialclonefilter";
        PROMISOR: bool = "remote.*.promisor" or "false";
        PROXY: Option<BString> = "remote.*.proxy";
        PRUNE: Option<bool> = "remote.*.prune";
        PRUNE_TAGS: Option<bool> = "remote.*.pruneTags";
        PUSH: Option<BString> = "remote.*.push";
        PUSH_DEFAULT: Option<BString> = "remote.pushDefault";
        SERVER_OPTION: Option<BString> = "remote.*.serverOption";
        SKIP_DEFAULT_UPDATE: bool = "remote.*.skipDefaultUpdate" or "false";
        SKIP_FETCH_ALL: bool = "remote.*.skipFetchAll" or "false";
        TAG_OPT: Option<BString> = "remote.*.tagOpt";
        UPLOADPACK: Option<BString> = "remote.*.uploadpack";
        URL: Option<BString> = "remote.*.url";
        VCS: Option<BString> = "remote.*.vcs";
    }
    remotes {
        GROUP: Option<BString> = "remotes.*";
    }
    sideband {
        ALL_SETTINGS: Option<BString> = "sideband.*";
    }
    ssh {
        VARIANT: Option<BString> = "ssh.variant";
    }
    submodule {
        ACTIVE: Option<BString> = "submodule.active";
        ALTERNATE_ERROR_STRATEGY: BString = "submodule.alternateErrorStrategy" or "die";
        ALTERNATE_LOCATION: BString = "submodule.alternateLocation" or "no";
        FETCH_JOBS: Option<i32> = "submodule.fetchJobs";
        ONE_ACTIVE: Option<bool> = "submodule.*.active";
        ONE_BRANCH: Option<BString> = "submodule.*.branch";
        ONE_FETCH_RECURSE: Option<BString> = "submodule.*.fetchRecurseSubmodules";
        ONE_GITDIR: Option<BString> = "submodule.*.gitdir";
        ONE_IGNORE: Option<BString> = "submodule.*.ignore";
        ONE_UPDATE: Option<BString> = "submodule.*.update";
        ONE_URL: Option<BString> = "submodule.*.url";
        RECURSE: Option<bool> = "submodule.recurse";
        STICKY_RECURSIVE_CLONE: bool = "submodule.stickyRecursiveClone" or "false";
    }
    transfer {
        ADVERTISE_SID: bool = "transfer.advertiseSID" or "false";
        BUNDLE_URI: bool = "transfer.bundleURI" or "false";
        CREDENTIALS_IN_URL: BString = "transfer.credentialsInUrl" or "allow";
        FSCK_OBJECTS: bool = "transfer.fsckObjects" or "false";
        HIDE_REFS: Option<BString> = "transfer.hideRefs";
        UNPACK_LIMIT: Option<i32> = "transfer.unpackLimit";
    }
    uploadpack {
        HIDE_REFS: Option<BString> = "uploadpack.hideRefs";
    }
}
