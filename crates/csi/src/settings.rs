//! Directories, programs and limits: the command line of the service.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use crate::{Error, Volume};

/// The settings of the service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of records, repositories and workspaces. It belongs to one running service.
    pub state: PathBuf,
    /// The directory of files with secrets while a child process reads them. It lies in memory.
    pub run: PathBuf,
    /// The name of this node in the cluster.
    pub node: String,
    /// The program that makes workspaces.
    pub sapwood: PathBuf,
    /// The real Git.
    pub git: PathBuf,
    /// A file with Git's settings for all volumes, such as `http.sslCAInfo`.
    pub git_config: Option<PathBuf>,
    /// The beginnings of the addresses of repositories that a volume may name. Each ends with `/`.
    pub repositories: Vec<String>,
    /// Likewise for remotes of bases. Those of `s3://` and `oci://` are read with the credentials
    /// of the node if the volume has none.
    pub bases: Vec<String>,
    /// Volumes of one repository share the files of objects (`link`), so a process of one could
    /// damage the objects of all. False: clones of files, else copies.
    pub links_objects: bool,
    /// The bytes of repositories that no volume uses. More are removed, the longest unused first.
    pub budget: u64,
    /// The environment of child processes: `PATH`, proxies, certificates.
    pub environment: Vec<(OsString, OsString)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            state: "/var/lib/sapwood-csi".into(),
            run: "/run/sapwood-csi".into(),
            node: String::from_utf8_lossy(&sys::user::host_name()).into_owned(),
            sapwood: "sapwood".into(),
            git: "git".into(),
            git_config: None,
            repositories: Vec::new(),
            bases: Vec::new(),
            links_objects: false,
            budget: 20 << 30,
            environment: Vec::new(),
        }
    }
}

/// The beginnings of addresses if the command line names none.
const DEFAULT_REPOSITORIES: &[&str] = &["https://", "ssh://"];
const DEFAULT_BASES: &[&str] = &["https://"];

/// The variables of the service that its child processes get.
const PASSED: &[&str] =
    &["PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
const PASSED_TOO: &[&str] = &["ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "TMPDIR"];

impl Settings {
    /// Takes an option of the command line. Returns false if it is unknown or malformed.
    pub fn set(&mut self, name: &OsStr, value: OsString) -> bool {
        let prefix = || value.to_str().filter(|text| text.ends_with('/')).map(str::to_owned);
        match name.as_encoded_bytes() {
            b"--state" => self.state = value.into(),
            b"--run" => self.run = value.into(),
            b"--sapwood" => self.sapwood = value.into(),
            b"--git" => self.git = value.into(),
            b"--git-config" => self.git_config = Some(value.into()),
            b"--node" => match value.into_string() {
                Ok(node) if !node.is_empty() => self.node = node,
                _ => return false,
            },
            b"--allow" => match prefix() {
                Some(prefix) => self.repositories.push(prefix),
                None => return false,
            },
            b"--allow-base" => match prefix() {
                Some(prefix) => self.bases.push(prefix),
                None => return false,
            },
            b"--objects" => match value.to_str() {
                Some("apart") => self.links_objects = false,
                Some("link") => self.links_objects = true,
                _ => return false,
            },
            b"--budget" => match value.to_str().and_then(size) {
                Some(bytes) => self.budget = bytes,
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Takes those of the service's variables that its child processes need.
    pub fn take_environment(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        let is_passed = |name: &OsString| {
            name.to_str().is_some_and(|name| {
                PASSED.contains(&name) || PASSED_TOO.contains(&name) || name.starts_with("AWS_")
            })
        };
        self.environment = variables.filter(|(name, _)| is_passed(name)).collect();
    }

    /// Returns an error if a volume names an address that the settings do not allow.
    pub(crate) fn check(&self, volume: &Volume) -> Result<(), Error> {
        allowed("repository", &volume.repository, &self.repositories, DEFAULT_REPOSITORIES)?;
        match &volume.base {
            Some(base) => allowed("base", base, &self.bases, DEFAULT_BASES),
            None => Ok(()),
        }
    }

    /// Returns the protocols that Git may use, in the format of `GIT_ALLOW_PROTOCOL`.
    pub(crate) fn protocols(&self) -> String {
        let mut protocols: Vec<&str> = if self.repositories.is_empty() {
            DEFAULT_REPOSITORIES.iter().filter_map(|prefix| prefix.split(':').next()).collect()
        } else {
            self.repositories.iter().filter_map(|prefix| prefix.split(':').next()).collect()
        };
        protocols.dedup();
        protocols.join(":")
    }
}

/// Returns an error unless `address` begins with one of `prefixes`. A part `..` could leave the
/// directory that a prefix names.
fn allowed(attribute: &str, address: &str, prefixes: &[String], default: &[&str]) -> Result<(), Error> {
    let begins = |prefix: &str| address.len() > prefix.len() && address.starts_with(prefix);
    let is_allowed = if prefixes.is_empty() {
        default.iter().any(|prefix| begins(prefix))
    } else {
        prefixes.iter().any(|prefix| begins(prefix))
    };
    if is_allowed && !address.split('/').any(|part| part == "..") {
        return Ok(());
    }
    let which = if attribute == "base" { "--allow-base" } else { "--allow" };
    Err(Error::Invalid(format!("{attribute} '{address}' is not allowed on this node ({which})")))
}

/// Returns a number of bytes with an optional unit: `500M`, `20G`.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(repository: &str, base: Option<&str>) -> Volume {
        Volume { repository: repository.into(), base: base.map(str::to_owned), ..Volume::default() }
    }

    #[test]
    fn addresses_are_allowed_by_their_beginning() {
        let mut settings = Settings::default();
        let is_allowed = |settings: &Settings, address: &str| settings.check(&volume(address, None)).is_ok();
        assert!(is_allowed(&settings, "https://git.example.org/a.git"));
        for refused in ["/etc", "file:///etc", "ext::sh -c id", "http://10.0.0.1/", "git@host:a", "https://"]
        {
            assert!(!is_allowed(&settings, refused), "{refused}");
        }
        assert!(!settings.set("--allow".as_ref(), "https://git.example.org".into()), "no '/' at its end");
        assert!(settings.set("--allow".as_ref(), "file:///srv/git/".into()));
        assert!(is_allowed(&settings, "file:///srv/git/a"));
        assert!(!is_allowed(&settings, "https://git.example.org/a.git"));
        assert!(!is_allowed(&settings, "file:///srv/git/../../etc"));
        assert_eq!(settings.protocols(), "file");
        assert!(settings.check(&volume("file:///srv/git/a", Some("s3://bucket/a"))).is_err());
        assert!(settings.set("--allow-base".as_ref(), "s3://bucket/".into()));
        assert!(settings.check(&volume("file:///srv/git/a", Some("s3://bucket/a"))).is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("20G"), Some(20 << 30));
        assert_eq!(size("0"), Some(0));
        for wrong in ["", "G", "-1", "1.5G", "99999999999T"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
