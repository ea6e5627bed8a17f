//! The format of a repository: `core.repositoryFormatVersion` and `extensions.*`.

use std::{
    io,
    path::{Display, Path},
};

use bstr::{BStr, BString, ByteSlice};
use format::HashKind;

use super::{Common, Finder};
use crate::{Error, Voice, config, disk};

/// What the repository's own configuration says about its format.
#[derive(Default)]
pub(super) struct Format {
    pub(super) bare: Option<bool>,
    pub(super) work_tree: Option<BString>,
    pub(super) hash: Option<HashKind>,
    pub(super) worktree_config: bool,
    /// The file itself, to be read no more.
    pub(super) local: Option<Vec<u8>>,
}

impl Finder<'_> {
    /// Reads `core.repositoryFormatVersion` and `extensions.*`, from the repository's own file alone.
    pub(super) fn check_format(&self, git_dir: &Path) -> Result<Format, Error> {
        let Common { dir: common, is_said: has_common } = self.common_dir(git_dir)?;
        let mut format = Format::default();
        let local = common.join("config");
        let Some(bytes) = read(&local)? else { return Ok(format) };
        let Some(version) = format.fold(config::shown(&local, Some(git_dir)), &bytes, self.options.voice)?
        else {
            return Ok(Format { local: Some(bytes), ..Format::default() });
        };
        format.local = Some(bytes);
        version.verify()?;
        if format.worktree_config {
            let own = git_dir.join("config.worktree");
            if let Some(bytes) = read(&own)? {
                format.fold(config::shown(&own, Some(git_dir)), &bytes, self.options.voice)?;
            }
        } else if has_common {
            // What the main worktree says of itself does not concern a linked one.
            format.bare = None;
            format.work_tree = None;
        }
        Ok(format)
    }
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, Error> {
    disk::read_optional(file).map_err(|err| {
        let what = if err.kind() == io::ErrorKind::PermissionDenied { "access" } else { "read" };
        Error::new(format!("unable to {what} '{}': {}", file.display(), sys::reason(&err)))
    })
}

/// Version and extensions, to be judged together once the file is read.
#[derive(Default)]
struct Version {
    version: i32,
    unknown: Vec<BString>,
    only_version_1: Vec<BString>,
    ref_storage: Option<BString>,
}

impl Format {
    /// Takes what a file says. `None` if it names no version: such a repository is taken as it is.
    fn fold(&mut self, file: Display<'_>, bytes: &[u8], voice: Voice) -> Result<Option<Version>, Error> {
        let pairs = config::parse::parse(bytes).map_err(|config::parse::BadLine(line)| {
            Error::new(format!("bad config line {line} in file {}", file))
        })?;
        let mut version = Version { version: -1, ..Version::default() };
        for config::parse::Pair { key, value, line } in pairs {
            let boolean = || {
                config::parse_bool(value.as_ref().map(|value| value.as_bstr())).ok_or_else(|| {
                    config::bad_boolean(
                        value.as_ref().map_or(BStr::new(""), |value| value.as_bstr()),
                        key.as_bstr(),
                    )
                })
            };
            let text = || {
                value.clone().ok_or_else(|| {
                    voice.say([format!("error: missing value for '{key}'")]);
                    Error::new(format!("bad config line {line} in file {}", file))
                })
            };
            let invalid = |text: BString| Error::new(format!("invalid value for '{key}': '{text}'"));
            match key.as_slice() {
                b"core.bare" => self.bare = Some(boolean()?),
                b"core.worktree" => self.work_tree = Some(text()?),
                b"core.repositoryformatversion" => {
                    let text = text()?;
                    version.version = config::parse_int(text.as_bstr()).map_err(|kind| {
                        Error::new(format!(
                            "bad numeric config value '{text}' for '{key}' in file {}: {kind}",
                            file
                        ))
                    })?;
                }
                _ => {
                    let Some(extension) = key.strip_prefix(b"extensions.") else { continue };
                    match extension {
                        b"noop" => {}
                        b"partialclone" => drop(text()?),
                        b"preciousobjects" => {
                            boolean()?;
                        }
                        b"worktreeconfig" => self.worktree_config = boolean()?,
                        b"noop-v1" => version.only_version_1.push(extension.into()),
                        b"relativeworktrees" | b"submodulepathconfig" => {
                            boolean()?;
                            version.only_version_1.push(extension.into());
                        }
                        b"objectformat" => {
                            let text = text()?;
                            self.hash = Some(hash_by_name(text.as_bstr()).ok_or_else(|| invalid(text))?);
                            version.only_version_1.push(extension.into());
                        }
                        b"compatobjectformat" => {
                            let text = text()?;
                            hash_by_name(text.as_bstr()).ok_or_else(|| invalid(text))?;
                            version.only_version_1.push(extension.into());
                        }
                        b"refstorage" => {
                            let text = text()?;
                            let name = text.split_once_str("://").map_or(text.as_slice(), |(name, _)| name);
                            if !matches!(name, b"files" | b"reftable") {
                                return Err(invalid(text));
                            }
                            // With where the refs are, if that is elsewhere.
                            version.ref_storage = Some(text);
                            version.only_version_1.push(extension.into());
                        }
                        _ => version.unknown.push(extension.into()),
                    }
                }
            }
        }
        Ok((version.version >= 0).then_some(version))
    }
}

impl Version {
    fn verify(self) -> Result<(), Error> {
        let list = |one: &str, many: &str, names: &[BString]| {
            let mut message = if names.len() == 1 { one } else { many }.to_owned();
            for name in names {
                message.push_str(&format!("\n\t{name}"));
            }
            Err(Error::new(message))
        };
        if self.version > 1 {
            return Err(Error::new(format!("Expected git repo version <= 1, found {}", self.version)));
        }
        if self.version == 1 && !self.unknown.is_empty() {
            return list(
                "unknown repository extension found:",
                "unknown repository extensions found:",
                &self.unknown,
            );
        }
        if self.version == 0 && !self.only_version_1.is_empty() {
            return list(
                "repo version is 0, but v1-only extension found:",
                "repo version is 0, but v1-only extensions found:",
                &self.only_version_1,
            );
        }
        if let Some(storage) = self.ref_storage.filter(|storage| storage != "files") {
            return Err(Error::new(format!("ref storage format '{storage}' is not supported")));
        }
        Ok(())
    }
}

/// Extensions that only version 1 knows, and that a new repository keeps if its template has them.
const KEPT: [&[u8]; 4] = [
    b"extensions.noop-v1",
    b"extensions.relativeworktrees",
    b"extensions.submodulepathconfig",
    b"extensions.compatobjectformat",
];

/// What a template's configuration says of the format of a repository that is made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFormat {
    /// Why nothing of it is to be copied.
    pub refusal: Option<Error>,
    /// The version that its extensions ask for.
    pub version: i32,
}

/// Reads `config` of a template; messages call it `called`.
pub fn template_format(config: &Path, called: &Path, voice: Voice) -> Result<TemplateFormat, Error> {
    let Some(bytes) = read(config)? else { return Ok(TemplateFormat::default()) };
    let version = Format::default().fold(called.display(), &bytes, voice)?;
    let pairs = config::parse::parse(&bytes).unwrap_or_default();
    let is_kept = pairs.iter().any(|pair| KEPT.contains(&pair.key.as_slice()));
    let refusal = version.and_then(|version| version.verify().err());
    Ok(TemplateFormat { refusal, version: i32::from(is_kept) })
}

fn hash_by_name(name: &BStr) -> Option<HashKind> {
    [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| name == kind.name())
}
