//! The names of the flaws, as users write them in `fetch.fsck.<msg-id>`. Source: git-fsck(1),
//! "FSCK MESSAGES".

/// The severity of a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Not reported.
    Ignore,
    /// Reported as a warning, also by a strict check.
    Info,
    /// Reported as a warning, by a strict check as an error.
    Warn,
    /// Reported as an error.
    Error,
    /// Like `Error`, but no setting lowers it.
    Fatal,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident $name:literal $severity:ident,)*) => {
        /// The kind of a flaw.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Id { $($id,)* }

        /// All of them, in the order of their numbers.
        const ALL: &[(Id, &str, Severity)] = &[$((Id::$id, $name, Severity::$severity),)*];
    };
}

ids! {
    NulInHeader "nulInHeader" Fatal,
    UnterminatedHeader "unterminatedHeader" Fatal,
    BadHeaderContinuation "badHeaderContinuation" Error,
    BadDate "badDate" Error,
    BadDateOverflow "badDateOverflow" Error,
    BadEmail "badEmail" Error,
    BadGpgsig "badGpgsig" Error,
    BadHeadTarget "badHeadTarget" Error,
    BadName "badName" Error,
    BadObjectSha1 "badObjectSha1" Error,
    BadPackedRefEntry "badPackedRefEntry" Error,
    BadPackedRefHeader "badPackedRefHeader" Error,
    BadParentSha1 "badParentSha1" Error,
    BadReferentName "badReferentName" Error,
    BadRefContent "badRefContent" Error,
    BadRefFiletype "badRefFiletype" Error,
    BadRefName "badRefName" Error,
    BadRefOid "badRefOid" Error,
    BadTimezone "badTimezone" Error,
    BadTree "badTree" Error,
    BadTreeSha1 "badTreeSha1" Error,
    BadType "badType" Error,
    DuplicateEntries "duplicateEntries" Error,
    GitattributesBlob "gitattributesBlob" Error,
    GitattributesLarge "gitattributesLarge" Error,
    GitattributesLineLength "gitattributesLineLength" Error,
    GitattributesMissing "gitattributesMissing" Error,
    GitmodulesBlob "gitmodulesBlob" Error,
    GitmodulesLarge "gitmodulesLarge" Error,
    GitmodulesMissing "gitmodulesMissing" Error,
    GitmodulesName "gitmodulesName" Error,
    GitmodulesPath "gitmodulesPath" Error,
    GitmodulesSymlink "gitmodulesSymlink" Error,
    GitmodulesUpdate "gitmodulesUpdate" Error,
    GitmodulesUrl "gitmodulesUrl" Error,
    MissingAuthor "missingAuthor" Error,
    MissingCommitter "missingCommitter" Error,
    MissingEmail "missingEmail" Error,
    MissingNameBeforeEmail "missingNameBeforeEmail" Error,
    MissingObject "missingObject" Error,
    MissingSpaceBeforeDate "missingSpaceBeforeDate" Error,
    MissingSpaceBeforeEmail "missingSpaceBeforeEmail" Error,
    MissingTag "missingTag" Error,
    MissingTagEntry "missingTagEntry" Error,
    MissingTree "missingTree" Error,
    MissingType "missingType" Error,
    MissingTypeEntry "missingTypeEntry" Error,
    MultipleAuthors "multipleAuthors" Error,
    PackedRefEntryNotTerminated "packedRefEntryNotTerminated" Error,
    PackedRefUnsorted "packedRefUnsorted" Error,
    TreeNotSorted "treeNotSorted" Error,
    UnknownType "unknownType" Error,
    ZeroPaddedDate "zeroPaddedDate" Error,
    BadReftableTableName "badReftableTableName" Warn,
    EmptyName "emptyName" Warn,
    FullPathname "fullPathname" Warn,
    HasDot "hasDot" Warn,
    HasDotdot "hasDotdot" Warn,
    HasDotgit "hasDotgit" Warn,
    LargePathname "largePathname" Warn,
    NullSha1 "nullSha1" Warn,
    NulInCommit "nulInCommit" Warn,
    ZeroPaddedFilemode "zeroPaddedFilemode" Warn,
    BadFilemode "badFilemode" Info,
    BadTagName "badTagName" Info,
    EmptyPackedRefsFile "emptyPackedRefsFile" Info,
    GitattributesSymlink "gitattributesSymlink" Info,
    GitignoreSymlink "gitignoreSymlink" Info,
    GitmodulesParse "gitmodulesParse" Info,
    MailmapSymlink "mailmapSymlink" Info,
    MissingTaggerEntry "missingTaggerEntry" Info,
    RefMissingNewline "refMissingNewline" Info,
    SymlinkRef "symlinkRef" Info,
    SymrefTargetIsNotARef "symrefTargetIsNotARef" Info,
    TrailingRefContent "trailingRefContent" Info,
    ExtraHeaderEntry "extraHeaderEntry" Ignore,
}

/// Returns all ids with their severities.
pub(super) fn all() -> impl Iterator<Item = (Id, Severity)> {
    ALL.iter().map(|(id, _, severity)| (*id, *severity))
}

impl Id {
    /// Finds an id by its name. Case does not matter.
    pub fn parse(name: &[u8]) -> Option<Id> {
        ALL.iter().find(|(_, known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(id, ..)| *id)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Returns the default severity.
    pub fn severity(self) -> Severity {
        ALL[self as usize].2
    }

    /// Returns the number of ids.
    pub(super) const fn count() -> usize {
        ALL.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_together() {
        for (number, (id, name, _)) in ALL.iter().enumerate() {
            assert_eq!(*id as usize, number);
            assert_eq!(Id::parse(name.to_lowercase().as_bytes()), Some(*id));
        }
        assert_eq!(Id::parse(b"nonsense"), None);
    }
}
