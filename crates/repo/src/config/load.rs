//! Reads the sources of configuration in order, and follows includes.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    config::{BadLine, Pair, normalize},
    keys,
    wildmatch::{Mode, wildmatch},
};
use sys::{Refused, UserPath, by_path::canonical};

use super::{Config, Entry, OneSource, Origin, Scope, Source, bad_line, shown, value};
use crate::{Attempt, ConfigError, Env, Error, MessageSink, PathOrigin, disk};

/// Git's limit for the depth of includes. Circular includes end here.
const MAX_INCLUDE_DEPTH: usize = 10;

/// The configuration files of a repository, and the command line.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sources<'a> {
    /// `None` outside of a repository.
    pub(crate) git_dir: Option<&'a Path>,
    /// The Git directory by the user's path, with symbolic links not resolved.
    pub(crate) reached: Option<&'a dyn Fn() -> PathBuf>,
    pub(crate) local: Option<&'a Path>,
    /// The path of the common directory in Git's messages.
    pub(crate) common_name: Option<&'a Path>,
    /// The content of `local`, if the caller has read it.
    pub(crate) known: Option<&'a [u8]>,
    /// The file of this worktree, with `extensions.worktreeConfig`.
    pub(crate) worktree: Option<&'a Path>,
    /// The base of relative paths in environment variables.
    pub(crate) place: Option<&'a Path>,
    /// True while the repository is being created: HEAD names no branch yet.
    pub(crate) is_being_created: bool,
    /// `-c key=value`
    pub(crate) command: &'a [BString],
    /// Prints messages.
    pub(crate) message_sink: MessageSink,
}

/// Reads all sources.
pub(crate) fn load(env: &Env, sources: Sources<'_>) -> Result<Config, Error> {
    let mut loader = Loader::new(env, sources);
    loader.run()?;
    Ok(loader.config)
}

/// Reads one source. The conditions of includes are tested against the repository in `sources`.
pub(crate) fn load_one(env: &Env, sources: Sources<'_>, one: OneSource<'_>) -> Result<Config, Error> {
    let mut loader = Loader::new(env, sources);
    loader.is_alone = one.origin != Origin::Stdin;
    loader.follows_includes = one.follows_includes;
    let source = Source { path: one.path.to_owned(), name: one.name.to_owned(), origin: Some(one.origin) };
    loader.content(source, one.bytes, one.scope)?;
    Ok(loader.config)
}

struct Loader<'a> {
    env: &'a Env,
    sources: Sources<'a>,
    config: Config,
    depth: usize,
    /// All values of `remote.*.url`. They are collected when the first `hasconfig` condition needs
    /// them.
    remote_urls: Option<Vec<BString>>,
    /// True in the run that collects the URLs of remotes. In that run every `hasconfig` condition
    /// holds.
    collecting_urls: bool,
    urls_forbidden: bool,
    follows_includes: bool,
    /// True if one source is read instead of all.
    is_alone: bool,
}

fn inaccessible(path: &UserPath, source: Refused) -> Error {
    Error::Path { origin: PathOrigin::ConfigFile(path.clone()), source }
}

/// Returns the path of a file below a directory as Git prints it: without a leading `./`.
fn name_below(dir: &Path, name: &str) -> BString {
    let path = dir.join(name);
    path.strip_prefix(".").unwrap_or(&path).as_os_str().as_bytes().into()
}

impl<'a> Loader<'a> {
    fn new(env: &'a Env, sources: Sources<'a>) -> Loader<'a> {
        Loader {
            env,
            sources,
            config: Config::default(),
            depth: 0,
            remote_urls: None,
            collecting_urls: false,
            urls_forbidden: false,
            follows_includes: true,
            is_alone: false,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        if !self.env.boolean("GIT_CONFIG_NOSYSTEM")?.unwrap_or(false) {
            let system =
                self.env.path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| UserPath::new("/etc/gitconfig"));
            self.users_file(&system, Scope::System)?;
        }
        if let Some(global) = self.env.path("GIT_CONFIG_GLOBAL") {
            self.users_file(&global, Scope::Global)?;
        } else {
            if let Some(xdg) = self.env.xdg_config("config") {
                self.users_file(&xdg, Scope::Global)?;
            }
            if let Some(home) = self.env.path("HOME") {
                self.users_file(&home.with(".gitconfig"), Scope::Global)?;
            }
        }
        if let Some(local) = self.sources.local {
            let name = match self.sources.common_name {
                Some(common) => name_below(common, "config"),
                None => local.as_os_str().as_bytes().into(),
            };
            let source = Source { path: local.to_owned(), name, origin: None };
            match self.sources.known {
                Some(bytes) => self.content(source, bytes, Scope::Local)?,
                None => self.file(source, Scope::Local)?,
            }
        }
        if let Some(worktree) = self.sources.worktree {
            let is_main = self.sources.local.and_then(Path::parent) == worktree.parent();
            let name = match self.sources.common_name.filter(|_| is_main) {
                Some(common) => name_below(common, "config.worktree"),
                None => worktree.as_os_str().as_bytes().into(),
            };
            self.file(Source { path: worktree.to_owned(), name, origin: None }, Scope::Worktree)?;
        }
        self.command()
    }

    fn file(&mut self, source: Source, scope: Scope) -> Result<(), Error> {
        let path = source.path.as_path();
        let bytes = match disk::read_optional(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            // Git ignores an unreadable file of the user (such as the HOME of a daemon), but not
            // other files.
            Err(err) if scope == Scope::Global && err.kind() == std::io::ErrorKind::PermissionDenied => {
                return Ok(());
            }
            Err(err) => return Err(Attempt::Access.on(path)(err)),
        };
        self.content(source, &bytes, scope)
    }

    fn content(&mut self, source: Source, bytes: &[u8], scope: Scope) -> Result<(), Error> {
        let pairs = format::config::parse(bytes);
        let pairs = pairs.map_err(|bad| bad_line(bad, shown(&source.path, self.sources.git_dir)))?;
        let source = Arc::new(source);
        for Pair { key, value, line } in pairs {
            self.pair(key, value, scope, Some((&source, line)))?;
        }
        Ok(())
    }

    fn pair(
        &mut self,
        key: BString,
        value: Option<BString>,
        scope: Scope,
        place: Option<(&Arc<Source>, usize)>,
    ) -> Result<(), Error> {
        let source = place.map(|(source, _)| source);
        if self.urls_forbidden && is_remote_url(key.as_bstr()) {
            return Err(ConfigError::RemoteUrl.into());
        }
        let include = if !self.follows_includes {
            None
        } else if keys::include::PATH.is(key.as_bstr()) {
            Some(false)
        } else if let Some(condition) =
            key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path"))
        {
            self.condition_holds(condition.as_bstr(), source)?
                .then(|| condition.starts_with(b"hasconfig:remote.*.url:"))
        } else {
            None
        };
        let line = place.map_or(0, |(_, line)| line);
        self.config
            .push(key, Entry { value: value.clone(), scope, source: source.cloned(), line, number: 0 });
        let Some(by_url) = include else { return Ok(()) };
        let Some(value) = value else {
            self.sources.message_sink.print(["error: missing value for 'include.path'".to_owned()]);
            return Err(match source {
                Some(source) => bad_line(BadLine(line), shown(&source.path, self.sources.git_dir)),
                None => ConfigError::CommandLine.into(),
            });
        };
        let forbidden_before = self.urls_forbidden;
        self.urls_forbidden |= by_url && self.collecting_urls;
        let result = self.include(value.as_bstr(), scope, source);
        self.urls_forbidden = forbidden_before;
        result
    }

    /// Reads a file that the environment names. The empty string names no file, as for the kernel.
    fn users_file(&mut self, path: &UserPath, scope: Scope) -> Result<(), Error> {
        match path.resolve(self.sources.place.unwrap_or(Path::new(""))) {
            Ok(resolved) => {
                let name = path.as_bytes().into();
                self.file(Source { path: resolved, name, origin: None }, scope)
            }
            Err(Refused::Empty) => Ok(()),
            Err(refused) => Err(inaccessible(path, refused)),
        }
    }

    fn include(&mut self, value: &BStr, scope: Scope, from: Option<&Arc<Source>>) -> Result<(), Error> {
        let path =
            value::interpolate(value, self.env).ok_or_else(|| ConfigError::IncludePath(value.to_owned()))?;
        let from = from.filter(|from| matches!(from.origin, None | Some(Origin::File)));
        let mut name = BString::default();
        let dir = match (path.is_absolute(), from) {
            (true, _) => Path::new("/"),
            (false, Some(from)) => {
                let end = from.name.rfind_byte(b'/').map_or(0, |slash| slash + 1);
                name.extend_from_slice(&from.name[..end]);
                from.path.parent().unwrap_or(Path::new(""))
            }
            (false, None) => return Err(ConfigError::RelativeInclude.into()),
        };
        name.extend_from_slice(path.as_bytes());
        let path = path.resolve_or_base(dir).map_err(|refused| inaccessible(&path, refused))?;
        self.depth += 1;
        if self.depth > MAX_INCLUDE_DEPTH && path.exists() {
            let from = from.map(|from| from.path.clone());
            return Err(ConfigError::IncludeDepth { limit: MAX_INCLUDE_DEPTH, path, from }.into());
        }
        let result = self.file(Source { path, name, origin: None }, scope);
        self.depth -= 1;
        result
    }

    fn condition_holds(&mut self, condition: &BStr, from: Option<&Arc<Source>>) -> Result<bool, Error> {
        if self.is_alone {
            // Conditions are not supported in a source that is read on its own.
            return Err(ConfigError::RelativeCondition.into());
        }
        if let Some(pattern) = condition.strip_prefix(b"gitdir:") {
            self.gitdir_matches(pattern.as_bstr(), from, false)
        } else if let Some(pattern) = condition.strip_prefix(b"gitdir/i:") {
            self.gitdir_matches(pattern.as_bstr(), from, true)
        } else if let Some(pattern) = condition.strip_prefix(b"onbranch:") {
            let Some(git_dir) = self.sources.git_dir.filter(|_| !self.sources.is_being_created) else {
                return Ok(false);
            };
            let head = disk::read_optional(&git_dir.join("HEAD")).ok().flatten().unwrap_or_default();
            let branch = head
                .strip_prefix(b"ref:")
                .map(|rest| rest.trim())
                .and_then(|name| name.strip_prefix(b"refs/heads/"));
            Ok(branch.is_some_and(|branch| matches(&directory_pattern(pattern.into()), branch, false)))
        } else if let Some(pattern) = condition.strip_prefix(b"hasconfig:remote.*.url:") {
            if self.collecting_urls {
                return Ok(true);
            }
            if self.remote_urls.is_none() {
                self.remote_urls = Some(self.collect_remote_urls()?);
            }
            let urls = self.remote_urls.as_deref().unwrap_or_default();
            Ok(urls.iter().any(|url| matches(pattern, url, false)))
        } else {
            Ok(false)
        }
    }

    fn collect_remote_urls(&self) -> Result<Vec<BString>, Error> {
        let mut loader = Loader::new(self.env, self.sources);
        loader.collecting_urls = true;
        loader.run()?;
        let values = loader.config.values.into_iter().filter(|(key, _)| is_remote_url(key.as_bstr()));
        Ok(values.flat_map(|(_, entries)| entries.into_iter().filter_map(|entry| entry.value)).collect())
    }

    fn gitdir_matches(
        &self,
        pattern: &BStr,
        from: Option<&Arc<Source>>,
        fold_case: bool,
    ) -> Result<bool, Error> {
        let Some(git_dir) = self.sources.git_dir else { return Ok(false) };
        // Length of the part of the pattern that is the directory of the including file. It is
        // compared literally.
        let mut literal = 0;
        let mut expanded = if pattern.starts_with(b"~/") {
            match self.env.path("HOME").and_then(|home| canonical(&home.resolve(Path::new("")).ok()?).ok()) {
                Some(home) => {
                    let mut path = BString::from(home.as_os_str().as_bytes());
                    path.extend_from_slice(&pattern[1..]);
                    path
                }
                None => pattern.to_owned(),
            }
        } else {
            value::interpolate(pattern, self.env)
                .map_or_else(|| pattern.to_owned(), |path| path.as_bytes().into())
        };
        if let Some(rest) = expanded.strip_prefix(b"./") {
            let Some(from) = from else {
                return Err(ConfigError::RelativeCondition.into());
            };
            let from = canonical(&from.path).unwrap_or_else(|_| from.path.clone());
            let mut path =
                BString::from(from.parent().map(|dir| dir.as_os_str().as_bytes()).unwrap_or_default());
            path.push(b'/');
            literal = path.len();
            path.extend_from_slice(rest);
            expanded = path;
        } else if !expanded.starts_with(b"/") {
            expanded.splice(..0, *b"**/");
        }
        let pattern = directory_pattern(expanded);
        let real = canonical(git_dir).unwrap_or_else(|_| git_dir.to_owned());
        let reached = self.sources.reached.map_or_else(|| git_dir.to_owned(), |reached| reached());
        for text in [real, reached] {
            let text = text.as_os_str().as_bytes();
            let (Some(head), Some(tail)) = (text.get(..literal), text.get(literal..)) else {
                return Ok(false);
            };
            let same = if fold_case {
                head.eq_ignore_ascii_case(&pattern[..literal])
            } else {
                head == &pattern[..literal]
            };
            // In this case Git does not try the path with symbolic links.
            if !same {
                return Ok(false);
            }
            if matches(&pattern[literal..], tail, fold_case) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads `GIT_CONFIG_COUNT`, then `GIT_CONFIG_PARAMETERS`, then the `-c` options.
    fn command(&mut self) -> Result<(), Error> {
        if let Some(count) = self.env.bytes("GIT_CONFIG_COUNT").filter(|count| !count.is_empty()) {
            let count: u64 = count
                .to_str()
                .ok()
                .and_then(|count| count.trim().parse().ok())
                .ok_or(ConfigError::EnvironmentCount)?;
            if count > i32::MAX as u64 {
                return Err(ConfigError::EnvironmentTooMany.into());
            }
            for at in 0..count {
                let part = |part: &'static str| {
                    let name = format!("GIT_CONFIG_{}_{at}", part.to_uppercase());
                    let value = self.env.bytes(&name).map(|text| text.to_owned());
                    value.ok_or(ConfigError::EnvironmentMissing { part, name })
                };
                let (key, value) = (part("key")?, part("value")?);
                let key = command_key(key.as_bstr())?;
                self.pair(key, Some(value), Scope::Command, None)?;
            }
        }
        if let Some(parameters) = self.env.bytes("GIT_CONFIG_PARAMETERS") {
            for (key, value) in split_parameters(parameters).ok_or(ConfigError::EnvironmentParameters)? {
                self.pair(command_key(key.as_bstr())?, value, Scope::Command, None)?;
            }
        }
        for text in self.sources.command {
            let (key, value) = match text.split_once_str("=") {
                Some((key, value)) => (key.as_bstr(), Some(value.as_bstr().to_owned())),
                None => (text.as_bstr(), None),
            };
            if key.is_empty() {
                return Err(ConfigError::Parameter(text.clone()).into());
            }
            self.pair(command_key(key)?, value, Scope::Command, None)?;
        }
        Ok(())
    }
}

fn is_remote_url(key: &BStr) -> bool {
    key.strip_prefix(b"remote.").is_some_and(|rest| rest.len() > 4 && rest.ends_with(b".url"))
}

fn directory_pattern(mut pattern: BString) -> BString {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
    pattern
}

fn matches(pattern: &[u8], text: &[u8], icase: bool) -> bool {
    wildmatch(pattern, text, Mode { pathname: true, icase })
}

/// Checks and normalizes a key of the command line.
fn command_key(key: &BStr) -> Result<BString, Error> {
    let invalid = |problem| Err(ConfigError::Key { problem, key: key.to_owned() }.into());
    let Some(last) = key.rfind_byte(b'.').filter(|&dot| dot > 0) else {
        return invalid("key does not contain a section");
    };
    if last + 1 == key.len() {
        return invalid("key does not contain variable name");
    }
    let first = key.find_byte(b'.').unwrap_or(last);
    let is_key = |bytes: &[u8]| bytes.iter().all(|&c| c.is_ascii_alphanumeric() || c == b'-');
    if !is_key(&key[..first]) || !is_key(&key[last + 1..]) || !key[last + 1].is_ascii_alphabetic() {
        return invalid("invalid key");
    }
    if key[first..last].contains(&b'\n') {
        return invalid("invalid key (newline)");
    }
    let mut key = key.to_owned();
    normalize(&mut key);
    Ok(key)
}

/// Splits `'key=value' 'key'='value' 'key'=`, quoted for a shell.
fn split_parameters(text: &BStr) -> Option<Vec<(BString, Option<BString>)>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (first, after) = dequote(rest)?;
        rest = after;
        if rest.is_empty() || rest[0].is_ascii_whitespace() {
            match first.split_once_str("=") {
                Some((key, value)) => found.push((key.into(), Some(value.into()))),
                None => found.push((first, None)),
            }
        } else {
            rest = rest.strip_prefix(b"=")?;
            if rest.first() == Some(&b'\'') {
                let (value, after) = dequote(rest)?;
                rest = after;
                found.push((first, Some(value)));
            } else {
                found.push((first, None));
            }
            if !rest.is_empty() && !rest[0].is_ascii_whitespace() {
                return None;
            }
        }
        rest = rest.trim_start();
    }
    Some(found)
}

/// Removes the quotes from one word. Outside quotes, only `\'` and `\!` are allowed.
fn dequote(text: &[u8]) -> Option<(BString, &[u8])> {
    let mut word = BString::default();
    let mut rest = text.strip_prefix(b"'")?;
    loop {
        let end = rest.find_byte(b'\'')?;
        word.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest {
            [b'\\', c @ (b'\'' | b'!'), b'\'', ..] => {
                word.push(*c);
                rest = &rest[3..];
            }
            _ => return Some((word, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_parameters_of_both_styles() {
        let split = |text: &str| split_parameters(text.into());
        assert_eq!(
            split(r"'a.b=c d' 'x.y=z.k'='it'\''s' 'q.r'="),
            Some(vec![
                ("a.b".into(), Some("c d".into())),
                ("x.y=z.k".into(), Some("it's".into())),
                ("q.r".into(), None)
            ])
        );
        assert_eq!(split("nonsense"), None);
        assert_eq!(split("'a.b'x"), None);
    }

    #[test]
    fn checks_keys_of_the_command_line() {
        assert_eq!(command_key("Core.Sub.X.Bare".into()).ok(), Some("core.Sub.X.bare".into()));
        for (key, message) in [
            ("core", "key does not contain a section: core"),
            ("core.", "key does not contain variable name: core."),
            ("core.1a", "invalid key: core.1a"),
            ("co_re.a", "invalid key: co_re.a"),
        ] {
            assert_eq!(command_key(key.into()).unwrap_err().to_string(), message);
        }
    }
}
