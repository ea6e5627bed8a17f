//! The format of a repository: `core.repositoryFormatVersion` and `extensions.*`.

use std::{io, path::Path};

use bstr::{BString, ByteSlice};
use format::{
    HashKind,
    config::{BadLine, Pair},
    keys,
};

use super::{Common, Finder};
use crate::{Attempt, ConfigError, Error, FormatError, MessageSink, config, disk};

/// The format of the repository and the path of its worktree, from its own configuration.
#[derive(Default)]
pub(super) struct Format {
    pub(super) bare: Option<bool>,
    pub(super) work_tree: Option<BString>,
    pub(super) hash: Option<HashKind>,
    pub(super) extensions: Extensions,
    /// The content of the configuration file, so that it is not read twice.
    pub(super) local: Option<Vec<u8>>,
}

/// `core.repositoryFormatVersion` and `extensions.*`. Git reads them only from the file `config` of
/// the common directory. Other files, included files, variables and options cannot set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// The version. `None` if the file has no version; Git then ignores all its extensions.
    pub version: Option<i32>,
    /// `extensions.worktreeConfig`
    pub worktree_config: bool,
    /// `extensions.relativeWorktrees`
    pub relative_worktrees: bool,
    /// `extensions.submodulePathConfig`
    pub submodule_paths: bool,
    /// `extensions.partialClone`: the remote that has the omitted objects.
    pub partial_clone: Option<BString>,
    /// Extensions that Git does not know. A repository of version 0 may have them.
    pub unknown: Vec<BString>,
}

impl Finder<'_> {
    /// Reads `core.repositoryFormatVersion` and `extensions.*` from the repository's own file only.
    pub(super) fn check_format(&self, git_dir: &Path) -> Result<Format, Error> {
        let Common { dir: common, is_explicit: has_common } = self.common_dir(git_dir)?;
        let mut format = Format::default();
        let local = common.join("config");
        let Some(bytes) = read(&local)? else { return Ok(format) };
        let message_sink = self.options.message_sink;
        let file = File { display_name: config::shown(&local, Some(git_dir)), message_sink };
        let version = format.read_shared(file, &bytes)?;
        let Some(number) = format.extensions.version else {
            return Ok(Format { local: Some(bytes), ..Format::default() });
        };
        format.local = Some(bytes);
        version.verify(number, &format.extensions.unknown)?;
        if format.extensions.worktree_config {
            let own = git_dir.join("config.worktree");
            if let Some(bytes) = read(&own)? {
                let file = File { display_name: config::shown(&own, Some(git_dir)), message_sink };
                for pair in file.parse(&bytes)? {
                    format.read_worktree_settings(file, &pair)?;
                }
            }
        } else if has_common {
            // Settings of the main worktree do not apply to a linked one.
            format.bare = None;
            format.work_tree = None;
        }
        Ok(format)
    }
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, Error> {
    disk::read_optional(file).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Attempt::Access.on(file)(error),
        _ => Attempt::Read.on(file)(error),
    })
}

/// A configuration file, with its path for messages.
#[derive(Clone, Copy)]
struct File<'a> {
    display_name: &'a Path,
    /// Prints messages.
    message_sink: MessageSink,
}

impl File<'_> {
    fn parse(self, bytes: &[u8]) -> Result<Vec<Pair>, Error> {
        format::config::parse(bytes).map_err(|bad| config::bad_line(bad, self.display_name))
    }

    /// Returns the value of a pair. A name without `=` is an error: this method prints the first
    /// line of Git's message, and the error holds the second.
    fn text(self, Pair { key, value, line }: &Pair) -> Result<BString, Error> {
        value.clone().ok_or_else(|| {
            self.message_sink.print([format!("error: missing value for '{key}'")]);
            self.bad_line(*line)
        })
    }

    fn hash(self, pair: &Pair) -> Result<HashKind, Error> {
        let name = self.text(pair)?;
        let known = [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| name == kind.name());
        known.ok_or_else(|| self.invalid(pair, &name))
    }

    /// Prints the first line of Git's message about an invalid value, and returns the second as the
    /// error.
    fn invalid(self, Pair { key, line, .. }: &Pair, value: &BString) -> Error {
        self.message_sink.print([format!("error: invalid value for '{key}': '{value}'")]);
        self.bad_line(*line)
    }

    fn bad_line(self, line: usize) -> Error {
        config::bad_line(BadLine(line), self.display_name)
    }
}

fn boolean(Pair { key, value, .. }: &Pair) -> Result<bool, Error> {
    let value = value.as_ref().map(|value| value.as_bstr());
    config::parse_bool(value).ok_or_else(|| config::bad_boolean(value.unwrap_or_default(), key.as_bstr()))
}

/// Extensions that are checked against the version after the file is read.
#[derive(Default)]
struct Version {
    only_version_1: Vec<BString>,
    ref_storage: Option<BString>,
    has_compatible_hash: bool,
}

impl Format {
    /// Reads all settings of the file that all worktrees share.
    fn read_shared(&mut self, file: File<'_>, bytes: &[u8]) -> Result<Version, Error> {
        let mut version = Version::default();
        for pair in file.parse(bytes)? {
            if keys::core::REPOSITORY_FORMAT_VERSION.is(pair.key.as_bstr()) {
                let number = file.text(&pair)?;
                let number = config::parse_int(number.as_bstr()).map_err(|reason| ConfigError::Number {
                    key: pair.key.clone(),
                    value: number.clone(),
                    file: Some(file.display_name.to_owned()),
                    reason,
                })?;
                self.extensions.version = (number >= 0).then_some(number);
            } else if let Some(extension) = pair.key.strip_prefix(b"extensions.") {
                self.take_extension(file, extension, &pair, &mut version)?;
            } else {
                self.read_worktree_settings(file, &pair)?;
            }
        }
        Ok(version)
    }

    /// Reads `core.bare` and `core.worktree`, the only settings that a worktree's own file can set.
    fn read_worktree_settings(&mut self, file: File<'_>, pair: &Pair) -> Result<(), Error> {
        let key = pair.key.as_bstr();
        if keys::core::BARE.is(key) {
            self.bare = Some(boolean(pair)?);
        } else if keys::core::WORKTREE.is(key) {
            self.work_tree = Some(file.text(pair)?);
        }
        Ok(())
    }

    fn take_extension(
        &mut self,
        file: File<'_>,
        name: &[u8],
        pair: &Pair,
        version: &mut Version,
    ) -> Result<(), Error> {
        let extensions = &mut self.extensions;
        match name {
            b"noop" => return Ok(()),
            b"preciousobjects" => return boolean(pair).map(drop),
            b"partialclone" => {
                extensions.partial_clone = Some(file.text(pair)?);
                return Ok(());
            }
            b"worktreeconfig" => {
                extensions.worktree_config = boolean(pair)?;
                return Ok(());
            }
            b"noop-v1" => {}
            b"relativeworktrees" => extensions.relative_worktrees = boolean(pair)?,
            b"submodulepathconfig" => extensions.submodule_paths = boolean(pair)?,
            b"objectformat" => self.hash = Some(file.hash(pair)?),
            b"compatobjectformat" => {
                file.hash(pair)?;
                version.has_compatible_hash = true;
            }
            b"refstorage" => {
                let text = file.text(pair)?;
                let name = text.split_once_str("://").map_or(text.as_slice(), |(name, _)| name);
                if !matches!(name, b"files" | b"reftable") {
                    return Err(file.invalid(pair, &text));
                }
                // The value includes the location of the refs if it is not the default.
                version.ref_storage = Some(text);
            }
            _ => {
                extensions.unknown.push(name.into());
                return Ok(());
            }
        }
        version.only_version_1.push(name.into());
        Ok(())
    }
}

impl Version {
    /// Refuses extensions that Git refuses in a repository of version `number`, and those that
    /// sapwood does not support.
    fn verify(self, number: i32, unknown: &[BString]) -> Result<(), FormatError> {
        if number > 1 {
            return Err(FormatError::Version(number));
        }
        if number == 1 && !unknown.is_empty() {
            return Err(FormatError::UnknownExtensions(unknown.to_owned()));
        }
        if number == 0 && !self.only_version_1.is_empty() {
            return Err(FormatError::Version1Extensions(self.only_version_1));
        }
        if let Some(storage) = self.ref_storage.filter(|storage| storage != "files") {
            return Err(FormatError::RefStorage(storage));
        }
        if self.has_compatible_hash {
            return Err(FormatError::CompatibleHash);
        }
        Ok(())
    }
}

/// Extensions of version 1 that a new repository keeps if its template has them.
const KEPT: [&[u8]; 4] = [b"noop-v1", b"relativeworktrees", b"submodulepathconfig", b"compatobjectformat"];

/// The format that a template's configuration requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFormat {
    /// The reason why the template must not be copied.
    pub refusal: Option<FormatError>,
    /// The version that its extensions require.
    pub version: i32,
}

/// Reads `config` of a template. `display_name` is its path in messages.
pub fn template_format(
    config: &Path,
    display_name: &Path,
    message_sink: MessageSink,
) -> Result<TemplateFormat, Error> {
    let Some(bytes) = read(config)? else { return Ok(TemplateFormat::default()) };
    let mut format = Format::default();
    let version = format.read_shared(File { display_name, message_sink }, &bytes)?;
    let is_kept = version.only_version_1.iter().any(|name| KEPT.contains(&name.as_slice()));
    let refusal =
        format.extensions.version.and_then(|number| version.verify(number, &format.extensions.unknown).err());
    Ok(TemplateFormat { refusal, version: i32::from(is_kept) })
}
